"""Findings on the page of a study."""

from __future__ import annotations

import csv
import html as escapes
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from reporter.charts.styles import style_models
from reporter.report import render
from reporter.report.findings import picture

HOSTILE = "<script>alert(1)</script>"
ROW: dict[str, Any] = {
    "rank": 1,
    "kind": "extremes",
    "says": f"In minilm, the mean cosine peaks at layer 2 of 4. {HOSTILE}",
    "metric": "motion",
    "statistic": "step_cosine",
    "model": "minilm",
    "corpus": "nested",
    "view": "no-sinks",
    "layer_first": 2,
    "layer_last": 3,
    "value": 0.25,
    "ci_low": 0.2,
    "ci_high": 0.3,
    "p": 1e-6,
    "p_adjusted": 9e-5,
    "looked_at": 90,
    "effect": 0.25,
    "chart": "motion.step_cosine",
    "detail": {
        "what": "layer 2 minus layer 4",
        "test": "every other layer is lower",
        "curves": [
            {"label": "minilm", "x": [0, 0.5, 1], "y": [0.1, 0.4, 0.2], "own": True},
            {"label": "random weights", "x": [0, 0.5, 1], "y": [0.1, 0.1, 0.1], "own": False},
        ],
        "mark": [0.5, 0.75],
        "notes": ["the baseline is one draw"],
        "sql": "SELECT 1",
    },
}


@pytest.fixture(scope="module")
def folder(made_up: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("found")
    small = {"corpora": ("nested",), "metrics": ("motion",), "models": made_up.MODELS[1:2]}
    for study, looked_at in (("found", 90), ("none", 12), ("unasked", None)):
        store = made_up.fill(folder / "results.duckdb", study, **small)
        store.put("studies", ["study"], {"study": study, "looked_at": looked_at})
    bare = ROW | {
        "rank": 2,
        "model": None,
        "corpus": None,
        "chart": "nowhere.else",
        "detail": {"what": "a", "test": "b"},
    }
    store.replace("findings", "found", [ROW, bare])
    render(folder / "results.duckdb", folder)
    return folder


def page(folder: Path, study: str) -> str:
    return (folder / study / "index.html").read_text("utf-8")


def text_of(html: str) -> str:
    return " ".join(escapes.unescape(re.sub(r"<[^>]*>", " ", html)).split())


def test_findings_stand_before_the_charts_with_number_and_test(folder: Path) -> None:
    html = page(folder, "found")
    assert html.index('id="findings"') < html.index('id="glance"')
    opening = text_of(html[html.index('class="opening"') : html.index('<section id="findings"')])
    assert ROW["says"] in opening and HOSTILE not in html
    assert "0.25 [0.2, 0.3] layer 2 minus layer 4" in opening
    for part in ("motion.step_cosine minilm nested view no-sinks See the figure", "the baseline is one draw"):
        assert part in opening
    # a p stands with the test that it belongs to, not with the number
    assert "every other layer is lower: p = 1 × 10⁻⁶; corrected for 90 tests (Bonferroni) p = 9 × 10⁻⁵" in opening
    said = text_of(html[html.index('<section id="findings"') : html.index('id="glance"')])
    assert "corrected for all 90 tests" in said and said.count(ROW["says"]) == 1, "the first one opens the page"


def test_the_picture_leads_to_the_figure_and_is_told_in_words(folder: Path) -> None:
    html = page(folder, "found")
    (first,) = re.findall(r'<section class="opening".*?</section>', html, re.DOTALL)
    (second,) = re.findall(r'<li class="finding".*?</li>\s*(?=<li class="finding"|</ol>)', html, re.DOTALL)
    assert 'href="#figure-motion.step_cosine"' in first and 'id="figure-motion.step_cosine"' in html
    assert 'aria-label="minilm, random weights over depth, from 0 to 0.4"' in first
    lines = re.findall(r'<polyline points="([^"]+)"( class="other")?', first)
    assert [bool(other) for _, other in lines] == [True, False]  # the finding's own line lies on top
    ys = [[float(point.split(",")[1]) for point in points.split()] for points, _ in lines]
    assert ys[1][1] < ys[1][2] < ys[1][0] == ys[0][0]  # the peak is highest, where y is smallest
    assert "figure-nowhere" not in second and "<svg" not in second


def test_what_cannot_be_seen_on_a_picture_is_approximately_zero(folder: Path) -> None:
    curves = [
        {"label": "minilm", "x": [0, 1], "y": [low, 0.949], "own": True, "number": low} for low in (-5.32e-5, -0.0532)
    ]
    details = [ROW["detail"] | {"curves": [curve], "mark": [0, 0]} for curve in curves]
    pictures = [picture(ROW, detail, style_models({"minilm": "encoder"})) for detail in details]
    assert [(one["bottom"], one["top"], one["lines"][0]["said"]) for one in pictures if one] == [
        ("≈ 0", "0.949", "≈ 0"), ("−0.0532", "0.949", "−0.0532")
    ]  # fmt: skip


def test_a_line_is_labelled_with_the_number_of_the_sentence(folder: Path) -> None:
    """Not with what the curve reads at the middle of what is marked; and two models are named on the picture."""
    curves = [
        {"label": name, "x": [0, 0.5, 1], "y": [0.0, high, 0.0], "own": True, "number": high / 3}
        for name, high in (("minilm", 0.9), ("gpt2", 0.6))
    ]
    styles = style_models({"minilm": "encoder", "gpt2": "decoder"})
    drawn = picture(ROW | {"model": None}, {"curves": curves, "what": "a", "test": "b", "per": "step"}, styles)
    assert drawn is not None
    assert {line["label"]: line["said"] for line in drawn["named"]} == {"minilm": "0.3", "gpt2": "0.2"}
    assert drawn["ends"] == ("first block", "last block")


def test_no_findings_are_said_and_those_not_looked_for_are_not(folder: Path) -> None:
    assert "None: of 12 tests" in text_of(page(folder, "none"))
    assert 'id="findings"' not in page(folder, "unasked")


def test_the_csv_has_them(folder: Path) -> None:
    with (folder / "found" / "data" / "findings.csv").open(newline="") as file:
        assert [row["rank"] for row in csv.DictReader(file)] == ["1", "2"]
    assert not (folder / "none" / "data" / "findings.csv").exists()
