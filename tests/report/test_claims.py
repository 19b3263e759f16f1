"""Claims on the page of a study and in the list of studies, and the evidence under them."""

import re
from math import inf

import pytest
from report.made_up import HOSTILE, MODELS, SMALL, fill
from report.reading import part_of, read, rows_of, text_of

from reporter.report.claims import MOST, WIDTH, evidence_of, interval_plot

NOTHING = dict.fromkeys(("value", "ci_low", "ci_high", "holds_low", "holds_high", "holds_outside", "paper"))


def claim(html, name):
    return re.search(rf'<li class="claim [a-z]+" id="claim-{name}">(.*?)</details>\s*</li>', html, re.DOTALL)[0]


def test_claims_are_counted_on_their_page_and_named_on_the_first(reports, whole, torn):
    tally = "5 claims: ✓ 2 supported ✗ 1 refuted ? 1 inconclusive ! 1 failed"
    section = text_of(part_of(whole, '<section id="claims"', '<section id="findings"'))
    strip = part_of(read(reports / "whole" / "index.html"), 'id="verdicts"', "</section>")
    assert strip.count("<li>") == 5 and 'href="claims.html#claim-bert-rate"' in strip
    assert tally in section and "Holm-corrected verdicts for 4 claims" in section
    assert text_of(read(reports / "index.html")).count(tally) == 1
    assert "claim" not in torn and not (reports / "made-up" / "data" / "claims.csv").exists()
    assert len(rows_of(read(reports / "whole" / "data" / "claims.csv"))) == 10


def test_our_number_stands_beside_the_papers(whole):
    rate = text_of(claim(whole, "bert-rate"))
    assert "✓ supported BERT converges to its final layer at 0.0826 a layer. all tokens Lee 2024, §6.4" in rate
    assert "0.0811 [0.0779, 0.0842] paper 0.0826 convergence.rate of bert on nested; claimed: 0.0826 ± 0.01" in rate
    assert "p of the verdict, corrected 0.0032" in rate and "Model by model: 1 supported, 1 inconclusive" in rate
    label = 'aria-label="ours 0.0811; interval 0.0779 to 0.0842; paper 0.0826; holds if 0.0826 ± 0.01"'
    assert label in claim(whole, "bert-rate")
    assert whole.count("Model by model:") == 1 and re.search(r"gpt2 .*> −0\.075", rate)
    assert "Without the correction for the number of claims: supported" in text_of(claim(whole, "frequent-first"))


def test_evidence_is_laid_out_in_an_order_for_reading(whole):
    bulge, lower = text_of(claim(whole, "decoders-bulge")), text_of(claim(whole, "encoders-lower"))
    row = "model corpus value interval verdict gpt2 nested 0.1 0.08 to 0.16 ✓ supported"
    assert f"By model and corpus, not corrected {row}" in bulge
    assert "By inequality name value interval p fails p holds middle above first 0.3 0.2 to 0.4 0.999 0.001" in bulge
    assert "SELECT model, layer, value FROM layer_metrics WHERE statistic = 'top_variance_share'" in bulge
    assert "decoders 0.21 (n = 2), encoders 0.214 (n = 2); Hedges' g −0.4" in lower
    assert lower.count(HOSTILE) == 4, "in what it says, source, statistic and notes"


def test_flips_are_told_with_the_claim_and_in_the_grid(whole):
    bulge, lower = (text_of(claim(whole, name)) for name in ("decoders-bulge", "encoders-lower"))
    assert "✗ refuted without sinks" in bulge
    assert "It also holds for the null baseline random-init" in bulge
    assert "without sinks" not in lower and "null baseline" not in lower, "one that differs is as it should"
    tested = "2 claims were also tested on other token sets or null baselines: 1 verdict depends on the token set"
    assert tested in text_of(whole) and "1 claim also holds for a null baseline" in text_of(whole)
    (table,) = re.findall(r'<table class="flips">.*?</table>', whole, re.DOTALL)
    assert [text_of(row) for row in table.split("<tr>")[1:]] == [
        "Claim all tokens with added tokens without sinks all tokens random-init",
        "decoders-bulge ✓ supported 0.231 ✓ supported 0.252 ✗ refuted −0.064 ✓ supported 0.2",
        "encoders-lower ✗ refuted −0.004 – ✗ refuted −0.01 ? inconclusive 0.04",
    ]
    assert table.count('class="flipped"') == 2


