"""Differences of probes: paired over texts, against a bootstrap of pairs and against differences that are known."""

import numpy as np
import pytest

from reporter.judge.questions.probes import PROBED, difference
from reporter.judge.questions.question import answered


def reading(told, **more):
    """Return what reads a study in which ``tuned`` is from ``base``; told[model] is 1 for each text told, by layer."""
    models = [
        {"model": name, "checkpoint": "final", "base": "base" if name == "tuned" else None, "last": True}
        for name in told
    ]
    probe = {"checkpoint": "final", "probe": "class", "statistic": "linear", "folds": 5}
    rows = [
        probe | more | {"model": name, "layer": layer, "texts": list(range(len(right))), "told": list(right)}
        for name, layers in told.items()
        for layer, right in enumerate(layers)
    ]
    return lambda sql: models if "FROM models" in sql else rows


def test_the_interval_is_that_of_a_bootstrap_of_pairs_widened_for_shared_training_texts():
    rng = np.random.default_rng(0)
    a = (rng.random(400) < 0.8).astype(float)
    b = np.where(rng.random(400) < 0.9, a, 1 - a)  # mostly the same texts: pairing matters
    value, low, high = difference(a, b, folds=5)
    draws = rng.integers(0, 400, (4000, 400))
    spread = (a - b)[draws].mean(axis=1).std()
    assert value == pytest.approx(a.mean() - b.mean())
    assert (high - low) / 2 == pytest.approx(1.966 * spread * np.sqrt(1 + 5 / 4), rel=0.05)
    alone = np.hypot(a.std(), b.std()) / 20
    assert spread < 0.7 * alone, "as if independent it would be wider"
    assert difference(a[:4], b[:4], 5)[1:] == (None, None)


def test_a_known_difference_is_found_at_its_layer_alone():
    rng = np.random.default_rng(2)
    base = (rng.random((3, 500)) < [[0.6], [0.75], [0.76]]).astype(float)
    tuned = base.copy()
    tuned[2] = rng.random(500) < 0.95
    answer = answered(PROBED, "s", reading({"base": base, "tuned": tuned}))
    rows = answer.tables["probe_differences"]
    of_base = [row for row in rows if row["kind"] == "base"]
    assert [(row["layer"], row["apart"]) for row in of_base] == [(0, False), (1, False), (2, True)]
    assert of_base[0]["value"] == of_base[0]["ci_low"] == 0 and of_base[2]["other"] == "base"
    assert of_base[2]["ci_low"] < tuned[2].mean() - base[2].mean() < of_base[2]["ci_high"]
    layers = {(row["model"], row["layer"], row["layer_b"]): row["apart"] for row in rows if row["kind"] == "layers"}
    assert layers["base", 0, 1] and layers["base", 0, 2] and not layers["base", 1, 2] and layers["tuned", 1, 2]
    halves = reading({"base": base, "tuned": tuned}, clusters=[0] * 250 + [1] * 250)
    assert not any(row["apart"] for row in answered(PROBED, "s", halves).tables["probe_differences"])
    first, second = answer.boxes
    assert "`class` is more accurate at layer 2 than on base" in first.says
    assert [row[-2:] for row in second.rows] == [("2 of 3", "0–1"), ("3 of 3", "0–1, 1–2")]


def test_every_kind_of_probe_and_checkpoint_is_compared_on_its_own():
    read = reading({"base": [np.ones(10)], "tuned": [np.ones(10)]})
    earlier = {"model": "tuned", "checkpoint": "step-1", "base": "base", "last": False}

    def of_more(sql):
        if "FROM models" in sql:
            return [earlier, *read(sql)]
        rows = read(sql)
        before = {"checkpoint": "step-1", "told": [1.0] * 4 + [0.0] * 6}
        return [*rows, *(row | {"statistic": "hidden"} for row in rows), rows[1] | before]

    answer = answered(PROBED, "s", of_more)
    rows = [row for row in answer.tables["probe_differences"] if row["kind"] == "base"]
    values = {(row["checkpoint"], row["last"], row["statistic"]): row["value"] for row in rows}
    assert values == {("final", True, "linear"): 0, ("final", True, "hidden"): 0, ("step-1", False, "linear"): -0.6}
    says = [box.says for box in answer.boxes if "than on base at any layer" in box.says]
    assert len(says) == 2 and "linear probe `class`" in says[0] and "one-hidden-layer" in says[1]


def test_texts_that_only_one_side_has_do_not_count():
    told = {"base": [np.ones(10), np.zeros(8)], "tuned": [np.ones(10), np.ones(10)]}
    rows = answered(PROBED, "s", reading(told)).tables["probe_differences"]
    assert {(row["layer"], row["n"], row["value"]) for row in rows if row["kind"] == "base"} == {(0, 10, 0), (1, 8, 1)}
