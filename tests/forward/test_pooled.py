"""Pooled texts against a plain mean over each text's tokens, whatever the strata, the batches and the model."""

import numpy as np
import pytest
from oracles.fake_model import FakeModel, made_up_texts

from reporter.forward.batch import key_of
from reporter.forward.observable import Setting
from reporter.forward.token_sample import Pooled
from reporter.models.places import Layout, Place

TEXTS, WIDTH = 40, 6
VIEWS = [(0,), (0, 2), (0, 1, 2), (1,)]


@pytest.fixture
def corpus():
    """40 texts of 1 to 5 tokens; a third have no ordinary token, some no special one."""
    rng = np.random.default_rng(1)
    texts = np.repeat(np.arange(TEXTS), rng.integers(1, 6, TEXTS))
    strata = rng.choice(3, len(texts), p=[0.6, 0.3, 0.1])
    strata[texts % 3 == 0] = 1
    return [rng.standard_normal((len(texts), WIDTH)) + 50 for _ in range(3)], texts, strata


def pooled(corpus, make_batch, feed, size, parts=1, seed=3):
    states, texts, strata = corpus
    sample = Pooled.empty(Setting(Layout(2, WIDTH), seed, TEXTS, size))
    order = np.random.default_rng(parts).permutation(TEXTS)
    for part in np.array_split(order, parts):
        keep = np.flatnonzero(np.isin(texts, part))
        feed(sample, make_batch([x[keep] for x in states], texts[keep], strata=strata[keep]))
    return sample


@pytest.mark.parametrize(("size", "parts"), [(4, 1), (4, 7), (15, 7), (100, 7)])
def test_means_of_the_texts_with_the_smallest_keys(corpus, make_batch, feed, size, parts):
    states, texts, strata = corpus
    sample = pooled(corpus, make_batch, feed, size, parts)
    for view in VIEWS:
        drawn, inside = sample.texts(view, size), np.isin(strata, view)
        candidates = np.unique(texts[inside])
        expected = candidates[np.argsort(key_of(3, candidates))][:size]
        assert drawn.texts.tolist() == expected.tolist()
        assert drawn.counts.sum(axis=0).tolist() == [int((inside & (texts == t)).sum()) for t in expected]
        for layer, place in enumerate(Layout(2, WIDTH).path):
            means = [states[layer][inside & (texts == text)].mean(axis=0) for text in expected]
            np.testing.assert_allclose(drawn.vectors(place), means, rtol=1e-6)
        half, rows = sample.texts(view, size // 2), np.array([1, 0])  # a part of the sample
        assert half.texts.tolist() == expected[: size // 2].tolist()
        vectors = drawn.vectors(Place("block", 2))
        np.testing.assert_array_equal(drawn.take(rows).vectors(Place("block", 2)), vectors[rows])


def test_another_seed_keeps_other_texts_and_nothing_seen_is_no_text(corpus, make_batch, feed):
    chosen = [set(pooled(corpus, make_batch, feed, 8, seed=seed).texts((0, 1, 2), 8).texts) for seed in (3, 3, 4)]
    assert chosen[0] == chosen[1] != chosen[2]
    nothing = Pooled.empty(Setting(Layout(2, WIDTH), 0, TEXTS, 8)).texts((0, 2), 8)
    assert len(nothing) == 0 and nothing.vectors(Place("block", 1)).shape == (0, WIDTH)


def test_two_models_keep_the_same_texts(observe):
    """An encoder and a decoder of other width: the same texts but for those that have no token in a view."""
    texts = made_up_texts(80)
    samples = [
        observe(model, texts, sample=30, names=["moments", "pooled"])[0]["pooled"]
        for model in (FakeModel(layers=3), FakeModel(role="decoder", layers=2, width=8, special=False))
    ]
    both = [[sample.texts(view, 30).texts.tolist() for sample in samples] for view in ((0, 2), (0,))]
    assert all(mine == theirs for mine, theirs in both), "the first token is set aside in both"
    # Without it a one-word text has no token: such texts are left out and later ones move up.
    encoder, decoder = samples[0].texts((0, 2), 30), samples[1].texts((0,), 30)
    assert encoder.texts.tolist() != decoder.texts.tolist()
    a, b = encoder.shared(decoder)
    assert a.texts.tolist() == b.texts.tolist() and 20 < len(a) <= 30
    assert a.texts.tolist() == [text for text in encoder.texts.tolist() if text in set(decoder.texts.tolist())]
    assert a.vectors(Place("block", 1)).shape == (len(a), 16) and b.vectors(Place("block", 1)).shape == (len(b), 8)
