"""A model against its base: whatever has replicates over texts is compared with paired ones, and they are paired."""

import numpy as np
import pytest
from oracles import influence
from oracles.fake_model import FakeModel, made_up_texts
from oracles.tokens import all_tokens

from reporter.metrics._intervals import BOOTSTRAP
from reporter.metrics.base import Value, catalogue

CHECKED = ("anisotropy", "spectrum", "outliers", "variance")
PAIRED = {name: m for name, m in catalogue().items() if m.between and "base" in m.between.of and not m.between.own}


@pytest.fixture(scope="module")
def kept():
    return {}


@pytest.fixture
def side(see, kept):
    """Return a function that measures a made-up model; the weights of two seeds differ, the texts do not."""

    def get(seed=0, layers=3):
        if (seed, layers) not in kept:
            model = FakeModel(role="decoder", seed=seed, layers=layers)
            kept[seed, layers] = see(model, made_up_texts(40, shortest=4))
        return kept[seed, layers]

    return get


def by_replicates(metric):
    return {s.name for s in metric.statistics if s.main and s.interval.startswith(BOOTSTRAP)}


def test_every_main_statistic_with_replicates_over_texts_is_compared():
    assert {name for name, metric in catalogue().items() if by_replicates(metric)} <= set(PAIRED)


@pytest.mark.parametrize("name", PAIRED)
def test_a_difference_is_that_of_the_two_numbers_and_of_a_model_and_itself_nothing(name, side):
    metric, a, b = PAIRED[name], side(0), side(1)
    options = metric.options()
    mine, theirs = (
        {(v.statistic, v.place): v for v in metric.compute(one, options) if isinstance(v, Value)} for one in (a, b)
    )
    found = list(metric.between.compare(a, b, options))
    main = by_replicates(metric)
    on_path = {key for key in mine if key[0] in main and (key[1] is None or key[1] in a.path)}
    assert on_path <= {(one.statistic, one.place) for one in found}
    for one in found:
        here, there = mine[one.statistic, one.place], theirs[one.statistic, one.place]
        if one.value is None:
            assert here.value is None or there.value is None
            continue
        assert one.value == pytest.approx(here.value - there.value, rel=1e-9, abs=1e-12)
        assert one.ci_low is None or one.ci_low <= one.ci_high
    itself = [one for one in metric.between.compare(a, a, options) if one.value is not None]
    assert {one.value for one in itself} == {0.0}
    assert {(one.ci_low, one.ci_high) for one in itself if one.ci_low is not None} == {(0.0, 0.0)}


@pytest.mark.parametrize("name", PAIRED)
def test_a_shallower_model_is_compared_where_both_have_layers(name, side):
    metric, (shallow, deep) = PAIRED[name], (side(0, layers=2), side(0))
    rows, alike = (list(metric.between.compare(shallow, other, metric.options())) for other in (deep, shallow))
    assert all(row.value is not None or row.reason for row in rows)
    if name != "convergence":  # whose layers are compared with the last one, which differs
        assert {(row.statistic, row.place) for row in rows} >= {(row.statistic, row.place) for row in alike}
    assert {row.place.layer for row in rows if row.place is not None} <= {0, 1, 2}


def test_intervals_are_as_wide_as_differences_move_over_the_same_texts(see):
    """A bootstrap of whole texts, the same for both models: the one's weights are those of the other, a bit off."""
    texts = made_up_texts(60, shortest=6)
    a, b = FakeModel(role="decoder", sinks=False), FakeModel(role="decoder", sinks=False)
    noise = np.random.default_rng(1)
    b.weights = [(w + 0.05 * noise.standard_normal(w.shape) / 4).astype(np.float32) for w in b.weights]
    sides, clouds = [], []
    for model in (a, b):
        sides.append(see(model, texts, names=["moments", *(n for name in CHECKED for n in catalogue()[name].needs)]))
        tokens = all_tokens(model.reference, texts, model.tokenizer, decoder=True, positions=True)
        clouds.append(tokens.view("words"))
    drawn = [influence.drawn_again(cloud.states[2], cloud.ids, cloud.texts, 100) for cloud in clouds]
    checked = set()
    for metric in CHECKED:
        of = catalogue()[metric]
        single = {(v.statistic, v.place): v for v in of.compute(sides[0], of.options()) if isinstance(v, Value)}
        for row in of.between.compare(*sides, of.options()):
            name = f"{metric}.{row.statistic}"
            if name in set(drawn[0]) - {"spectrum.decay"} and row.place.layer == 2:
                half, alone = (row.ci_high - row.ci_low) / 2, single[row.statistic, row.place]
                deviation = np.std(drawn[0][name] - drawn[1][name])
                assert 0.85 < half / (1.96 * deviation) < 1.6, name  # with Student's t
                assert half < 0.1 * (alone.ci_high - alone.ci_low) / 2, name
                checked.add(name)
    assert len(checked) == 6
