"""Motion by itself: ends of intervals, floors, and where there is no number; test_contract.py has the numbers."""

import pytest
from oracles.fake_model import FakeModel, made_up_texts

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
