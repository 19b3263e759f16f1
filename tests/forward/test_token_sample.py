from collections import Counter

import numpy as np
import pytest
import torch

from reporter.forward.token_sample import COUNT, EMBEDDING_CONTEXT, POSITION, TEXT, TOKEN, Tokens, TokenSample
from reporter.models.places import Layout

LAYERS, WIDTH = 1, 4


class Contexts(TokenSample):
    """Tokens for which the model saw the same thing fall together and are counted: keys repeat, as in ``Pooled``."""

    name = "contexts"

    def keys(self, batch):
        return batch.contexts


class Corpus:
    """Tokens whose context decides token, position and states, so that mixed-up rows are found."""

    def __init__(self, count, contexts, seed):
        rng = np.random.default_rng(seed)
        self.scrambled = rng.choice(2**50, contexts, replace=False).astype(np.uint64)  # hashes are random
        self.context = rng.integers(0, contexts, count)
        self.text = np.sort(rng.integers(0, count // 3 + 1, count))
        self.stratum = rng.choice(3, count, p=[0.7, 0.1, 0.2])  # a context may be ordinary here and a sink there

    @property
    def key(self):
        return self.scrambled[self.context]

    def state(self, layer, key):
        return np.stack([key % 1000, key % 77, np.full(len(key), layer), key % 13], axis=1).astype(np.float32)

    def batch(self, make_batch, rows):
        states = np.stack([self.state(layer, self.key[rows]) for layer in range(LAYERS + 1)])
        return make_batch(
            states,
            self.text[rows],
            positions=self.context[rows] % 50,
            strata=self.stratum[rows],
            contexts=self.key[rows],
            token_ids=self.context[rows] % 20,
        )


def check(selection, corpus, strata, size):
    """Compare with sorting everything."""
    inside = np.isin(corpus.stratum, strata)
    counted = Counter(corpus.key[inside].tolist())
    expected = sorted(counted)[:size]
    assert selection.keys.tolist() == expected
    assert len(selection) == len(expected)
    assert selection.facts[:, COUNT].tolist() == [counted[key] for key in expected]
    first = {key: int(corpus.text[inside & (corpus.key == key)].min()) for key in expected}
    assert selection.facts[:, TEXT].tolist() == [first[key] for key in expected]
    context = {int(key): index for index, key in enumerate(corpus.scrambled)}
    for fact, modulus in ((POSITION, 50), (TOKEN, 20), (EMBEDDING_CONTEXT, 20)):
        assert selection.facts[:, fact].tolist() == [context[key] % modulus for key in expected]
    for layer in range(LAYERS + 1):
        expected_states = corpus.state(layer, np.array(expected, dtype=np.uint64))
        states = selection.states(Layout(LAYERS, WIDTH).path[layer])
        assert states.dtype == torch.float32 and np.array_equal(states, expected_states.reshape(-1, WIDTH))


@pytest.mark.parametrize("merged", [True, False])
def test_bottom_k_whatever_the_split(make_batch, feed, merged):
    for seed in range(25):
        rng = np.random.default_rng(seed)
        count, contexts, size, pieces = (int(rng.integers(1, most)) for most in (121, 61, 41, 10))
        corpus, kept = Corpus(count, contexts, seed), Contexts(Layout(LAYERS, WIDTH), size, seed=0)
        for rows in np.array_split(rng.permutation(count), min(pieces, count)):
            part = Contexts(Layout(LAYERS, WIDTH), size, seed=0) if merged else kept
            feed(part, corpus.batch(make_batch, rows))
            if merged:
                kept.merge(part)
        for strata in ((0,), (0, 2), (0, 1, 2), (1,)):
            for drawn in (size, max(1, size // 2)):
                check(kept.select(strata, drawn), corpus, strata, drawn)


def test_memory_is_bounded_by_the_size(make_batch, feed):
    corpus = Corpus(4000, 3000, seed=1)
    kept = Contexts(Layout(LAYERS, WIDTH), 50, seed=0)
    for rows in np.array_split(np.arange(4000), 40):
        feed(kept, corpus.batch(make_batch, rows))
    assert [len(stratum.states) for stratum in kept._kept] == [50, 50, 50]
    assert all(tensor.shape[0] <= 50 or tensor.shape[1] <= 50 for tensor in kept.tensors().values())
    small = feed(Contexts(Layout(LAYERS, WIDTH), 10**6, seed=0), corpus.batch(make_batch, np.arange(100)))
    assert sum(len(stratum.states) for stratum in small._kept) <= 200


def test_selecting_does_not_change_the_sample_and_a_view_may_have_no_tokens(make_batch, feed):
    corpus = Corpus(300, 40, seed=2)
    kept = feed(Contexts(Layout(LAYERS, WIDTH), 30, seed=0), corpus.batch(make_batch, np.arange(300)))
    before = {key: tensor.clone() for key, tensor in kept.tensors().items()}
    for _ in range(2):
        kept.select((0, 1, 2), 30).facts[:, COUNT] += 1
    assert all((tensor == before[key]).all() for key, tensor in kept.tensors().items())
    special = make_batch(np.ones((2, 3, WIDTH)), [0, 1, 2], strata=[1, 1, 1])
    kept = feed(Contexts(Layout(LAYERS, WIDTH), 9, seed=0), special)
    nothing = kept.select((0, 2), 9)
    assert len(nothing) == 0 and nothing.states(kept.layout.path[1]).shape == (0, WIDTH)
    assert len(Contexts(Layout(LAYERS, WIDTH), 9, seed=0).select((0,), 9)) == 0


def test_tokens_are_drawn_uniformly_with_duplicates(make_batch, feed):
    """Each place of the corpus is as likely as any other, whatever the model saw there."""
    count, size = 400, 100
    texts, positions = np.divmod(np.arange(count), 10)
    batch = make_batch(np.zeros((2, count, WIDTH)), texts, positions=positions, contexts=np.zeros(count))
    hits = np.zeros(count)
    for seed in range(100):
        drawn = feed(Tokens(Layout(LAYERS, WIDTH), size, seed), batch).select((0,), size)
        assert (drawn.facts[:, COUNT] == 1).all()
        hits[drawn.facts[:, TEXT] * 10 + drawn.facts[:, POSITION]] += 1
    expected, deviation = 100 * size / count, np.sqrt(100 * 0.25 * 0.75)
    assert hits.sum() == 100 * size
    assert np.abs(hits - expected).max() < 5 * deviation
    # Half of the sample is a uniform draw too: the order is random, not that of the corpus.
    order = drawn.facts[:, TEXT] * 10 + drawn.facts[:, POSITION]
    assert abs(np.corrcoef(order, np.arange(size))[0, 1]) < 0.4


@pytest.mark.parametrize("kind", [Contexts, Tokens])
def test_the_seed_is_part_of_the_key_of_tokens(make_batch, feed, kind):
    batch = make_batch(np.zeros((2, 50, WIDTH)), np.arange(50), contexts=np.arange(50))
    a, b = (feed(kind(Layout(LAYERS, WIDTH), 10, seed), batch).select((0,), 10).keys.tolist() for seed in (0, 1))
    assert (a == b) == (kind is Contexts)  # the keys of contexts are seeded where they are made
