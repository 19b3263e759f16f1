"""Sentences with formulas as LaTeX."""

from types import SimpleNamespace

import pytest

from reporter.core.numbers import estimate
from reporter.report import tex
from reporter.report.tex import typeset


@pytest.mark.parametrize(
    ("text", "tex"),
    [
        ("λ1/Σλ, λ the eigenvalues", r"$\lambda_1/\sum\lambda$, $\lambda$ the eigenvalues"),
        ("of cos(h_l, h_{l+1}) at l", r"of $\cos(h_l, h_{l+1})$ at $l$"),
        ("(1/L) Σ f(l)", r"$(1/L) \sum f(l)$"),
        ("d(V, W) = √Σθ²", r"$d(V, W) = \sqrt{\sum\theta^2}$"),
        ("−0.13 [−0.15, −0.11]", "$-0.13$ [$-0.15$, $-0.11$]"),
        ("1.2 × 10⁻⁵", r"$1.2 \times 10^{-5}$"),
        ("< 10^(−12)", "$< 10^{-12}$"),
        ("block l (h_0 enters it), j its largest |x_j|", "block $l$ ($h_0$ enters it), $j$ its largest $|x_j|$"),
        ("steps l → l+1, x_{t−1}", r"steps $l \rightarrow l+1$, $x_{t-1}$"),
        ("`top_share` of 50 %", r"\texttt{top\_\allowbreak{}share} of 50 \%"),
        ("the text's own, for all", "the text's own, for all"),
        ("中", r"\ifdefined\Umathchar 中\else\texttt{U+4E2D}\fi{}"),
    ],
)
def test_formulas_are_formulas(text, tex):
    assert typeset(text) == tex


def test_an_estimate_has_the_digits_that_its_interval_leaves():
    written = {(0.2712, 0.263, 0.279): "0.27 [0.26, 0.28]", (0.138, 0.126, 0.266): "0.14 [0.13, 0.27]"}
    written |= {(1234.5, 1200, 1270): "1,234 [1,200, 1,270]", (-0.131, -0.1344, -0.127): "−0.131 [−0.134, −0.127]"}
    written |= {(0.5, None, None): "0.5", (None, None, None): "–", (0.0, 0.0, 0.0): "0"}
    assert {numbers: estimate(*numbers) for numbers in written} == written


@pytest.mark.parametrize(("width", "parts"), [(85, [3, 2]), (170, [5])])
def test_the_first_comparison_is_of_role_means_and_tables_are_as_wide_as_asked_for(width, parts):
    cells = [{"numbers": [{"value": 0.0752, "ci_low": 0.069, "ci_high": 0.082}] * 2}] * 6
    models, roles = (
        [{"name": name, "cells": cells} for name in names]
        for names in ("abcde", ("3 encoders, mean", "2 decoders, mean"))
    )
    comparison = {"corpus": "wiki.a", "models": models, "roles": roles}
    charts = [SimpleNamespace(chart=SimpleNamespace(title=f"statistic {number}")) for number in range(6)]
    compared = SimpleNamespace(charts=charts, views=("words", "no-sinks"), tables=[comparison])
    tables = tex._compared(SimpleNamespace(compared=compared), width)
    names = ("models-wiki-a-words", "roles-wiki-a-no-sinks", "models-wiki-a-no-sinks")
    assert list(tables) == ["compared", *(f"compared-{name}" for name in names)]
    assert list(tables["compared"][0].columns) == ["Statistic", "3 encoders", "2 decoders"]
    assert [len(part.columns) - 1 for part in tables["compared-models-wiki-a-words"]] == parts
    assert r"Statistic 0 & 0.075 \mbox{[0.069, 0.082]} & 0.075" in tex.table(tables["compared"][0], width)
