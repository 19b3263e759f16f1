"""Where a series changes, on series whose change is known, and how often noise is taken for one."""

from __future__ import annotations

import numpy as np
import pytest

from reporter.geometry.statistics import half_way, rests, turn

ERRORS = np.full(8, 0.02)


def test_a_jump_is_found_between_its_two_points():
    values = np.array([0.1, 0.1, 0.1, 0.9, 0.9, 0.9, 0.9, 0.9])
    found = half_way(values, ERRORS)
    assert (found.low, found.at, found.high) == (2, 3, 3) and turn(values, ERRORS) is None
    half = 1.959964 * 0.02 * np.sqrt(2)
    assert (found.size, found.size_low, found.size_high) == pytest.approx((0.8, 0.8 - half, 0.8 + half))
    assert rests(values, ERRORS) == 3
    falls = half_way(-values, ERRORS)
    assert (falls.low, falls.at, falls.high, falls.size) == (2, 3, 3, pytest.approx(-0.8))


def test_a_slow_change_has_a_wide_range_and_noise_widens_it():
    values = np.linspace(0, 1, 8)
    sharp, wide = half_way(values, ERRORS), half_way(values, np.full(8, 0.1))
    assert (sharp.low, sharp.high) == (3, 4)
    assert wide.low < 3 and wide.high > 4 and wide.at == sharp.at == 4
    assert half_way(values, np.full(8, 0.6)) is None
    assert half_way(values, ERRORS, least=0.99) is None


def test_a_turn_is_found_with_what_is_not_told_apart_from_it():
    values = np.array([0.1, 0.3, 0.7, 0.71, 0.4, 0.3, 0.2, 0.1])
    found = turn(values, ERRORS)
    assert (found.low, found.at, found.high) == (2, 3, 3) and found.size == pytest.approx(0.61)
    assert half_way(values, ERRORS) is None
    valley = turn(1 - values, ERRORS)
    assert valley.at == 3 and valley.size == pytest.approx(-0.61) and valley.size_low < valley.size < valley.size_high


def test_there_and_back_is_no_single_passage():
    assert half_way(np.array([0.0, 0.9, 0.1, 0.9, 1.0, 1, 1, 1]), ERRORS) is None


def test_noise_has_no_change():
    rng = np.random.default_rng(0)
    series = rng.normal(0, 0.02, (800, 8))
    told = [half_way(values, ERRORS) is not None or turn(values, ERRORS) is not None for values in series]
    assert np.mean(told) <= 0.09  # half-way and turns at 5 % each
    assert np.mean([rests(values, ERRORS) > 0 for values in series]) <= 0.07
    assert rests(np.ones(4), np.zeros(4)) == 0 and half_way(np.ones(4), np.zeros(4)) is None
