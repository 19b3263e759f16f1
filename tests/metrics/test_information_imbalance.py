"""Information imbalance against its definition, in closed cases, and where there is nothing to rank."""

import numpy as np
import pytest
import torch
from oracles.again import again

from reporter.geometry.similarity import imbalances


def between(*spaces, groups=None):
    groups = np.arange(len(spaces[0])) % 3 if groups is None else groups
    return imbalances([lambda x=x: torch.as_tensor(x) for x in spaces], groups)


def test_against_the_definition_with_and_without_each_group():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 3))
    spaces = [x, x[:, :1], x[:, 1:], x @ rng.standard_normal((3, 5)) + 0.3 * rng.standard_normal((40, 5))]
    groups = rng.integers(0, 4, 40)
    found = between(*spaces, groups=groups)
    for left_out in range(-1, 4):
        keep = groups != left_out
        for a, b in np.ndindex(4, 4):
            of_text = np.zeros(keep.sum(), dtype=int)
            expected = again("information_imbalance", [spaces[a][keep], spaces[b][keep]], of_text, sample=40)
            assert found[left_out + 1, a, b] == pytest.approx(expected["to_last", 0], abs=1e-12)
    np.testing.assert_allclose(np.diagonal(found[0]), 2 / 40)


def test_equal_rows_are_ranked_by_the_mean_and_are_each_others_neighbours():
    rng = np.random.default_rng(2)
    types = rng.integers(0, 12, 60)
    a, b = rng.standard_normal((12, 4))[types] * 1e3 + 1e4, rng.standard_normal((60, 4))
    found = between(a, b)[0]
    assert found[0, 1] == pytest.approx(1, abs=0.2)  # any of the same type is as good, and says nothing
    own = np.array([np.sum(types == kind) for kind in types])
    assert (own > 1).all()
    assert found[0, 0] == pytest.approx(
        2 / 60 * own.mean() / 2
    )  # in B = A the others of a type share the ranks 1…m − 1
    np.testing.assert_array_equal(between(a * 2.0**40, b * 2.0**-40)[0], found)
