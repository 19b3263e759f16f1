"""The period of a helix is read off, noise of every colour shows none; cosines by offset against all pairs."""

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter1d

from reporter.metrics._static_numbers import by_offset, heat, period, positions
from reporter.metrics.vocabulary import PositionCosine, PositionOffset, PositionVector, VocabularyFact


def helix(generator, count, d, turn, noise):
    """A helix with so many positions in a turn, turned into any direction of d dimensions."""
    angle = 2 * np.pi * np.arange(count) / turn
    x = np.zeros((count, d))
    x[:, 0], x[:, 1], x[:, 2] = np.cos(angle), np.sin(angle), np.linspace(-1.5, 1.5, count)
    return x @ np.linalg.qr(generator.normal(size=(d, d)))[0] + noise * generator.normal(size=(count, d))


NOISE = {
    "white": lambda g, n, d: g.normal(size=(n, d)),
    "walk": lambda g, n, d: g.normal(size=(n, d)).cumsum(axis=0),
    "smooth": lambda g, n, d: gaussian_filter1d(g.normal(size=(n + 240, d)), 30, axis=0)[120:-120],
}


def path(x):
    u, s, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    return u[:, :3] * s[:3]


@pytest.mark.parametrize("turn", [5.3, 20, 64, 100.5])
def test_the_period_of_a_helix(turn):
    facts, reason = period(path(helix(np.random.default_rng(0), 512, 48, turn, 0.1)), 0)
    assert facts["period"] == pytest.approx(turn, rel=0.03)
    assert facts["period turns"] == pytest.approx(512 / turn, rel=0.03)
    assert facts["period share"] > 0.8 and (facts["period p"], reason) == (0.005, "")


def test_a_first_position_that_lies_apart_hides_no_period_and_short_and_straight_paths_have_none():
    x = helix(np.random.default_rng(0), 256, 48, 16, 0.05)
    x[0] += 4
    assert period(path(x), 0)[0]["period"] == pytest.approx(16, rel=0.03)
    assert period(np.zeros((31, 3)), 0) == ({}, "31 positions are too few")
    assert period(np.linspace(0, 1, 64)[:, None] * np.ones(3), 0) == ({}, "the path is a straight line")


@pytest.mark.parametrize("name", NOISE)
def test_noise_has_no_period(name):
    generator = np.random.default_rng(1)
    found = [period(path(NOISE[name](generator, 192, 32)), 0) for _ in range(40)]
    assert sum("period" in facts for facts, _ in found) <= 2
    assert all(("period" in facts) != bool(reason) for facts, reason in found)


@pytest.mark.parametrize("together", [7, 1000])
def test_cosines_by_offset(together, monkeypatch):
    monkeypatch.setattr("reporter.metrics._static_numbers._TOGETHER", together)
    x = np.random.default_rng(0).normal(size=(40, 6))
    x[7] = 0
    unit = x / np.where(x.any(axis=1), np.linalg.norm(x, axis=1), np.nan)[:, None]
    found = by_offset(unit)
    assert [o.distance for o in found] == list(range(1, 40))
    for o in found:
        true = (unit @ unit.T).diagonal(o.distance)
        assert o.n == np.isfinite(true).sum()
        assert (o.cosine, o.sd) == pytest.approx((np.nanmean(true), np.nanstd(true)), abs=1e-12)


def test_the_picture_shows_the_first_positions_without_gaps():
    shown = list(heat(np.eye(300)))
    assert [(cell.position_a, cell.position_b) for cell in shown] == [(a, b) for a in range(96) for b in range(96)]
    assert [cell.cosine for cell in shown[:97]] == [1.0] + [0.0] * 96
    assert len(list(heat(np.eye(5)))) == 25


def test_a_report_of_positions():
    x = helix(np.random.default_rng(0), 128, 24, 16, 0.02).astype(np.float32)
    found = list(positions(torch.from_numpy(x), 0))
    wide = x.astype(float)
    each = [row for row in found if isinstance(row, PositionVector)]
    np.testing.assert_allclose([row.norm for row in each], np.linalg.norm(wide, axis=1))
    assert each[0].step_length is None
    np.testing.assert_allclose([row.step_length for row in each[1:]], np.linalg.norm(np.diff(wide, axis=0), axis=1))
    np.testing.assert_allclose([row.mean_distance for row in each], np.linalg.norm(wide - wide.mean(0), axis=1))
    components = np.array([[row.pc1, row.pc2, row.pc3] for row in each], dtype=float)
    np.testing.assert_allclose(np.abs(components), np.abs(path(wide)), atol=1e-5)
    facts = {row.fact: row.value for row in found if isinstance(row, VocabularyFact)}
    assert facts["period"] == pytest.approx(16, rel=0.02)
    # A helix has a cosine that depends on the offset, with the helix's period.
    offsets = [row for row in found if isinstance(row, PositionOffset)]
    assert max(offsets[8:24], key=lambda row: row.cosine).distance in (15, 16, 17)


def test_equal_and_zero_positions():
    def of(kind, table):
        return [row for row in positions(table, 0) if isinstance(row, kind)]

    (period_of,) = of(VocabularyFact, torch.ones(64, 4))
    assert (period_of.fact, period_of.value, period_of.said) == ("period", None, "all position vectors are equal")
    assert of(PositionOffset, torch.ones(64, 4))[0].cosine == pytest.approx(1)
    zero = torch.zeros(64, 4)
    assert not of(PositionOffset, zero)
    assert {row.mean_cosine for row in of(PositionVector, zero)} == {None}
    assert {row.cosine for row in of(PositionCosine, zero)} == {None}
    assert len(of(PositionVector, torch.randn(1, 4))) == 1
    assert [row.n for row in of(PositionOffset, torch.randn(2, 4))] == [1]
