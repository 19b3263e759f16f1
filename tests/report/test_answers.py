"""The answers on a study's page: what is said, what it rests on, and the rows behind it."""

from __future__ import annotations

import pytest

from reporter.report import render
from reporter.store import Store

HOSTILE = "`<script>alert(1)</script>|"


@pytest.fixture
def page(made_up, tmp_path):
    """The page of a study in which a decoder has six kinds of sinks on each of five corpora."""
    made_up.fill(tmp_path / "results.duckdb")
    rows = [
        {"model": "gpt2", "checkpoint": "step-600", "corpus": f"corpus-{corpus}", "number": number, "own": True}
        | {"token": None if number == 1 else HOSTILE, "types": 9 if number == 1 else 1, "texts": 40, "measured": 40}
        | {"position_first": 0, "position_last": 0, "count": 40, "layer_first": 2, "layer_last": 5, "norm_ratio": 12.5}
        | {"dimension": None if number == 1 else 7}
        for corpus in range(5)
        for number in range(1, 3)
    ]
    Store(tmp_path / "results.duckdb").replace("sink_answers", "made-up", rows)
    render(tmp_path / "results.duckdb", tmp_path, ["made-up"])
    return tmp_path / "made-up"


def test_answers_stand_on_the_page_with_their_rows(page):
    html = (page / "index.html").read_text("utf-8")
    assert '<a href="#answers">Answers</a>' in html and "Which tokens are sinks?" in html
    assert (
        html.count(
            "The first token of a text, whatever it is, is a sink in 40 of 40 texts: blocks 2–5, with a norm up to"
        )
        == 5
    )
    assert html.index("gpt2 on corpus-3") < html.index("<summary>1 more</summary>") < html.index("gpt2 on corpus-4")
    assert "<script>alert" not in html and "ˋ&lt;script&gt;" in html
    assert html.count("<article") == html.count("</article>") and html.count("<details") == html.count("</details>")
    lines = (page / "data" / "sink_answers.csv").read_text("utf-8").splitlines()
    assert len(lines) == 11 and lines[0].startswith("study,model,checkpoint,corpus,number")


def test_without_answers_there_is_no_such_part(results):
    assert 'id="answers"' not in (results / "made-up" / "index.html").read_text("utf-8")
