"""Axes and subspaces: one by products alone against all of them, distances, and what each row does to them."""

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles

from reporter.geometry import components
from reporter.geometry.components import (
    apart,
    coordinates,
    first_axis,
    fixed_random_vector,
    largest_eigenvalue,
    leading,
    menger,
    menger_by,
    principal_axes,
)

RNG = np.random.default_rng


def steep(rng):
    return rng.standard_normal((500, 80)) * np.geomspace(10, 0.1, 80)


def sinks(rng):
    """A few rows a thousand times as long as the others, along one coordinate."""
    x = rng.standard_normal((500, 80))
    x[::100, 3] += 1e3
    return x


def alike(rng):
    """No axis stands out: there is no gap that products could find in time."""
    return np.diag(np.sqrt(np.linspace(1, 2, 800)))


def few(rng):
    return rng.standard_normal((6, 90))


def one_direction(rng):
    return np.outer(rng.standard_normal(50), rng.standard_normal(20))


def twins(rng):
    """The largest eigenvalue stands there twice."""
    return np.concatenate([np.eye(30) * 3, np.eye(30)[:2] * 4])


MADE = [steep, sinks, alike, few, one_direction, twins, lambda rng: rng.standard_normal((40, 1))]


@pytest.mark.parametrize("make", MADE)
def test_the_first_axis_is_that_of_all(make):
    x = torch.from_numpy(make(RNG(0)))
    value, axis = first_axis(x)
    expected = torch.linalg.eigvalsh(x.T @ x)[-1]
    assert float(value) == pytest.approx(float(expected), rel=1e-12)
    assert float(axis.norm()) == pytest.approx(1, rel=1e-9)
    assert float((x @ axis).square().sum()) == pytest.approx(float(expected), rel=1e-9)


def test_weights_and_a_vector_that_is_near_no_more():
    """The axis of before is an eigenvector still, but another one has become larger."""
    x = torch.zeros(200, 50, dtype=torch.float64)
    x[:, 0] = torch.linspace(1, 2, 200)
    x[7] = 0
    x[7, 20] = 1e3
    without = torch.ones(200, dtype=torch.float64)
    without[7] = 0
    value, axis = first_axis(x, without)
    assert float(axis[0].abs()) == pytest.approx(1) and float(value) == pytest.approx(float(x[:, 0].square().sum()))
    value, axis = first_axis(x, torch.ones(200, dtype=torch.float64), axis)
    assert float(axis[20].abs()) == pytest.approx(1) and float(value) == pytest.approx(1e6)


@pytest.mark.parametrize("make", MADE)
def test_about_a_centre_without_a_copy(make):
    x = torch.from_numpy(make(RNG(0)))
    weights = torch.from_numpy(RNG(1).integers(0, 2, len(x)).astype(np.float64))
    centre = weights @ x / weights.sum()
    rows = (x - centre) * weights[:, None]
    value, axis = first_axis(x, weights, fixed_random_vector(x.shape[1]), centre)
    size = float((weights[:, None] * x.square()).sum())
    assert float(value) == pytest.approx(float(torch.linalg.eigvalsh(rows.T @ rows)[-1]), rel=1e-12, abs=1e-14 * size)
    assert float((rows @ axis).square().sum()) == pytest.approx(float(value), rel=1e-9, abs=1e-14 * size)


def test_products_suffice_where_an_axis_stands_out_and_do_not_where_none_does():
    asked = []

    def found(x):
        x = torch.from_numpy(x)
        asked.clear()
        return largest_eigenvalue(lambda v: asked.append(v) or (x @ v) @ x, fixed_random_vector(x.shape[1]))

    assert found(steep(RNG(0))) is not None and len(asked) <= 24
    assert found(alike(RNG(0))) is None and len(asked) == components._PRODUCTS


@pytest.mark.parametrize("rows", [30, 9])
def test_axes_and_coordinates_are_those_of_a_singular_value_decomposition(rows):
    x = RNG(0).standard_normal((rows, 12)) * np.geomspace(3, 0.3, 12) + 2
    centred = x - x.mean(axis=0)
    left, singular, right = np.linalg.svd(centred, full_matrices=False)
    told, tables = [], [torch.from_numpy(part) for part in (x[:4], x[4:])]
    axes = principal_axes(tables, progress=lambda *of: told.append(of))
    assert axes.n == rows and axes.mean == pytest.approx(x.mean(axis=0))
    assert axes.eigenvalues == pytest.approx((singular**2 / rows)[: rows - 1], rel=1e-5, abs=1e-7)
    assert np.abs(np.sum(axes.directions * right[:3], axis=1)) == pytest.approx(1, rel=1e-5)
    assert (axes.directions[np.arange(3), np.abs(axes.directions).argmax(axis=1)] > 0).all()
    assert axes.coordinates(tables[1]) == pytest.approx(centred[4:] @ axes.directions.T, abs=1e-5)
    assert told == ([("components", 4, rows), ("components", rows, rows)] if rows > 12 else [])
    found, expected = coordinates(x, 3), (left * singular)[:, :3]
    assert found == pytest.approx(expected * np.sign(np.sum(found * expected, axis=0)))
    assert (found[np.abs(found).argmax(axis=0), np.arange(3)] > 0).all()
    assert (coordinates(x[:2], 3)[:, 1:] == pytest.approx(0)) and principal_axes([torch.ones(5, 3)]) is None


@pytest.mark.parametrize(("d", "k"), [(10, 3), (80, 2)])
def test_the_distance_of_leading_subspaces_and_what_a_token_does_to_it(d, k):
    scales = 0.03 * np.geomspace(4, 0.2, d)
    a, b = (np.cov((RNG(seed).standard_normal((200, d)) * scales).T) for seed in (0, 1))
    mine, theirs = leading(a, k), leading(b, k)
    found = apart(mine, theirs)
    angles = subspace_angles(np.linalg.eigh(a)[1][:, -k:], np.linalg.eigh(b)[1][:, -k:])
    assert found.distance == pytest.approx(np.linalg.norm(angles))
    assert apart(mine, mine).distance == pytest.approx(0, abs=1e-7)
    for axes, pull, move in ((mine, found.first, (1, 0)), (theirs, found.second, (0, 1))):
        x = 0.1 * RNG(2).standard_normal(d)
        moved = [leading(c + 1e-6 * by * (np.outer(x, x) - c), k) for c, by in zip((a, b), move, strict=True)]
        expected = (apart(*moved).distance - found.distance) / 1e-6
        assert (x @ axes.axes) @ (x @ pull) == pytest.approx(expected, rel=1e-3 if d == 10 else 0.1)
    assert leading(np.diag([1.0, 0, 0]), 2) is None


def test_the_circle_through_three_points():
    assert menger(3, 4, 5) == pytest.approx(0.4)  # a right angle: the hypotenuse is its diameter
    steps = [(menger(*(np.array([3, 4, 5.5]) + h)) - menger(3, 4, 5.5)) / 1e-7 for h in 1e-7 * np.eye(3)]
    assert menger_by(3, 4, 5.5) == pytest.approx(steps, rel=1e-4)
