"""The legend of more models than lines are named: it colours, divides, sorts and filters them by their properties."""

import pytest
from report.made_up import fill

from reporter.report import render

pytestmark = pytest.mark.browser
CARD = '[id="figure-anisotropy.top_variance_share"]'
POINTS = f"[...document.querySelectorAll('{CARD} .mark-symbol path')]"
PANELS = f"[...document.querySelectorAll('{CARD} .panel')].filter(panel => panel.checkVisibility())"
NAMES = "[...document.querySelectorAll('.legend-of-models .models bdi')].map(name => name.textContent)"
TICKS = f"[...document.querySelectorAll('{CARD} .role-axis-label text')].map(tick => tick.textContent).join()"


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A results folder with a study of eight models of two roles, widths and depths."""
    folder = tmp_path_factory.mktemp("many")
    models = tuple(
        (f"{role[:2]}-{layers}x{width}", role, layers, width, (None,))
        for role in ("encoder", "decoder") for layers in (4, 6) for width in (64, 96)
    )  # fmt: skip
    fill(folder / "results.duckdb", "many", models=models, corpora=("nested",), metrics=("anisotropy",))
    render(folder / "results.duckdb", folder)
    return folder


def test_the_legend_colours_divides_sorts_and_filters_and_the_address_says_so(tab, many):
    tab.open(many / "many" / "layers.html")
    tab.until(f"return {POINTS}.length > 0")
    assert tab.run(f"return {NAMES}") == [
        "en-4x64", "en-4x96", "en-6x64", "en-6x96", "de-4x64", "de-4x96", "de-6x64", "de-6x96"
    ]  # fmt: skip
    tab.choose("select[data-legend=colour]", "width")
    models = 2 * 2 * (5 + 7)  # whoever asks for a property sees models, and no means of roles
    tab.until(f"return {POINTS}.length === arguments[0]", models)
    assert tab.run(f"return new Set({POINTS}.map(mark => mark.getAttribute('fill'))).size") == 2
    swatches = "[...document.querySelectorAll('.legend-of-models .swatch')].map(own => getComputedStyle(own).stroke)"
    assert len(set(tab.run(f"return {swatches.replace('.swatch', '.swatch line')}"))) == 2
    ticks = tab.run(f"return {TICKS}")
    tab.choose("select[data-legend=facet]", "depth")
    tab.until(f"return {PANELS}.length === 2 && {POINTS}.length === arguments[0]", models)
    assert tab.texts(f"{CARD} .panel-name") == ["nested · depth 4", "nested · depth 6"]
    assert tab.run(f"return {TICKS}").count(ticks.split(",")[-1]) == 2, "both have the same axis"
    tab.choose("select[data-legend=sort]", "width")
    assert [name[-2:] for name in tab.run(f"return {NAMES}")] == ["64"] * 4 + ["96"] * 4
    tab.choose("select[data-legend=only]", "depth:6")
    tab.until(f"return {PANELS}.length === 1 && {POINTS}.length === 28")
    tab.until("return location.search === '?colour=width&facet=depth&sort=width&only=depth%3A6'")
    tab.browser.refresh()
    tab.until(f"return {POINTS}.length === 28")
    assert tab.run("return document.querySelector('select[data-legend=only]').value") == "depth:6"
    tab.run("history.back()")
    tab.until(f"return {POINTS}.length === arguments[0]", models)
    tab.click(".legend-of-models [data-of='en-6x96']")
    tab.until("return document.querySelector('button.model[data-model=\"en-6x96\"]').ariaPressed === 'true'")
    tab.assert_quiet()
