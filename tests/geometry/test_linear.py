"""Linear maps from second moments, against least squares on the rows themselves."""

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes, subspace_angles

from reporter.app.verify.by_map import explained as by_rows
from reporter.geometry.linear import (
    Joint,
    canonical,
    directions,
    explained,
    fit,
    joint_of,
    merged,
    procrustes,
    pull,
    push,
    token_cka,
)


def joint(x, y, weights=None):
    """Moments of rows, each as often as its weight says."""
    w = np.ones(len(x)) if weights is None else weights
    centre, mean = w @ x / w.sum(), w @ y / w.sum()
    a, b = x - centre, y - mean
    made = (centre, mean, (a.T * w) @ a, (a.T * w) @ b, (b.T * w) @ b)
    return Joint(w.sum(), *map(torch.from_numpy, made))


@pytest.fixture
def pair():
    """300 rows, 6 → 4 dimensions: half linear, half noise, scales from 1e-3 to 1e3, means far from zero."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 6)) * np.logspace(-3, 3, 6)
    y = (x / np.logspace(-3, 3, 6)) @ rng.standard_normal((6, 4)) + 2 * rng.standard_normal((300, 4))
    return x + 50, y - 7


def test_the_share_explained_is_that_of_least_squares(pair):
    x, y = pair
    a, b = x - x.mean(axis=0), y - y.mean(axis=0)
    left = b - a @ np.linalg.lstsq(a, b, rcond=None)[0]
    expected = 1 - np.square(left).sum() / np.square(b).sum()
    of = joint(x, y)
    assert explained(fit(of), of) == pytest.approx(expected, rel=1e-9)
    assert 0.3 < expected < 0.9  # a case that can fail


def test_held_out_is_the_loss_of_the_other_halfs_map(pair):
    x, y = pair
    halves = np.arange(300) % 3 == 0
    found = []
    for fitted, tried in ((halves, ~halves), (~halves, halves)):
        found.append(by_rows(x[fitted], y[fitted], x[tried], y[tried]))
    first, second = joint(x[halves], y[halves]), joint(x[~halves], y[~halves])
    both = (explained(fit(first), second) + explained(fit(second), first)) / 2
    assert both == pytest.approx(np.mean(found), rel=1e-9)


def test_parts_merge_to_the_whole(pair):
    x, y = pair
    whole, parts = joint(x, y), merged([joint(x[:40], y[:40]), joint(x[40:41], y[40:41]), joint(x[41:], y[41:])])
    for name in ("mean_x", "mean_y", "xx", "xy", "yy"):
        torch.testing.assert_close(getattr(parts, name), getattr(whole, name))


def test_likeness_is_that_of_scipy_and_of_all_products_of_two_rows(pair):
    """The best of all rotations (Williams et al. 2021), principal angles (Björck & Golub 1973), Gram matrices."""
    x, y = pair[0] / np.logspace(-3, 3, 6), pair[1]
    a, b = x - x.mean(axis=0), y - y.mean(axis=0)
    of, wide = joint(x, y), np.pad(b / np.linalg.norm(b), ((0, 0), (0, 2)))
    assert procrustes(of).value == pytest.approx(orthogonal_procrustes(a / np.linalg.norm(a), wide)[1], rel=1e-9)
    grams = [(side @ side.T).ravel() for side in (a, b)]
    expected = grams[0] @ grams[1] / (np.linalg.norm(grams[0]) * np.linalg.norm(grams[1]))
    assert token_cka(of).value == pytest.approx(expected, rel=1e-9)
    assert canonical(of) == pytest.approx(np.square(np.cos(subspace_angles(a, b))).mean(), rel=1e-6)


@pytest.mark.parametrize("measure", [procrustes, token_cka])
def test_influences_are_the_derivative_in_the_weight_of_a_row(measure, pair):
    x, y = pair[0] / np.logspace(-3, 3, 6), pair[1]
    of = measure(joint(x, y))
    influence = of.influence(torch.from_numpy(x - x.mean(axis=0)), torch.from_numpy(y - y.mean(axis=0)))
    assert float(influence.mean()) == pytest.approx(0, abs=1e-12)
    for row in (0, 17, 200):
        weights = np.ones(300)
        weights[row] += 1e-3
        more = measure(joint(x, y, weights))
        assert (more.value - of.value) * 300 / 1e-3 == pytest.approx(float(influence[row]), rel=1e-2)


def test_fewer_rows_than_dimensions_are_explained_whole():
    rng = np.random.default_rng(3)
    of = joint(rng.standard_normal((5, 8)), rng.standard_normal((5, 3)))
    assert fit(of).rank == 4
    assert explained(fit(of), of) == pytest.approx(1)


def test_what_a_row_does_to_its_own_map_is_what_leaving_it_out_does(pair):
    """Also where a map has few rows to a dimension, and has drawn its residuals near zero."""
    x, y = (torch.from_numpy(side[:24]) for side in pair)
    of = joint_of(x, y)
    axes, whole = directions(of.xx, of.n), explained(fit(of), of)
    assert_alike(push(fit(of, axes), axes, of, whole, x, y) / 24, x, y, whole, None, 0.1)


def test_what_a_row_does_to_the_map_is_what_leaving_it_out_does(pair):
    x, y = (torch.from_numpy(side) for side in pair)
    tried, fitted = joint_of(x[100:], y[100:]), joint_of(x[:100], y[:100])
    axes, whole = directions(fitted.xx, fitted.n), explained(fit(fitted), tried)
    found = pull(fit(fitted, axes), axes, fitted, tried, whole, x[:100], y[:100])
    assert_alike(found, x[:100], y[:100], whole, tried, 0.05)


def assert_alike(found, x, y, whole, tried, within):
    """Compare what each row does with what it costs to leave it out of a map, tried on others or on the rest."""
    parts = [joint_of(*(torch.cat([side[:i], side[i + 1 :]]) for side in (x, y))) for i in range(len(x))]
    left_out = np.array([whole - explained(fit(part), tried or part) for part in parts])
    assert np.corrcoef(found.numpy(), left_out)[0, 1] > 0.98
    assert found.numpy().std() == pytest.approx(left_out.std(), rel=within)
