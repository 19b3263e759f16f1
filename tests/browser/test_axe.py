"""Deque's axe on every kind of page: nothing serious or critical, in both themes, with every lid open."""

import importlib.util
import os
from importlib.resources import files

import pytest

pytestmark = pytest.mark.browser
PATIENCE = 300  # seconds, of a script that asks some hundred rules of some thousand elements

PAGES = (
    "index.html",
    "whole/index.html",
    "whole/layers.html",
    "whole/layers.html?figure=anisotropy.top_variance_share",
    "whole/claims.html",
    "whole/method.html",
    "exhibited/weights.html",
    pytest.param("exhibited/texts.html", marks=pytest.mark.nightly),  # of the template of the one before
    "explored/tokens.html",
)
# What is of one template is asked of one: a figure of each kind of chart in each kind of section and two panels of each
# figure, the first rows of a table, the first marks of a drawing. Of the tens of thousands of elements of a study's
# whole page axe does not tell within minutes.
FEWER = """
const kinds = new Set();
for (const figure of document.querySelectorAll(".figure:has(.panel)")) {
  const kind = `${figure.querySelector(".plot").className} ${figure.closest("details.more, section").className}`;
  if (kinds.has(kind)) figure.remove();
  else for (const panel of [...figure.querySelectorAll(".panel")].slice(2)) panel.remove();
  kinds.add(kind);
}
"""
FIRST = """
const cut = (within, most) => {
  for (const own of document.querySelectorAll(within)) for (const one of [...own.children].slice(most)) one.remove();
};
cut("tbody", 5);
cut("svg.marks g[class*=mark-]", 6);
cut("pre code", 0);
"""
LIDS = "for (const lid of document.querySelectorAll('main details, header details')) lid.open = true"
# What axe finds besides on how headings, landmarks and tables are ordered is asked for, too, whatever its weight.
AXE = """
const done = arguments[1];
const ALSO = ["heading-order", "empty-table-header", "landmark-unique", "region"];
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
def axe():
    """The script of axe-core."""
    if importlib.util.find_spec("axe_playwright_python") is None:
        give_up = pytest.fail if os.environ.get("REPORTER_REQUIRE_BROWSER") == "1" else pytest.skip
        give_up("needs axe-playwright-python, of requirements-dev.txt")
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing_serious(tab, reports, axe, page):
    file, _, query = page.partition("?")
    tab.open(reports / file, height=1800, query=query and f"?{query}")
    if "tokens" in page:
        tab.until("return document.querySelector('.near tbody td')")
    tab.run(FEWER)
    tab.run(LIDS)
    tab.browser.set_script_timeout(PATIENCE)
    for theme, rules in (("light", None), ("dark", ["color-contrast", "link-in-text-block"])):
        # what is no question of colour has been asked in the light
        tab.prefer(dark=theme == "dark")
        tab.scroll(1600)
        tab.run(FIRST)
        tab.run(axe)
        found = tab.browser.execute_async_script(AXE, {"runOnly": rules} if rules else {})
        assert found == [], theme
    assert tab.texts(".broken") == []
