from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles.tokens import sinks

from reporter.forward.strata import ORDINARY, SINK, SPECIAL, strata, text_medians


def padded(lengths, blocks, seed, heavy=0.15):
    """Return norms (blocks, texts, length) with some tokens near the threshold and garbage in the padding."""
    rng = np.random.default_rng(seed)
    shape = (blocks, len(lengths), max(lengths))
    norms = rng.uniform(1, 2, shape) * np.where(rng.random(shape) < heavy, rng.uniform(4, 16, shape), 1)
    mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64)
    norms = np.where(mask, norms, rng.choice([0.0, 1e30, np.nan, np.inf], shape))
    special = (rng.random(mask.shape) < 0.2) & (mask == 1)
    return norms, mask, special


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=8),
    st.integers(1, 4),
    st.integers(0, 2**20),
    st.booleans(),
)
def test_the_rule_against_brute_force(lengths, blocks, seed, causal):
    norms, mask, special = padded(lengths, blocks, seed)
    found = strata(torch.from_numpy(norms), mask, special, causal)
    for row, length in enumerate(lengths):
        sink = sinks(norms[:, row, :length], special[row, :length], causal)
        expected = np.where(special[row, :length], SPECIAL, np.where(sink, SINK, ORDINARY))
        assert (found[row, :length] == expected).all()


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8])
def test_the_median_of_an_even_number_is_the_mean_of_the_middle_two(length):
    norms = torch.tensor(np.random.default_rng(length).random((3, 1, length + 4)))
    mask = np.array([[1] * length + [0] * 4])
    expected = np.median(norms[:, :, :length].numpy(), axis=2)
    np.testing.assert_allclose(text_medians(norms, mask).numpy(), expected, rtol=1e-15)


def test_exactly_eight_times_the_median_is_no_sink():
    norms = torch.tensor([[[1.0, 1.0, 8.0, 1.0, 8.001]]])
    mask, special = np.ones((1, 5), dtype=np.int64), np.zeros((1, 5), dtype=bool)
    assert strata(norms, mask, special, causal=False).tolist() == [[ORDINARY] * 4 + [SINK]]


def test_one_block_is_enough():
    norms = torch.tensor([[[1.0, 1.0, 1.0]], [[1.0, 1.0, 50.0]], [[1.0, 1.0, 1.0]]])
    mask, special = np.ones((1, 3), dtype=np.int64), np.zeros((1, 3), dtype=bool)
    assert strata(norms, mask, special, causal=False).tolist() == [[ORDINARY, ORDINARY, SINK]]


def test_the_first_token_of_a_decoder_is_a_sink_unless_the_tokenizer_added_it():
    norms, mask = torch.ones(1, 2, 3), np.ones((2, 3), dtype=np.int64)
    special = np.array([[True, False, False], [False, False, False]])
    assert strata(norms, mask, special, causal=True).tolist() == [
        [SPECIAL, ORDINARY, ORDINARY],  # nor does the token after it become one
        [SINK, ORDINARY, ORDINARY],
    ]


def test_a_special_token_is_never_a_sink_but_counts_for_the_median():
    mask = np.ones((1, 4), dtype=np.int64)
    norms = torch.tensor([[[100.0, 100.0, 100.0, 1.0]]])
    special = np.array([[True, True, False, False]])
    assert strata(norms, mask, special, causal=False).tolist() == [[SPECIAL, SPECIAL, ORDINARY, ORDINARY]]


@given(st.integers(0, 2**20))
def test_what_else_is_in_the_batch_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, 6).tolist()
    norms, mask, special = padded(lengths, 2, seed)
    whole = strata(torch.from_numpy(norms), mask, special, causal=False)
    for row, length in enumerate(lengths):
        alone = strata(
            torch.from_numpy(norms[:, row : row + 1, :length]),
            mask[row : row + 1, :length],
            special[row : row + 1, :length],
            causal=False,
        )
        assert (alone[0] == whole[row, :length]).all()
