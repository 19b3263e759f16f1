"""Which tokens are sinks: what stands first is one thing, whatever words stand there."""

from reporter.judge.questions.question import answered, boxes_of
from reporter.judge.questions.sinks import SINKS


def sink(token, texts, positions=(0, 0), own=True, dimension=7):
    of = {"model": "dec", "checkpoint": "final", "corpus": "wiki", "own": own, "measured": 40, "dimension": dimension}
    where = {"position_first": positions[0], "position_last": positions[1], "layer_first": 2, "layer_last": 10 + texts}
    return of | where | {"token": token, "texts": texts, "count": 2 * texts, "norm_ratio": 3.0 + texts}


def test_what_stands_first_in_a_text_is_one_thing():
    rows = [sink("A", 3), sink("The", 20, dimension=9), sink("the", 5, (3, 90)), sink("<s>", 2, own=False)]
    searched = {"model": "dec", "corpus": "wiki", "tokens": 400, "texts": 40, "sinks": 60, "listed": True}
    answer = answered(SINKS, "s", lambda sql: [searched] if "AS listed" in sql else rows)
    found = [
        (r["token"], r["types"], r["texts"], r["dimension"], r["norm_ratio"]) for r in answer.tables["sink_answers"]
    ]
    assert found == [(None, 2, 23, 9, 23.0), ("the", 1, 5, 7, 8.0), ("<s>", 1, 2, 7, 5.0)]
    (box,) = answer.boxes
    assert "a sink in 23 of 40 texts: blocks 2–30, on dimension 9" in box.says
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
