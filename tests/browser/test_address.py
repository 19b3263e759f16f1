"""The address of a page is data: whatever somebody writes into it, nothing runs, and the page shows what it has."""

import html
import re
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import quote, urlencode

import pytest
from browser.conftest import DRAWN
from browser.test_payloads import CODE, WATCH
from report.reading import read

from reporter.report.templating import folder

pytestmark = pytest.mark.browser

AWAY = "https://away.invalid/"
MARKUP = f"<img src={AWAY} onerror=hit(1)><svg onload=hit(2)></td></noscript><script>hit(3)</script>"
VALUES = (
    f"{MARKUP}\"]'){{}}</style>$&javascript:hit(4)//{AWAY}`${{hit(5)}}\\",
    "__proto__",
    "1e999\x00\u2028\u202e" + "x" * 5000,
)
HASHES = ("#%", "#figure-%" + quote(MARKUP), "#a=%&__proto__=1&constructor=2" + MARKUP)
PAGES = [
    *(("made-up", name) for name in ("index", "layers", "method")),
    ("whole", "claims"),
    *(
        pytest.param(*page, marks=pytest.mark.nightly)  # seconds each
        for page in (("made-up", "training"), ("explored", "tokens"), ("exhibited", "weights"), ("exhibited", "texts"))
    ),
]
JOURNEY = ("journey", "model", "checkpoint", "layer", "text", "token")
# The elements of a page without its drawings, whose marks follow what is drawn.
ELEMENTS = (
    "return [...document.querySelectorAll('header *, main *')].filter(e => !e.closest('svg')).map(e => e.tagName)"
)
OPEN = "for (const lid of document.querySelectorAll('main details')) lid.open = true;"
FILLED = "return !document.querySelector('details[open] > noscript.inside')"


def parameters():
    """The names under which scripts of the pages look into the address."""
    scripts = "".join(path.read_text("utf-8") for path in folder().glob("*.js"))
    names = set(re.findall(r"""\b(?:given|givenAll|get)\("([\w.]+)"\)""", scripts))
    assert {"view", "figure", "board", "hide", "page"} <= names
    options = re.search(r"const OPTIONS = .*?\(\{ (.*) \}\);", scripts)
    shared = re.findall(r"(\w+): \[", options[1])
    return sorted({*names, "depth", "model", "beside", "layer"}), [
        *JOURNEY,
        *shared,
        *(f"b.{name}" for name in JOURNEY),
    ]


def addresses(page):
    """Addresses that have each payload in each place that a page reads, and the names of its models."""
    text = html.unescape(read(page))
    models = sorted(set(re.findall(r'data-model="([^"]+)"', text)))
    picks = [f"{chart}:{pick}" for chart, pick in re.findall(r'data-chart="([^"]+)" data-pick="([^"]+)"', text)]
    asked, of_journey = parameters()
    for value in VALUES:
        names = [*(name for name in asked if name != "page"), *picks, *(f"name.{model}" for model in models)]
        names += ["__proto__", "constructor", "name.__proto__", value]
        query = urlencode([(name, value) for name in names])
        yield f"?{query}", f"#{urlencode([(name, value) for name in of_journey])}" if page.stem == "tokens" else ""
    for hash in HASHES if page.stem in ("layers", "tokens", "weights") else ():
        yield "", hash


def look(tab, page, query, hash):
    """Open a page at an address, open what is closed on it, and find that nothing acted and nothing broke."""
    with tab.watched(WATCH):
        tab.open(page, query=query + hash)
        tab.until("return document.documentElement.classList.contains('scripted') && !document.body.className")
        tab.until("return !document.querySelector('.bar-of-study') || document.querySelector('button.theme').title")
        tab.run(OPEN)
        tab.until(FILLED)
        tab.until(DRAWN)
        assert tab.run("return hits") == []
        assert tab.run(CODE, AWAY) == []
        assert tab.run("return document.querySelector('.broken')?.textContent ?? ''") == ""
        assert tab.run("return ({}).x ?? Object.keys(Object.prototype).join()") == ""
        tab.assert_quiet()


