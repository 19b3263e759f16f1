"""The rules that verify writes down once more, on small cases and against what runs use."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from reporter.forward.contexts import context_keys as fast_keys
from reporter.forward.contexts import key_of
from reporter.forward.strata import SINK, SPECIAL, strata
from reporter.verify.tokens import (
    BY_MASSIVE_DIMENSION,
    BY_NORM,
    context_keys,
    key,
    kinds_of_text,
    scrambled,
    special_tokens,
)


@pytest.mark.parametrize("causal", [True, False])
def test_the_rule_by_norm_is_the_one_of_runs(causal):
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 30):
        blocks = rng.standard_normal((3, n, 8)) * np.exp(1.5 * rng.standard_normal((3, n, 1)))
        special = rng.random(n) < 0.2
        norms = torch.from_numpy(np.linalg.norm(blocks, axis=2))[:, None]
        expected = strata(norms, np.ones((1, n), dtype=np.int64), special[None], causal)[0]
        found = kinds_of_text(list(blocks), special, causal, BY_NORM)
        assert (found.sink == (expected == SINK)).all() and (found.special == (expected == SPECIAL)).all()
        assert (found.view("no-sinks") == (expected == 0)).all() and (found.view("words") == ~special).all()


def test_a_massive_dimension_makes_a_sink_and_the_first_own_token_is_left_out():
    x = np.ones((6, 4))
    x[:, 1] = 3  # what all tokens share
    x[2, 1], x[3] = 40, 40  # one coordinate outweighs all others; all are large alike
    x[4, 1] = -5  # not twice the median norm
    special = np.array([True, False, False, False, False, False])
    found = kinds_of_text([np.ones((6, 4)), x], special, False, BY_MASSIVE_DIMENSION)
    assert found.sink.tolist() == [False, False, True, False, False, False]
    assert found.view("no-sinks").tolist() == [False, False, False, True, True, True]
    assert found.view("words").tolist() == [False, True, True, True, True, True]
    by_factor = replace(BY_MASSIVE_DIMENSION, factor=4.0, dominant=False)
    assert kinds_of_text([x], special, True, by_factor).sink.tolist() == [False, False, True, True, False, False]
    # Special wins, and a text of special tokens alone has no first own token.
    nobody = kinds_of_text([x], np.ones(6, dtype=bool), True, BY_MASSIVE_DIMENSION)
    assert not nobody.sink.any() and not nobody.left_out.any()


def test_a_special_string_inside_a_text_is_special_where_the_rule_says_so():
    strings = frozenset({1, 2})
    ids, added = [1, 7, 2, 8, 2], [1, 0, 0, 0, 1]
    assert special_tokens(ids, added, strings, BY_NORM).tolist() == [True, False, False, False, True]
    assert special_tokens(ids, added, strings, BY_MASSIVE_DIMENSION).tolist() == [True, False, True, False, True]


def test_hashes_are_those_of_splitmix_and_of_runs():
    # The first outputs of SplitMix64 seeded with 1234567, as its authors' reference program prints them.
    assert [scrambled((1234567 + i * 0x9E3779B97F4A7C15) % 2**64) for i in range(2)] == [
        6457827717110365317,
        3203168211198807973,
    ]
    assert key(3, 17, 2) == int(key_of(3, np.array([17]), np.array([2]))[0])
    ids = np.array([[5, 9, 5, 2]])
    for causal in (True, False):
        assert context_keys([5, 9, 5, 2], causal, 7) == fast_keys(ids, np.array([4]), causal, 7)[0].tolist()
