"""Correlations and their intervals against SciPy and known truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

from reporter.geometry.statistics import FEWEST, correlation, fisher_interval, ranks


@pytest.mark.parametrize("offset", [0, 3])
def test_spearman_with_ties(offset):
    rng = np.random.default_rng(offset)
    x, y = rng.integers(0, 6, (2, 50)).astype(float) + offset
    assert correlation(x, y, "spearman") == pytest.approx(spearmanr(x, y).statistic, rel=1e-12)
    assert correlation(np.ones(9), x[:9], "spearman") is None
    assert correlation(x, x, "spearman") == pytest.approx(1) and correlation(x, -x, "spearman") == pytest.approx(-1)


def test_the_interval_of_a_rank_correlation_covers_the_truth():
    """Normal pairs of correlation 0.6, whose Spearman correlation is 6/π·arcsin(0.3)."""
    truth, hits = 6 / np.pi * np.arcsin(0.3), 0
    rng = np.random.default_rng(0)
    for _ in range(400):
        x = rng.standard_normal(40)
        y = 0.6 * x + 0.8 * rng.standard_normal(40)
        low, high = fisher_interval(correlation(x, y, "spearman"), 40, "spearman")
        hits += low <= truth <= high
    assert 0.92 <= hits / 400 <= 0.98
    assert fisher_interval(1.0, 40, "spearman") == (None, None)


def test_ranks_are_those_of_scipy_and_rounding_makes_no_order():
    x = np.random.default_rng(0).integers(0, 9, 40).astype(float)
    np.testing.assert_array_equal(ranks(x), rankdata(x))
    noisy = x * (1 + 1e-8 * np.random.default_rng(1).standard_normal(40))
    np.testing.assert_array_equal(ranks(noisy, 1e-6), rankdata(x))


def test_no_interval_without_points_or_for_a_line():
    assert fisher_interval(0.5, FEWEST - 1, "pearson") == (None, None)
    assert fisher_interval(1 - 1e-10, 50, "pearson") == (None, None)
    low, high = fisher_interval(0.99999, 50, "spearman")
    assert low < 0.99999 < high < 1
    low, high = fisher_interval(0.5, 28, "pearson")
    assert np.tanh(np.arctanh(0.5) + 1.959964 / 5) == pytest.approx(high, rel=1e-6)
    assert np.arctanh(low) + np.arctanh(high) == pytest.approx(2 * np.arctanh(0.5), rel=1e-12)
