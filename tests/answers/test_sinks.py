"""Which tokens are sinks: what stands first is one thing, whatever words stand there."""

from __future__ import annotations

from reporter.answers import answered, boxes_of
from reporter.answers.sinks import SINKS


def sink(token: str, texts: int, positions: tuple[int, int] = (0, 0), own: bool = True, dimension: int = 7) -> dict:
    of = {"model": "dec", "checkpoint": "final", "corpus": "wiki", "own": own, "measured": 40, "dimension": dimension}
    where = {"position_first": positions[0], "position_last": positions[1], "layer_first": 2, "layer_last": 10 + texts}
    return of | where | {"token": token, "texts": texts, "count": 2 * texts, "norm_ratio": 3.0 + texts}


def test_what_stands_first_in_a_text_is_one_thing():
    rows = [sink("A", 3), sink("The", 20, dimension=9), sink("the", 5, (3, 90)), sink("<s>", 2, own=False)]
    answer = answered(SINKS, "s", lambda sql: rows)
    found = [
        (r["token"], r["types"], r["texts"], r["dimension"], r["norm_ratio"]) for r in answer.tables["sink_answers"]
    ]
    assert found == [(None, 2, 23, 9, 23.0), ("the", 1, 5, 7, 8.0), ("<s>", 1, 2, 7, 5.0)]
    (box,) = answer.boxes
    assert (
        "The first token of a text, whatever it is, is a sink in 23 of 40 texts: blocks 2–30, on dimension 9"
        in box.says
    )
    assert [row[0] for row in box.rows] == ["any of 2 tokens", "`the`", "`<s>`"]


def test_nothing_searched_is_something_missing_and_no_sink_is_not():
    asked = answered(SINKS, "s", lambda sql: [{"cells": 0}] if "count(*)" in sql else [])
    assert "metrics: [outliers]" in asked.lacks[0]
    none = answered(SINKS, "s", lambda sql: [{"cells": 2}] if "count(*)" in sql else [])
    assert not none.lacks and not none.boxes
    assert boxes_of(SINKS, none.tables) == ()
