"""Consistency, its replicates and its probabilities against brute force and against closed forms."""

from itertools import product

import numpy as np
import pytest

from reporter.metrics import _directions as directions
from reporter.metrics._directions import consistency


def cosine(x, y):
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


def brute_consistency(x):
    return np.mean([cosine(x[i], np.delete(x, i, axis=0).mean(axis=0)) for i in range(len(x))])


@pytest.fixture
def x():
    return np.random.default_rng(0).standard_normal((7, 5)) + 0.4


def test_consistency_leaves_each_pair_and_its_copies_out(x):
    assert consistency(x) == pytest.approx(brute_consistency(x), abs=1e-12)
    # With itself inside the mean, independent differences would read 1/√n; without, nothing.
    assert consistency(np.eye(50)) == pytest.approx(0.0, abs=1e-12)
    drawn = [0, 0, 2, 3, 3, 3, 6]
    weights = np.bincount(drawn, minlength=7).astype(float)
    brute = np.mean([cosine(x[i], np.mean([x[j] for j in drawn if j != i], axis=0)) for i in drawn])
    assert directions.weighted_consistency(x, weights[None])[0] == pytest.approx(brute, abs=1e-12)
    assert np.isnan([consistency(x[:1]), directions.weighted_consistency(x, np.eye(7)[:1])[0]]).all()


def test_a_probability_is_that_of_all_turns(x):
    every = np.array(list(product([-1.0, 1.0], repeat=7)))
    exact = np.mean([brute_consistency(x * signs[:, None]) >= consistency(x) - 1e-12 for signs in every])
    assert directions.consistency_p(x, np.random.default_rng(2)) == pytest.approx(exact, abs=0.03)
    replicates = directions.resampled(x, np.random.default_rng(4))
    assert np.nanmean(replicates) == pytest.approx(consistency(x), abs=0.05)
    assert directions.at_least(1.0, np.array([0.0, 1.0, 2.0])) == 3 / 4


def test_a_cosine_probability_is_that_of_all_turns():
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((6, 4)), rng.standard_normal((8, 4)) + 0.5

    def exact(x, y):
        every = np.array(list(product([-1.0, 1.0], repeat=len(x))))
        along = x @ y.mean(axis=0)
        return np.mean(np.abs(every @ along) >= abs(along.sum()) - 1e-12)

    found = directions.cosine_p(a, b, directions.turned(6, rng), directions.turned(8, rng))
    assert found == pytest.approx(max(exact(a, b), exact(b, a)), abs=0.05)


def test_rounding_is_no_difference():
    first = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 1.0]])
    second = first + np.array([[1e-7, 0.0], [0.0, 1.0], [0.0, 0.0]])
    found = directions.differences(first, second)
    assert found.different.tolist() == [[0.0, 1.0]]
    assert found.scale == pytest.approx(np.linalg.norm(np.concatenate([first, second]), axis=1).mean())
    assert directions.differences(first, first).direction is None


def test_texts_paired_at_random_have_no_consistency():
    """Nor do the directions of concepts have more in common than 12 dimensions give: E|cos| ≈ √(2/πd)."""
    rng = np.random.default_rng(7)
    chance = directions.by_chance(rng.standard_normal((200, 12)) + 10, [20, 20, 20], rng)
    assert chance.consistency == pytest.approx(0.0, abs=0.02)
    assert chance.aligned == pytest.approx((2 / np.pi / 12) ** 0.5, abs=0.03)
    # The mean of 20 differences of unit Gaussians is √(2/20) a dimension long, the texts √(12 · 101).
    assert chance.relative_norm == pytest.approx((12 * 0.1 / 12 / 101) ** 0.5, rel=0.05)
    same = directions.by_chance(np.ones((10, 3)), [5], rng)
    assert (same.consistency, same.aligned) == (None, None)
