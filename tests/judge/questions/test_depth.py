"""How deep a model works: one sentence of the numbers of whole models, under the first token set that has them."""

from reporter.judge.questions.depth import DEPTH
from reporter.judge.questions.question import answered


def number(name, value, low=None, high=None, view="words", model="dec"):
    where = {"model": model, "checkpoint": "final", "corpus": "wiki", "view": view, "blocks": 30, "n": 400}
    return where | {"number": name, "value": value, "ci_low": low, "ci_high": high}


def test_a_sentence_names_depth_and_layer_with_intervals():
    rows = [number("lens.exit", 0.83, 0.81, 0.85), number("lens.depth", 24, 24, 25)]
    rows += [number("contributions.turn", 28, 28, 28), number("lens.exit", 0.5, 0.4, 0.6, view="all")]
    rows += [number("contributions.turn", 3, 2, 4, model="no head")]
    answer = answered(DEPTH, "s", lambda sql: rows)
    assert [row["view"] for row in answer.tables["depth_answers"]] == ["words"] * 3
    (box,) = answer.boxes
    assert box.about == "dec on wiki"
    assert box.says.count(".") == 1 and "83 [81, 85] % of the depth" in box.says and "24 [24, 25] of 30" in box.says
    assert [cells[1] for cells in box.rows] == ["83 [81, 85] %", "24 [24, 25]", "28"]


def test_what_is_not_known_is_left_out():
    (box,) = answered(DEPTH, "s", lambda sql: [number("lens.exit", 0.0)]).boxes
    assert "after 0 % of the depth" in box.says and "layer" not in box.says
    assert [cells[1] for cells in box.rows] == ["0 %"]
