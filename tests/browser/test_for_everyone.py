"""What is for those without a mouse, a wide screen or much memory: tables, contents, a filter, charts taken down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reporter.store import Store

pytestmark = pytest.mark.browser
FIGURE = "#figure-anisotropy\\\\.top_variance_share"
TABLE = f"document.querySelector('{FIGURE} details.behind')"


@pytest.fixture
def page(tab: Any, results: Path) -> Any:
    tab.open(results / "made-up" / "index.html")
    return tab


def test_the_table_behind_a_chart_holds_its_numbers_and_follows_the_controls(page: Any, results: Path) -> None:
    page.run(f"{TABLE}.querySelector('summary').scrollIntoView({{block: 'center', behavior: 'instant'}})")
    page.run(f"{TABLE}.querySelector('summary').click()")
    rows = f"[...{TABLE}.querySelectorAll('tbody tr')]"
    count = page.until(f"return {rows}.length")
    sql = (
        "SELECT count(*) AS n, max(value) AS most FROM layer_metrics WHERE study = 'made-up' AND metric = 'anisotropy' "
        "AND statistic IN ('top_variance_share', 'top_variance_share_floor') "
        "AND view = '{}' AND checkpoint IN ('final', 'step600')"
    )
    known = Store(results / "results.duckdb").frame(sql.format("words"))
    assert count == known["n"].iloc[0]
    head = page.run(f"return [...{TABLE}.querySelectorAll('th')].map(cell => cell.textContent)")
    assert {"corpus", "model", "layer", "value", "ci low"} <= set(head) and "view" not in head, "every row has the same"
    values = f"{rows}.map(row => Number(row.cells[{head.index('value')}].textContent))"
    assert page.run(f"return Math.max(...{values})") == pytest.approx(known["most"].iloc[0], rel=1e-3)
    page.run("document.querySelector('input[value=no-sinks]').click()")
    other = Store(results / "results.duckdb").frame(sql.format("no-sinks"))["most"].iloc[0]
    page.until(f"return Math.abs(Math.max(...{values}) / arguments[0] - 1) < 1e-3", float(other))
    assert page.complaints() == []


def test_a_chart_far_from_the_window_is_taken_down_and_comes_back_without_a_jump(page: Any) -> None:
    drawn = "document.querySelector('.glance .panel .plot > svg.marks, .glance .panel .plot svg.marks')"
    page.until(f"return {drawn}")
    height = page.run("return document.querySelector('.glance').offsetHeight")
    page.run("scrollTo({top: document.documentElement.scrollHeight, behavior: 'instant'})")
    page.until("return document.querySelectorAll('.glance svg.marks').length === 0")
    assert page.run("return document.querySelector('.glance').offsetHeight") == pytest.approx(height, abs=2)
    page.run("scrollTo({top: 0, behavior: 'instant'})")
    page.until(f"return {drawn}")
    assert page.complaints() == []


def test_two_keys_find_a_model_among_many(tab: Any, made_up: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    from reporter.report import render

    models = tuple((f"{'zebra' if i == 7 else 'model'}-{i}", "decoder", 2, 16, (None,)) for i in range(9))
    made_up.fill(tmp_path / "results.duckdb", models=models, corpora=("nested",), metrics=("anisotropy",))
    render(tmp_path / "results.duckdb", tmp_path)
    tab.open(tmp_path / "made-up" / "index.html")
    tab.browser.find_element("tag name", "body").send_keys("f")
    tab.browser.switch_to.active_element.send_keys("z")
    buttons = "[...document.querySelectorAll('button.model')]"
    shown = f"return {buttons}.filter(button => button.checkVisibility()).map(button => button.dataset.model)"
    assert tab.run(shown) == ["zebra-7"]
    tab.browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert tab.run("return document.querySelector('[data-model=zebra-7]').getAttribute('aria-pressed')") == "true"
    tab.browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert len(tab.run(shown)) == 9


def test_contents_are_at_hand_on_a_narrow_screen(tab: Any, results: Path) -> None:
    tab.open(results / "made-up" / "index.html", width=390)
    assert tab.run("const lid = document.querySelector('details.toc'); return lid.checkVisibility() && !lid.open")
    tab.run("document.querySelector('details.toc summary').click()")
    tab.run("document.querySelector('.toc a[href=\"#corpora\"]').click()")
    tab.until("return !document.querySelector('details.toc').open && location.hash === '#corpora'")


@pytest.mark.parametrize("dark", [False, True])
def test_the_theme_goes_back_to_the_systems(tab: Any, results: Path, dark: bool) -> None:
    tab.open(results / "index.html", dark=dark)
    paper = "return getComputedStyle(document.body).backgroundColor"
    said = "return document.querySelector('.theme-name').textContent"
    seen = []
    for _ in range(4):
        seen.append((tab.run(said), tab.run(paper)))
        tab.run("document.querySelector('button.theme').click()")
    names = [name for name, _ in seen]
    assert names == (["System", "Light", "Dark", "System"] if dark else ["System", "Dark", "Light", "System"])
    assert seen[0] == seen[3] and seen[2][1] == seen[0][1] != seen[1][1]


def test_tables_under_lids_appear_when_these_are_open(page: Any) -> None:
    page.until("return document.querySelector('#cells tbody tr.failed')")  # open from the start, since cells failed
    other = "document.querySelector('#compared > details table')"
    assert page.run(f"return {other}") is None, "a large table is no elements until somebody wants it"
    page.run("document.querySelector('#compared > details > summary').click()")
    page.until(f"return {other}?.checkVisibility()")
    page.run(f"{other}.querySelectorAll('.sort')[1].click()")
    values = page.run(f"return [...{other}.querySelectorAll('tbody.models tr')].map(row => row.cells[1].dataset.value)")
    numbers = [float(value) for value in values if value is not None]
    assert len(numbers) > 1 and numbers == sorted(numbers, reverse=True)
    assert page.complaints() == []
