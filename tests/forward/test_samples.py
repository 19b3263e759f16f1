"""Samples of tokens and of pooled texts: whatever the split, the smallest keys; and how they come back from a file."""

from collections import Counter

import numpy as np
import pytest
import torch
from oracles.fake_model import FakeModel, made_up_texts

from reporter.forward.batch import key_of
from reporter.forward.observable import FIRST, RoundedStates, Setting
from reporter.forward.token_categories import VIEWS
from reporter.forward.token_sample import (
    CONTEXT,
    COUNT,
    EMBEDDING_CONTEXT,
    POSITION,
    TEXT,
    TOKEN,
    Pooled,
    Tokens,
    TokenSample,
)
from reporter.models.places import Layout, Place

LAYERS, WIDTH = 1, 4
LAYOUT = Layout(LAYERS, WIDTH)


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
        states = selection.states(LAYOUT.path[layer])
        assert states.dtype == torch.float32 and np.array_equal(states, expected_states.reshape(-1, WIDTH))


@pytest.mark.parametrize("merged", [True, False])
def test_bottom_k_whatever_the_split(make_batch, feed, merged):
    for seed in range(25):
        rng = np.random.default_rng(seed)
        count, contexts, size, pieces = (int(rng.integers(1, most)) for most in (121, 61, 41, 10))
        corpus, kept = Corpus(count, contexts, seed), Contexts(LAYOUT, size, seed=0)
        for rows in np.array_split(rng.permutation(count), min(pieces, count)):
            part = Contexts(LAYOUT, size, seed=0) if merged else kept
            feed(part, corpus.batch(make_batch, rows))
            if merged:
                kept.merge(part)
        for strata in ((0,), (0, 2), (0, 1, 2), (1,)):
            for drawn in (size, max(1, size // 2)):
                check(kept.select(strata, drawn), corpus, strata, drawn)


def test_memory_is_bounded_by_the_size(make_batch, feed):
    corpus = Corpus(4000, 3000, seed=1)
    kept = Contexts(LAYOUT, 50, seed=0)
    for rows in np.array_split(np.arange(4000), 40):
        feed(kept, corpus.batch(make_batch, rows))
    assert [len(stratum.states) for stratum in kept._kept] == [50, 50, 50]
    assert all(tensor.shape[0] <= 50 or tensor.shape[1] <= 50 for tensor in kept.tensors().values())
    small = feed(Contexts(LAYOUT, 10**6, seed=0), corpus.batch(make_batch, np.arange(100)))
    assert sum(len(stratum.states) for stratum in small._kept) <= 200


def test_selecting_does_not_change_the_sample_and_a_view_may_have_no_tokens(make_batch, feed):
    corpus = Corpus(300, 40, seed=2)
    kept = feed(Contexts(LAYOUT, 30, seed=0), corpus.batch(make_batch, np.arange(300)))
    before = {key: tensor.clone() for key, tensor in kept.tensors().items()}
    for _ in range(2):
        kept.select((0, 1, 2), 30).facts[:, COUNT] += 1
    assert all((tensor == before[key]).all() for key, tensor in kept.tensors().items())
    special = make_batch(np.ones((2, 3, WIDTH)), [0, 1, 2], strata=[1, 1, 1])
    kept = feed(Contexts(LAYOUT, 9, seed=0), special)
    nothing = kept.select((0, 2), 9)
    assert len(nothing) == 0 and nothing.states(kept.layout.path[1]).shape == (0, WIDTH)
    assert len(Contexts(LAYOUT, 9, seed=0).select((0,), 9)) == 0


def test_tokens_are_drawn_uniformly_with_duplicates(make_batch, feed):
    """Each place of the corpus is as likely as any other, whatever the model saw there."""
    count, size = 400, 100
    texts, positions = np.divmod(np.arange(count), 10)
    batch = make_batch(np.zeros((2, count, WIDTH)), texts, positions=positions, contexts=np.zeros(count))
    hits = np.zeros(count)
    for seed in range(100):
        drawn = feed(Tokens(LAYOUT, size, seed), batch).select((0,), size)
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
    a, b = (feed(kind(LAYOUT, 10, seed), batch).select((0,), 10).keys.tolist() for seed in (0, 1))
    assert (a == b) == (kind is Contexts)  # the keys of contexts are seeded where they are made


TEXTS = 40
STRATA = [(0,), (0, 2), (0, 1, 2), (1,)]
POOLED = Layout(2, 6)


@pytest.fixture
def corpus():
    """40 texts of 1 to 5 tokens; a third have no ordinary token, some no special one."""
    rng = np.random.default_rng(1)
    texts = np.repeat(np.arange(TEXTS), rng.integers(1, 6, TEXTS))
    strata = rng.choice(3, len(texts), p=[0.6, 0.3, 0.1])
    strata[texts % 3 == 0] = 1
    return [rng.standard_normal((len(texts), 6)) + 50 for _ in range(3)], texts, strata


def pooled(corpus, make_batch, feed, size, parts=1, seed=3):
    states, texts, strata = corpus
    sample = Pooled.empty(Setting(POOLED, seed, TEXTS, size))
    order = np.random.default_rng(parts).permutation(TEXTS)
    for part in np.array_split(order, parts):
        keep = np.flatnonzero(np.isin(texts, part))
        feed(sample, make_batch([x[keep] for x in states], texts[keep], strata=strata[keep]))
    return sample


@pytest.mark.parametrize(("size", "parts"), [(4, 1), (4, 7), (15, 7), (100, 7)])
def test_means_of_the_texts_with_the_smallest_keys(corpus, make_batch, feed, size, parts):
    states, texts, strata = corpus
    sample = pooled(corpus, make_batch, feed, size, parts)
    for view in STRATA:
        drawn, inside = sample.texts(view, size), np.isin(strata, view)
        candidates = np.unique(texts[inside])
        expected = candidates[np.argsort(key_of(3, candidates))][:size]
        assert drawn.texts.tolist() == expected.tolist()
        assert drawn.counts.sum(axis=0).tolist() == [int((inside & (texts == t)).sum()) for t in expected]
        for layer, place in enumerate(POOLED.path):
            means = [states[layer][inside & (texts == text)].mean(axis=0) for text in expected]
            np.testing.assert_allclose(drawn.vectors(place), means, rtol=1e-6)
        half, rows = sample.texts(view, size // 2), np.array([1, 0])  # a part of the sample
        assert half.texts.tolist() == expected[: size // 2].tolist()
        vectors = drawn.vectors(Place("block", 2))
        np.testing.assert_array_equal(drawn.take(rows).vectors(Place("block", 2)), vectors[rows])


def test_another_seed_keeps_other_texts_and_nothing_seen_is_no_text(corpus, make_batch, feed):
    chosen = [set(pooled(corpus, make_batch, feed, 8, seed=seed).texts((0, 1, 2), 8).texts) for seed in (3, 3, 4)]
    assert chosen[0] == chosen[1] != chosen[2]
    nothing = Pooled.empty(Setting(POOLED, 0, TEXTS, 8)).texts((0, 2), 8)
    assert len(nothing) == 0 and nothing.vectors(Place("block", 1)).shape == (0, 6)


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


def states(n: int, d: int, seed: int = 0) -> torch.Tensor:
    """Coordinates of unequal size about a long mean, as models make them, and sinks of a thousand times the norm."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * np.logspace(-2, 1, d) + 30 * rng.standard_normal(d)
    x[::17, 3] += 40_000
    return torch.from_numpy(x.astype(np.float32))


def read(x: torch.Tensor) -> torch.Tensor:
    return RoundedStates.of(x).rows(torch.arange(len(x)))


def test_no_coordinate_is_off_by_more_than_is_said():
    x = states(400, 32)
    kept = RoundedStates.of(x)
    off = (kept.rows(torch.arange(400)) - x).abs()
    away = (x - kept.middle).abs()
    assert (off <= away * 2**-11 + x.abs() * 2**-23).all()
    assert off.max() > 0 and kept.values.dtype == torch.float16
    ordinary = torch.arange(400) % 17 != 0
    spread = (x - x[ordinary].mean(dim=0))[ordinary]
    assert (off[ordinary].norm(dim=1) / spread.norm(dim=1)).max() < 2**-10, "a few sinks cost the others nothing"


def test_zeros_equal_states_and_what_is_not_finite_stay_what_they_are():
    x = states(60, 8)
    x[40] = 0
    x[41] = x[50]
    x[42, 1], x[43, 2] = torch.inf, torch.nan
    found = read(x)
    assert (found[40] == 0).all() and torch.equal(found[41], found[50])
    assert found[42, 1] == torch.inf and found[43, 2].isnan()
    rest = [row for row in range(60) if row not in (42, 43)]
    assert found[rest].isfinite().all()
    assert torch.equal(read(torch.zeros(3, 4)), torch.zeros(3, 4)) and read(torch.zeros(0, 4)).shape == (0, 4)


def test_a_larger_sample_rounds_its_first_states_alike():
    x = states(500, 16)
    assert torch.equal(read(x)[:100], read(x[:100])) and FIRST <= 100
    assert not torch.equal(read(x)[1:100], read(x[1:100]))  # the mean is that of the first ones


def test_any_scale_and_what_was_read_are_kept():
    for scale in (1e-30, 1e30):
        x = states(50, 8) * scale
        torch.testing.assert_close(read(x), x, rtol=0, atol=float(x.abs().max()) * 2**-10)
    once = read(states(200, 16))
    again = read(once)
    assert ((again - once).abs() <= (once - once.mean(0)).abs() * 2**-10 + once.abs() * 2**-20).all()


def test_a_finished_sample_reads_as_rounded_whatever_is_kept_beside(make_batch, feed, tmp_path):
    """The same tokens come back alike from a sample of 100 and from one of 300, and in half the room."""
    x = states(300, 12).numpy()
    layout, read_back = Layout(1, 12), []
    for size in (100, 300):
        kept = feed(Tokens(layout, size, 0), make_batch([x, x], np.arange(300), contexts=np.arange(300) // 2))
        path = tmp_path / str(size)
        kept.save(path, finished=True)
        found = Tokens.load(path)
        drawn = found.select((0,), 100)
        assert drawn.keys.tolist() == kept.select((0,), 100).keys.tolist()
        exact = kept.select((0,), 100).states(layout.path[1])
        assert not torch.equal(drawn.states(layout.path[1]), exact)
        torch.testing.assert_close(drawn.states(layout.path[1]), exact, rtol=1e-3, atol=1e-2)
        read_back.append(drawn.states(layout.path[1]))
        found.save(tmp_path / "again", finished=True)
    assert torch.equal(*read_back)


def test_distinct_contexts_among_the_drawn_tokens(make_batch, feed):
    contexts = np.random.default_rng(1).integers(0, 40, 300)
    x = contexts[:, None] * np.ones(5)
    kept = feed(Tokens(Layout(0, 5), 300, 0), make_batch([x], np.arange(300), contexts=contexts))
    drawn = kept.select((0,), 60)
    found = drawn.distinct()
    expected = dict.fromkeys(drawn.facts[:, CONTEXT].tolist())  # in the order in which they come first
    assert found.facts[:, CONTEXT].tolist() == list(expected) and 20 < len(found) < 45
    assert found.facts[:, COUNT].sum() == 60
    assert found.facts[:, COUNT].tolist() == [(drawn.facts[:, CONTEXT] == c).sum() for c in expected]
    assert found.states(Layout(0, 5).path[0])[:, 0].tolist() == list(expected)
    assert (drawn.facts[:, COUNT] == 1).all()


@pytest.mark.parametrize("kind", [Tokens, Pooled])
def test_a_finished_sample_holds_what_views_draw_and_no_more(kind, make_batch, feed, tmp_path):
    """Half of the tokens are set aside: of these the views that hold them draw half of what is kept on the way."""
    rng = np.random.default_rng(2)
    strata = rng.choice(3, 900, p=[0.4, 0.2, 0.4])
    batch = make_batch([rng.standard_normal((900, 6))], np.arange(900), strata=strata)
    kept = feed(kind(Layout(0, 6), 100, 0), batch)
    kept.save(tmp_path / "it", finished=True)
    found = kind.load(tmp_path / "it")
    sizes = [len(found.tensors()[f"keys/{stratum}"]) for stratum in range(3)]
    assert sizes[0] == 100 and 5 < sizes[1] < 40 and 30 < sizes[2] < 70
    assert [len(kept.tensors()[f"keys/{stratum}"]) for stratum in range(3)] == [100, 100, 100]
    for view, drawn in VIEWS.items():
        for size in (100, 60):
            a, b = (one.select(drawn, size) for one in (kept, found))
            assert a.keys.tolist() == b.keys.tolist() and np.array_equal(a.facts, b.facts), view
