"""One axis by products alone, against all of them."""

import numpy as np
import pytest
import torch

from reporter.geometry import components
from reporter.geometry.components import first_axis, fixed_random_vector, largest_eigenvalue

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
