"""Claims on the page of a study and in the list of studies."""

from __future__ import annotations

import csv
import io
import json
import re
from math import inf
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from reporter.report import render
from reporter.report.claims import WIDTH, interval_plot
from reporter.report.evidence import MOST, evidence_of
from reporter.store import query

HOSTILE = "<script>alert(1)</script>"
NOTHING: dict[str, Any] = dict.fromkeys(
    ("value", "ci_low", "ci_high", "holds_low", "holds_high", "holds_outside", "paper")
)


@pytest.fixture(scope="module")
def folder(made_up: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("claimed")
    small = {"corpora": ("nested",), "metrics": ("motion",), "models": made_up.MODELS[1:2]}
    store = made_up.fill(folder / "results.duckdb", "claimed", **small)
    made_up.fill_claims(store, "claimed")
    made_up.fill(folder / "results.duckdb", "unclaimed", **small)
    render(folder / "results.duckdb", folder)
    return folder


@pytest.fixture(scope="module")
def html(folder: Path) -> str:
    return (folder / "claimed" / "index.html").read_text(encoding="utf-8")


def text_of(html: str) -> str:
    text = re.sub(r"<[^>]*>", " ", html)
    for escaped, plain in (("&lt;", "<"), ("&gt;", ">"), ("&#39;", "'"), ("&amp;", "&")):
        text = text.replace(escaped, plain)
    return " ".join(text.split())


def claim(html: str, name: str) -> str:
    found = re.search(rf'<li class="claim [a-z]+" id="claim-{name}">(.*?)</details>\s*</li>', html, re.DOTALL)
    assert found
    return found[0]


def test_what_each_model_says_stands_under_a_lid_below_the_claim(html: str) -> None:
    told = text_of(claim(html, "bert-rate"))
    assert "Model by model: 1 supported, 1 inconclusive" in told
    assert "model claimed value interval verdict" in told.replace("value interval claimed", "claimed value interval")
    assert re.search(r"gpt2 .*> −0\.075", told) and html.count("Model by model:") == 1


def test_claims_come_first_and_are_counted(html: str) -> None:
    assert html.index('id="claims"') < html.index('id="glance"')
    section = text_of(html[html.index('<section id="claims"') : html.index('id="glance"')])
    told = "5 claims: ✓ 2 supported ✗ 1 refuted ? 1 inconclusive ! 1 failed"
    assert f"{told} Verdicts are corrected for the 4 claims tested together (Holm); intervals are not." in section
    assert html.index('<a href="#claims">') < html.index('<a href="#glance">')


def test_the_list_of_studies_has_the_tally(folder: Path) -> None:
    cards = (folder / "index.html").read_text(encoding="utf-8").split("<article")[1:]
    assert "5 claims: ✓ 2 supported ✗ 1 refuted ? 1 inconclusive ! 1 failed" in text_of(cards[0])
    assert "claims" not in text_of(cards[1])


def test_a_study_without_claims_has_no_trace_of_them(folder: Path) -> None:
    page = (folder / "unclaimed" / "index.html").read_text(encoding="utf-8")
    assert "claim" not in page.replace("unclaimed", "")
    assert not (folder / "unclaimed" / "data" / "claims.csv").exists()


def test_our_number_stands_beside_the_papers(html: str) -> None:
    rate = text_of(claim(html, "bert-rate"))
    for part in (
        "✓ supported BERT converges to its final layer at 0.0826 a layer. view words Lee 2024, §6.4",
        "0.0811 [0.0779, 0.0842] paper 0.0826 convergence.rate of bert on nested; claimed: 0.0826 ± 0.01",
        "p of the verdict, corrected 0.0032",
    ):
        assert part in rate
    label = 'aria-label="ours 0.0811; interval 0.0779 to 0.0842; paper 0.0826; holds if 0.0826 ± 0.01"'
    assert label in claim(html, "bert-rate")
    assert "Without the correction for the number of claims: supported" in text_of(claim(html, "frequent-first"))
    assert "svg" not in claim(html, "loss-falls"), "there is nothing to draw"


def test_evidence_is_laid_out_in_an_order_for_reading(html: str) -> None:
    bulge = text_of(claim(html, "decoders-bulge"))
    row = "model corpus value interval verdict gpt2 nested 0.1 0.08 to 0.16 ✓ supported"
    assert f"By model and corpus, not corrected {row}" in bulge
    assert "By inequality name value interval p fails p holds middle above first 0.3 0.2 to 0.4 0.999 0.001" in bulge
    assert "SELECT model, layer, value FROM layer_metrics WHERE statistic = 'top_variance_share'" in bulge
    assert "decoders 0.21 (n = 2), encoders 0.214 (n = 2); Hedges' g −0.4" in text_of(claim(html, "encoders-lower"))


def test_flips_are_told_with_the_claim_and_in_the_grid(html: str) -> None:
    bulge = text_of(claim(html, "decoders-bulge"))
    assert "✗ refuted under the view no-sinks" in bulge
    assert "It also holds for the null baseline random-init" in bulge
    lower = text_of(claim(html, "encoders-lower"))
    assert "under the view" not in lower and "null baseline" not in lower, (
        "a null baseline that differs is as it should"
    )
    told = "2 claims were also tested under other views, or on null baselines: 1 verdict depends on the view, and 1"
    assert f"{told} claim also holds for a null baseline, and so says nothing about what training does." in text_of(
        html
    )
    (table,) = re.findall(r'<table class="flips">.*?</table>', html, re.DOTALL)
    head, *rows = [text_of(row) for row in table.split("<tr>")[1:]]
    assert head == "Claim words all no-sinks words random-init"
    assert rows == [
        "decoders-bulge ✓ supported 0.231 ✓ supported 0.252 ✗ refuted −0.064 ✓ supported 0.2",
        "encoders-lower ✗ refuted −0.004 – ✗ refuted −0.01 ? inconclusive 0.04",
    ]
    assert table.count('class="flipped"') == 2


def test_the_sql_on_the_page_gives_the_rows_of_the_csv(folder: Path, html: str) -> None:
    (sql,) = re.findall(r"<pre><code>(SELECT claim, reading.*?)</code></pre>", html, re.DOTALL)
    sql = sql.replace("&#39;", "'")
    shown = list(csv.DictReader(io.StringIO(query(folder / "results.duckdb", sql, "csv"))))
    text = (folder / "claimed" / "data" / "claims.csv").read_text(encoding="utf-8")
    stored = list(csv.DictReader(io.StringIO(text)))
    assert len(stored) == 10
    assert shown == stored


def test_hostile_text_is_shown_as_text(folder: Path, html: str) -> None:
    assert HOSTILE not in html
    assert text_of(claim(html, "encoders-lower")).count(HOSTILE) == 4, "in what it says, source, statistic and notes"
    assert HOSTILE not in (folder / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("holds", "expected"),
    [
        ((0.25, 0.75, False), [(0.25, 0.75)]),
        ((0.5, None, False), [(0.5, inf)]),
        ((None, 1e-5, False), [(-inf, 1e-5)]),
        ((-0.05, 0.05, True), [(-inf, -0.05), (0.05, inf)]),
        ((None, None, None), []),
    ],
)
def test_bounds_are_drawn_to_scale(holds: tuple[Any, ...], expected: list[tuple[float, float]]) -> None:
    row = dict(zip(NOTHING, (0.4, 0.2, 0.6, *holds, 1.0), strict=True))
    plot = interval_plot(row, "in words")
    assert plot is not None
    value, paper, interval = plot["value"], plot["paper"], plot["interval"]
    unit = (paper - value) / 0.6
    assert interval[1] - value == pytest.approx(0.2 * unit, abs=0.2)
    ends = [min(max(value + (end - 0.4) * unit, 0), WIDTH) for pair in expected for end in pair]
    assert [end for band in plot["bands"] for end in band] == pytest.approx(ends, abs=0.3)
    places = [value, paper, *interval, *(tick["x"] for tick in plot["ticks"])]
    assert all(0 < place < WIDTH for place in places)


def test_a_number_that_stands_alone_is_not_drawn() -> None:
    assert interval_plot(NOTHING, "< 3") is None
    assert interval_plot(NOTHING | {"value": 0.4}, "") is None
    assert interval_plot(NOTHING | {"value": 3.0, "holds_low": 3.0}, "> 3") is None


def test_evidence_of_any_kind_is_shown() -> None:
    found = evidence_of(
        {
            "evidence": "none",
            "parts": [{"name": i} for i in range(MOST + 5)],
            "notes": "one",
            "made_up": [1, True, {"a_b": None}],
            "nothing": None,
            "reason": 7,
        }
    )
    assert found["facts"] == [("made up", "1, yes, a b: –"), ("evidence", "none")]
    assert (found["notes"], found["reason"], found["tables"][0]["more"]) == (["one"], "7", 5)


def test_no_column_of_the_evidence_mixes_two_statistics() -> None:
    def row(model: str, statistic: str, value: float) -> dict[str, Any]:
        return {"model": model, "statistic": statistic, "value": value}

    rows = [
        row("a", "middle minus first", 1.0),
        row("b", "middle minus last", 2.0),
        row("c", "middle minus first", 3.0),
    ]
    first, second = evidence_of({"evidence": [*rows, row("d", "middle minus last", 4.0)]})["tables"]
    assert first["label"].endswith(": middle minus first") and [one[0] for one in first["rows"]] == ["a", "c"]
    assert second["label"].endswith(": middle minus last") and [one[0] for one in second["rows"]] == ["b", "d"]
    (mixed,) = evidence_of({"evidence": [row(str(i), f"layer {i} minus the first", i) for i in range(5)]})["tables"]
    assert [name for name, _ in mixed["columns"]] == ["model", "statistic", "value"], "each says what its value is"


def test_a_claim_names_what_it_is_about_and_leads_to_its_figure(made_up: ModuleType, tmp_path: Path) -> None:
    store = made_up.fill(tmp_path / "results.duckdb", corpora=("nested",), metrics=("motion",))
    about = {"metrics": ["motion.step_cosine"], "models": ["bert", "gpt2"], "corpora": ["nested"], "tested": 1}
    row = NOTHING | {"study": "made-up", "claim": "one", "number": 1, "reading": 1, "says": "It is so.", "view": "all"}
    row |= {"kind": "value", "verdict": "supported", "value": 0.4, "ci_low": 0.3, "ci_high": 0.5, "p_adjusted": 0.01}
    store.replace(
        "claims", "made-up", [row | {"source": None, "baseline": None, "p": 0.01, "detail": json.dumps(about)}]
    )
    html = render(tmp_path / "results.duckdb", tmp_path)[1].read_text("utf-8")
    said = text_of(claim(html, "one"))
    assert "It is so. motion.step_cosine bert, gpt2 nested view all See the figure 0.4 [0.3, 0.5]" in said
    assert 'href="#figure-motion.step_cosine"' in claim(html, "one") and 'id="figure-motion.step_cosine"' in html


def test_a_claim_about_two_statistics_names_their_figures_by_title(made_up: ModuleType, tmp_path: Path) -> None:
    store = made_up.fill(tmp_path / "results.duckdb", corpora=("nested",), metrics=("motion",))
    names = ["motion.step_cosine", "motion.step_length"]
    about = {"metrics": names, "statistic": f"Spearman correlation of {names[0]} and {names[1]} over layers"}
    row = NOTHING | {"study": "made-up", "claim": "two", "number": 1, "reading": 1, "says": "They go together."}
    row |= {"kind": "relation", "verdict": "supported", "value": 0.4, "detail": json.dumps(about)}
    store.replace("claims", "made-up", [row])
    html = render(tmp_path / "results.duckdb", tmp_path)[1].read_text("utf-8")
    titles = ["cosine of consecutive states", "length of a step"]
    links = re.findall(r'<a href="#figure-([^"]+)">See “([^”]+)”</a>', claim(html, "two"))
    assert links == list(zip(names, titles, strict=True))
    assert f"Spearman correlation of {titles[0]} and {titles[1]} over layers" in text_of(claim(html, "two"))


def test_a_minus_stands_before_numbers_in_sentences_too() -> None:
    says = "under the view 'no-sinks': -0.0384 becomes -.06, p < 1e-12"
    found = evidence_of({"views": [{"says": says, "turned": False}], "reason": "-2 in 2024-26"})
    assert found["views"] == ["under the view 'no-sinks': −0.0384 becomes −.06, p < 1e-12"]
    assert found["reason"] == "−2 in 2024-26"


def test_two_sides_and_a_p_of_0_are_written_for_readers() -> None:
    effect = {"a": "decoders", "b": "encoders", "mean_a": 0.822, "mean_b": -0.07, "n_a": 1, "n_b": 2, "g": None}
    found = evidence_of({"effect": effect, "parts": [{"name": "first", "value": 0.6, "p_holds": 0.0, "p_fails": 0.2}]})
    assert found["facts"] == [("effect", "decoders 0.822 (n = 1), encoders −0.07 (n = 2)")]
    assert evidence_of({"effect": effect | {"g": 1.5}})["facts"][0][1].endswith("; Hedges' g 1.5")
    ((row,),) = (table["rows"] for table in found["tables"])
    assert row == ("first", "0.6", "< 1e-12", "0.2")