@pytest.mark.parametrize(("study", "name"), PAGES)
def test_no_part_of_an_address_acts(tab, reports, study, name):
    for query, hash in addresses(reports / study / f"{name}.html"):
        look(tab, reports / study / f"{name}.html", query, hash)


@pytest.mark.parametrize(
    ("study", "name"),
    [
        ("made-up", "method"),
        *(pytest.param(*page, marks=pytest.mark.nightly) for page in (("made-up", "layers"), ("explored", "tokens"))),
    ],
)
def test_no_part_of_an_address_acts_in_one_file(tab, reports, single, study, name):
    for query, hash in addresses(reports / study / f"{name}.html"):
        look(tab, single / f"{study}.html", f"?page={name}&{query[1:]}", hash)
    for value in VALUES:
        look(tab, single / f"{study}.html", f"?{urlencode({'page': value})}", "")


@pytest.mark.parametrize(("name", "given"), [("index", "<b>"), ("index", "td"), ("method", "constructor")])
def test_a_renamed_model_changes_words_and_no_element(tab, reports, name, given):
    page = reports / "whole" / f"{name}.html"
    model, other = re.findall(r'data-model="([^"]+)"', read(reports / "whole" / "index.html"))[:2]

    def elements(query=""):
        tab.open(page, query=query)
        tab.until("return document.querySelector('button.theme').title !== ''")
        tab.run(OPEN)
        tab.until(FILLED)
        tab.until(DRAWN)
        return tab.run(ELEMENTS)

    before = elements()
    assert elements(f"?{urlencode({f'name.{model}': given})}") == before
    if name == "index":
        assert given in tab.texts(".legend .model-row button.model span")
        words = " ".join(tab.texts("main td, main th, main p, main li"))
        assert given in words and not re.search(rf"(?<![\w-]){model}(?![\w-])", words), (
            "also where a section was closed"
        )
        assert elements(f"?{urlencode({f'name.{model}': other})}") == before, "no two models have the same name"
        assert tab.texts(".legend .model-row button.model span").count(other) == 1
    tab.assert_quiet()


def test_what_storage_holds_is_data(tab, reports):
    for value in (MARKUP, "constructor", "dark"):
        tab.open(reports / "made-up" / "index.html")
        tab.run("localStorage.setItem('reporter-theme', arguments[0])", value)
        tab.browser.refresh()
        tab.until(DRAWN)
        assert tab.run("return document.documentElement.dataset.theme ?? 'system'") == (
            "dark" if value == "dark" else "system"
        )
        tab.click("button.theme")
        tab.assert_quiet()
    tab.run("localStorage.clear()")


WRITTEN = """<img src=x: onerror="hit.push(1)"><a href="javascript:hit.push(2)">a</a>
<iframe srcdoc="<script>parent.hit.push(3)</script>"></iframe><button onclick="hit.push(4)">b</button>"""


def test_markup_that_gets_into_a_page_does_nothing(tab, reports):
    for page in (reports / "index.html", reports / "made-up" / "index.html"):
        tab.open(page)
        tab.run(
            f"""window.hit = [];
            document.body.insertAdjacentHTML("beforeend", arguments[0]);
            for (const one of document.querySelectorAll("body > a[href^=javascript], body > button")) one.click();
            document.body.append(Object.assign(new Image(), {{ src: "{AWAY}" }}));""",
            WRITTEN,
        )
        tab.until("return document.images[document.images.length - 1].complete")
        assert tab.run("return hit") == []
        assert any(AWAY in said and "Content Security Policy" in said for said in tab.complaints())


def test_pages_work_from_a_host_too(tab, reports):
    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = partial(Handler, directory=reports)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as host:
        Thread(target=host.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{host.server_port}/"
        tab.resize(1440, 900)
        tab.complaints(), tab.requests()
        tab.browser.get(f"{address}made-up/index.html")
        tab.until("return document.querySelectorAll('#glance svg.marks').length > 0")
        assert tab.complaints() == [] and {url for url in tab.requests() if not url.startswith(address)} == set()
        host.shutdown()
