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
    for layer in range(model.layers):
        cosine, influence = (found[f"motion.{name}", layer] for name in ("step_cosine", "block_influence"))
        assert (influence.ci_low, influence.ci_high) == (1 - cosine.ci_high, 1 - cosine.ci_low)
    n, shape = found["motion.norm", 0].n, (model.layers, model.width, 3)
    floors = dict(zip(("line_shape", "straightness"), noise.path_shape(*shape), strict=True))
    floors |= {"step_cosine": noise.pair_cosine(n, *shape[1:]), "curvature": noise.step_angle(n, *shape[1:])}
    floors["block_influence"] = 1 - floors["step_cosine"]
    of_floors = [(name, value) for (name, _), value in found.items() if name.endswith("_floor")]
    assert len(of_floors) == 2 + 3 * model.layers - 1
    for name, value in of_floors:
        assert (value.value, value.n) == (floors[name.removeprefix("motion.").removesuffix("_floor")], n)


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


def test_growth_of_zeros_and_of_nothing_has_a_reason(observe, values):
    texts = made_up_texts(20)
    observables, counts = observe(FakeModel(layers=2, change=lambda s: [s[0], 0 * s[1], s[2]]), texts, names=READ)
    found = values(FakeModel(), observables, counts.distinct_texts, "words", ["motion"])
    growth = found["motion.growth", None]
    assert (growth.n, growth.reason) == (found["motion.norm", 0].n, "all states of a block are zero")
    nothing, _ = observe(FakeModel(special=False), made_up_texts(0), names=READ)
    empty = values(FakeModel(), nothing, 0, "words", ["motion"])
    assert (empty["motion.growth", None].n, empty["motion.growth", None].reason) == (0, "no token")
