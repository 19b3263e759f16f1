"""Names, texts, tokens and notes that are code, in every page a study has and behind every control: nothing runs.

The results are made up, and then each text in each of their tables is a payload, apart from the words that reporter
itself puts there. A page passes if nothing ran, nothing was asked for, no element carries code, no browser complained
(a policy that has to stop something is a gap, too), and the payloads are there to be read.

The largest pages, reports in one file and every picture take minutes: `pytest -m nightly` looks at them.
"""

import json
import re
import zlib
from xml.etree import ElementTree

import duckdb
import pytest
from report.made_up import fill_all

from reporter.core.table import ALL_GROUPS, WEIGHTS
from reporter.report import render
from reporter.report.export import Wanted, export
from reporter.report.single_file import publish, write_single_file

pytestmark = pytest.mark.browser

AWAY = "https://away.invalid/"
PAYLOADS = (
    f'javascript:hit(1)//"><img src={AWAY}1 onerror=hit(2)></title></style></textarea></script><script>hit(3)</script>',
    "' onmouseover='hit(4)' autofocus onfocus='hit(5)<svg onload=hit(6)><iframe src=\"javascript:parent.hit(7)\">"
    f'</iframe><base href={AWAY}><meta http-equiv=refresh content="0;url={AWAY}2"><link rel=stylesheet href={AWAY}3>',
    "`${hit(8)}\\']);hit(9);//\\\"]);hit(10);//\u2028{{ 7 * 7 }}{% raw %}"
    f"url({AWAY}4)]]><script>hit(11)</script><!--<script>",
)
# Columns and keys of words that reporter itself puts there, and that queries and pages compare with words.
WORDS = """
alone among analysis attention baseline bos by chart checkpoint checkpoint_a checkpoint_b class content_hash device
end_of_scale errors fact feature fingerprint inputs kind last_hidden_state measure method metric metrics norm_placement
options own_states part pooling positions precision projection revision role rule script site sort sorted_by spec
spec_hash sql statistic status study timings verdict versions view views weights which why
"""
OURS = set(WORDS.split())
STRUCTURED = {"detail", "labels", "reasons", "scores"}  # JSON
PAGES = {
    "whole": ("index", "layers", "training", "tokens", "claims", "method"),
    "explored": ("index", "tokens", "method"),
    "exhibited": ("index", "layers", "training", "weights", "texts", "method"),
}

LONG = pytest.mark.nightly
ALL = [(study, name) for study, names in PAGES.items() for name in names]
# one page of each template that is not too long
DAILY = [("explored", "tokens"), *(("exhibited", name) for name in ("index", "layers", "training", "method"))]

PATIENCE = 300  # seconds, of a script that uses some hundred controls on a machine that does other work
WATCH = """
window.hits = [];
window.hit = n => hits.push(n);
for (const name of ["alert", "confirm", "prompt", "open"]) window[name] = () => hits.push(name);
window.print = Element.prototype.requestFullscreen = async () => {};  // buttons of the page ask for these
"""
SCROLL = """
for (const lid of document.querySelectorAll("details")) lid.open = true;
scrollTo({top: arguments[0], behavior: "instant"});
return document.documentElement.scrollHeight;
"""
# Each control, and the first marks of each group; what leads elsewhere or saves is looked at, not followed.
USE = """
const all = selector => [...document.querySelectorAll(selector)];
const choose = (one, ...values) => { for (const value of values) for (const type of ["input", "change"]) {
  one.value = value; one.dispatchEvent(new Event(type, {bubbles: true})); } };
const near = one => { const box = one.getBoundingClientRect();
  return one.checkVisibility() && box.bottom > -400 && box.top < innerHeight + 400; };
let used = 0;
const controls = "button, select, input, textarea, [role=button], [tabindex], th";
for (const one of all(`${controls}, svg.marks path[aria-label]:nth-child(-n+3)`)) {
  if (one.dataset.used || !near(one)) continue;
  one.dataset.used = "yes";
  used += 1;
  const box = one.getBoundingClientRect();
  for (const type of ["pointerover", "pointermove", "mouseover", "mousemove"])
    one.dispatchEvent(new MouseEvent(type, {bubbles: true, clientX: box.x + 2, clientY: box.y + 2}));
  one.focus?.();
  if (one.tagName === "SELECT") choose(one, ...[...one.options].slice(0, 4).map(choice => choice.value), one.value);
  else if (["search", "text"].includes(one.type) || one.tagName === "TEXTAREA") choose(one, arguments[0], "");
  else if (one.type === "range") choose(one, one.min, one.max);
  else one.dispatchEvent(new MouseEvent("click", {bubbles: true}));
}
return used;
"""
CODE = """
const found = [];
for (const one of document.querySelectorAll("*")) {
  for (const {name, value} of one.attributes) {
    if (/^on/i.test(name)) found.push(`${one.tagName} ${name}`);
    const leads = /^(.*:)?(href|src|action|formaction|data|srcdoc|poster)$/i.test(name);
    if (leads && (/^\\s*javascript:/i.test(value) || value.startsWith(arguments[0]))) found.push(`${name}=${value}`);
  }
  if (one.matches("iframe, object, embed, base, frame, foreignObject, [http-equiv=refresh i]")) found.push(one.tagName);
}
return found;
"""


