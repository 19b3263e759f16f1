"""Paths of known period and with known changes are read off; noise of every colour shows neither."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from reporter.weights.change_points import change_points
from reporter.weights.positions import by_offset, describe, falling, heat, period

Noise = Callable[[np.random.Generator, int, int], np.ndarray]


def helix(generator: np.random.Generator, count: int, d: int, turn: float, noise: float) -> np.ndarray:
    """A helix with so many positions in a turn, turned into any direction of d dimensions."""
    angle = 2 * np.pi * np.arange(count) / turn
    x = np.zeros((count, d))
    x[:, 0], x[:, 1], x[:, 2] = np.cos(angle), np.sin(angle), np.linspace(-1.5, 1.5, count)
    turned: np.ndarray = x @ np.linalg.qr(generator.normal(size=(d, d)))[0] + noise * generator.normal(size=(count, d))
    return turned


def smooth(generator: np.random.Generator, count: int, d: int, length: int) -> np.ndarray:
    kernel = np.exp(-0.5 * (np.arange(-4 * length, 4 * length + 1) / length) ** 2)
    z = generator.normal(size=(count + 8 * length, d))
    return np.stack([np.convolve(z[:, i], kernel, "valid") for i in range(d)], axis=1)


def red(generator: np.random.Generator, count: int, d: int, phi: float) -> np.ndarray:
    x = generator.normal(size=(count, d))
    for t in range(1, count):
        x[t] += phi * x[t - 1]
    return x


NOISE: dict[str, Noise] = {
    "white": lambda g, n, d: g.normal(size=(n, d)),
    "heavy tails": lambda g, n, d: g.standard_t(3, size=(n, d)),
    "red": lambda g, n, d: red(g, n, d, 0.9),
    "walk": lambda g, n, d: g.normal(size=(n, d)).cumsum(axis=0),
    "smooth": lambda g, n, d: smooth(g, n, d, 3),
    "very smooth": lambda g, n, d: smooth(g, n, d, 30),
    "drifting": lambda g, n, d: g.normal(size=(n, d)) * np.linspace(1, 2, n)[:, None],
}


def path(x: np.ndarray) -> np.ndarray:
    u, s, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    return u[:, :3] * s[:3]


@pytest.mark.parametrize("turn", [5.3, 20, 64, 100.5])
def test_the_period_of_a_helix(turn: float) -> None:
    found = period(path(helix(np.random.default_rng(0), 512, 48, turn, 0.1)), 0)
    assert found.positions == pytest.approx(turn, rel=0.03)
    assert found.turns == pytest.approx(512 / turn, rel=0.03)
    assert found.share is not None
    assert found.share > 0.8
    assert (found.p, found.reason) == (0.005, "")


def test_a_first_position_that_lies_apart_hides_no_period() -> None:
    x = helix(np.random.default_rng(0), 256, 48, 16, 0.05)
    x[0] += 4
    assert period(path(x), 0).positions == pytest.approx(16, rel=0.03)


@pytest.mark.parametrize("name", NOISE)
def test_noise_has_no_period(name: str) -> None:
    generator = np.random.default_rng(1)
    found = [period(path(NOISE[name](generator, 192, 32)), 0) for _ in range(60)]
    assert sum(p.positions is not None for p in found) <= 3
    assert all(p.reason for p in found if p.positions is None)


def test_short_and_straight_paths() -> None:
    assert period(np.zeros((31, 3)), 0).reason == "31 positions are too few"
    assert period(np.linspace(0, 1, 64)[:, None] * np.ones(3), 0).reason == "the path is a straight line"


def test_falling_is_isotonic_regression() -> None:
    from sklearn.isotonic import IsotonicRegression

    x = np.random.default_rng(0).exponential(size=200) / np.arange(1, 201)
    oracle = IsotonicRegression(increasing=False).fit_transform(np.arange(200), x)
    np.testing.assert_allclose(falling(x), oracle)


@pytest.mark.parametrize("name", NOISE)
def test_noise_has_no_changes(name: str) -> None:
    generator = np.random.default_rng(2)
    false = sum(bool(change_points(NOISE[name](generator, 192, 32), 0)) for _ in range(60))
    assert false <= 3


def test_a_helix_has_no_changes() -> None:
    for noise in (0.0, 0.02, 0.1):
        assert change_points(helix(np.random.default_rng(3), 256, 32, 40, noise), 0) == []


def test_a_jump_of_the_norm() -> None:
    x = np.random.default_rng(0).normal(size=(512, 64))
    x[128:] *= 1.5
    x[0] *= 20
    (found,) = change_points(x, 0)
    assert abs(found.position - 128) <= 1
    assert found.p == 0.005
    assert found.norm[1] - found.norm[0] == pytest.approx(np.log(1.5), abs=0.1)
    assert found.step[1] - found.step[0] == pytest.approx(np.log(1.5), abs=0.1)
    assert abs(found.turn[1] - found.turn[0]) < 0.1


def test_two_jumps_of_the_roughness() -> None:
    generator = np.random.default_rng(0)
    parts = [(128, 0.05), (200, 0.2), (184, 0.05)]
    angle = np.arange(512) * 2 * np.pi / 20
    x = np.zeros((512, 64))
    x[:, 0], x[:, 1] = np.cos(angle), np.sin(angle)
    x += np.concatenate([noise * generator.normal(size=(count, 64)) for count, noise in parts])
    first, second = change_points(x, 0)
    assert abs(first.position - 128) <= 2
    assert abs(second.position - 328) <= 2


def test_too_few_positions_have_no_changes() -> None:
    assert change_points(np.random.default_rng(0).normal(size=(40, 8)), 0) == []
    assert change_points(np.ones((400, 8)), 0) == []


def test_cosines_by_offset() -> None:
    x = np.random.default_rng(0).normal(size=(40, 6))
    x[7] = 0
    with np.errstate(invalid="ignore"):
        unit = x / np.linalg.norm(x, axis=1)[:, None]
    cosines = unit @ unit.T
    found = by_offset(unit)
    assert [o.distance for o in found] == list(range(1, 40))
    for o in found:
        true = cosines.diagonal(o.distance)
        true = true[~np.isnan(true)]
        assert o.n == len(true)
        assert (o.cosine, o.sd) == (pytest.approx(true.mean()), pytest.approx(true.std(), abs=1e-12))


def test_cosines_by_offset_in_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from reporter.weights import positions

    unit = np.eye(30)
    whole = by_offset(unit)
    monkeypatch.setattr(positions, "_TOGETHER", 7)
    assert by_offset(unit) == whole


def test_the_picture_is_thinned() -> None:
    unit = np.eye(300)
    shown = heat(unit)
    assert (len(shown.positions), shown.positions[0], shown.positions[-1]) == (128, 0, 299)
    assert shown.cosines.shape == (128, 128)
    assert heat(np.eye(5)).positions.tolist() == [0, 1, 2, 3, 4]


def test_a_report_of_positions() -> None:
    x = helix(np.random.default_rng(0), 128, 24, 16, 0.02).astype(np.float32)
    found = describe(torch.from_numpy(x), 0)
    wide = x.astype(float)
    np.testing.assert_allclose(found.table.norm, np.linalg.norm(wide, axis=1))
    np.testing.assert_allclose(found.table.step[1:], np.linalg.norm(np.diff(wide, axis=0), axis=1))
    assert np.isnan(found.table.step[0])
    np.testing.assert_allclose(found.table.mean_distance, np.linalg.norm(wide - wide.mean(0), axis=1))
    np.testing.assert_allclose(np.abs(found.table.pc), np.abs(path(wide)), atol=1e-5)
    assert found.period.positions == pytest.approx(16, rel=0.02)
    assert found.changes == ()
    # A helix has a cosine that depends on the offset, with the helix's period.
    best = max(found.offsets[8:24], key=lambda o: o.cosine)
    assert best.distance in (15, 16, 17)


def test_equal_and_zero_positions() -> None:
    equal = describe(torch.ones(64, 4), 0)
    assert (equal.axes, equal.period.reason) == (None, "all position vectors are equal")
    assert equal.offsets[0].cosine == pytest.approx(1)
    zero = describe(torch.zeros(64, 4), 0)
    assert zero.offsets == ()
    assert np.isnan(zero.table.mean_cosine).all()
    assert len(describe(torch.randn(1, 4), 0).table.norm) == 1
    assert describe(torch.randn(2, 4), 0).offsets[0].n == 1
