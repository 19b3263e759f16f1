"""How definitions and what stands between backticks are written on a page."""

from __future__ import annotations

from reporter.report.templating import coded


def test_what_is_no_formula_keeps_its_underscores() -> None:
    assert coded("the token `a_b`, x_i <b>") == "the token <code>a_b</code>, x_i &lt;b&gt;"
    assert coded("one ` alone") == "one ` alone"
