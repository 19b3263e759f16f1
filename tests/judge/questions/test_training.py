"""When in training: a jump that was planted, noise, and what a study lacks."""

import numpy as np

from reporter.judge.questions.question import answered
from reporter.judge.questions.training import TRAINING, leading

STEPS = (0, 10, 100, 1000, 2000, 4000)


def series(metric, statistic, values, view="text tokens", sure=True):
    """Rows of a number at the checkpoints, with intervals of ± 0.05."""
    of = {"model": "m", "corpus": "wiki", "view": view, "metric": metric, "statistic": statistic, "sure": sure}
    return [of | {"step": s, "value": float(v), "half": 0.05} for s, v in zip(STEPS, values, strict=False)]


def answer(*rows, steps=6):
    return answered(
        TRAINING, "s", lambda sql: [{"steps": steps}] if "AS steps FROM (" in sql else [r for own in rows for r in own]
    )


def test_a_planted_jump_is_found_and_a_flat_number_is_not():
    jump = series("anisotropy", "mean_cosine", [0.1, 0.1, 0.1, 0.8, 0.8, 0.8])
    flat = series("motion", "step_cosine", [0.5, 0.51, 0.49, 0.5, 0.52, 0.5])
    found = answer(jump, flat)
    rows = {(row["statistic"], row["kind"]): row for row in found.tables["training_answers"]}
    assert set(rows) == {("mean_cosine", "half-way"), ("mean_cosine", "rest"), ("step_cosine", "rest")}
    half = rows["mean_cosine", "half-way"]
    assert (half["step_low"], half["step"], half["step_high"]) == (100, 1000, 1000) and half["p_adjusted"] < 1e-6
    assert rows["mean_cosine", "rest"]["step"] == 1000 and rows["step_cosine", "rest"]["step"] == 0
    (box,) = found.boxes
    assert "No other of 2 main statistics" in box.says and "by step 1,000 [100, 1,000]" in box.says
    assert len(box.rows) == 1


def test_a_peak_inside_of_training_opens_the_answer_and_a_larger_one_comes_first():
    rises = series("anisotropy", "top_variance_share", [0.1, 0.1, 0.1, 0.8, 0.8, 0.8])
    peaks = series("anisotropy", "mean_cosine", [0.3, 0.8, 0.6, 0.4, 0.3, 0.2])
    lower = series("motion", "step_cosine", [0.3, 0.6, 0.4, 0.35, 0.3, 0.3])
    found = answer(rises, lower, peaks)
    assert leading(found.tables["training_answers"]) == "anisotropy.mean_cosine"
    assert "rises from 0.30 to 0.80 at step 10 and falls to 0.20" in found.boxes[0].says
    assert leading(answer(rises).tables["training_answers"]) == "anisotropy.top_variance_share"


def test_of_noise_nothing_is_said():
    noise = np.random.default_rng(0).normal(0.5, 0.0255, (100, 2, 6))
    names = ("mean_cosine", "top_variance_share")
    answers = [answer(*(series("anisotropy", *one) for one in zip(names, of, strict=True))) for of in noise]
    assert sum(of.boxes[0].says.startswith("None of 2 main statistics changes") for of in answers) >= 93


def test_a_change_below_a_hundredth_of_a_number_without_a_declared_minimum_is_none():
    sizes = {0.05: 0, 0.5: 1}  # of 10
    for change, found in sizes.items():
        rows = series("intrinsic_dimension", "twonn", [10, 10, 10, *[10 + change] * 3])
        of = answer([row | {"half": 0.001} for row in rows])
        assert sum(row["kind"] == "half-way" for row in of.tables["training_answers"]) == found
    (row,) = of.boxes[0].rows
    assert list(row)[1:3] == ["10.0", "10.5"], "the digits show the change"


def test_the_first_view_alone_and_numbers_with_intervals_alone():
    rows = [0.1, 0.1, 0.1, 0.8, 0.8, 0.8]
    left_out = [series("motion", "step_cosine", rows, sure=False), series("anisotropy", "not_main", rows)]
    left_out += [series("anisotropy", "mean_cosine", rows[::-1], view="without sinks")]
    table = answer(series("anisotropy", "mean_cosine", rows), *left_out).tables["training_answers"]
    assert {(row["statistic"], row["view"]) for row in table} == {("mean_cosine", "text tokens")}
