"""The study page in real Chromium, opened as a file."""

from __future__ import annotations

import base64
import re
import time
import zlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from reporter.charts.styles import DARK, ENCODER, LIGHT
from reporter.store import Store

pytestmark = pytest.mark.browser
FIGURE = '.panel[data-chart="anisotropy.top_variance_share"][data-corpus="nested"]'
POINTS = f"return [...document.querySelectorAll('{FIGURE} .mark-symbol path')]"
HOSTILE = "<img src=x onerror=alert(1)>"

# every panel near the window has drawn marks
DRAWN = """
const near = [...document.querySelectorAll(".panel")].filter(panel => {
  const box = panel.getBoundingClientRect();
  return box.top < innerHeight && box.bottom > 0 && panel.checkVisibility();
});
const drawn = panel => panel.querySelector("svg.marks [class*=mark-] path[aria-label]");
return near.length > 0 && near.every(drawn) && near.length;
"""


@pytest.fixture
def page(tab: Any, results: Path) -> Any:
    """The study page, open at its first charts, which are drawn."""
    tab.open(results / "made-up" / "index.html")
    see_charts(tab)
    return tab


def see_charts(tab: Any) -> None:
    """Scroll to the first charts, which stand below what the page says first, and wait until they are drawn."""
    tab.run(f"document.querySelector('{FIGURE}').scrollIntoView({{behavior: 'instant', block: 'center'}})")
    tab.until(DRAWN)


def labels(tab: Any) -> list[str]:
    """What the marks of one panel say to a screen reader: model, depth and value of each point."""
    found = tab.run(POINTS + ".map(mark => mark.getAttribute('aria-label'))")
    assert found
    return list(found)


def change(tab: Any, script: str) -> list[str]:
    """Do something, and return the marks once they are others."""
    before = labels(tab)
    tab.run(script)
    tab.until(f"{POINTS}.map(m => m.getAttribute('aria-label')).join() !== arguments[0]", ",".join(before))
    return labels(tab)


def test_it_draws_from_a_file_without_network_or_complaint(page: Any) -> None:
    page.run("for (const lid of document.querySelectorAll('details.more')) lid.open = true")
    top = 0
    while top < page.run("return document.documentElement.scrollHeight"):  # charts and their captions make it longer
        page.run("scrollTo({top: arguments[0], behavior: 'instant'})", top)
        top += 1600  # of a window of 900; panels are drawn from 500 above it to 500 below
        page.until(DRAWN.replace("return near.length > 0 && near", "return near").replace("&& near.length", ""))
        # what is far from the window is taken down again
        page.run("for (const p of document.querySelectorAll('.panel:has(.mark-symbol path)')) p.dataset.seen = 'yes'")
    unseen = "return [...document.querySelectorAll('.panel:not([data-seen])')].map(p => p.dataset.chart)"
    assert page.run(unseen) == []
    assert page.run("return document.querySelectorAll('.broken').length") == 0
    assert page.complaints() == []
    assert page.requests() == []


def test_the_drawn_points_are_the_numbers_of_the_database(page: Any, results: Path) -> None:
    frame = Store(results / "results.duckdb").frame(
        "SELECT count(*) AS n FROM layer_metrics WHERE study = 'made-up' AND metric = 'anisotropy' "
        "AND statistic = 'top_variance_share' AND view = 'words' AND corpus = 'nested' "
        "AND checkpoint IN ('final', 'step600')"
    )
    assert len(labels(page)) == int(frame["n"].iloc[0]) == 7 + 5 + 7 + 9


def test_the_view_changes_every_chart(page: Any) -> None:
    sentence = f"return document.querySelector('{FIGURE} .reading').textContent"
    before = page.run(sentence)
    change(page, "document.querySelector('input[value=no-sinks]').click()")
    assert page.run(sentence) != before
    label = f"return document.querySelector('{FIGURE} [role=graphics-document]').getAttribute('aria-label')"
    assert page.run(sentence)[:20] in page.run(label), "what is said to a screen reader follows"
    assert "without sinks" in page.run("return document.getElementById('view-about').textContent")
    assert page.complaints() == []


def test_the_checkpoint_changes_every_chart(page: Any) -> None:
    first = "const s = document.getElementById('moment'); s.value = 0; s.dispatchEvent(new Event('input'))"
    at_start = change(page, first)
    assert page.run("return document.getElementById('moment-label').textContent") == "step 0"
    assert len(at_start) == 7 + 5 + 7 + 9, "models with one checkpoint stay"
    assert change(page, first.replace("value = 0", "value = 3")) != at_start