def poison(found):
    """What a column holds, with a payload before each text: the same before the same, as a name is one name."""
    if isinstance(found, dict):
        return {key: value if key in OURS else poison(value) for key, value in found.items()}
    if isinstance(found, list):
        return [poison(one) for one in found]
    if not isinstance(found, str) or found in ("", WEIGHTS, ALL_GROUPS):
        return found
    return PAYLOADS[zlib.crc32(found.encode()) % len(PAYLOADS)] + found


def poison_all(database):
    """Poison each text of each table; return in how many columns."""
    columns = 0
    with duckdb.connect(str(database)) as connection:
        held = connection.execute("""SELECT table_name, column_name FROM duckdb_columns() JOIN duckdb_tables()
            USING (table_name) WHERE data_type = 'VARCHAR' AND NOT duckdb_columns.internal""").fetchall()
        for table, column in held:
            if column in OURS or table == "schema_version":
                continue
            texts = connection.execute(f'SELECT DISTINCT "{column}" AS is_now FROM "{table}"').df().dropna()
            columns += bool(len(texts))
            after = [json.dumps(poison(json.loads(t))) if column in STRUCTURED else poison(t) for t in texts["is_now"]]
            connection.register("frame", texts.assign(becomes=after))
            connection.execute(f'UPDATE "{table}" SET "{column}" = becomes FROM frame WHERE "{column}" = is_now')
    return columns


@pytest.fixture(scope="module")
def hostile(once, request):
    """A results folder whose studies have payloads for names, texts, tokens, labels, claims, findings and notes."""

    def make(folder):
        database, nightly = folder / "results.duckdb", request.config.option.markexpr == "nightly"
        names = ["anisotropy", "convergence", "intrinsic_dimension", "outliers", "layer_pairs", "spectrum", "variance"]
        fill_all(database, types=12, ranks=12, corpora=("nested",), metrics=names if nightly else names[:1])
        assert poison_all(database) > 40
        render(database, folder, list(PAGES) if nightly else list(PAGES)[1:])

    return once("results-of-payloads", make)


def look_at_all(tab, page, query=""):
    """Open a page, draw all of it, use each control, and find that nothing of its texts has acted."""
    tab.browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "deny"})
    tab.browser.set_script_timeout(PATIENCE)
    with tab.watched(WATCH):
        tab.open(page, height=2400, query=query)
        top, used = 0, 0
        while top < tab.run(SCROLL, top):
            tab.browser.execute_async_script("const done = arguments[0]; requestIdleCallback(done, {timeout: 3000})")
            used += tab.run(USE, PAYLOADS[0])
            top += 2000
        tab.browser.execute_async_script("setTimeout(arguments[0], 300)")
        assert tab.run("return hits") == []
        assert tab.run(CODE, AWAY) == []
        tab.assert_quiet()
        assert tab.run("return document.documentElement.textContent.includes('hit(')"), "the payloads can be read"
        assert used or page.suffix == ".svg"


def test_a_page_that_lets_a_payload_act_is_noticed(tab, tmp_path):
    page = tmp_path / "page.html"
    for payload in (payload.replace("http-equiv=refresh", "") for payload in PAYLOADS):  # it would lead away
        page.write_text(f"<!doctype html><meta charset=utf-8><button>hit(0)</button><p title='{payload}'></p>{payload}")
        with pytest.raises(AssertionError):
            look_at_all(tab, page)
        tab.complaints(), tab.requests()


@pytest.mark.parametrize(("study", "name"), [pytest.param(*page, marks=() if page in DAILY else LONG) for page in ALL])
def test_nothing_acts_on_a_page(tab, hostile, study, name):
    look_at_all(tab, hostile / study / f"{name}.html")


def test_these_are_all_pages(reports):
    assert {(study, page.stem) for study in PAGES for page in (reports / study).glob("*.html")} == set(ALL)


@LONG
@pytest.mark.parametrize("study", PAGES)
def test_nothing_acts_in_one_file(tab, hostile, study, tmp_path):
    file = tmp_path / "report.html"
    write_single_file(hostile / "results.duckdb", study, file)
    for name in PAGES[study]:
        look_at_all(tab, file, "" if name == "index" else f"?page={name}")


@LONG
def test_nothing_acts_in_a_published_folder_or_in_a_picture_that_is_opened_by_itself(tab, hostile, tmp_path):
    publish(hostile / "results.duckdb", tmp_path / "site")  # a picture of each figure for whom no script draws it
    look_at_all(tab, tmp_path / "site" / "exhibited" / "index.html")
    pictures = sorted((tmp_path / "site").rglob("*.svg"))
    export("whole", hostile, tmp_path, Wanted(("main",), ("svg",)))
    pictures += sorted((tmp_path / "figures").glob("*.svg"))
    assert len(pictures) > 30
    for picture in pictures:  # all of them for what is not text, and one of each kind that carries a payload
        for element in ElementTree.parse(picture).iter():
            assert element.tag.rpartition("}")[2].lower() not in ("script", "image", "foreignobject", "use"), picture
            for name, value in element.attrib.items():
                assert not name.lower().startswith("on") and (not name.endswith("href") or value[0] == "#"), picture
    kinds = {re.sub(r".*[.]", "", one.stem): one for one in pictures if "hit(" in one.read_text("utf-8")}
    assert len(kinds) > 3
    for picture in kinds.values():
        look_at_all(tab, picture)
