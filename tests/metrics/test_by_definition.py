"""Values that a definition fixes have no interval and take no part in means; nothing else is marked as one."""

from types import SimpleNamespace

import numpy as np
import pytest
from oracles.fake_model import SMALL

import reporter
from reporter.metrics.base import Statistic, Value, catalogue, settled
from reporter.models.places import Place

TEXTS, LENGTH, WIDTH, VOCABULARY = 40, 12, 16, 30
RNG = np.random.default_rng(0)
TOKENS = RNG.zipf(1.3, TEXTS * LENGTH) % VOCABULARY
OF_TEXT = np.repeat(np.arange(TEXTS), LENGTH)
LOOKED_UP = RNG.normal(size=(VOCABULARY, WIDTH))[TOKENS]
CONSTANT = np.ones((TEXTS * LENGTH, 1)) * RNG.normal(size=WIDTH)
LATER = LOOKED_UP + np.cumsum(RNG.normal(size=(3, TEXTS * LENGTH, WIDTH)), axis=0) / 2
POSITIONS = np.tile(RNG.normal(size=(LENGTH, WIDTH)), (TEXTS, 1)) / 2


def rounded(states):
    return states * (1 + 1e-7 * np.random.default_rng(1).normal(size=states.shape))


def measured(*states, metrics="all"):
    found = reporter.measure(np.stack(states).astype(np.float32), metrics, texts=OF_TEXT, tokens=TOKENS, role="decoder")
    return found.layer_metrics.set_index(["metric", "statistic", "layer"])


UNSTABLE = {"linearity_heldout", "update_linearity_heldout", "to_last_heldout"}  # an R² without a lower bound


@pytest.mark.parametrize(
    "states",
    [
        (rounded(LOOKED_UP), LATER[0], rounded(LATER[0]), LATER[1]),  # types, and blocks that do nothing
        (0 * CONSTANT, LATER[0], rounded(CONSTANT), LATER[1]),
        (LOOKED_UP,) * 3,
    ],
    ids=["rounded", "zero and constant", "only types"],
)
def test_no_interval_speaks_of_rounding(states):
    """At a bound up to rounding an interval is no wider than rounding; nowhere does it take the whole range."""
    bounds = {f"{m.name}.{s.name}": s.bounds for m in catalogue().values() for s in m.statistics}
    names = [name for name, metric in catalogue().items() if not metric.compares_only]
    numbers = measured(*states, metrics=[{name: SMALL.get(name, {})} for name in names])
    known = numbers.dropna(subset=["value", "ci_low"])
    assert len(known) > 30
    for (metric, statistic, layer), row in known.iterrows():
        low, high = bounds.get(f"{metric}.{statistic}", (None, None))
        width = row["ci_high"] - row["ci_low"]
        assert np.isfinite(width) and width >= 0
        assert row["ci_low"] - 1e-9 <= row["value"] <= row["ci_high"] + 1e-9, (metric, statistic, layer)
        if None not in (low, high) and statistic not in UNSTABLE:
            at_bound = min(row["value"] - low, high - row["value"]) < 1e-6
            assert width < (1e-4 if at_bound else 0.9 * (high - low)), (metric, statistic, layer)


@pytest.mark.parametrize("first", [LOOKED_UP, rounded(LOOKED_UP), 1e-4 * LOOKED_UP], ids=["equal", "rounded", "small"])
@pytest.mark.usefixtures("every_interval")
def test_looked_up_states_have_no_variance_within_types(first):
    numbers = measured(first, *LATER, metrics=["variance", "contextuality"])
    for name, value in {"within": 0.0, "within_share": 0.0, "between_share": 1.0}.items():
        row = numbers.loc["variance", name, 0]
        assert row["value"] == value and np.isnan(row["ci_low"]) and row["by_definition"], name
        assert "definition" in row["reason"]
    assert numbers.loc["contextuality", "self_similarity", 0]["by_definition"]
    # What is left of the adjusted form is the mean cosine, whose error is its own.
    adjusted = numbers.loc["contextuality", "self_similarity_adjusted", 0]
    assert not adjusted["by_definition"] and 0.001 < adjusted["ci_high"] - adjusted["ci_low"] < 0.2
    assert not numbers.query("layer > 0")["by_definition"].any()


def test_added_positions_leave_layer_0_free():
    """Also where embeddings and so variances are tiny in the units of the states."""
    for scale in (1, 1e-5):
        numbers = measured(scale * (LOOKED_UP + POSITIONS), *LATER, metrics=["variance"])
        assert not numbers["by_definition"].any()
        share = numbers.loc["variance", "within_share", 0]
        assert 0 < share["ci_low"] < share["value"] < share["ci_high"] < 0.9


def test_only_a_declared_end_with_the_declared_value_is_fixed():
    similarity = Statistic("s", "s", "d", (), fixed=(("last", 1.0),), bounds=(-1, 1))
    kl = Statistic("k", "k", "d", (), fixed=(("last", 0.0),), bounds=(0, None))

    def fixed(statistic, value, layer, site="block"):
        found = settled(statistic, Value(statistic.name, Place(site, layer), value, 9, value, value), 4)
        assert bool(found.by_definition) == (found.ci_low is None) == bool(found.reason)
        return bool(found.by_definition)

    measured = Value("s", Place("block", 4), 1.0, 9, 1.0, 1.0, by_definition=False)
    assert settled(similarity, measured, 4) is measured
    assert fixed(similarity, 1 - 1e-7, 4) and not fixed(similarity, 1.0, 3) and not fixed(similarity, 0.999, 4)
    assert not fixed(similarity, 1.0, 4, "final")
    assert fixed(kl, 0.0, 4) and not fixed(kl, 1e-9, 4)  # in nats that may be all there is
    step = Statistic("v", "v", "d", (), per="step", fixed=(("last", 0.0),), bounds=(0, 1))
    assert fixed(step, 0.0, 3) and not fixed(step, 0.0, 2)


def test_a_rank_of_0_is_fixed_only_where_the_state_is_the_vector():
    metric, place = catalogue()["journey"], Place("embedding", 0)
    for cosine, fixed in ((1.0, True), (0.8, False)):  # looked up, and positions added

        def average(observable, statistic, place, cosine=cosine):
            value = cosine if statistic.startswith("cosine") else 0.0
            return SimpleNamespace(value=value, n=9, replicates=np.full(50, value))

        seen = SimpleNamespace(average=average, places=[place], texts=9, width=lambda place: 3)
        found = [settled(metric.statistic(one.statistic), one, 4) for one in metric.compute(seen, metric.options())]
        assert [(bool(one.by_definition), one.ci_low is None) for one in found] == [(fixed, fixed)] * 4
