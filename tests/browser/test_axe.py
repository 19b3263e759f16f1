"""Deque's axe on every kind of page: nothing serious or critical, in both themes, with every lid open."""

import importlib.util
from importlib.resources import files

import pytest
from browser.conftest import require

pytestmark = pytest.mark.browser
PATIENCE = 300  # seconds, of a script that asks some hundred rules of some thousand elements

PAGES = [(page, "") for page in ("index", "whole/index", "whole/layers", "whole/claims", "whole/method")]
PAGES += [("whole/layers", "?figure=anisotropy.top_variance_share"), ("exhibited/weights", ""), ("explored/tokens", "")]
LATER = pytest.param("exhibited/texts", "", marks=pytest.mark.nightly)  # of the template of exhibited/weights
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
for (const lid of document.querySelectorAll("main details, header details")) lid.open = true;
"""
FIRST = """
for (const [within, most] of [["tbody", 5], ["svg.marks g[class*=mark-]", 6], ["pre code", 0]])
  for (const own of document.querySelectorAll(within)) for (const one of [...own.children].slice(most)) one.remove();
"""
# What axe finds besides on how headings, landmarks and tables are ordered is asked for, too, whatever its weight.
AXE = """
const done = arguments[1];
const ALSO = ["heading-order", "empty-table-header", "landmark-unique", "region"];
const grave = rule => ["serious", "critical"].includes(rule.impact) || ALSO.includes(rule.id);
const tell = node => `${node.target.join(" ")} | ${node.html.slice(0, 160)} | ${node.failureSummary}`;
const told = ({ id, nodes }) => [id, nodes.length, ...nodes.slice(0, 3).map(tell)];
axe.run(document, Object.assign({ resultTypes: ["violations"] }, arguments[0])).then(
  ({ violations }) => done(violations.filter(grave).map(told)), error => done([String(error)]));
"""


@pytest.mark.parametrize(("page", "query"), (*PAGES, LATER))
def test_axe_finds_nothing_serious(tab, reports, page, query):
    require(importlib.util.find_spec("axe_playwright_python"), "axe-playwright-python, of requirements-dev.txt")
    tab.open(reports / f"{page}.html", height=1800, query=query)
    if "tokens" in page:
        tab.until("return document.querySelector('.near tbody td')")
    tab.run(FEWER)
    tab.browser.set_script_timeout(PATIENCE)
    for theme, rules in (("light", None), ("dark", ["color-contrast", "link-in-text-block"])):
        # what is no question of colour has been asked in the light
        tab.prefer(dark=theme == "dark")
        tab.scroll(1600)
        tab.run(FIRST)
        tab.run((files("axe_playwright_python") / "axe.min.js").read_text("utf-8"))
        found = tab.browser.execute_async_script(AXE, {"runOnly": rules} if rules else {})
        assert found == [], theme
    assert tab.texts(".broken") == []
