"""Rows for every pair of layers: within a model, between models, and where there is nothing to compare."""

from functools import partial

import numpy as np
import pytest
from metrics.reading import computed, numbers
from oracles import pairs
from oracles.fake_model import FakeModel, FakeTexts, made_up_texts

from reporter.metrics.base import catalogue
from reporter.metrics.layer_pairs import ModelPair

METRIC = catalogue()["layer_pairs"]


@pytest.fixture
def see(see):
    return partial(see, names=("moments", "pooled"))


def keyed(rows):
    """Return {(statistic, layer_a, layer_b): row}, each checked."""
    return {(statistic, a, b): row for (statistic, _, a, b), row in numbers(rows).items()}


def within(seen, **options):
    return keyed(computed(METRIC, seen, **options))


def between(a, b, **options):
    """Return rows for pairs of layers of two models, and the numbers of both models by similarity."""
    found = list(METRIC.between.compare(a, b, METRIC.options(**options)))
    return keyed(found), {row.statistic: row for row in found if isinstance(row, ModelPair)}


def pooled(seen):
    return seen.observables["pooled"].texts(seen.strata, 1024)


@pytest.mark.parametrize("texts", [0, 1, 19, 20])
def test_twenty_texts_are_enough_and_fewer_too_few(see, texts):
    seen = see(FakeModel(), FakeTexts(list(dict.fromkeys(made_up_texts(2 * texts)))[:texts]))
    for found in (within(seen), between(seen, seen)[0]):
        reasons = {(row.reason, row.n) for row in found.values()}
        assert len(found) >= 2 * 16 and reasons == {("fewer than 20 texts" if texts < 20 else "", texts)}
    found = within(seen, k=20)
    if texts == 20:
        assert found["knn", 0, 1].reason == "at most 20 texts" and found["cka", 0, 1].value is not None


def test_calibrated_similarity_as_its_authors_define_it(see):
    """Their algorithm 2 on the vectors themselves: the rows of one model are permuted, and all is measured again."""
    texts = made_up_texts(60, shortest=3)
    a = see(FakeModel(layers=2), texts, "no-sinks")
    b = see(FakeModel(role="decoder", layers=3, width=24, special=False, seed=1), texts, "no-sinks")
    mine, theirs = pooled(a).shared(pooled(b))
    xs, ys = ([side.vectors(place).numpy() for place in seen.path] for side, seen in ((mine, a), (theirs, b)))
    draws = np.random.default_rng([a.seed, len(mine), 1])
    orders = [np.arange(len(mine)), *(draws.permutation(len(mine)) for _ in range(39))]
    found, pair = between(a, b, k=4, permutations=39)
    for name, measure in (("cka", pairs.cka), ("knn", partial(pairs.knn, k=4))):
        # the fewer layers are permuted, here those of the first model
        every = np.array([[[measure(x[order], y) for y in ys] for x in xs] for order in orders])
        most = every.max(axis=(1, 2))
        threshold = np.sort(most)[37]  # ⌈0.95 · 40⌉ = 38
        row = pair[name]
        assert row.value == pytest.approx(most[0], abs=1e-4) and row.threshold == pytest.approx(threshold, abs=1e-4)
        assert row.calibrated == pytest.approx(max(0, (most[0] - threshold) / (1 - threshold)), abs=1e-4)
        assert row.p == (1 + (most[1:] >= most[0]).sum()) / 40 and (row.pairs, row.permutations) == (12, 39)
        assert (row.layer_a, row.layer_b) == np.unravel_index(every[0].argmax(), every[0].shape)
        for i, j in np.ndindex(3, 4):
            own, row = np.sort(every[:, i, j])[37], found[name, i, j]
            assert row.value == pytest.approx(every[0, i, j], abs=1e-4) and row.n == len(mine)
            expected = max(0, (every[0, i, j] - own) / (1 - own))
            assert found[f"{name}_calibrated", i, j].value == pytest.approx(expected, abs=1e-4)


def test_pairs_are_symmetric_and_a_model_and_itself_are_the_same_beyond_chance(see):
    seen = see(FakeModel(), made_up_texts(90, words=37))
    found = within(seen, k=5)
    assert found == within(seen, k=5)
    for (name, a, b), row in found.items():
        assert (row.value, row.ci_low) == (found[name, b, a].value, found[name, b, a].ci_low)
        assert name != "cka_floor" or abs(row.value) < 0.25
        assert name != "knn_floor" or row.value == pytest.approx(5 / (len(pooled(seen)) - 1))
        assert a != b or name.endswith("floor") or row.value == pytest.approx(1)
    for row in between(seen, seen, permutations=99)[1].values():
        assert row.calibrated == pytest.approx(1, abs=1e-6) and row.p == 0.01
