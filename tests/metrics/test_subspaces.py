"""Distances of leading subspaces: known angles, the published choice of k, and what cannot be followed."""

import numpy as np
import pytest
from oracles.fake_model import FakeModel, made_up_texts
from scipy.linalg import subspace_angles

from reporter.geometry import noise
from reporter.geometry.components import LeadingAxes, apart
from reporter.metrics.base import catalogue


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


def test_axes_that_carry_a_share_of_the_variance(see):
    metric = catalogue()["subspaces"]
    seen = see(FakeModel(layers=2), made_up_texts(60), names=metric.needs)
    found = {(v.statistic, v.place.layer): v for v in metric.compute(seen, metric.options(explained=0.95))}
    values = np.linalg.eigvalsh(seen.covariance(seen.path[-1]))[::-1]
    k = next(k for k in range(1, 17) if values[:k].sum() >= 0.95 * values.sum())
    assert found["speed_floor", 0].value == noise.subspaces(16, k, 0)
    axes = [np.linalg.eigh(seen.covariance(place))[1][:, -k:] for place in seen.path]
    assert found["speed", 1].value == pytest.approx(np.linalg.norm(subspace_angles(axes[1], axes[2])), rel=1e-6)
