"""A model against its base: whatever has replicates over texts is compared with paired ones, and they are paired."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.fake_model import FakeModel, made_up_texts
from oracles.tokens import all_tokens

from reporter.forward.observed import Observed
from reporter.metrics._intervals import BOOTSTRAP
from reporter.metrics.base import Value, catalogue

TEXTS = 40
PAIRED = {name: m for name, m in catalogue().items() if m.between and "base" in m.between.of and not m.between.own}


@pytest.fixture(scope="module")
def texts():
    return made_up_texts(TEXTS, shortest=4)


@pytest.fixture(scope="module")
def kept():
    return {}


@pytest.fixture
def side(observe, texts, kept):
    """Return a function that measures a made-up model; the weights of two seeds differ, the texts do not."""

    def get(seed=0, layers=3):
        if (seed, layers) not in kept:
            observables, counts = observe(FakeModel(role="decoder", seed=seed, layers=layers), texts)
            layout = observables["moments"].layout
            kept[seed, layers] = Observed(observables, layout, counts.distinct_texts, "words", 0)
        return kept[seed, layers]

    return get


def test_every_headline_with_replicates_over_texts_is_compared():
    def by_replicates(of_metric):
        return [s for s in of_metric.statistics if s.headline and s.interval.startswith(BOOTSTRAP)]

    assert {name for name, m in catalogue().items() if by_replicates(m)} <= set(PAIRED)


@pytest.mark.parametrize("name", PAIRED)
def test_a_difference_is_that_of_the_two_numbers(name, side):
    metric, a, b = PAIRED[name], side(0), side(1)
    options = metric.options()
    mine, theirs = (
        {(v.statistic, v.place): v for v in metric.compute(one, options) if isinstance(v, Value)} for one in (a, b)
    )
    found = list(metric.between.compare(a, b, options))
    headlines = {s.name for s in metric.statistics if s.headline and s.interval.startswith(BOOTSTRAP)}
    on_path = {key for key in mine if key[0] in headlines and (key[1] is None or key[1] in a.path)}
    assert on_path <= {(one.statistic, one.place) for one in found}
    for one in found:
        here, there = mine[one.statistic, one.place], theirs[one.statistic, one.place]
        if one.value is None:
            assert here.value is None or there.value is None
            continue
        assert one.value == pytest.approx(here.value - there.value, rel=1e-9, abs=1e-12)
        assert one.ci_low is None or one.ci_low <= one.ci_high


@pytest.mark.parametrize("name", PAIRED)
def test_a_model_against_itself_is_no_difference_at_all(name, side):
    metric, a = PAIRED[name], side(0)
    found = [one for one in metric.between.compare(a, a, metric.options()) if one.value is not None]
    assert found
    assert {one.value for one in found} == {0.0}
    assert {(one.ci_low, one.ci_high) for one in found if one.ci_low is not None} == {(0.0, 0.0)}


@pytest.mark.parametrize("name", PAIRED)
def test_a_shallower_model_is_compared_where_both_have_layers(name, side):
    metric = PAIRED[name]
    found = list(metric.between.compare(side(0, layers=2), side(0), metric.options()))
    assert all(one.value is not None or one.reason for one in found)
    assert {one.place.layer for one in found if one.place is not None} <= {0, 1, 2}


OF_CLOUDS = {  # each number of weighted rows, (n, d), (n,) and of which type they are, as it is defined
    "anisotropy.top_variance_share": lambda x, w, _: (values := covered(x, w))[-1] / values.sum(),
    "anisotropy.mean_cosine": lambda x, w, _: towards(x, w).sum(),
    "spectrum.effective_rank": lambda x, w, _: np.exp(-sum(p * np.log(p) for p in covered(x, w) / covered(x, w).sum())),
    "spectrum.participation_ratio": lambda x, w, _: covered(x, w).sum() ** 2 / (covered(x, w) ** 2).sum(),
    "outliers.top3_cosine_share": lambda x, w, _: (c := towards(x, w))[three_of(x)].sum() / c.sum(),
    "variance.within_share": lambda x, w, ids: within(x, w, ids) / covered(x, w).sum(),
}


def towards(x, w):
    """What each dimension has of the squared mean of unit vectors."""
    return np.square(w @ (x / np.linalg.norm(x, axis=1)[:, None]) / w.sum())


def three_of(x):
    """The dimensions with the largest parts; which these are is taken as known, as by the interval."""
    return np.argsort(towards(x, np.ones(len(x))))[-3:]


def within(x, w, ids):
    """The weighted variance within types; all of them occur often enough to be kept."""
    which = np.eye(ids.max() + 1)[ids] * w[:, None]
    counts = which.sum(axis=0)
    means = np.divide(which.T @ x, counts[:, None], out=np.zeros((len(counts), x.shape[1])), where=counts[:, None] > 0)
    return (w @ np.square(x - means[ids]).sum(axis=1)) / w.sum()


def covered(x, w):
    """The eigenvalues of the covariance of weighted rows."""
    x = x - w @ x / w.sum()
    return np.linalg.eigvalsh((x.T * w) @ x / w.sum())


def test_intervals_are_as_wide_as_differences_move_over_the_same_texts(observe):
    """A bootstrap of whole texts, the same for both models: the one's weights are those of the other, a bit off."""
    texts = made_up_texts(60, shortest=6)
    a, b = FakeModel(role="decoder", sinks=False), FakeModel(role="decoder", sinks=False)
    noise = np.random.default_rng(1)
    b.weights = [(w + 0.05 * noise.standard_normal(w.shape) / 4).astype(np.float32) for w in b.weights]
    sides, clouds = [], []
    for model in (a, b):
        observables, counts = observe(model, texts)
        sides.append(Observed(observables, observables["moments"].layout, counts.distinct_texts, "words", 0))
        tokens = all_tokens(model.reference, texts, model.tokenizer, decoder=True, positions=True).view("words")
        clouds.append(tokens)
    drawn = np.random.default_rng(0).multinomial(len(texts), [1 / len(texts)] * len(texts), 100)
    for metric in ("anisotropy", "spectrum", "outliers", "variance"):
        of = catalogue()[metric]
        single = {(v.statistic, v.place): v for v in of.compute(sides[0], of.options()) if isinstance(v, Value)}
        for one in of.between.compare(*sides, of.options()):
            name = f"{metric}.{one.statistic}"
            if name not in OF_CLOUDS or one.place.layer != 2:
                continue
            at = one.place.layer
            moved = [
                np.subtract(*(OF_CLOUDS[name](c.states[at], w[c.texts].astype(float), c.ids) for c in clouds))
                for w in drawn
            ]
            half = (one.ci_high - one.ci_low) / 2
            assert 0.85 < half / (1.96 * np.std(moved)) < 1.6, (name, at)  # with Student's t
            alone = single[one.statistic, one.place]
            assert half < 0.1 * (alone.ci_high - alone.ci_low) / 2, (name, at)
