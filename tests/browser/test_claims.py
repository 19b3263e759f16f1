"""The claims of a study in real Chromium, opened as a file."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from reporter.report import render

pytestmark = pytest.mark.browser

# contrast of each verdict with what is behind it, as in WCAG 2.1; the canvas turns any colour into numbers
CONTRAST = """
const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
function luminance(colours) {
  paint.clearRect(0, 0, 1, 1);
  for (const colour of colours) { paint.fillStyle = colour; paint.fillRect(0, 0, 1, 1); }
  const [r, g, b] = [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3).map(part => part / 255)
    .map(part => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
return [...document.querySelectorAll("#claims .verdict")].filter(e => e.checkVisibility()).map(element => {
  const behind = [];
  for (let e = element; e; e = e.parentElement) behind.unshift(getComputedStyle(e).backgroundColor);
  const pair = [luminance(behind), luminance([...behind, getComputedStyle(element).color])].sort((a, b) => b - a);
  return [element.textContent.trim(), (pair[0] + 0.05) / (pair[1] + 0.05)];
});
"""
OUTSIDE = """
return [...document.querySelectorAll("#claims *")].filter(e => !e.closest(".scroll > table") && !e.closest("pre") &&
  e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80));
"""


@pytest.fixture(scope="module")
def folder(made_up: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("claimed")
    store = made_up.fill(
        folder / "results.duckdb", corpora=("nested",), metrics=("motion",), models=made_up.MODELS[1:2]
    )
    made_up.fill_claims(store, "made-up")
    render(folder / "results.duckdb", folder)
    return folder


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (1400, True), (360, False), (500, True)])
def test_claims_can_be_read_at_any_width_and_in_any_light(tab: Any, folder: Path, width: int, dark: bool) -> None:
    tab.open(folder / "made-up" / "index.html", width=width, dark=dark)
    closed = tab.run("return document.querySelector('#claims').offsetHeight")
    tab.run("for (const lid of document.querySelectorAll('#claims details')) lid.open = true")
    assert tab.run("return document.querySelector('#claims').offsetHeight") > closed + 500
    assert tab.run("return document.documentElement.scrollWidth <= innerWidth")
    assert tab.run(OUTSIDE) == []
    verdicts = tab.run(CONTRAST)
    assert {text[0] for text, _ in verdicts} == set("✓✗?!"), "told by a sign and a word, not by colour alone"
    assert [pair for pair in verdicts if pair[1] < 4.5] == []
    assert tab.complaints() == []
    assert tab.requests() == []


def test_evidence_opens_by_keyboard_and_its_sql_is_copied(tab: Any, folder: Path) -> None:
    tab.open(folder / "made-up" / "index.html")
    lid = "document.querySelector('#claim-bert-rate details:has(.copy)')"
    tab.browser.find_element("tag name", "body").send_keys("\ue004")  # the Tab key: whoever uses keys sees the focus
    tab.run(f"{lid}.querySelector('summary').focus()")
    assert tab.run(f"return getComputedStyle({lid}.querySelector('summary')).outlineStyle") == "solid"
    tab.browser.switch_to.active_element.send_keys("\ue007")  # the Enter key
    tab.until(f"return {lid}.open")
    copy = f"{lid}.querySelector('.copy')"
    tab.run(f"{copy}.focus()")
    tab.browser.switch_to.active_element.send_keys("\ue007")
    tab.until(f"return /Copied|Selected/.test({copy}.textContent)")
    tab.run("location.hash = 'claim-frequent-first'")
    tab.until("return document.querySelector('#claim-frequent-first').getBoundingClientRect().top < innerHeight")
    tab.browser.get((folder / "index.html").as_uri())
    assert tab.run("return document.querySelector('.claimed').innerText.includes('2 supported')")
    assert tab.complaints() == []


def test_the_comparison_sorts_by_a_heading_and_back(tab: Any, made_up: ModuleType, tmp_path: Path) -> None:
    made_up.fill(tmp_path / "results.duckdb", corpora=("nested",), metrics=("motion",))
    page = render(tmp_path / "results.duckdb", tmp_path)[1]
    tab.open(page, width=1280)
    values = "[...document.querySelectorAll('.matrix tbody.models tr')].map(row => Number(row.cells[1].dataset.value))"
    for sort in ("descending", "ascending"):
        tab.run("document.querySelectorAll('.matrix .sort')[1].click()")
        found = tab.run(f"return {values}")
        assert len(found) > 1 and found == sorted(found, reverse=sort == "descending")
        assert tab.run("return document.querySelectorAll('.matrix .sort')[1].closest('th').ariaSort") == sort
    assert tab.complaints() == []
