"""The controls that a study with every table has: sites, null baselines, selectors, and what waits under a lid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reporter.store import Store

pytestmark = pytest.mark.browser
PROFILE = '.figure.wide .panel[data-chart="anisotropy.top_variance_share"][data-corpus="nested"]'
DRAWN = "return document.querySelectorAll('{} svg.marks [class*=mark-] path[aria-label]').length"
BASELINES = "document.getElementById('baselines').click()"


def panel(figure: str, value: str) -> str:
    return f'.panel[data-chart="{figure}"][data-value="{value}"]'


def marks(tab: Any, selector: str) -> list[str]:
    """What the marks of a panel say to a screen reader, once there are any."""
    tab.run("document.querySelector(arguments[0]).scrollIntoView({behavior: 'instant', block: 'center'})", selector)
    inside = f"[...document.querySelectorAll('{selector} :is(.mark-symbol, .mark-rect) path[aria-label]')]"
    return list(tab.until(f"const found = {inside}.map(m => m.ariaLabel); return found.length && found"))


def changed(tab: Any, selector: str, before: list[str], script: str) -> list[str]:
    """The marks of a panel after a control was used, once they are others."""
    tab.run(script)
    inside = f"[...document.querySelectorAll('{selector} :is(.mark-symbol, .mark-rect) path[aria-label]')]"
    tab.until(f"return {inside}.map(m => m.ariaLabel).join() !== arguments[0]", ",".join(before))
    return marks(tab, selector)


def choose(figure: str, pick: str, value: str) -> str:
    return (
        f'const s = document.querySelector(\'select[data-chart="{figure}"][data-pick="{pick}"]\');'
        f"s.value = '{value}'; s.dispatchEvent(new Event('change'))"
    )


@pytest.fixture
def page(tab: Any, results: Path) -> Any:
    tab.open(results / "whole" / "index.html")
    return tab


def test_the_site_switches_profiles_to_the_states_after_attention(page: Any, results: Path) -> None:
    before = marks(page, PROFILE)
    hollow = f"return document.querySelectorAll('{PROFILE} .mark-symbol path[fill=transparent]').length"
    assert page.run(hollow) == 6, "one for each model after the closing norm"
    assert any("after the closing norm" in label for label in before)
    after = changed(page, PROFILE, before, "document.querySelector('input[value=attention]').click()")
    assert page.run(hollow) == 0
    count = "SELECT count(*) AS n FROM layer_metrics WHERE study = 'whole' AND statistic = 'top_variance_share' "
    shown = "AND view = 'words' AND corpus = 'nested' AND site = 'attention' AND checkpoint IN ('final', 'step600')"
    assert len(after) == Store(results / "results.duckdb").frame(count + shown)["n"].item()
    assert page.complaints() == []


def test_null_baselines_can_be_hidden_everywhere(page: Any) -> None:
    before = marks(page, PROFILE)
    after = changed(page, PROFILE, before, BASELINES)
    assert any("random-init" in label for label in before) and not any("random-init" in label for label in after)
    hidden = "return [...document.querySelectorAll('.panel')].filter(p => p.hidden).map(p => p.dataset.value)"
    assert "gpt2 (shuffled)" in page.run(hidden) and "gpt2" not in page.run(hidden)
    assert page.run("return document.querySelector('button.model.baseline').checkVisibility()") is False
    assert changed(page, PROFILE, after, BASELINES) == before
    assert page.complaints() == []


def test_a_heat_map_has_a_cell_for_each_two_layers_and_pairs_can_be_chosen(page: Any) -> None:
    inside = panel("layer_pairs.pairs", "gpt2 × gpt2")
    before = marks(page, inside)
    assert len(before) == 7 * 7
    changed(page, inside, before, choose("layer_pairs.pairs", "statistic", "knn"))
    page.run(choose("layer_pairs.pairs", "among", "bert with others"))
    assert page.run("return document.querySelector(arguments[0]).hidden", inside) is True
    assert len(marks(page, panel("layer_pairs.pairs", "bert × gpt2"))) == 5 * 7
    assert page.complaints() == []


def test_types_follow_the_depth(page: Any) -> None:
    own = panel("variance.types", "gpt2")
    before = marks(page, own)
    assert len(before) == 40 and "token-" in before[0]
    changed(page, own, before, choose("variance.types", "part", "1"))


def test_other_statistics_are_drawn_when_the_lid_is_lifted(page: Any) -> None:
    own = panel("variance.total", "nested")
    assert page.run("return document.querySelector(arguments[0]).checkVisibility()", own) is False
    page.run("document.querySelector('#metric-variance details.more summary').click()")
    assert marks(page, own)


def test_a_link_to_a_figure_under_a_lid_lifts_it(page: Any) -> None:
    page.run("location.hash = 'figure-variance.total'")
    page.until("return document.getElementById('figure-variance.total').checkVisibility()")


@pytest.mark.parametrize("figure", ["spectrum.curves", "intrinsic_dimension.gride", "variance.shares"])
def test_a_panel_is_a_model(page: Any, figure: str) -> None:
    assert marks(page, panel(figure, "tuned"))


@pytest.mark.parametrize("figure", ["spectrum.curves", "variance.types"])
def test_marks_are_read_with_the_arrow_keys_and_a_finger(page: Any, figure: str) -> None:
    from selenium.webdriver.common.keys import Keys

    own = panel(figure, "tuned")
    marks(page, own)
    told = f"return document.querySelector('{own} .told')?.textContent"
    page.run(f"document.querySelector('{own} .plot').focus()")
    focused = page.browser.switch_to.active_element
    focused.send_keys(Keys.ARROW_RIGHT)
    first = page.run(told)
    focused.send_keys(Keys.ARROW_RIGHT)
    second = page.run(told)
    said = {"spectrum.curves": "rank", "variance.types": "occurrences"}[figure]
    assert "model tuned" in first and said in first and "model tuned" in second and first != second
    focused.send_keys(Keys.ESCAPE)
    assert page.run(told) is None
    page.run(  # where the ring would be is where a finger finds the same mark
        f"const mark = document.querySelector('{own} .mark-symbol path[aria-label]').getBoundingClientRect();"
        "const at = { clientX: mark.x + mark.width / 2 + 4, clientY: mark.y + mark.height / 2, bubbles: true };"
        f"document.querySelector('{own} svg.marks').dispatchEvent(new MouseEvent('click', at))"
    )
    assert "model tuned" in page.run(told)
    assert page.complaints() == []


def test_the_selectors_are_reached_with_the_keyboard(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    own = panel("convergence.correlations", "nested")
    marks(page, own)
    page.run("document.querySelector('select[data-chart=\"convergence.correlations\"]').focus()")
    page.browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    page.until(f"return document.querySelector('{own} .plot').classList.contains('void')")


@pytest.mark.parametrize("width", [360, 1100])
def test_the_body_never_scrolls_sideways(tab: Any, results: Path, width: int) -> None:
    tab.open(results / "whole" / "index.html", width=width, height=800)
    for figure in ("variance.types", "layer_pairs.pairs", "convergence.correlations"):
        tab.run("document.getElementById(arguments[0]).scrollIntoView({behavior: 'instant'})", f"figure-{figure}")
        tab.until(f"return document.querySelector('#figure-{figure.replace('.', chr(92) * 2 + '.')} svg.marks')")
        assert tab.run("return document.documentElement.scrollWidth") <= width


def test_a_page_without_its_data_says_so(tab: Any, results: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(results / "whole" / "assets", tmp_path / "whole" / "assets")
    shutil.copy(results / "whole" / "index.html", tmp_path / "whole")
    tab.open(tmp_path / "whole" / "index.html")
    assert "is not beside this page" in tab.until("return document.querySelector('.panel .broken')?.textContent")
