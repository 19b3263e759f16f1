from __future__ import annotations

import numpy as np
import pytest

from reporter.forward.batch import context_keys, embedding_keys, key_of, mix, prefix_keys


@pytest.fixture
def batch():
    """500 short texts over three words, so that prefixes and texts repeat, right-padded with a real id."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 7, 500)
    ids = rng.integers(1, 4, (500, 6))
    ids[np.arange(6) >= lengths[:, None]] = 1
    return ids, lengths


def matches(keys, seen):
    """Tell whether keys are equal exactly where what was seen is equal."""
    return len(set(keys)) == len(set(seen)) == len(set(zip(keys, seen, strict=True)))


def tokens(ids, lengths):
    return [(row, place) for row, length in enumerate(lengths) for place in range(length)]


def test_a_decoders_keys_are_equal_iff_the_prefix_is(batch):
    ids, lengths = batch
    keys = context_keys(ids, lengths, causal=True, seed=0)
    at = tokens(ids, lengths)
    seen = [tuple(ids[row, : place + 1]) for row, place in at]
    assert len(set(seen)) < len(seen) / 2
    assert matches([keys[where] for where in at], seen)


def test_an_encoders_keys_are_equal_iff_text_and_position_are(batch):
    ids, lengths = batch
    keys = context_keys(ids, lengths, causal=False, seed=0)
    at = tokens(ids, lengths)
    seen = [(tuple(ids[row, : lengths[row]]), place) for row, place in at]
    assert len(set(seen)) < len(seen)
    assert matches([keys[where] for where in at], seen)


@pytest.mark.parametrize("causal", [True, False])
def test_keys_do_not_depend_on_the_padding(batch, causal):
    ids, lengths = batch
    wide = np.pad(ids, ((0, 0), (0, 9)), constant_values=2)
    narrow, other = context_keys(ids, lengths, causal, 0), context_keys(wide, lengths, causal, 0)
    assert all(narrow[where] == other[where] for where in tokens(ids, lengths))


@pytest.mark.parametrize("causal", [True, False])
def test_another_seed_keeps_other_contexts(batch, causal):
    ids, lengths = batch
    a, b = (context_keys(ids, lengths, causal, seed) for seed in (0, 1))
    assert not np.isin(a, b).any()


def test_embedding_keys_with_and_without_positions(batch):
    ids, lengths = batch
    at = tokens(ids, lengths)
    plain, placed = embedding_keys(ids, False), embedding_keys(ids, True)
    assert plain.shape == placed.shape == ids.shape
    assert matches([plain[where] for where in at], [ids[where] for where in at])
    assert matches([placed[where] for where in at], [(ids[where], where[1]) for where in at])


def test_no_collisions_among_many_random_texts():
    rng = np.random.default_rng(1)
    ids = np.unique(rng.integers(0, 50_000, (100_000, 4)), axis=0)
    lengths = np.full(len(ids), 4)
    prefixes = sum(len(np.unique(ids[:, : k + 1], axis=0)) for k in range(4))
    assert len(np.unique(context_keys(ids, lengths, True, 0))) == prefixes
    assert len(np.unique(context_keys(ids, lengths, False, 0))) == ids.size


def test_ids_that_are_near_or_large_do_not_collide():
    ids = np.arange(200_000)[:, None]
    assert len(np.unique(prefix_keys(ids, 0))) == len(ids)
    assert len(np.unique(key_of(0, ids[:, 0], ids[:, 0][::-1]))) == len(ids)


def test_the_order_of_parts_matters():
    assert key_of(1, np.array([2])) != key_of(2, np.array([1]))


def test_keys_are_uniform():
    """A bottom-k sample is random only if the keys are: each bit of each must be a fair coin."""
    keys = prefix_keys(np.arange(50_000)[:, None], 3)[:, 0]
    ones = [((keys >> np.uint64(bit)) & np.uint64(1)).mean() for bit in range(64)]
    assert np.abs(np.array(ones) - 0.5).max() < 5 * 0.5 / np.sqrt(len(keys))
    assert len(np.unique(mix(np.arange(1000, dtype=np.uint64)))) == 1000
