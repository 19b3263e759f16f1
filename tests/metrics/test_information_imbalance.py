"""Information imbalance against its definition, in closed cases, and where there is nothing to rank."""

import numpy as np
import pytest
import torch
from metrics.reading import computed, named
from oracles.again import again
from oracles.fake_model import FakeModel, made_up_texts

from reporter.geometry.similarity import imbalances
from reporter.metrics.base import catalogue


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
    # In B = A the others of a type share the ranks 1…m − 1; who is alone is one step from its nearest type.
    theirs = own / 2
    assert (own > 1).all()
    assert found[0, 0] == pytest.approx(2 / 60 * theirs.mean())
    np.testing.assert_array_equal(between(a * 2.0**40, b * 2.0**-40)[0], found)


def test_a_layer_beside_itself_and_chance(see):
    metric = catalogue()["information_imbalance"]
    seen = see(FakeModel(), made_up_texts(80, shortest=4), names=("moments", "tokens"))
    found = named(metric, computed(metric, seen, sample=150))
    for name in ("to_last", "from_last"):
        assert found[f"information_imbalance.{name} 3"].value == pytest.approx(2 / len(seen.context_sample(150)))
        assert found[f"information_imbalance.{name}_floor 0"].value == 1
