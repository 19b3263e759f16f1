"""Intervals over clusters cover what they say where texts of a cluster are alike, and without the key they do not.

40 clusters of 5 to 10 texts share 0.3 of their variance. The full simulation is in README.md.
"""

from dataclasses import replace

import numpy as np
import pytest
from oracles.again import read_again
from oracles.fake_model import FakeModel, FakeTexts
from oracles.tokens import all_tokens

from reporter.app.verify import by_map
from reporter.app.verify.by_token import mean_cosine
from reporter.forward.observed import KINDS, Observed
from reporter.forward.parts import poisson_weights
from reporter.geometry.intervals import error_over_texts, interval, percentile_interval, share_interval
from reporter.judge.questions.probes import difference
from reporter.metrics import _classifiers
from reporter.metrics.base import catalogue

CLUSTERS, CORPORA = 40, 60


def measured(rng, clustered):
    """Yield the number and interval of a mean, a ratio of means, a paired difference and accuracies of a probe."""
    cluster = np.repeat(np.arange(CLUSTERS), rng.integers(5, 11, CLUSTERS))

    def alike(*shape):
        of_clusters, of_texts = (rng.standard_normal((n, *shape)) for n in (CLUSTERS, len(cluster)))
        return 0.3**0.5 * of_clusters[cluster] + 0.7**0.5 * of_texts

    y, units = (rng.permutation(CLUSTERS) % 2)[cluster], cluster if clustered else np.arange(len(cluster))
    n, count = len(cluster), len(np.unique(units))
    a, b = 5 + alike(), 9 + 2 * alike()
    yield "mean", a.mean(), interval(a.mean(), error_over_texts(a - a.mean(), units, n, count), "plain", (-9, 99))
    weights = poisson_weights(units, int(rng.integers(2**31))).T.astype(float)
    yield "ratio", a.sum() / b.sum(), percentile_interval((weights @ a) / (weights @ b), count)
    step = 0.1 + 0.5 * alike()
    yield "paired", step.mean(), percentile_interval((weights @ (a + step) - weights @ a) / weights.sum(axis=1), count)

    def nearest_mean(x, y, fold):
        means = [x[y == label].mean(axis=0) for label in (0, 1)]
        return lambda rows: np.square(rows[:, None] - means).sum(axis=2).argmin(axis=1)

    x = np.outer(2 * y - 1, [0.5, 0.4, 0.2, 0.1]) + alike(4)
    fold = _classifiers.stratified(y, 5, rng, units)
    assert len(set(zip(units, fold, strict=True))) == count, "a unit is in two folds"
    right = _classifiers.cross_validated(x, y, fold, nearest_mean).right
    yield "accuracy", right.mean(), share_interval(right, units)
    other = _classifiers.cross_validated(x + 0.6 * alike(4), y, fold, nearest_mean).right
    value, low, high = difference(right.astype(float), other.astype(float), 5, 1, units)
    yield "accuracies", value, (low, high)


def test_coverage_with_the_key_and_without():
    covered = {}
    for clustered in (True, False):
        found = {}
        for seed in range(CORPORA):
            for name, value, ends in measured(np.random.default_rng(seed), clustered):
                found.setdefault(name, []).append((value, *ends))
        for name, rows in found.items():
            values, low, high = np.array(rows).T
            covered[name, clustered] = np.mean((low <= values.mean()) & (values.mean() <= high))
    for name in ("mean", "ratio", "paired", "accuracy"):
        assert covered[name, True] > 0.9 and covered[name, False] < 0.88, (name, covered)
    assert covered["accuracies", True] > 0.93  # wider by design (Nadeau & Bengio)


# Each cluster has words of its own, so that its states are alike.
WORDS = [np.random.default_rng(i).integers(3 * (i % 12), 3 * (i % 12) + 6, 3 + i % 9) for i in range(96)]
CORPUS = FakeTexts(" ".join(map(str, words)) for words in WORDS)


def clustered(clusters):
    texts = FakeTexts(CORPUS)
    texts.clusters = clusters
    return texts


