"""Motion by itself: ends of intervals, floors, and where there is no number; test_contract.py has the numbers."""

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
