"""Samples of tokens and of pooled texts: whatever the split, the smallest keys; and how they come back from a file."""

import numpy as np
import pytest
import torch
from oracles.fake_model import FakeModel, made_up_texts

from reporter.forward.batch import key_of
from reporter.forward.observable import Setting
from reporter.forward.sampled_states import FIRST, RoundedStates
from reporter.forward.token_categories import VIEWS
from reporter.forward.token_sample import CONTEXT, COUNT, Pooled, Tokens
from reporter.models.places import Layout, Place

STRATA = [(0,), (0, 2), (0, 1, 2), (1,)]
TEXTS, LAYOUT, POOLED = 40, Layout(1, 4), Layout(2, 6)


@pytest.mark.parametrize("seed", range(12))
def test_the_tokens_with_the_smallest_keys_whatever_the_split(make_batch, feed, seed):
    """Compare with sorting everything: one sample that sees all batches, and one merged from one of each batch."""
    rng = np.random.default_rng(seed)
    count, size, pieces = (int(rng.integers(1, most)) for most in (121, 41, 10))
    texts, places, strata = np.sort(rng.integers(0, count, count)), np.arange(count), rng.choice(3, count)
    states = rng.standard_normal((2, count, 4)).astype(np.float32)
    keys = key_of(seed, texts, places)
    whole, merged = Tokens(LAYOUT, size, seed), Tokens(LAYOUT, size, seed)
    for rows in np.array_split(rng.permutation(count), min(pieces, count)):
        batch = make_batch(states[:, rows], texts[rows], places[rows], strata[rows], token_ids=places[rows] % 20)
        feed(whole, batch)
        merged.merge(feed(Tokens(LAYOUT, size, seed), batch))
    facts = np.stack([np.ones(count), places % 20, places % 20, texts, places], axis=1)
    for view in STRATA:
        inside = np.flatnonzero(np.isin(strata, view))
        for drawn in (size, max(1, size // 2)):
            expected = inside[np.argsort(keys[inside])][:drawn]
            for kept in (whole, merged):
                result = kept.select(view, drawn)
                assert result.keys.tolist() == keys[expected].tolist() and len(result) == len(expected)
                assert result.facts[:, :5].tolist() == facts[expected].tolist()
                for layer, place in enumerate(LAYOUT.path):
                    assert np.array_equal(result.states(place), states[layer, expected])


def test_memory_is_bounded_by_the_size_and_selecting_does_not_change_the_sample(make_batch, feed):
    states, texts = np.random.default_rng(1).standard_normal((2, 4000, 4)), np.arange(4000)
    kept = Tokens(LAYOUT, 50, seed=0)
    for rows in np.array_split(texts, 40):
        feed(kept, make_batch(states[:, rows], rows, strata=rows % 3))
    assert [len(of_place) for of_place in kept.sample._places] == [150] * 2
    assert {len(tensor) for tensor in kept.tensors().values()} == {150}
    small = feed(Tokens(LAYOUT, 10**6, seed=0), make_batch(states[:, :100], texts[:100]))
    assert len(small.sample._places[0]) <= 8192  # rows that are not written take no memory
    before = {key: tensor.clone() for key, tensor in kept.tensors().items()}
    kept.select((0, 1, 2), 30).facts[:, COUNT] += 1
    torch.testing.assert_close(kept.tensors(), before, rtol=0, atol=0)


def test_a_view_may_have_no_tokens_and_no_texts(make_batch, feed):
    special = make_batch(np.ones((2, 3, 4)), [0, 1, 2], strata=[1, 1, 1])
    nothing = feed(Tokens(LAYOUT, 9, seed=0), special).select((0, 2), 9)
    assert len(nothing) == 0 and nothing.states(LAYOUT.path[1]).shape == (0, 4)
    nothing = Pooled.empty(Setting(POOLED, 0, TEXTS, 8)).texts((0, 2), 8)
    assert len(nothing) == 0 and nothing.vectors(Place("block", 1)).shape == (0, 6)


@pytest.fixture
def corpus(rng):
    """40 texts of 1 to 5 tokens; a third have no ordinary token, some no special one."""
    texts = np.repeat(np.arange(TEXTS), rng.integers(1, 6, TEXTS))
    strata = np.where(texts % 3 == 0, 1, rng.choice(3, len(texts), p=[0.6, 0.3, 0.1]))
    return [rng.standard_normal((len(texts), 6)) + 50 for _ in range(3)], texts, strata


@pytest.mark.parametrize(("size", "parts"), [(4, 1), (4, 7), (15, 7), (100, 7)])
def test_means_of_the_texts_with_the_smallest_keys(corpus, make_batch, feed, size, parts):
    states, texts, strata = corpus
    sample = Pooled.empty(Setting(POOLED, parts, TEXTS, size))
    for part in np.array_split(np.random.default_rng(parts).permutation(TEXTS), parts):
        keep = np.isin(texts, part)
        feed(sample, make_batch([x[keep] for x in states], texts[keep], strata=strata[keep]))
    for view in STRATA:
        drawn, inside = sample.texts(view, size), np.isin(strata, view)
        expected = sorted(set(texts[inside].tolist()), key=lambda text: key_of(parts, np.array([text]))[0])[:size]
        assert drawn.texts.tolist() == expected
        assert drawn.counts.sum(axis=0).tolist() == [int((inside & (texts == t)).sum()) for t in expected]
        for layer, place in enumerate(POOLED.path):
            means = [states[layer][inside & (texts == text)].mean(axis=0) for text in expected]
            np.testing.assert_allclose(drawn.vectors(place), means, rtol=1e-6)
        assert sample.texts(view, size // 2).texts.tolist() == expected[: size // 2]
        turned = drawn.take(np.array([1, 0])).vectors(place)
        np.testing.assert_array_equal(turned, drawn.vectors(place)[[1, 0]])


def test_two_models_keep_the_same_texts(observe):
    """An encoder and a decoder of other width: the same texts but for those that have no token in a view."""
    texts, how = made_up_texts(80), {"sample": 30, "names": ["moments", "pooled"]}
    models = FakeModel(layers=3), FakeModel(role="decoder", layers=2, width=8, special=False)
    samples = [observe(model, texts, **how)[0]["pooled"] for model in models]
    mine, theirs = ([sample.texts(view, 30).texts.tolist() for view in ((0, 2), (0,))] for sample in samples)
    assert mine == theirs, "the first token is set aside in both"
    # Without it a one-word text has no token: such texts are left out and later ones move up.
    encoder, decoder = samples[0].texts((0, 2), 30), samples[1].texts((0,), 30)
    assert encoder.texts.tolist() != decoder.texts.tolist()
    a, b = encoder.shared(decoder)
    assert a.texts.tolist() == b.texts.tolist() and 20 < len(a) <= 30
    assert a.texts.tolist() == [text for text in encoder.texts.tolist() if text in set(decoder.texts.tolist())]
    assert a.vectors(Place("block", 1)).shape == (len(a), 16) and b.vectors(Place("block", 1)).shape == (len(b), 8)


def states(n, d, seed=0):
    """Coordinates of unequal size about a long mean, as models make them, and sinks of a thousand times the norm."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * np.logspace(-2, 1, d) + 30 * rng.standard_normal(d)
    x[::17, 3] += 40_000
    return torch.from_numpy(x.astype(np.float32))


def read(x):
    return RoundedStates.of(x).rows(torch.arange(len(x)))


def test_no_coordinate_is_off_by_more_than_is_said():
    x = states(400, 32)
    kept = RoundedStates.of(x)
    off, away = (read(x) - x).abs(), (x - kept.middle).abs()
    assert (off <= away * 2**-11 + x.abs() * 2**-23).all()
    assert off.max() > 0 and kept.values.dtype == torch.float16
    ordinary = torch.arange(400) % 17 != 0
    spread = (x[ordinary] - x[ordinary].mean(dim=0)).norm(dim=1)
    assert (off[ordinary].norm(dim=1) / spread).max() < 2**-10, "a few sinks cost the others nothing"
    assert torch.equal(read(x)[:100], read(x[:100])) and FIRST <= 100, "a larger sample rounds its first states alike"
    assert not torch.equal(read(x)[1:100], read(x[1:100]))  # the mean is that of the first ones
    most, once = float(x.abs().max()) * 2**-10, read(x)
    for scale in (1e-30, 1e30):
        torch.testing.assert_close(read(x * scale), x * scale, rtol=0, atol=most * scale)
    assert ((read(once) - once).abs() <= (once - once.mean(0)).abs() * 2**-10 + once.abs() * 2**-20).all()


@pytest.mark.parametrize(("distance", "error"), [(0.001, 0.05), (0.0016, 0.02), (0.01, 0.0006)])
def test_rounding_adds_to_a_small_distance_what_the_docs_say(distance, error):
    x = torch.randn(500, 256, generator=torch.Generator().manual_seed(1))
    step = torch.randn(500, 256, generator=torch.Generator().manual_seed(2))
    moved = x + step * (distance * x.norm(dim=1) / step.norm(dim=1))[:, None]
    result = float(((read(moved) - read(x)).norm(dim=1) / read(x).norm(dim=1)).mean())
    assert distance < result < distance * (1 + error)
    assert result <= (distance**2 + 0.00033**2) ** 0.5


def test_zeros_equal_states_and_what_is_not_finite_stay_what_they_are():
    x = states(60, 8)
    x[40], x[41], x[42, 1], x[43, 2] = 0, x[50], torch.inf, torch.nan
    result = read(x)
    assert (result[40] == 0).all() and torch.equal(result[41], result[50])
    assert result[42, 1] == torch.inf and result[43, 2].isnan()
    assert (~result.isfinite()).any(dim=1).nonzero()[:, 0].tolist() == [42, 43]
    assert torch.equal(read(torch.zeros(3, 4)), torch.zeros(3, 4)) and read(torch.zeros(0, 4)).shape == (0, 4)


def test_a_finished_sample_reads_as_rounded_whatever_is_kept_beside(make_batch, feed, tmp_path):
    """The same tokens come back alike from a sample of 100 and from one of 300, and in half the room."""
    x = states(300, 12).numpy()
    layout, read_back = Layout(1, 12), []
    for size in (100, 300):
        kept = feed(Tokens(layout, size, 0), make_batch([x, x], np.arange(300), contexts=np.arange(300) // 2))
        kept.save(tmp_path / str(size), finished=True)
        result = Tokens.load(tmp_path / str(size))
        exact, drawn = (sample.select((0,), 100) for sample in (kept, result))
        assert drawn.keys.tolist() == exact.keys.tolist()
        rough, exact = (sample.states(layout.path[1]) for sample in (drawn, exact))
        assert not torch.equal(rough, exact)
        torch.testing.assert_close(rough, exact, rtol=1e-3, atol=1e-2)
        read_back.append(rough)
        result.save(tmp_path / "again", finished=True)
    assert torch.equal(*read_back)


def test_distinct_contexts_among_the_drawn_tokens(make_batch, feed):
    contexts = np.random.default_rng(1).integers(0, 40, 300)
    batch = make_batch([contexts[:, None] * np.ones(4)] * 2, np.arange(300), contexts=contexts)
    drawn = feed(Tokens(LAYOUT, 300, 0), batch).select((0,), 60)
    result, drawn_contexts = drawn.distinct(), drawn.facts[:, CONTEXT].tolist()
    expected = list(dict.fromkeys(drawn_contexts))  # in the order in which they come first
    assert result.facts[:, [CONTEXT, COUNT]].tolist() == [[c, drawn_contexts.count(c)] for c in expected]
    assert result.states(LAYOUT.path[0])[:, 0].tolist() == expected and 20 < len(result) < 45
    assert (drawn.facts[:, COUNT] == 1).all()


@pytest.mark.parametrize("kind", [Tokens, Pooled])
def test_a_finished_sample_holds_what_views_draw_and_no_more(kind, make_batch, feed, tmp_path, rng):
    """Half of the tokens are set aside: of these the views that hold them draw half of what is kept on the way."""
    strata = rng.choice(3, 900, p=[0.4, 0.2, 0.4])
    batch = make_batch([rng.standard_normal((900, 6))], np.arange(900), strata=strata)
    kept = feed(kind(Layout(0, 6), 100, 0), batch)
    kept.save(tmp_path / "it", finished=True)
    result = kind.load(tmp_path / "it")
    sizes, before = (np.bincount(of.sample.groups).tolist() for of in (result, kept))
    assert sizes[0] == 100 and 5 < sizes[1] < 40 and 30 < sizes[2] < 70 and before == [100] * 3
    for view, drawn in VIEWS.items():
        for size in (100, 60):
            a, b = (one.select(drawn, size) for one in (kept, result))
            assert a.keys.tolist() == b.keys.tolist() and np.array_equal(a.facts, b.facts), view
