"""Motion by itself: ends of intervals, floors, and where there is no number; test_contract.py has the numbers."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import bootstrap
from oracles.again import read_again
from oracles.fake_model import FakeModel, made_up_texts

from reporter.app.verify.by_token import cosines
from reporter.geometry import noise
from reporter.metrics.base import catalogue

MOTION = catalogue()["motion"]
READ = ("moments", *MOTION.needs)


def test_ends_of_intervals_and_floors(observe, values):
    model, texts = FakeModel(role="decoder"), made_up_texts(40)
    observables, counts = observe(model, texts, names=READ)
    found = values(model, observables, counts.distinct_texts, "no-sinks", ["motion"], seed=3)
    n, width, last = found["motion.norm", 0].n, model.width, model.layers
    for layer in range(last):
        cosine, influence = (found[f"motion.{name}", layer] for name in ("step_cosine", "block_influence"))
        assert (influence.ci_low, influence.ci_high) == (1 - cosine.ci_high, 1 - cosine.ci_low)
    line_shape, straightness = noise.path_shape(last, width, 3)
    floors = {("line_shape", None): line_shape, ("straightness", None): straightness}
    for layer in range(last):
        floors["step_cosine", layer] = noise.pair_cosine(n, width, 3)
        floors["block_influence", layer] = 1 - noise.pair_cosine(n, width, 3)
    for layer in range(last - 1):
        floors["curvature", layer] = noise.step_angle(n, width, 3)
    assert {name: (value.value, value.n) for name, value in found.items() if name[0].endswith("_floor")} == {
        (f"motion.{statistic}_floor", layer): (floor, n) for (statistic, layer), floor in floors.items()
    }


def test_bootstrap_intervals_are_those_of_the_textbook(observe, values):
    model, texts = FakeModel(), made_up_texts(90)
    observables, counts = observe(model, texts, names=READ)
    found = values(model, observables, counts.distinct_texts, "words", ["motion"])
    reading = read_again(model, texts)
    words = reading.masks["words"]
    first = np.array([reading.originals[text] for text in reading.text[words].tolist()])
    _, text = np.unique(first, return_inverse=True)  # copies are drawn together
    x, y = (reading.at(reading.path[layer])[words] for layer in (2, 3))
    for name, layer, quantity in (("norm", 3, np.linalg.norm(y, axis=1)), ("step_cosine", 2, cosines(x, y))):
        low, high = bootstrap.interval(np.bincount(text, quantity), np.bincount(text))
        value = found[f"motion.{name}", layer]
        assert value.ci_high - value.ci_low == pytest.approx(high - low, rel=0.15)
        assert value.ci_low < value.value < value.ci_high


@pytest.mark.parametrize(("layers", "reason"), [(1, "a line needs two blocks"), (2, "")])
def test_growth_needs_two_blocks(observe, values, layers, reason):
    model, texts = FakeModel(layers=layers), made_up_texts(20)
    observables, counts = observe(model, texts, names=READ)
    found = values(model, observables, counts.distinct_texts, "words", ["motion"])
    assert found["motion.growth", None].reason == reason
    assert found["motion.growth", None].n == found["motion.norm", 1].n > 0
    assert {layer for name, layer in found if name == "motion.curvature"} == set(range(layers - 1))
    short, _ = observe(FakeModel(layers=layers, change=lambda states: [x / 1024 for x in states]), texts, names=READ)
    scaled = values(model, short, counts.distinct_texts, "words", ["motion"])["motion.growth", None]
    assert scaled.value == (pytest.approx(found["motion.growth", None].value, rel=1e-6) if layers > 1 else None)


def test_what_is_zero_or_empty_says_so(observe, values):
    texts = made_up_texts(20)
    model = FakeModel(layers=2, change=lambda states: [states[0], 0 * states[1], states[2]])
    observables, counts = observe(model, texts, names=READ)
    found = values(model, observables, counts.distinct_texts, "words", ["motion"])
    whole = found["motion.norm", 0].n
    zeros = found["motion.growth", None]
    assert (zeros.value, zeros.n, zeros.reason) == (None, whole, "all states of a block are zero")
    for statistic in ("step_cosine", "block_influence"):
        value = found[f"motion.{statistic}", 0]
        assert (value.value, value.n) == (None, 0) and "zero state" in value.reason
        assert (f"motion.{statistic}_floor", 0) not in found
    nothing, _ = observe(FakeModel(special=False), made_up_texts(0), names=READ)
    empty = values(model, nothing, 0, "words", ["motion"])
    assert (empty["motion.growth", None].n, empty["motion.growth", None].reason) == (0, "no token")


def test_a_base_is_compared_where_both_have_the_layer(observe):
    from reporter.forward.observed import Observed

    texts = made_up_texts(20)
    sides = []
    for layers in (2, 4):
        observables, counts = observe(FakeModel(layers=layers), texts, names=READ)
        sides.append(Observed(observables, observables["moments"].layout, counts.distinct_texts, "words", 0))
    found = {}
    for one in MOTION.between.compare(*sides, MOTION.options()):
        found.setdefault(one.statistic, []).append(one.place.layer)
    steps = {name: [0, 1] for name in ("step_length", "step_cosine", "update_ratio")}
    assert found == {**steps, "norm": [0, 1, 2], "curvature": [0]}
