"""Deque's axe on every kind of page: nothing serious or critical, in both themes, with every lid open."""

from __future__ import annotations

import importlib.util
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser
PATIENCE = 300  # seconds, of a script that asks some hundred rules of some thousand elements

# Not a study's own page: of its ten thousands of elements axe does not tell within minutes.
PAGES = (
    "index.html",
    "explored/journeys.html",
    "exhibited/vocabulary.html",
    "exhibited/sentences.html",
)
# Figures of a section are of one template: two of each stand for all. So do the first rows of a table.
FEWER = """
const seen = new Map();
for (const figure of document.querySelectorAll(".figure")) {
  const section = figure.closest("details.more, section");
  seen.set(section, (seen.get(section) ?? 0) + 1);
  if (seen.get(section) > 2) figure.remove();
}
for (const table of document.querySelectorAll("tbody")) for (const row of [...table.rows].slice(12)) row.remove();
"""
LIDS = "for (const lid of document.querySelectorAll('main details, header details')) lid.open = true"
# what has a chart's place near the window has its chart
DRAWN = """
const near = [...document.querySelectorAll(".panel")].filter(panel => {
  const box = panel.getBoundingClientRect();
  return box.top < innerHeight && box.bottom > 0 && panel.checkVisibility();
});
return near.every(panel => panel.querySelector("svg.marks, canvas, table, .void"));
"""
# What axe finds besides on how headings, landmarks and tables are ordered is asked for, too, whatever its weight.
AXE = """
const done = arguments[1];
const ALSO = ["heading-order", "empty-table-header"];
const grave = rule => ["serious", "critical"].includes(rule.impact) || ALSO.includes(rule.id);
const why = node => (node.any[0] ?? node.all[0] ?? node.none[0])?.message ?? "";
const tell = node => `${node.target.join(" ")} | ${node.html.slice(0, 160)} | ${why(node)}`;
axe.run(document, Object.assign({ resultTypes: ["violations"] }, arguments[0])).then(
  ({ violations }) => done(
    violations.filter(grave).map(({ id, nodes }) => [id, nodes.length, ...nodes.slice(0, 3).map(tell)])
  ),
  error => done([String(error)]),
);
"""


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core."""
    if importlib.util.find_spec("axe_playwright_python") is None:
        message = "needs axe-playwright-python, of requirements-dev.txt"
        if os.environ.get("REPORTER_REQUIRE_BROWSER") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def scroll(tab: Any) -> None:
    """Go down the page until everything on it has been drawn once."""
    top = 0
    while top < tab.run("return document.documentElement.scrollHeight"):
        tab.run("scrollTo({top: arguments[0], behavior: 'instant'})", top)
        tab.until(DRAWN)
        top += 1600


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing_serious(tab: Any, results: Path, axe: str, page: str, dark: bool) -> None:
    tab.open(results / page, dark=dark, height=1800)
    if "journeys" in page:
        tab.until("return document.querySelector('.near tbody td')")
    tab.run(FEWER)
    tab.run(LIDS)
    scroll(tab)
    tab.run(axe)
    tab.browser.set_script_timeout(PATIENCE)
    # what is no question of colour has been asked in the light
    options = {"runOnly": ["color-contrast", "link-in-text-block"]} if dark else {}
    assert tab.browser.execute_async_script(AXE, options) == []
