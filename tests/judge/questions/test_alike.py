"""How alike two models are: one sentence of the most similar layers, and whether chance explains it."""

import pytest

from reporter.judge.questions.alike import ALIKE
from reporter.judge.questions.question import answered

PAIR = {"model_a": "enc", "model_b": "dec", "corpus": "wiki", "view": "words", "layer_a": 2, "layer_b": 11, "n": 60}


@pytest.mark.parametrize(("p", "verdict"), [(0.005, "Chance does not explain"), (0.4, "Chance may explain")])
def test_the_most_similar_layers_are_named_with_interval_and_corrected_p(p, verdict):
    numbers = {"value": 0.8, "threshold": 0.35, "calibrated": 0.69, "ci_low": 0.56, "ci_high": 0.79, "pairs": 217}
    rows = [PAIR | numbers | {"statistic": name, "p": p} for name in ("cka", "knn")]
    (box,) = answered(ALIKE, "s", lambda sql: rows).boxes
    assert box.about == "enc and dec on wiki" and verdict in box.says
    assert "Layer 2 of enc and layer 11 of dec" in box.says and "0.69 [0.56, 0.79]" in box.says and "217" in box.says
    assert [cells[2] for cells in box.rows] == ["0.69 [0.56, 0.79]"] * 2
