"""Parts of a study's page: claims and the evidence under them, findings, answers, sinks, the texts of its corpora."""

import re
from collections import Counter
from math import inf

import pandas as pd
import pytest
from report.made_up import HOSTILE, MODELS, SMALL, fill, fill_texts
from report.made_up_claims import FINDING
from report.reading import part_of, read, rows_of, text_of

from reporter.charts.layout import Scene
from reporter.charts.styles import style_models
from reporter.report.claims import MOST, WIDTH, evidence_of, interval_plot
from reporter.report.findings import picture, read_findings
from reporter.report.tables import MOST_ROWS, read_sinks

NOTHING = dict.fromkeys(("value", "ci_low", "ci_high", "holds_low", "holds_high", "holds_outside", "paper"))


def claim(html, name):
    return re.search(rf'<li class="claim [a-z]+" id="claim-{name}">(.*?)</details>\s*</li>', html, re.DOTALL)[0]


def test_claims_are_counted_on_their_page_and_named_on_the_first(reports, whole, torn):
    tally = "5 claims: ✓ 2 supported ✗ 1 refuted ? 1 inconclusive ! 1 failed"
    section = text_of(part_of(whole, '<section id="claims"', '<section id="findings"'))
    strip = part_of(read(reports / "whole" / "index.html"), 'id="verdicts"', "</section>")
    assert strip.count("<li>") == 5 and 'href="claims.html#claim-bert-rate"' in strip
    assert tally in section and "Verdicts are corrected for 4 claims" in section
    assert text_of(read(reports / "index.html")).count(tally) == 1
    assert "claim" not in torn and not (reports / "made-up" / "data" / "claims.csv").exists()
    assert len(rows_of(read(reports / "whole" / "data" / "claims.csv"))) == 10


def test_our_number_stands_beside_the_papers(whole):
    rate = text_of(claim(whole, "bert-rate"))
    assert "✓ supported BERT converges to its final layer at 0.0826 a layer. text tokens Lee 2024, §6.4" in rate
    assert "0.081 [0.078, 0.084] paper 0.0826 convergence.rate of bert on nested; claimed: 0.0826 ± 0.01" in rate
    assert "p of the verdict, corrected 0.0032" in rate and "Model by model: 1 supported, 1 inconclusive" in rate
    label = 'aria-label="ours 0.081 [0.078, 0.084]; paper 0.0826; holds if 0.0826 ± 0.01"'
    assert label in claim(whole, "bert-rate")
    assert whole.count("Model by model:") == 1 and re.search(r"gpt2 .*> −0\.075", rate)
    assert "Without the correction for the number of claims: supported" in text_of(claim(whole, "frequent-first"))


def test_evidence_is_laid_out_in_an_order_for_reading(whole):
    bulge, lower = text_of(claim(whole, "decoders-bulge")), text_of(claim(whole, "encoders-lower"))
    row = "model corpus value verdict gpt2 nested 0.10 [0.08, 0.16] ✓ supported"
    assert f"By model and corpus, not corrected {row}" in bulge
    assert "By inequality name value p fails p holds middle above first 0.30 [0.20, 0.40] 0.999 0.001" in bulge
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
        "Claim text tokens with special tokens without sinks text tokens random-init",
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
    assert [table["rows"] for table in found["tables"]] == [[("first", "0.6", "< 10⁻¹²", "0.2")]]


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
    rows = [
        row
        | {"claim": "one", "number": 1, "view": "with special tokens", "detail": single, "ci_low": 0.3, "ci_high": 0.5}
    ]
    rows += [row | {"claim": "two", "number": 2, "detail": both}]
    fill(tmp_path / "results.duckdb", **SMALL | {"models": MODELS[:3]}).replace("claims", "made-up", rows)
    html = written()
    one, two = claim(html, "one"), claim(html, "two")
    about = "It is so. motion.step_cosine bert, gpt2 nested with special tokens See the figure"
    assert f"{about} 0.40 [0.30, 0.50]" in text_of(one) and "no interval" not in text_of(one)
    assert 'href="layers.html?figure=motion.step_cosine&amp;view=with special tokens"' in one
    assert re.findall(r'<a href="layers.html\?figure=([^"&]+)">See “([^”]+)”</a>', two) == list(titles.items())
    assert "✓ supported no interval" in text_of(two)


def test_a_finding_has_its_number_its_test_and_a_link_to_its_token_set(reports):
    html = read(reports / "whole" / "claims.html")
    section = text_of(part_of(html, '<section id="findings"', "</section>"))
    parts = (FINDING["says"], "0.25 [0.20, 0.30] layer 2 minus layer 4", "the baseline is one draw")
    assert all(part in section for part in parts)
    assert "motion.step_cosine tuned nested without sinks See the figure" in section
    assert 'href="layers.html?figure=motion.step_cosine&amp;view=without sinks"' in html
    # a p stands with the test that it belongs to, not with the number
    assert "every other layer is lower: p = 1 × 10⁻⁶; corrected for 90 tests (Bonferroni) p = 9 × 10⁻⁵" in section
    assert [row["rank"] for row in rows_of(read(reports / "whole" / "data" / "findings.csv"))] == ["1", "2"]


def test_the_picture_of_a_finding_leads_to_the_figure_and_has_its_lines_to_scale(whole):
    first, second = re.findall(r'<li class="finding".*?</li>\s*(?=<li class="finding"|</ol>)', whole, re.DOTALL)
    assert first.count('href="layers.html?figure=motion.step_cosine') == 2 and "figure-motion.step_cosine" in whole
    assert 'aria-label="tuned, random weights over depth, from 0 to 0.4"' in first
    lines = re.findall(r'<polyline points="([^"]+)"( class="other")?', first)
    assert [bool(other) for _, other in lines] == [True, False]  # the finding's own line lies on top
    ys = [[float(point.split(",")[1]) for point in points.split()] for points, _ in lines]
    assert ys[1][1] < ys[1][2] < ys[1][0] == ys[0][0]  # the peak is highest, where y is smallest
    assert "figure=nowhere" not in second and "<svg" not in second