@pytest.fixture
def seen(observe):
    """Return a function that measures the texts with some clusters."""

    def run(clusters, **options):
        observables, counts = observe(FakeModel(role="decoder"), clustered(clusters), **options)
        layout = observables["moments"].layout
        return Observed(observables, layout, counts.distinct_texts, "text tokens", 0, clustered=clusters is not None)

    return run


def computed(metric, seen):
    return list(catalogue()[metric].compute(seen, catalogue()[metric].options()))


def mean(metric, seen, what):
    return np.mean([number for row in computed(metric, seen) if (number := what(row))])


def test_clusters_of_one_text_change_nothing(seen):
    plain, single = seen(None), seen(np.arange(96))
    assert plain.texts == single.texts
    for name in KINDS:
        tensors, others = (side.observables[name].tensors() for side in (plain, single))
        assert tensors.keys() == others.keys()
        assert all(np.array_equal(tensors[key].numpy(), others[key].numpy(), equal_nan=True) for key in tensors), name


def test_intervals_are_those_of_leaving_out_clusters_however_the_corpus_is_split(seen):
    clusters = np.arange(96) % 12
    whole, plain = seen(clusters), seen(None)
    parts = seen(clusters, shard_characters=150, batch_tokens=200)
    assert whole.texts == parts.texts == 12 and plain.texts == 96
    model = FakeModel(role="decoder")
    tokens = all_tokens(model.reference, CORPUS, model.tokenizer, decoder=True, positions=True).view("text tokens")
    x, of = tokens.states[1], tokens.texts % 12
    known = {("motion", "norm"): lambda x: np.linalg.norm(x, axis=1).mean(), ("anisotropy", "mean_cosine"): mean_cosine}
    for (metric, statistic), number in known.items():
        rows = []
        for side in (whole, parts, plain):
            rows += [r for r in computed(metric, side) if (r.statistic, r.place) == (statistic, side.path[1])]
        (value, again, _), halves = [row.value for row in rows], [(row.ci_high - row.ci_low) / 2 for row in rows]
        without = np.array([number(x[of != left_out]) for left_out in range(12)])
        error = ((12 - 1) / 12 * np.square(without - without.mean()).sum()) ** 0.5 * 2.201  # t with 11 df
        assert value == pytest.approx(number(x), rel=1e-5) and again == pytest.approx(value, rel=1e-6)
        assert halves[0] == pytest.approx(error, rel=0.25) and halves[1] == pytest.approx(halves[0], rel=1e-3)
        assert halves[2] < 0.75 * halves[0]
    for name in ("contextuality", "entropy", "layer_pairs"):
        wide, narrow = (mean(name, side, lambda r: r.ci_high and r.ci_high - r.ci_low) for side in (whole, plain))
        assert wide > narrow > 0, name
    free = replace(whole, clustered=False)
    p, p_of_texts = (mean("convergence", side, lambda r: "gap_p" in r.statistic and r.value) for side in (whole, free))
    assert p > p_of_texts
    found = by_map.linearity(read_again(model, clustered(clusters)), {})
    again = {
        (r.statistic, r.place.layer): r.value for r in found if r.view == "text tokens" and r.place.site != "final"
    }
    held_out = [r for r in computed("linearity", whole) if r.statistic == "linearity_heldout" and r.value is not None]
    assert held_out
    for row in held_out:
        assert row.value == pytest.approx(again[row.statistic, row.place.layer], abs=1e-6), "halves split a cluster"
    single = seen(np.zeros(96, dtype=np.int64), names=["moments", "pooled", "token_path"])
    drawn = single.average("token_path", "curvature", single.path[1]).replicates
    assert np.nanstd(drawn) < 1e-9 < np.isfinite(drawn).sum(), "one cluster is drawn as a whole, or not at all"
    pairs = computed("layer_pairs", single)
    assert {r.value is None for r in pairs if r.statistic == "cka"} == {False} and single.texts == 1
    assert all(r.ci_low is None for r in pairs)