def test_playing_stops_at_the_last_checkpoint(page: Any) -> None:
    page.run("document.querySelector('button.play').click()")
    page.until("return document.getElementById('moment-label').textContent === 'step 0'")
    page.until("return document.getElementById('moment-label').textContent.startsWith('last')")
    page.until("return document.querySelector('button.play').textContent.includes('▶')")


def test_a_name_in_the_legend_brings_its_model_out(page: Any) -> None:
    page.run("document.querySelector('button.model[data-model=bert]').click()")
    faint = f"{POINTS}.filter(mark => Number(mark.getAttribute('opacity')) < .5).length"
    page.until(f"{faint} === 21")
    assert page.run("return document.querySelector('[data-model=bert]').getAttribute('aria-pressed')") == "true"
    page.run("document.querySelector('button.role-name[data-role=decoder]').click()")
    page.until(f"{faint} === 12")
    page.run("dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
    page.until(f"{faint} === 0")


def test_a_layer_can_be_followed_over_training(page: Any) -> None:
    panel = '.panel[data-chart="intrinsic_dimension.twonn.training"][data-corpus="nested"]'
    page.run(f"document.querySelector('{panel}').scrollIntoView({{behavior: 'instant', block: 'center'}})")
    count = f"document.querySelectorAll('{panel} .mark-symbol path').length"
    page.until(f"return {count} === 8")
    page.run(
        "const s = document.querySelector('select[data-chart=\"intrinsic_dimension.twonn.training\"]');"
        "s.value = '0'; s.dispatchEvent(new Event('change'))"
    )
    page.until(f"return {count} === 4")  # the encoder has no value at layer 0


@pytest.mark.parametrize("dark", [False, True])
def test_the_theme_follows_the_system_and_can_be_switched(tab: Any, results: Path, dark: bool) -> None:
    tab.open(results / "made-up" / "index.html", dark=dark)
    see_charts(tab)
    paper = "return getComputedStyle(document.body).backgroundColor"
    stroke = f"return document.querySelector('{FIGURE} .mark-symbol path').getAttribute('fill')"
    was = tab.run(paper), tab.run(stroke)
    tab.run("document.querySelector('button.theme').click()")
    tab.until(f"{stroke} !== arguments[0]", was[1])
    assert tab.run(paper) != was[0]
    tab.browser.refresh()
    see_charts(tab)
    assert tab.run(paper) != was[0], "the choice is remembered"
    assert tab.complaints() == []


@pytest.mark.parametrize("width", [360, 768, 1100, 1600])
def test_the_body_never_scrolls_sideways(tab: Any, results: Path, width: int) -> None:
    for page in ("made-up/index.html", "index.html"):
        tab.open(results / page, width=width, height=800)
        if page != "index.html":
            tab.run("document.getElementById('glance').scrollIntoView({behavior: 'instant'})")
            tab.until(DRAWN)
        tab.run("for (const d of document.querySelectorAll('main details:not(.more)')) d.open = true")
        assert tab.run("return document.documentElement.scrollWidth") <= width
        widths = tab.run("return [...document.querySelectorAll('svg.marks')].map(s => s.clientWidth)")
        assert all(drawn > 120 for drawn in widths)


def test_charts_follow_the_width_of_the_window(page: Any) -> None:
    width = f"document.querySelector('{FIGURE} svg.marks').getBoundingClientRect().width"
    before = page.run(f"return {width}")
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
        {"width": 700, "height": 900, "deviceScaleFactor": 1, "mobile": False})  # fmt: skip
    page.until(f"return Math.abs({width} - arguments[0]) > 20", before)


