"""Rows for every pair of layers: within a model, between models, and where there is nothing to compare."""

from functools import partial

import numpy as np
import pytest
import torch
from oracles import pairs
from oracles.fake_model import FIRST_WORD, FakeModel, FakeTexts, made_up_texts

from reporter.metrics.base import PairValue, catalogue
from reporter.metrics.layer_pairs import ModelPair

NAMES = ("cka", "cka_floor", "knn", "knn_floor")


@pytest.fixture
def see(see):
    return partial(see, names=("moments", "pooled"))


def rows(found):
    """Return {(statistic, layer_a, layer_b): row}, each key once; test_contract.py checks rows."""
    found = list(found)
    keyed = {(row.statistic, row.layer_a, row.layer_b): row for row in found}
    assert len(keyed) == len(found) and all((row.value is None) == bool(row.reason) for row in found)
    return keyed


def within(seen, **options):
    metric = catalogue()["layer_pairs"]
    return rows(metric.compute(seen, metric.options(**options)))


def between(a, b, **options):
    metric = catalogue()["layer_pairs"]
    assert metric.between.of == ("models",)
    return rows(row for row in metric.between.compare(a, b, metric.options(**options)) if isinstance(row, PairValue))


def alike(a, b, **options):
    """The numbers of two models, by the similarity that they are of."""
    metric = catalogue()["layer_pairs"]
    found = metric.between.compare(a, b, metric.options(**options))
    return {row.statistic: row for row in found if isinstance(row, ModelPair)}


def vectors(seen, size=1024):
    texts = seen.observables["pooled"].texts(seen.strata, size)
    return [texts.vectors(place).numpy() for place in seen.path], texts


def test_every_pair_within_a_model(see):
    seen = see(FakeModel(), made_up_texts(90, words=37))
    _, texts = vectors(seen)
    found = within(seen, k=5)
    assert found == within(seen, k=5), "floors are drawn with the seed"
    assert {key[0] for key in found} == set(NAMES) and len(found) == 4 * 16
    for (name, a, b), row in found.items():
        assert (row.value, row.ci_low) == (found[name, b, a].value, found[name, b, a].ci_low)
        assert name != "cka_floor" or abs(row.value) < 0.25
        assert name != "knn_floor" or row.value == pytest.approx(5 / (len(texts) - 1))
    for layer in range(4):
        same = found["cka", layer, layer]
        assert (same.value, same.ci_high) == (1, 1) and same.ci_low == pytest.approx(1, abs=1e-5)
        assert found["knn", layer, layer].value == pytest.approx(1)


def test_between_models_of_other_width_and_depth(see):
    texts = made_up_texts(100, shortest=3)
    a = see(FakeModel(layers=3), texts, "no-sinks", sample=60)
    b = see(FakeModel(role="decoder", layers=2, width=24, special=False, seed=1), texts, "no-sinks", sample=60)
    mine, theirs = vectors(a, 60)[1].shared(vectors(b, 60)[1])
    found = between(a, b)
    assert {key[1:] for key in found} == {(i, j) for i in range(4) for j in range(3)} and len(found) == 6 * 12
    for i, j in np.ndindex(4, 3):
        x, y = mine.vectors(a.path[i]).numpy(), theirs.vectors(b.path[j]).numpy()
        assert found["cka", i, j].value == pytest.approx(pairs.cka(x, y), abs=2e-5)
        assert found["cka", i, j].n == len(mine)
    turned = between(b, a)
    assert turned["cka", 2, 1].value == pytest.approx(found["cka", 1, 2].value, abs=1e-5)


def test_fewer_texts_than_there_are(see):
    seen = see(FakeModel(), made_up_texts(90))
    assert within(seen, texts=40)["cka", 0, 1].n == 40


def distinct_texts(count):
    return FakeTexts(list(dict.fromkeys(made_up_texts(2 * count)))[:count])


@pytest.mark.parametrize("texts", [0, 1, 19, 20])
def test_twenty_texts_are_enough_and_fewer_too_few(see, texts):
    seen = see(FakeModel(), distinct_texts(texts))
    for found in (within(seen), between(seen, seen)):
        reasons = {(row.reason, row.n) for row in found.values()}
        assert len(found) >= 2 * 16 and reasons == {("fewer than 20 texts" if texts < 20 else "", texts)}
    found = within(seen, k=20)
    if texts == 20:
        assert found["knn", 0, 1].reason == "at most 20 texts" and found["cka", 0, 1].value is not None


@pytest.mark.parametrize("constant", [0.0, 7.5])
def test_a_layer_where_all_texts_are_equal(see, constant):
    def change(states):
        return [torch.full_like(x, constant) if i == 1 else x for i, x in enumerate(states)]

    found = within(see(FakeModel(change=change), made_up_texts(50)))
    for name in ("cka", "knn"):
        for other in range(4):
            assert found[name, 1, other].value is None and found[name, other, 1].value is None
            assert (f"{name}_floor", 1, other) not in found
        assert found[name, 0, 2].value is not None
    assert "equal" in found["cka", 0, 1].reason


def test_one_text_apart_from_all_others(see):
    """Its distance to them says nothing of how texts are arranged."""

    class SubspaceDistance(FakeModel):
        def states(self, input_ids, attention_mask):
            apart = (input_ids[:, :1] == FIRST_WORD + 4)[..., None]
            return [x.where(apart, torch.tensor(7.5)) for x in super().states(input_ids, attention_mask)]

    texts = FakeTexts([*(f"1 {word}" for word in range(30)), "4 5"])
    found = within(see(SubspaceDistance(sinks=False, special=False), texts))
    assert {row.reason for key, row in found.items() if key[0] == "cka"} == {
        "the mean states of all texts, or of all but one, are equal"
    }


def test_calibrated_similarity_as_its_authors_define_it(see):
    """Their algorithm 2 on the vectors themselves: the rows of one model are permuted, and all is measured again."""
    texts = made_up_texts(60, shortest=3)
    a = see(FakeModel(layers=2), texts, "no-sinks")
    b = see(FakeModel(role="decoder", layers=3, width=24, special=False, seed=1), texts, "no-sinks")
    mine, theirs = vectors(a)[1].shared(vectors(b)[1])
    xs, ys = ([side.vectors(place).numpy() for place in seen.path] for side, seen in ((mine, a), (theirs, b)))
    draws = np.random.default_rng([a.seed, len(mine), 1])
    orders = [np.arange(len(mine)), *(draws.permutation(len(mine)) for _ in range(39))]
    found, pair = between(a, b, k=4, permutations=39), alike(a, b, k=4, permutations=39)
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
            own = np.sort(every[:, i, j])[37]
            expected = max(0, (every[0, i, j] - own) / (1 - own))
            assert found[f"{name}_calibrated", i, j].value == pytest.approx(expected, abs=1e-4)


def test_a_model_and_itself_are_the_same_beyond_chance(see):
    seen = see(FakeModel(), made_up_texts(60))
    for row in alike(seen, seen, permutations=99).values():
        assert row.calibrated == pytest.approx(1, abs=1e-6) and row.p == 0.01
