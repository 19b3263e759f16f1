"""Keys of contexts, whose equality to independent ones is shown with the pass: no collisions, and fair bits."""

import numpy as np
import pytest

from reporter.forward.batch import context_keys, embedding_keys, key_of, mix, prefix_keys


@pytest.mark.parametrize("causal", [True, False])
def test_keys_depend_on_the_seed_and_not_on_padding(causal):
    rng = np.random.default_rng(0)
    lengths, ids = rng.integers(1, 7, 500), rng.integers(1, 4, (500, 6))
    keys = context_keys(ids, lengths, causal, seed=0)
    wide = context_keys(np.pad(ids, ((0, 0), (0, 9)), constant_values=2), lengths, causal, 0)
    inside = np.arange(6) < lengths[:, None]
    assert (keys[inside] == wide[:, :6][inside]).all()
    assert not np.isin(keys, context_keys(ids, lengths, causal, 1)).any()
    assert len(np.unique(embedding_keys(ids, False))) == 3 and len(np.unique(embedding_keys(ids, True))) == 18


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
    numbers = np.arange(50_000)
    for keys in (prefix_keys(numbers[:, None], 3)[:, 0], key_of(3, *np.divmod(numbers, 10))):
        ones = [((keys >> np.uint64(bit)) & np.uint64(1)).mean() for bit in range(64)]
        assert np.abs(np.array(ones) - 0.5).max() < 5 * 0.5 / np.sqrt(len(keys))
        assert abs(np.corrcoef(np.argsort(keys), numbers)[0, 1]) < 0.02, "the order is not that of the corpus"
    assert len(np.unique(mix(np.arange(1000, dtype=np.uint64)))) == 1000
