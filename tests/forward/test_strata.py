from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.tokens import first_own, sinks

from reporter.forward.token_categories import ASIDE, ORDINARY, SPECIAL, SinkRule, find_sinks, strata, text_medians

RULES = [SinkRule(), SinkRule(None, 8.0), SinkRule(0.3, 1.5), SinkRule(None, 1.2)]


def padded(lengths, blocks, seed, heavy=0.15, width=6):
    """Return states of blocks (texts, length, width), some with one large coordinate, and garbage in the padding."""
    rng = np.random.default_rng(seed)
    shape = (blocks, len(lengths), max(lengths))
    states = rng.standard_normal((*shape, width)) + 1
    tall = rng.random(shape) < heavy
    states[..., 2] += np.where(tall, rng.uniform(2, 40, shape) * rng.choice([-1, 1], shape), 0)
    states[..., 4] += 6  # a coordinate that is large in every token makes no sink
    states *= np.where(rng.random(shape) < heavy, rng.uniform(2, 12, shape), 1)[..., None]  # nor does length alone
    mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64)
    states = np.where(mask[None, :, :, None] == 1, states, rng.choice([0.0, 1e15, np.nan, np.inf], (*shape, 1)))
    special = (rng.random(mask.shape) < 0.2) & (mask == 1)
    return states.astype(np.float32), mask, special


def found_in(states, mask, rule=RULES[0]):
    tensors = [torch.from_numpy(x) for x in states]
    return find_sinks(tensors, np.stack([x.norm(dim=-1).numpy() for x in tensors]), mask, rule)


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=8),
    st.integers(1, 4),
    st.integers(0, 2**20),
    st.sampled_from(RULES),
)
def test_the_rule_against_brute_force(lengths, blocks, seed, rule):
    states, mask, special = padded(lengths, blocks, seed)
    found = found_in(states, mask, rule)
    kinds = strata(found.sink, mask, special)
    for row, length in enumerate(lengths):
        facts = sinks(states[:, row, :length], rule.dominance, rule.factor)
        for name in ("sink", "first", "last", "dimension"):
            assert getattr(found, name)[row, :length].tolist() == facts[name].tolist(), name
        for name in ("ratio", "dominance"):
            np.testing.assert_allclose(getattr(found, name)[row, :length], facts[name], rtol=1e-4)
        aside = facts["sink"] | first_own(special[row, :length])
        expected = np.where(special[row, :length], SPECIAL, np.where(aside, ASIDE, ORDINARY))
        assert (kinds[row, :length] == expected).all()


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8])
def test_the_median_of_an_even_number_is_the_mean_of_the_middle_two(length):
    norms = np.random.default_rng(length).random((3, 1, length + 4))
    mask = np.array([[1] * length + [0] * 4])
    expected = np.median(norms[:, :, :length], axis=2)
    np.testing.assert_allclose(text_medians(norms, mask), expected, rtol=1e-15)


def of_one_text(*tokens):
    states = np.array([[tokens]], dtype=np.float32)
    return states, np.ones((1, len(tokens)), dtype=np.int64)


def test_a_coordinate_that_outweighs_the_others_and_a_long_state_make_a_sink():
    plain = (1.0, 1.0, 1.0)
    states, mask = of_one_text(plain, plain, (9.0, 1.0, 1.0), plain)
    found = found_in(states, mask)
    assert found.sink.tolist() == [[False, False, True, False]]
    assert (found.first[0, 2], found.last[0, 2], found.dimension[0, 2]) == (1, 1, 0)
    assert found.dominance[0, 2] == pytest.approx(64 / 2)  # (9 - 1)^2 over 1 + 1
    assert found.ratio[0, 2] == pytest.approx((83 / 3) ** 0.5)


def test_a_long_state_is_no_sink_by_itself():
    states, mask = of_one_text((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), (20.0, 20.0, 20.0), (1.0, 1.0, 1.0))
    assert not found_in(states, mask).sink.any()
    assert found_in(states, mask, SinkRule(None, 8.0)).sink.tolist() == [[False, False, True, False]]


def test_a_coordinate_that_is_large_in_every_token_makes_no_sink():
    states, mask = of_one_text((90.0, 1.0, 1.0), (91.0, 1.0, -1.0), (92.0, -1.0, 1.0), (190.0, 60.0, 80.0))
    assert not found_in(states, mask).sink.any()


def test_exactly_eight_times_the_median_is_no_sink():
    states, mask = of_one_text((1.0, 0.0), (1.0, 0.0), (8.0, 0.0), (1.0, 0.0), (8.001, 0.0))
    assert found_in(states, mask, SinkRule(None, 8.0)).sink.tolist() == [[False] * 4 + [True]]


def test_one_block_is_enough_and_first_and_last_tell_which():
    plain = np.ones((1, 4, 3), dtype=np.float32)
    tall = plain.copy()
    tall[0, 3, 1] = 50
    found = found_in(np.stack([plain, tall, plain, tall, plain]), np.ones((1, 4), dtype=np.int64))
    assert found.sink.tolist() == [[False, False, False, True]]
    assert (found.first[0, 3], found.last[0, 3]) == (2, 4)
    assert found.first[0, :3].tolist() == [0, 0, 0]


def test_the_first_own_token_is_set_aside_in_every_text_with_or_without_one_that_was_added():
    none, mask = np.zeros((2, 3), dtype=bool), np.ones((2, 3), dtype=np.int64)
    special = np.array([[True, False, False], [False, False, False]])
    assert strata(none, mask, special).tolist() == [[SPECIAL, ASIDE, ORDINARY], [ASIDE, ORDINARY, ORDINARY]]


def test_a_special_token_stays_special_and_counts_for_the_median():
    states, mask = of_one_text((100.0, 0.1), (100.0, 0.1), (1.0, 1.0), (9.0, 0.1))
    special = np.array([[True, True, False, False]])
    found = found_in(states, mask)
    assert strata(found.sink, mask, special).tolist() == [[SPECIAL, SPECIAL, ASIDE, ORDINARY]]


@settings(deadline=None)
@given(st.integers(0, 2**20))
def test_what_else_is_in_the_batch_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, 6).tolist()
    states, mask, _ = padded(lengths, 2, seed)
    whole = found_in(states, mask)
    for row, length in enumerate(lengths):
        alone = found_in(states[:, row : row + 1, :length], mask[row : row + 1, :length])
        for name in ("sink", "first", "last", "dimension"):
            assert (getattr(alone, name)[0] == getattr(whole, name)[row, :length]).all()


def test_the_rule_in_words_names_its_numbers():
    assert "2 times the median" in SinkRule().said
    assert "outweighs all others" in SinkRule().said
    assert (
        SinkRule(None, 8.0).said
        == "a token whose norm exceeds 8 times the median norm of its text's tokens at some block"
    )
