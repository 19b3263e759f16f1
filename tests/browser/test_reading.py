"""Reading a study's charts by mouse, keys and finger: cursor, legend, means, two views, search; and the address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reporter.store import Store

pytestmark = pytest.mark.browser
NAME = "anisotropy.top_variance_share"
FIGURE = f'article:not(.wide) .panel[data-chart="{NAME}"][data-corpus="nested"]'
POINTS = f"[...document.querySelectorAll('{FIGURE} .mark-symbol path')]"
LABELS = f"{POINTS}.map(mark => mark.getAttribute('aria-label'))"
ADDRESS = "return Object.fromEntries(new URLSearchParams(location.search))"
CELLS = "return [...document.querySelectorAll('.readout tbody tr')].map(row => row.innerText)"
HEADS = "return [...document.querySelectorAll('.readout thead th')].map(cell => cell.innerText)"
PRESS = "dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}))"
CURSORS = """
return [...document.querySelectorAll('.panel')].filter(p => p.panel?.near && p.querySelector('svg.marks'))
  .map(p => [...p.querySelectorAll('svg.marks .mark-rule line')].some(l => l.getAttribute('opacity') === '0.9'))
"""


def open_at(tab: Any, results: Path, query: str = "") -> None:
    """Open the page at an address, in a browser that remembers nothing, its first charts drawn."""
    tab.open(results / "made-up" / "index.html", query=query)
    tab.run(f"document.querySelector('{FIGURE}').scrollIntoView({{behavior: 'instant', block: 'center'}})")
    tab.until(f"return {POINTS}.length > 0")


@pytest.fixture
def page(tab: Any, results: Path) -> Any:
    """The study page with a chart over depth in sight."""
    open_at(tab, results)
    return tab


def point_of(tab: Any, depth: float) -> tuple[float, float]:
    """Where a depth is in the chart, near its lower edge, where no mark is."""
    box = tab.run(f"return document.querySelector('{FIGURE} svg.marks .mark-symbol').getBoundingClientRect().toJSON()")
    frame = tab.run(f"return document.querySelector('{FIGURE} svg.marks .background').getBoundingClientRect().toJSON()")
    assert box
    return frame["x"] + depth * frame["width"], frame["y"] + 3


def mouse(tab: Any, kind: str, place: tuple[float, float], **more: Any) -> None:
    """Move or press the mouse."""
    tab.browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": place[0], "y": place[1], **more})


def test_a_mouse_reads_all_models_in_all_charts(page: Any, results: Path) -> None:
    mouse(page, "mouseMoved", point_of(page, 0.52))
    page.until(
        "return !document.querySelector('.readout').hidden && document.querySelectorAll('.readout tbody tr').length"
    )
    found = {row.split("\n")[0].strip(): row for row in page.run(CELLS)}
    assert set(found) >= {"bert", "gpt2"} and len(found) == 4
    stored = Store(results / "results.duckdb").frame(
        "SELECT value, layer FROM layer_metrics WHERE study = 'made-up' AND metric = 'anisotropy' "
        "AND statistic = 'top_variance_share' AND corpus = 'nested' AND view = 'words' AND model = 'bert' "
        "AND checkpoint = 'step600' AND site IN ('embedding', 'block') ORDER BY abs(depth - 0.52) LIMIT 1"
    )
    heads = page.run(HEADS)
    column = next(i for i, head in enumerate(heads) if "first principal component" in head and head.endswith("nested"))
    value = page.run(f"return document.querySelectorAll('.readout tbody tr')[0].cells[{column}].firstChild.textContent")
    assert float(value) == pytest.approx(float(stored["value"].iloc[0]), rel=1e-3)
    assert f"layer {int(stored['layer'].iloc[0])}" in found["bert"]
    assert sum(page.run(CURSORS)) > 4, "the line stands in all charts"
    assert "depth" not in page.run(ADDRESS), "what only passes is not kept"
    covers = """const box = document.querySelector('.readout').getBoundingClientRect();
      return box.top < arguments[0] && arguments[0] < box.bottom"""
    assert not page.run(covers, point_of(page, 0.52)[1]), "the table is not over the chart that is read"
    mouse(page, "mouseMoved", (5, 5))
    page.until("return document.querySelector('.readout').hidden")


def test_a_press_keeps_the_cursor_and_a_reload_has_it(page: Any) -> None:
    place = point_of(page, 0.5)
    mouse(page, "mouseMoved", place)
    for kind in ("mousePressed", "mouseReleased"):
        mouse(page, kind, place, button="left", clickCount=1)
    mouse(page, "mouseMoved", (5, 5))
    page.until("return new URLSearchParams(location.search).has('depth')")
    kept = float(page.run(ADDRESS)["depth"])
    assert abs(kept - 0.5) < 0.02
    page.browser.refresh()
    page.until("return document.querySelectorAll('.readout tbody tr').length === 4")
    assert float(page.run("return document.getElementById('cursor').value")) == pytest.approx(kept)
    page.run(PRESS, "Escape")
    page.until("return document.querySelector('.readout').hidden && !location.search")


def test_keys_go_from_layer_to_layer(page: Any) -> None:
    page.run(PRESS, ".")
    page.until("return new URLSearchParams(location.search).get('depth') === '0'")
    page.run(PRESS, ".")
    page.until("return Number(new URLSearchParams(location.search).get('depth')) > 0.1")
    second = float(page.run(ADDRESS)["depth"])
    assert second == pytest.approx(1 / 8, abs=1e-3), "the first layer of the deepest model comes next"
    page.run(PRESS, ",")
    page.until("return new URLSearchParams(location.search).get('depth') === '0'")
    assert all("layer 0" in row for row in page.run(CELLS))


def test_a_finger_moves_the_cursor(page: Any) -> None:
    def touch(kind: str, *places: tuple[float, float]) -> None:
        points = [{"x": x, "y": y} for x, y in places]
        page.browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    start, end = point_of(page, 0.1), point_of(page, 0.75)
    page.browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    try:
        touch("touchStart", start)
        for step in (0.2, 0.4, 0.6, 0.75):
            touch("touchMove", point_of(page, step))
        touch("touchEnd")
    finally:
        page.browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
    assert end
    page.until("return Math.abs(Number(new URLSearchParams(location.search).get('depth')) - 0.75) < 0.03")
    assert page.run("return document.querySelectorAll('.readout tbody tr').length") == 4


def of_model(name: str, tool: str) -> str:
    """A tool of a model in the legend."""
    return f"document.querySelector('button.model[data-model={name}]').parentElement.querySelector('.{tool}')"


def test_models_are_hidden_alone_and_renamed_and_the_address_says_so(page: Any, tab: Any, results: Path) -> None:
    page.run(f"{of_model('bert', 'hide')}.click()")
    page.until(f"return {POINTS}.length === 21")
    page.run(f"{of_model('minilm', 'solo')}.click()")
    page.until(f"return {POINTS}.length === 5 && {LABELS}.every(label => label.includes('minilm'))")
    ticks = f"return [...document.querySelectorAll('{FIGURE} .role-axis-label text')].map(t => t.textContent).join()"
    alone = page.run(ticks)
    page.run("document.querySelector('.show-all').click()")
    page.until(f"return {POINTS}.length === 28")
    assert page.run(ticks) != alone, "the axis follows"

    page.run(f"{of_model('minilm', 'name')}.click()")
    page.run("const f = document.querySelector('.rename'); f.value = 'Mini'; f.blur()")
    page.run(f"{of_model('bert', 'hide')}.click()")
    page.until("return location.search.includes('name.minilm=Mini') && location.search.includes('hide=bert')")
    query = page.run("return location.search")
    open_at(tab, results, query)
    tab.until(f"return {POINTS}.length === 21 && {LABELS}.some(label => label.includes('Mini'))")
    assert not any("minilm" in label for label in tab.run(f"return {LABELS}"))
    colours = f"new Set({POINTS}.map(m => m.getAttribute('fill'))).size"
    assert tab.run(f"return {colours}") == 3, "a renamed model keeps its colour"
    assert tab.complaints() == []


def test_two_models_never_get_one_name(page: Any) -> None:
    page.run(f"{of_model('minilm', 'name')}.click()")
    page.run("const f = document.querySelector('.rename'); f.value = 'bert'; f.blur()")
    page.until("return !document.querySelector('.rename')")
    assert page.run("return document.querySelector('button.model[data-model=minilm] span').textContent") == "minilm"


def test_roles_are_drawn_as_means(page: Any, tab: Any, results: Path) -> None:
    page.run("document.getElementById('means').click()")
    page.until(f"return {LABELS}.every(label => label.includes('mean of '))")
    assert "lowest to highest" in page.run(f"return document.querySelector('{FIGURE} svg').textContent")
    page.until("return location.search.includes('means=yes')")
    open_at(tab, results, "?means=yes&depth=0.5")
    tab.until("return document.querySelectorAll('.readout tbody tr').length === 2")


def test_two_views_stand_side_by_side_with_the_same_axis(page: Any, tab: Any, results: Path) -> None:
    page.run(
        "const s = document.getElementById('beside'); s.value = 'view.no-sinks'; s.dispatchEvent(new Event('change'))"
    )
    twin = FIGURE + ".twin"
    drawn = f"document.querySelectorAll('{twin} .mark-symbol path').length"
    page.until(f"return {drawn} === 28")
    names = f"return [...document.querySelectorAll('{FIGURE} .panel-name')].map(name => name.textContent)"
    assert page.run(names) == ["nested · words", "nested · no-sinks"]
    ticks = "return [...document.querySelectorAll(arguments[0] + ' .role-axis-label text')].map(t => t.textContent)"
    assert page.run(ticks, f"{FIGURE}:not(.twin)") == page.run(ticks, twin)
    open_at(tab, results, "?beside.moment=step+0")
    tab.until(f"return {drawn} > 0")
    assert tab.run(names)[1] == "nested · step 0"
    tab.run("const s = document.getElementById('beside'); s.value = ''; s.dispatchEvent(new Event('change'))")
    tab.until(f"return !document.querySelector('{twin}') && !location.search")


def test_an_axis_can_be_logarithmic_and_the_address_has_it(page: Any, tab: Any, results: Path) -> None:
    figure = "#figure-variance\\\\.total"
    ticks = f"[...document.querySelectorAll('{figure} .role-axis-label text')].map(t => t.textContent)"
    select = f"document.querySelector('{figure} select[data-pick=axis]')"
    page.run(f"document.querySelector('{figure}').closest('details')?.setAttribute('open', '')")
    page.run(f"document.querySelector('{figure}').scrollIntoView({{behavior: 'instant'}})")
    page.until(f"return {ticks}.length > 0")
    page.run(f"{select}.value = 'log'; {select}.dispatchEvent(new Event('change'))")
    noted = f"document.querySelector('{figure} svg.marks').textContent.includes('logarithmic')"
    page.until(f"return {noted}")
    page.until("return location.search.includes('axis=log')")
    query = page.run("return location.search")
    open_at(tab, results, query)
    tab.run(f"document.querySelector('{figure}').closest('details')?.setAttribute('open', '')")
    tab.run(f"document.querySelector('{figure}').scrollIntoView({{behavior: 'instant'}})")
    tab.until(f"return document.querySelector('{figure} svg.marks') && {noted}")
    assert tab.complaints() == []


def test_controls_are_in_the_address(page: Any, tab: Any, results: Path) -> None:
    page.run("document.querySelector('input[value=no-sinks]').click()")
    page.run("const s = document.getElementById('moment'); s.value = 0; s.dispatchEvent(new Event('input'))")
    page.run("document.querySelector('button.model[data-model=bert]').click()")
    page.until("return ['view', 'moment', 'highlight'].every(name => new URLSearchParams(location.search).has(name))")
    assert page.run(ADDRESS) == {"view": "no-sinks", "moment": "step 0", "highlight": "bert"}
    labels = page.run(f"return {LABELS}")
    open_at(tab, results, page.run("return location.search"))
    tab.until(f"return {LABELS}.join() === arguments[0]", ",".join(labels))
    assert tab.run("return document.querySelector('input[name=view]:checked').value") == "no-sinks"
    assert tab.run("return document.getElementById('moment-label').textContent") == "step 0"
    assert (
        tab.run("return document.querySelector('button.model[data-model=bert]').getAttribute('aria-pressed')") == "true"
    )


@pytest.mark.parametrize(
    "query", ["?view=nothing&moment=step+x&hide=nobody&depth=7", "?depth=NaN&beside.view=&full=x&name.x=y"]
)
def test_an_address_that_makes_no_sense_shows_the_page(tab: Any, results: Path, query: str) -> None:
    open_at(tab, results, query)
    tab.until(f"return {POINTS}.length === 28")
    assert tab.complaints() == []


def test_a_search_leads_to_a_figure(page: Any) -> None:
    page.run(PRESS, "/")
    page.until("return document.querySelector('dialog.search').open")
    field = page.browser.switch_to.active_element
    field.send_keys("isoscore")
    assert page.run("return document.querySelectorAll('.found button').length") == 1
    from selenium.webdriver.common.keys import Keys

    field.send_keys(Keys.ENTER)
    page.until("return !document.querySelector('dialog.search').open")
    assert page.run("return document.activeElement.id") == "figure-anisotropy.isoscore"
    assert page.run("return document.activeElement.checkVisibility()"), "its lid is open"
    page.until("return decodeURIComponent(location.hash) === '#figure-anisotropy.isoscore'")


def test_a_search_finds_a_model_by_its_first_letter(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    page.run(PRESS, "/")
    page.until("return document.querySelector('dialog.search').open")
    field = page.browser.switch_to.active_element
    field.send_keys("g")
    assert page.run("return document.querySelector('.found b').textContent") == "gpt2"
    field.send_keys(Keys.ENTER)
    page.until("return new URLSearchParams(location.search).get('highlight') === 'gpt2'")
    assert not page.run("return document.querySelector('dialog.search').open")


def test_figures_are_gone_through_and_fill_the_screen(page: Any, tab: Any, results: Path) -> None:
    page.run("scrollTo({top: 0, behavior: 'instant'})")
    page.run(PRESS, "j")
    first = page.run("return document.activeElement.id")
    page.run(PRESS, "j")
    second = page.run("return document.activeElement.id")
    assert first.startswith("figure-") and second.startswith("figure-") and first != second
    page.run(PRESS, "k")
    assert page.run("return document.activeElement.id") == first
    page.run(PRESS, "e")
    page.until("return document.querySelector('.figure.full')?.id === arguments[0]", first)
    page.until("return new URLSearchParams(location.search).get('full') === arguments[0]", first)
    box = page.run("return document.querySelector('.figure.full').getBoundingClientRect().toJSON()")
    assert box["x"] == 0 and box["y"] == 0 and box["width"] >= 1400
    page.run(PRESS, "j")
    assert page.run("return document.querySelector('.figure.full').id") == second
    tab.browser.refresh()
    tab.until("return document.querySelector('.figure.full')?.id === arguments[0]", second)
    tab.until("return document.querySelector('.figure.full .mark-symbol path')")
    assert tab.run("return document.querySelector('.controls').inert")
    tab.run(PRESS, "Escape")
    tab.until("return !document.querySelector('.figure.full') && !document.querySelector('.controls').inert")
    tab.until("return !location.search")


def test_nothing_that_can_be_pressed_is_invisible(page: Any) -> None:
    pressed = "document.querySelectorAll('.vega-embed summary, .model-row button, .fill')"
    found = page.run(f"return [...{pressed}].map(button => getComputedStyle(button).opacity)")
    assert found and set(found) == {"1"}


def test_a_sent_address_shows_its_figure_though_charts_above_it_grow(tab: Any, results: Path) -> None:
    last = "[...document.querySelectorAll('article.figure[id]')].pop()"
    tab.open(results / "made-up" / "index.html")
    name = tab.run(f"return {last}.id")
    tab.open(results / "made-up" / "index.html", query=f"?beside.view=no-sinks#{name}")
    tab.run("document.querySelector('main').style.paddingTop = '3000px'")  # as charts do that come late
    tab.until(f"const {{top}} = {last}.getBoundingClientRect(); return top >= 0 && top < innerHeight")
    tab.run("dispatchEvent(new Event('wheel')); scrollTo({top: 0, behavior: 'instant'})")
    tab.run("document.querySelector('main').style.paddingTop = ''")
    assert tab.run("return new Promise(done => setTimeout(() => done(scrollY), 300))") == 0
