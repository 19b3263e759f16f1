"""Parts of a study's page: findings, answers, sinks, the texts of its corpora."""

import re

from report.made_up import SMALL, fill, fill_texts
from report.made_up_claims import FINDING
from report.reading import part_of, read, rows_of, text_of

from reporter.charts.styles import style_models
from reporter.report.findings import picture


def test_a_finding_has_its_number_its_test_and_a_link_to_its_token_set(reports):
    html = read(reports / "whole" / "claims.html")
    section = text_of(part_of(html, '<section id="findings"', "</section>"))
    parts = (FINDING["says"], "0.25 [0.2, 0.3] layer 2 minus layer 4", "the baseline is one draw")
    assert all(part in section for part in parts)
    assert "motion.step_cosine tuned nested without sinks See the figure" in section
    assert 'href="layers.html?figure=motion.step_cosine&amp;view=no-sinks"' in html
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


def test_answers_stand_on_the_page_with_their_rows_and_sinks_with_the_rule(reports, whole, torn):
    assert "Which tokens are sinks?" in read(reports / "whole" / "tokens.html")
    assert whole.count("The first token of a text, whatever it is, is a sink in 40 of 40 texts: blocks 2–5") == 7
    places = [whole.index(words) for words in ("gpt2 on corpus-3", "<summary>1 more</summary>", "gpt2 on corpus-4")]
    assert places == sorted(places) and "ˋ&lt;script&gt;" in whole
    assert len(rows_of(read(reports / "whole" / "data" / "sink_answers.csv"))) == 10 and 'id="answer-' not in torn
    parts = ("&lt;script&gt;alert(2)", "a token that is told apart", "The sink threshold")
    assert all(part in whole[whole.index('id="sinks"') :] for part in parts)
    # encoders have a [CLS] at position 0 and decoders a word: the page says what depends on it
    assert "compare encoders with decoders under no-sinks" in whole


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
