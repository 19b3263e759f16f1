"""The scale curve against brute force, on known data and over its options."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracles.gride import gride as reference
from oracles.gride import gride_of_ratios, log_density
from scipy.integrate import quad

from reporter.geometry.ratios import log_ratios
from reporter.geometry.spectra import RANKS, SCALES, gride_of


def curve(x):
    logs = log_ratios(torch.from_numpy(x))
    return {n: gride_of(logs[:, at], n) for at, n in enumerate(SCALES[: logs.shape[1]])}


@pytest.mark.parametrize("d", [0.7, 3, 20])
@pytest.mark.parametrize("n", [1, 4, 32])
def test_the_density_of_the_oracle_is_one(n, d):
    assert quad(lambda t: np.exp(log_density(np.exp(t), d, n, 2 * n) + t), 1e-12, 40 / d)[0] == pytest.approx(1)


@pytest.mark.parametrize("n", SCALES)
def test_scipy_finds_the_same_maximum(n):
    rng = np.random.default_rng(n)
    x = rng.standard_normal((400, 12)) * np.geomspace(1, 0.05, 12)
    assert curve(x)[n] == pytest.approx(reference(x, n), rel=1e-5)


@pytest.mark.parametrize("n", SCALES)
@pytest.mark.parametrize("d", [0.5, 7.0, 300.0])
def test_ratios_drawn_from_the_model_give_its_dimension(n, d):
    """μ^−d is the share of a ball's content at which neighbour n of 2n − 1 lies: Beta(n, n)."""
    logs = -np.log(np.random.default_rng(n).beta(n, n, 20_000)) / d
    assert gride_of(logs, n) == pytest.approx(d, rel=0.03)
    if d == 7:
        assert gride_of(logs, n) == pytest.approx(gride_of_ratios(np.exp(logs), n), rel=1e-5)


def test_scale_1_is_the_first_ratio_alone():
    logs = log_ratios(torch.from_numpy(np.random.default_rng(0).standard_normal((300, 6))))
    assert gride_of(logs[:, 0], 1) == pytest.approx(300 / logs[:, 0].sum(), rel=1e-12)


@pytest.mark.parametrize("n", SCALES)
def test_hard_ratios(n):
    """One ratio, ratios that are all but one, and ratios of every size."""
    for logs in (np.array([0.3]), np.array([0.0, 0.0, 1e-9]), np.geomspace(1e-12, 1e6, 50)):
        found = gride_of(logs, n)
        assert 0 < found < np.inf
        if n > 1:  # the slope of the likelihood changes its sign there

            def slope(d, logs=logs):
                x = np.maximum(d * logs, 1e-300)
                return len(x) - (2 * n - 1) * x.sum() + (n - 1) * (x / -np.expm1(-x)).sum()

            assert slope(found * (1 - 1e-6)) > 0 > slope(found * (1 + 1e-6))


@pytest.mark.parametrize("dimension", [2, 5])
def test_a_subspace_reads_its_dimension_at_every_scale(dimension):
    rng = np.random.default_rng(dimension)
    x = rng.random((3000, dimension)) @ np.linalg.qr(rng.standard_normal((40, dimension)))[0].T
    for n, found in curve(x).items():
        assert found == pytest.approx(dimension, rel=0.1 if n <= 4 else 0.25)  # edges of the cube lower it


def test_noise_is_seen_at_small_scales_only():
    """A plane in 30 dimensions under a little noise: the nearest neighbours are noise, the further ones the plane."""
    rng = np.random.default_rng(0)
    x = rng.random((4000, 2)) @ np.linalg.qr(rng.standard_normal((30, 2)))[0].T + 0.004 * rng.standard_normal(
        (4000, 30)
    )
    found = curve(x)
    assert found[1] > 6 and found[64] == pytest.approx(2, rel=0.25)
    assert list(found.values()) == sorted(found.values(), reverse=True)


@pytest.mark.parametrize(("count", "scales"), [(3, 1), (4, 1), (5, 2), (8, 2), (9, 3), (128, 6), (129, 7), (500, 7)])
def test_a_scale_needs_its_neighbours(count, scales):
    logs = log_ratios(torch.from_numpy(np.random.default_rng(count).standard_normal((count, 3))))
    assert logs.shape == (count, scales) and (logs >= 0).all()
    assert (2 * SCALES[scales - 1] <= count - 1) and (scales == 7 or 2 * SCALES[scales] > count - 1)
    assert RANKS == (1, 2, 4, 8, 16, 32, 64, 128)


def test_missing_scales_say_so(observe, values):
    from oracles.fake_model import FakeModel, made_up_texts

    model = FakeModel(sinks=False)
    observables, _ = observe(model, made_up_texts(40))
    found = values(
        model, observables, 40, "words", ["intrinsic_dimension"], intrinsic_dimension={"sample": 40, "batches": 2}
    )
    assert found["intrinsic_dimension.gride_16", 2].value is not None
    assert "intrinsic_dimension.gride_16_floor" in {name for name, _ in found}
    assert found["intrinsic_dimension.gride_32", 2].reason == "no more than 64 distinct states in a batch"
    assert "intrinsic_dimension.gride_32_floor" not in {name for name, _ in found}