def test_hostile_names_are_only_text(page: Any) -> None:
    assert (
        page.run("return [...document.querySelectorAll('button.model span')].map(s => s.textContent)").count(HOSTILE)
        == 1
    )
    assert page.run("return document.querySelectorAll('img').length") == 0
    point = page.run(f"{POINTS}.findIndex(mark => mark.getAttribute('aria-label').includes('onerror'))")
    assert point >= 0
    box = page.run(f"{POINTS}[arguments[0]].getBoundingClientRect().toJSON()", point)
    move = {"type": "mouseMoved", "x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    page.browser.execute_cdp_cmd("Input.dispatchMouseEvent", move)
    tip = page.until("return document.querySelector('#vg-tooltip-element.visible')?.textContent")
    assert "model" in tip
    assert page.run("return document.querySelectorAll('#vg-tooltip-element img').length") == 0


def test_failures_are_seen_first(page: Any) -> None:
    page.run("scrollTo({top: 0, behavior: 'instant'})")
    box = page.run("return document.querySelector('section.alarm').getBoundingClientRect().toJSON()")
    assert 0 < box["top"] < 500
    assert "the weights are gone" in page.run("return document.querySelector('section.alarm').textContent")


def test_the_controls_stay_in_sight(page: Any) -> None:
    page.run("scrollTo({top: 3000, behavior: 'instant'})")
    assert 0 <= page.run("return document.querySelector('input[name=view]').getBoundingClientRect().top") < 300


def test_everything_is_reached_with_the_keyboard(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    page.run("document.querySelector('input[name=view]:checked').focus()")
    page.browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    page.until("return document.querySelector('input[value=all]').checked")
    page.browser.switch_to.active_element.send_keys(Keys.TAB, Keys.TAB)
    assert page.run("return document.activeElement.id") == "moment"
    page.browser.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    page.until("return document.getElementById('moment-label').textContent === 'step 200'")


def test_paper_shows_every_chart_in_ink_on_white(tab: Any, results: Path) -> None:
    tab.open(results / "made-up" / "index.html", dark=True)
    tab.until("return document.documentElement.classList.contains('all-data')")  # nobody prints in the first second
    pdf = base64.b64decode(tab.browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    painted = b"".join(
        zlib.decompressobj().decompress(stream)
        for stream in re.findall(rb"/FlateDecode.*?stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL)
    )
    assert pdf_colour(LIGHT[ENCODER][0]) in painted
    assert pdf_colour(DARK[ENCODER][0]) not in painted, "the screen was dark"
    # Afterwards charts far from the window may have been taken down again.
    tab.until("return [...document.querySelectorAll('#glance .panel')].every(p => p.querySelector('.plot.vega-embed'))")
    assert tab.complaints() == []


def pdf_colour(colour: str) -> bytes:
    """How a PDF names a colour: three channels of four digits."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return " ".join(f"{channel:.4f}".removeprefix("0").rstrip("0") for channel in channels).encode()


def test_the_print_button_waits_for_the_numbers(page: Any) -> None:
    page.until("return document.documentElement.classList.contains('all-data')")
    page.run("""window.printed = 0; window.print = () => { window.printed += 1; };
      document.documentElement.classList.remove('all-data');
      document.querySelector('button.print').click()""")
    time.sleep(0.3)
    assert page.run("return window.printed") == 0
    page.run("document.documentElement.classList.add('all-data')")
    page.until("return window.printed === 1 && !document.querySelector('button.print').disabled")


def test_without_scripts_the_numbers_are_still_there(tab: Any, results: Path) -> None:
    tab.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        tab.browser.get((results / "made-up" / "index.html").as_uri())
        time.sleep(0.2)
        text = tab.browser.find_element("tag name", "body").text
    finally:
        tab.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "The charts need JavaScript" in text
    assert "Data as CSV" in text and "The study file" in text
    assert "reporter export --site" in text and "its numbers as CSV" in text, (
        "it says how to get pictures, and where numbers are"
    )
    assert "The same as a table" not in text, "a script fills that table"


def test_the_list_of_studies_leads_to_the_page(tab: Any, results: Path) -> None:
    tab.open(results / "index.html")
    tab.run("document.querySelector('.card h2 a[href^=made-up]').click()")
    tab.until("return location.pathname.endsWith('/made-up/index.html') && document.querySelector('h1') !== null")
    see_charts(tab)
    assert tab.complaints() == []
    assert tab.requests() == []


SAVE = """
const figure = document.getElementById("figure-anisotropy.top_variance_share");
figure.querySelector(".figure-number details").open = true;
const make = URL.createObjectURL;
URL.createObjectURL = blob => { blob.text().then(text => { window.saved = text; }); return make.call(URL, blob); };
[...figure.querySelectorAll(".saving button")].find(button => button.textContent === "SVG").click();
"""


def test_a_whole_figure_is_saved_as_it_is_seen(page: Any) -> None:
    page.run("document.getElementById('figure-anisotropy.top_variance_share').scrollIntoView({behavior: 'instant'})")
    page.until(DRAWN)
    page.run(SAVE)
    root = ElementTree.fromstring(page.until("return window.saved"))
    said = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert root.get("width") == "170mm"
    assert any(re.match(r"Figure \d+\. Variance explained by", text) for text in said)
    assert HOSTILE in said  # the legend, as text
    assert any(one.startswith("Tokens: words.") for one in said)
    ids = [own.get("id") for own in root.iter() if own.get("id")]
    assert len(ids) == len(set(ids))