def test_a_line_has_the_number_of_the_sentence_and_what_cannot_be_seen_is_approximately_zero():
    """Not what the curve reads at the middle of what is marked."""
    curve = {"label": "minilm", "x": [0, 0.5, 1], "y": [-5.32e-5, 0.949, -5.32e-5], "own": True, "number": -5.32e-5}
    curves = [curve, curve | {"label": "gpt2", "y": [0.0, 0.6, 0.0], "number": 0.2}]
    styles = style_models({"minilm": "encoder", "gpt2": "decoder"})
    drawn = picture(FINDING | {"model": None}, {"curves": curves, "what": "a", "test": "b", "per": "step"}, styles)
    assert {line["label"]: line["said"] for line in drawn["lines"]} == {"minilm": "≈ 0", "gpt2": "0.2"}
    assert (drawn["bottom"], drawn["top"]) == ("≈ 0", "0.949")


def test_no_findings_are_said_and_those_not_looked_for_are_not(written, tmp_path):
    assert "of 12 tests" in text_of(written(looked_at=12))
    assert 'id="findings"' not in written()
    assert not (tmp_path / "made-up" / "data" / "findings.csv").exists()


def test_a_finding_names_the_only_corpus_and_all_of_several():
    row = {"kind": "roles", "view": "text tokens", "chart": "c", "detail": "{}", "model": None, "corpus": None}
    styles = style_models({"bert": "encoder", "gpt2": "decoder"})
    for corpora, said in ((["wiki"], "wiki"), (["wiki", "tweets"], "all corpora")):
        scene = Scene("s", styles, ["text tokens"], [], corpora)
        (finding,) = read_findings(lambda sql: pd.DataFrame([row]), scene, 4).all
        assert finding["about"] == ("all models", said, "text tokens")


def test_the_table_of_sinks_has_rows_of_each_model():
    counts = {"base": MOST_ROWS + 6, "tuned": MOST_ROWS + 6, "other": 2}
    rows = pd.DataFrame([{"model": model, "texts": 40 - i} for model, count in counts.items() for i in range(count)])
    sinks = read_sinks(lambda sql: rows if "FROM sinks" in sql else rows[:0], "s", [])
    shown = Counter(row["model"] for row in sinks["rows"])
    assert shown == {"base": MOST_ROWS / 2 - 1, "tuned": MOST_ROWS / 2 - 1, "other": 2}
    assert sinks["more"] == len(rows) - MOST_ROWS and len(sinks["all"]) == len(rows)


def test_answers_stand_on_the_page_with_their_rows_and_sinks_with_the_rule(reports, whole, torn):
    assert "Which tokens are sinks?" in read(reports / "whole" / "tokens.html")
    assert whole.count("The first token of a text, any of 9, is a sink in 40 of 40 texts: blocks 2–5") == 7
    waits = ("gpt2 on corpus-3", "<summary>1 more: gpt2 on corpus-4</summary>", "<h3>gpt2 on corpus-4</h3>")
    places = [whole.index(words) for words in waits]
    assert places == sorted(places) and "`&lt;script&gt;" in whole
    assert len(rows_of(read(reports / "whole" / "data" / "sink_answers.csv"))) == 10 and 'id="answer-' not in torn
    parts = ("&lt;script&gt;alert(2)", "a token that is told apart", "The sink threshold")
    assert all(part in whole[whole.index('id="sinks"') :] for part in parts)
    # encoders have a [CLS] at position 0 and decoders a word: the page says what depends on it
    assert "compare encoders with decoders without sinks" in whole


def test_texts_are_shown_folded_and_inert(whole, written, tmp_path):
    section = part_of(whole, '<section id="corpora"', "</section>")
    assert "<details><summary>4 of its texts</summary>" in section
    assert "&lt;script&gt;alert(1)&lt;/script&gt;…" in section, "the first one is longer than what is kept of it"
    assert "{{ 7 * 7 }}{% raw %}" in section and "49" not in section
    assert "<script" not in section and "<img" not in section and section.count("</ol>") == 1
    assert section.count("<bdi>") == 4, "what turns the direction of reading around stays inside"
    assert section.count("<small>drawn</small>") == 2
    fill_texts(fill(tmp_path / "results.duckdb", **SMALL), "made-up", ["one"])
    assert "of its texts" in written() and "of its texts" not in written("report: {hide: [samples]}\n")


def test_how_many_were_cut_stands_beside_the_corpus(written, tmp_path):
    models = [(name, "encoder", 2, 16, (None,)) for name in "mno"]
    store = fill(tmp_path / "results.duckdb", **SMALL | {"models": models})
    for model, cut, limit in (("m", 100, 128), ("n", 0, None), ("o", 50, None)):
        key = {"study": "made-up", "model": model, "checkpoint": "final"}
        store.put("models", tuple(key), key | {"max_tokens": limit})
        cell = key | {"corpus": "nested", "metric": "motion"}
        store.put("cells", tuple(cell), cell | {"cut_texts": cut, "inputs": '{"max_tokens": 256}'})
    (said,) = re.findall("<td>([^<]* of 500 .*?)</td>", written())
    assert text_of(said) == "m: 100 of 500 (20 %), at 128 tokens o: 50 of 500 (10 %), at 256 tokens n: none"
