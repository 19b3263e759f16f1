"""Keys of contexts: equal exactly where the model saw the same thing."""

import numpy as np
import pytest

from reporter.forward.batch import context_keys, embedding_keys, key_of, mix, prefix_keys


@pytest.fixture(scope="module")
def batch():
    """500 short texts over three words, so that prefixes and texts repeat, right-padded with a real id."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 7, 500)
    ids = rng.integers(1, 4, (500, 6))
    ids[np.arange(6) >= lengths[:, None]] = 1
    return ids, lengths, [(row, place) for row, length in enumerate(lengths) for place in range(length)]


def matches(keys, contexts):
    return len(set(keys)) == len(set(contexts)) == len(set(zip(keys, contexts, strict=True)))


@pytest.mark.parametrize("causal", [True, False])
def test_keys_are_equal_where_a_decoders_prefix_or_an_encoders_text_and_place_are(batch, causal):
    ids, lengths, at = batch
    keys = context_keys(ids, lengths, causal, seed=0)
    contexts = [tuple(ids[i, : t + 1]) if causal else (tuple(ids[i, : lengths[i]]), t) for i, t in at]
    assert len(set(contexts)) < len(contexts) / (2 if causal else 1)
    assert matches([keys[where] for where in at], contexts)
    wide = context_keys(np.pad(ids, ((0, 0), (0, 9)), constant_values=2), lengths, causal, 0)
    assert all(keys[where] == wide[where] for where in at)  # padding does not matter
    assert not np.isin(keys, context_keys(ids, lengths, causal, 1)).any()  # another seed has other keys


def test_embedding_keys_with_and_without_positions(batch):
    ids, _, at = batch
    plain, placed = embedding_keys(ids, False), embedding_keys(ids, True)
    assert plain.shape == placed.shape == ids.shape
    assert matches([plain[where] for where in at], [ids[where] for where in at])
    assert matches([placed[where] for where in at], [(ids[where], where[1]) for where in at])


def test_no_collisions_among_many_texts_and_among_ids_that_are_near():
    rng = np.random.default_rng(1)
    ids = np.unique(rng.integers(0, 50_000, (30_000, 4)), axis=0)
    lengths = np.full(len(ids), 4)
    prefixes = sum(len(np.unique(ids[:, : k + 1], axis=0)) for k in range(4))
    assert len(np.unique(context_keys(ids, lengths, True, 0))) == prefixes
    assert len(np.unique(context_keys(ids, lengths, False, 0))) == ids.size
    ids = np.arange(200_000)[:, None]
    assert len(np.unique(prefix_keys(ids, 0))) == len(ids)
    assert len(np.unique(key_of(0, ids[:, 0], ids[:, 0][::-1]))) == len(ids)
    assert key_of(1, np.array([2])) != key_of(2, np.array([1]))  # the order of parts matters


def test_keys_are_uniform():
    """A bottom-k sample is random only if the keys are: each bit of each must be a fair coin."""
    keys = prefix_keys(np.arange(50_000)[:, None], 3)[:, 0]
    ones = [((keys >> np.uint64(bit)) & np.uint64(1)).mean() for bit in range(64)]
    assert np.abs(np.array(ones) - 0.5).max() < 5 * 0.5 / np.sqrt(len(keys))
    assert len(np.unique(mix(np.arange(1000, dtype=np.uint64)))) == 1000
