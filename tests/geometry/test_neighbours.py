"""Exact means exact: the fast float32 search must give scikit-learn's distances on data made to break it."""

import numpy as np
import pytest
import torch
from oracles.dimension import neighbour_distances

from reporter.geometry import neighbours
from reporter.geometry.neighbours import nearest, nearest_within

RNG = np.random.default_rng


def outliers(rng):
    x = rng.standard_normal((600, 30))
    x[::60] *= 1e3
    return x


def far_from_the_origin(rng):
    return rng.standard_normal((600, 30)) + 1e5


def two_far_groups(rng):
    """Centring does not help: both groups stay 1e4 spreads from the mean."""
    return rng.standard_normal((600, 30)) + 1e4 * rng.choice([-1, 1], (600, 1))


def tight_clusters(rng):
    return np.repeat(rng.standard_normal((60, 30)), 10, axis=0) + 1e-4 * rng.standard_normal((600, 30))


def tighter_clusters(rng):
    return np.repeat(10 * rng.standard_normal((20, 30)), 30, axis=0) + 1e-6 * rng.standard_normal((600, 30))


def exact_duplicates(rng):
    return np.repeat(rng.standard_normal((200, 30)), 3, axis=0)


def a_line(rng):
    return np.outer(np.sort(rng.random(600)) * 1e3, rng.standard_normal(30))


def wide(rng):
    return rng.standard_normal((300, 1500)) * np.geomspace(1e-3, 1e3, 1500)


def a_grid(rng):
    """Nothing but ties."""
    return np.stack(np.meshgrid(*[np.arange(9.0)] * 3), axis=-1).reshape(-1, 3)


NASTY = [outliers, far_from_the_origin, two_far_groups, tight_clusters, tighter_clusters]
NASTY += [exact_duplicates, a_line, wide, a_grid]


def assert_distances(found, expected, size):
    """The two nearest exactly, further ranks but for a few swaps. Centring moves a coordinate by a rounding of its
    size: what that allows at 1e5 is the absolute part."""
    np.testing.assert_allclose(found[:, :2], expected[:, :2], rtol=1e-9, atol=1e-14 * size)
    np.testing.assert_allclose(found[:, 2:], expected[:, 2:], rtol=5e-4, atol=1e-14 * size)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("make", NASTY)
def test_the_nearest_and_further_ranks_of_nasty_data(make, kind):
    x = make(RNG(0)).astype(kind)
    expected = neighbour_distances(x.astype(np.float64), 128)
    two, more = nearest(x, 2).distances.numpy(), nearest(x, 2, [4, 16, 128]).distances.numpy()
    assert two.shape == (len(x), 2) and two.dtype == np.float64
    assert_distances(two, expected[:, :2], np.abs(x).max())
    assert_distances(more, expected[:, [0, 1, 3, 15, 127]], np.abs(x).max())


def test_further_ranks_of_plain_data_are_exact_but_for_a_few_swaps():
    x = RNG(3).standard_normal((1500, 20))
    found, expected = nearest(x, 1, [5, 64, 200]).distances.numpy(), neighbour_distances(x, 200)[:, [0, 4, 63, 199]]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert (np.abs(found / expected - 1) < 1e-12).mean() > 0.99


@pytest.mark.parametrize(
    ("count", "k"),
    [(3, 2), (4, 2), (8, 2), (9, 2), (10, 1), (10, 5), (10, 9), (11, 2), (1023, 2), (1024, 2), (1025, 2), (2050, 2)],
)
def test_sizes_around_the_block_and_the_spare_candidates(count, k):
    x = RNG(count).standard_normal((count, 4))
    np.testing.assert_allclose(nearest(x, k).distances, neighbour_distances(x, k), rtol=1e-9)


def test_one_dimension_and_equal_rows():
    line = np.array([[0.0], [1.0], [3.0], [7.0]])
    np.testing.assert_allclose(nearest(line, 2).distances, [[1, 3], [1, 2], [2, 3], [4, 6]])
    assert (nearest(np.ones((20, 3)), 2).distances == 0).all()


@pytest.mark.parametrize("make", NASTY)
def test_a_group_has_the_neighbours_that_it_has_alone(make):
    """One search serves groups that differ in a few rows, in most of them, and one that is alone in its corner."""
    x, rng = make(RNG(0)).astype(np.float32), RNG(1)
    n = len(x)
    groups = [
        np.arange(n),
        np.sort(rng.permutation(n)[: n - 9]),
        np.sort(rng.permutation(n)[: n // 3]),
        np.argsort(x[:, 0], kind="stable")[:150],  # lists of these rows hold hardly any other row
        np.arange(n - 20, n),
    ]
    groups[3].sort()
    found = nearest_within(x, [torch.from_numpy(group) for group in groups], 2, [4, 16, 128], 140)
    for group, within in zip(groups, found, strict=True):
        ranks = [rank for rank in (1, 2, 4, 16, 128) if rank < len(group)]
        alone = x[group].astype(np.float64)
        every = neighbour_distances(alone, max(ranks))
        assert within.distances.shape == (len(group), len(ranks)) and (within.rows.numpy() == group).all()
        assert_distances(within.distances.numpy(), every[:, [rank - 1 for rank in ranks]], np.abs(x).max())
        places = within.places.numpy()
        assert places.shape == within.listed.shape == (len(group), min(140, len(group) - 1))
        assert np.isin(places, group).all() and (places != group[:, None]).all()
        assert all(len(set(row)) == len(row) for row in places.tolist())


def test_a_group_whose_rows_are_not_in_the_lists_is_searched_again(monkeypatch):
    """Without that its lists would end early: the check above would be empty."""
    x = RNG(0).standard_normal((600, 4))
    few = torch.arange(0, 600, 100)
    searched, smallest = [], neighbours.smallest
    monkeypatch.setattr(neighbours, "smallest", lambda d2, count: searched.append(d2.shape[1]) or smallest(d2, count))
    monkeypatch.setattr(neighbours, "_LEFT_OUT", 0.0)
    (found,) = nearest_within(x, [few], 2)
    assert searched[:2] == [len(x), len(few)]
    np.testing.assert_allclose(found.distances, neighbour_distances(x[few], 2), rtol=1e-9)
