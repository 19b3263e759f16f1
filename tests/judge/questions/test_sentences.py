"""Rows behind answers of one sentence: how deep a model works, how alike two models are, and which tokens are sinks."""

from itertools import combinations

import numpy as np

from reporter.judge.questions.alike import ALIKE
from reporter.judge.questions.depth import DEPTH
from reporter.judge.questions.question import answered, boxes_of
from reporter.judge.questions.sinks import SINKS


def number(name, value, low=None, high=None, view="text tokens", model="dec"):
    where = {"model": model, "checkpoint": "final", "corpus": "wiki", "view": view, "blocks": 30, "n": 400}
    return where | {"number": name, "value": value, "ci_low": low, "ci_high": high}


def test_the_depth_is_that_of_the_first_view_of_models_with_a_head():
    rows = [number("lens.exit", 0.83, 0.81, 0.85), number("lens.depth", 24, 24, 25)]
    rows += [number("contributions.turn", 28, 28, 28), number("lens.exit", 0.5, 0.4, 0.6, view="with special tokens")]
    rows += [number("contributions.turn", 3, 2, 4, model="no head")]
    answer = answered(DEPTH, "s", lambda sql: rows)
    assert [row["view"] for row in answer.tables["depth_answers"]] == ["text tokens"] * 3
    assert [cells[1] for cells in answer.boxes[0].rows] == ["83 [81, 85] %", "24 [24, 25]", "28"]


PAIR = {
    "model_a": "enc",
    "model_b": "dec",
    "corpus": "wiki",
    "view": "text tokens",
    "layer_a": 2,
    "layer_b": 11,
    "n": 60,
}


def test_of_many_unrelated_models_none_is_alike_and_of_related_ones_all_are():
    """Twelve models: permuted texts alone give about one p in twenty below 0.05, and the search finds the least."""
    numbers = {"value": 0.8, "threshold": 0.35, "calibrated": 0.69, "ci_low": 0.56, "ci_high": 0.79, "pairs": 217}
    for related in (False, True):
        rng = np.random.default_rng(1)
        rows = [
            PAIR | numbers | {"model_a": a, "model_b": b, "statistic": name}
            | {"p": 1 / 201 if related else (1 + rng.integers(201)) / 201}
            for a, b in combinations("abcdefghijkl", 2) for name in ("cka", "knn")
        ]  # fmt: skip
        assert min(row["p"] for row in rows) < 0.05
        boxes = answered(ALIKE, "s", lambda sql, rows=rows: rows).boxes
        assert len(boxes) == 66 and all(("does not explain" in box.says) == related for box in boxes)
        assert "132 comparisons" in boxes[0].says


def sink(token, texts, positions=(0, 0), own=True, dimension=7):
    of = {"model": "dec", "checkpoint": "final", "corpus": "wiki", "own": own, "measured": 40, "dimension": dimension}
    where = {"position_first": positions[0], "position_last": positions[1], "layer_first": 2, "layer_last": 10 + texts}
    return of | where | {"token": token, "texts": texts, "count": 2 * texts, "norm_ratio": 3.0 + texts}


def test_what_stands_first_in_a_text_is_one_thing():
    rows = [sink("A", 3), sink("The", 20, dimension=9), sink("the", 5, (3, 90)), sink("<s>", 2, own=False)]
    searched = {"model": "dec", "corpus": "wiki", "tokens": 400, "texts": 40, "sinks": 60, "listed": True}
    answer = answered(SINKS, "s", lambda sql: [searched] if "AS listed" in sql else rows)
    columns, table = ("token", "types", "texts", "dimension", "norm_ratio"), answer.tables["sink_answers"]
    rows = [tuple(row[column] for column in columns) for row in table]
    assert rows == [(None, 2, 23, 9, 23.0), ("the", 1, 5, 7, 8.0), ("<s>", 1, 2, 7, 5.0)]
    (box,) = answer.boxes
    assert [row[0] for row in box.rows] == ["any of 2 tokens", "`the`", "`<s>`"]


def test_sinks_that_are_counted_are_never_said_not_to_be_searched():
    """Every pass over a corpus searches for sinks, whichever metrics it feeds; the metric `outliers` lists them."""
    cell = {"model": "dec", "corpus": "wiki", "tokens": 6017, "texts": 60}

    def lacks(**row):
        return answered(SINKS, "s", lambda sql: [cell | row] if "AS listed" in sql else []).lacks

    (counted,) = lacks(sinks=312, listed=False)
    assert "312 of 6,017 tokens" in counted and "metrics: [outliers]" in counted
    assert lacks(sinks=0, listed=False) == lacks(sinks=0, listed=True) == ()
    assert boxes_of(SINKS, {}) == ()
