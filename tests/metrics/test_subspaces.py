"""Distances of leading subspaces: known angles, the published choice of k, and what cannot be followed."""

import numpy as np
import pytest
from oracles.fake_model import FakeModel, made_up_texts
from scipy.linalg import subspace_angles

from reporter.geometry import noise
from reporter.geometry.components import LeadingAxes, apart, leading, menger
from reporter.metrics.base import catalogue


def computed(see, model, **options):
    metric = catalogue()["subspaces"]
    seen = see(model, made_up_texts(60), names=metric.needs)
    return {(v.statistic, v.place.layer): v for v in metric.compute(seen, metric.options(**options))}, seen


def turned(angles, d=9):
    """Two subspaces with given principal angles, in random coordinates."""
    k = len(angles)
    rotation = np.linalg.qr(np.random.default_rng(1).standard_normal((d, d)))[0]
    a = np.eye(d)[:, :k]
    b = a * np.cos(angles) + np.eye(d)[:, k : 2 * k] * np.sin(angles)
    mix = [np.linalg.qr(np.random.default_rng(seed).standard_normal((k, k)))[0] for seed in (2, 3)]
    return rotation @ a @ mix[0], rotation @ b @ mix[1]


@pytest.mark.parametrize("angles", [[0.3, 1.0, 1.5], [1e-9, 1e-5, 0.0], [np.pi / 2, 1e-6, 0.7], [np.pi / 2] * 3])
def test_angles_that_are_known(angles):
    """Small ones too, whose cosines round to 1."""
    a, b = turned(np.array(angles))
    nothing = np.ones(3), np.zeros((9, 0)), np.zeros(0), 0.0
    found = apart(LeadingAxes(a, *nothing), LeadingAxes(b, *nothing)).distance
    assert found == pytest.approx(np.linalg.norm(angles), rel=1e-8, abs=1e-12)
    assert found == pytest.approx(np.linalg.norm(subspace_angles(a, b)), rel=1e-6, abs=1e-9)


def test_the_circle_through_three_points():
    assert menger(np.sqrt(2), np.sqrt(2), 2) == pytest.approx(1)  # of the unit circle
    assert menger(1.0, 2.0, 3.0) == 0  # on a line


@pytest.mark.parametrize("k", [1, 2, 20])
def test_leading_axes_by_either_way(k):
    rng = np.random.default_rng(k)
    x = rng.standard_normal((500, 60)) * np.geomspace(1, 20, 60)
    covariance = np.cov(x.T, bias=True)
    found = leading(covariance, k)
    values, axes = np.linalg.eigh(covariance)
    assert np.abs(found.axes.T @ axes[:, ::-1][:, :k]) == pytest.approx(np.eye(k), abs=1e-7)
    q = found.next.shape[1]
    assert found.values == pytest.approx(values[::-1][:k]) and found.next_values == pytest.approx(
        values[::-1][k : k + q]
    )
    assert found.rest == pytest.approx(values[: 60 - k - q].mean() if k + q < 60 else 0)
    assert leading(np.diag([3.0, 1.0, 0.0, 0.0]), 3) is None


def test_influences_against_a_token_more_or_less():
    """The derivative of the distance by the weight of a token, by differences of covariances."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 30)) * np.geomspace(8, 0.2, 30)
    y = x @ np.linalg.qr(np.eye(30) + 0.1 * rng.standard_normal((30, 30)))[0]

    def moments(states, weights):
        mean = weights @ states / weights.sum()
        return np.cov(states.T, aweights=weights, bias=True), mean

    def distance(weights):
        return apart(leading(moments(x, weights)[0], 4), leading(moments(y, weights)[0], 4)).distance

    sides = [leading(moments(states, np.ones(400))[0], 4) for states in (x, y)]
    found = apart(*sides)
    influence = sum(
        ((states - states.mean(axis=0)) @ side.axes * ((states - states.mean(axis=0)) @ r)).sum(axis=1)
        for states, side, r in zip((x, y), sides, (found.first, found.second), strict=True)
    )
    for token in (0, 7, 123):
        step = np.zeros(400)
        step[token] = 1e-3
        expected = (distance(1 + step) - distance(1 - step)) / 2e-3
        assert influence[token] / 400 == pytest.approx(expected, rel=0.02, abs=1e-6)


def test_random_subspaces():
    """The floor, against subspaces drawn on both sides."""
    rng = np.random.default_rng(0)
    drawn = [np.linalg.qr(rng.standard_normal((2, 50, 5)))[0] for _ in range(100)]
    expected = np.mean([np.linalg.norm(subspace_angles(a, b)) for a, b in drawn])
    assert noise.subspaces(50, 5, 0) == pytest.approx(expected, rel=0.01)


def test_axes_that_carry_a_share_of_the_variance(see):
    found, seen = computed(see, FakeModel(layers=2), explained=0.95)
    values = np.linalg.eigvalsh(seen.covariance(seen.path[-1]))[::-1]
    k = next(k for k in range(1, 17) if values[:k].sum() >= 0.95 * values.sum())
    assert found["speed_floor", 0].value == noise.subspaces(16, k, 0)
    axes = [np.linalg.eigh(seen.covariance(place))[1][:, -k:] for place in seen.path]
    assert found["speed", 1].value == pytest.approx(np.linalg.norm(subspace_angles(axes[1], axes[2])), rel=1e-6)