BANDS = {(0.25, 0.75, False): [(0.25, 0.75)], (0.5, None, False): [(0.5, inf)], (None, None, None): []}
BANDS |= {(-0.05, 0.05, True): [(-inf, -0.05), (0.05, inf)]}


@pytest.mark.parametrize("holds", BANDS)
def test_bounds_are_drawn_to_scale(holds):
    plot = interval_plot(dict(zip(NOTHING, (0.4, 0.2, 0.6, *holds, 1.0), strict=True)), "in words")
    value, paper, interval = plot["value"], plot["paper"], plot["interval"]
    unit = (paper - value) / 0.6
    assert interval[1] - value == pytest.approx(0.2 * unit, abs=0.2)
    ends = [min(max(value + (end - 0.4) * unit, 0), WIDTH) for pair in BANDS[holds] for end in pair]
    assert [end for band in plot["bands"] for end in band] == pytest.approx(ends, abs=0.3)
    assert all(0 < place < WIDTH for place in (value, paper, *interval, *(tick["x"] for tick in plot["ticks"])))


def test_evidence_of_any_kind_is_written_for_readers():
    assert interval_plot(NOTHING | {"value": 3.0, "holds_low": 3.0}, "> 3") is None, "a number alone is not drawn"
    evidence = {"evidence": "none", "parts": [{"name": i} for i in range(MOST + 5)], "notes": "one", "nothing": None}
    says = "without sinks: -0.0384 becomes -.06, p < 1e-12"
    evidence |= {"made_up": [1, True, {"a_b": None}], "reason": "-2 in 2024-26"}
    found = evidence_of(evidence | {"views": [{"says": says, "turned": False}]})
    assert found["facts"] == [("made up", "1, yes, a b: –"), ("evidence", "none")]
    assert (found["notes"], found["reason"], found["tables"][0]["more"]) == (["one"], "−2 in 2024-26", 5)
    assert found["views"] == ["without sinks: −0.0384 becomes −.06, p < 1e-12"]
    effect = {"a": "decoders", "b": "encoders", "mean_a": 0.822, "mean_b": -0.07, "n_a": 1, "n_b": 2, "g": None}
    found = evidence_of({"effect": effect, "parts": [{"name": "first", "value": 0.6, "p_holds": 0.0, "p_fails": 0.2}]})
    assert found["facts"] == [("effect", "decoders 0.822 (n = 1), encoders −0.07 (n = 2)")]
    assert [table["rows"] for table in found["tables"]] == [[("first", "0.6", "< 1e-12", "0.2")]]


def test_no_column_of_the_evidence_mixes_two_statistics():
    def rows(*statistics):
        return [{"model": str(i), "statistic": name, "value": float(i)} for i, name in enumerate(statistics)]

    names = ("middle minus first", "middle minus last")
    first, second = evidence_of({"evidence": rows(*names, *names)})["tables"]
    assert first["label"].endswith(": middle minus first") and [row[0] for row in first["rows"]] == ["0", "2"]
    assert second["label"].endswith(": middle minus last") and [row[0] for row in second["rows"]] == ["1", "3"]


def test_a_claim_names_what_it_is_about_and_leads_to_its_figures(written, tmp_path):
    titles = {"motion.step_cosine": "cosine of consecutive states", "motion.step_length": "length of a step"}
    single = {"metrics": ["motion.step_cosine"], "models": ["bert", "gpt2"], "corpora": ["nested"], "tested": 1}
    both = {"metrics": list(titles), "statistic": f"correlation of {' and '.join(titles)} over layers"}
    row = NOTHING | {"reading": 1, "says": "It is so.", "verdict": "supported", "value": 0.4, "kind": "value"}
    rows = [row | {"claim": "one", "number": 1, "view": "all", "detail": single, "ci_low": 0.3, "ci_high": 0.5}]
    rows += [row | {"claim": "two", "number": 2, "detail": both}]
    fill(tmp_path / "results.duckdb", **SMALL | {"models": MODELS[:3]}).replace("claims", "made-up", rows)
    html = written()
    one, two = claim(html, "one"), claim(html, "two")
    about = "It is so. motion.step_cosine bert, gpt2 nested with added tokens See the figure not registered"
    assert f"{about} 0.4 [0.3, 0.5]" in text_of(one) and "no interval" not in text_of(one)
    assert 'href="layers.html?figure=motion.step_cosine&amp;view=all"' in one
    assert re.findall(r'<a href="layers.html\?figure=([^"&]+)">See “([^”]+)”</a>', two) == list(titles.items())
    assert "✓ supported no interval" in text_of(two)
