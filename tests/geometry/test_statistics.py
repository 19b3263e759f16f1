"""The best of several, correlations, and where a series changes: by hand, by SciPy, and where the truth is known."""

from itertools import permutations

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import kendalltau, pearsonr, rankdata, spearmanr

from reporter.geometry import statistics
from reporter.geometry.intervals import quantile
from reporter.geometry.statistics import FEWEST, behind_best, correlation, fisher_interval, half_way, rests, turn


def test_it_agrees_with_a_bootstrap_over_units():
    rng = np.random.default_rng(1)
    shared = rng.standard_normal((300, 1))
    values = 0.8 * shared + 0.6 * rng.standard_normal((300, 6)) + np.array([0, 0.02, 0.05, 0.2, 0.25, -0.3])
    result = behind_best(values)
    assert result.best == int(values.mean(axis=0).argmax())
    for one in range(6):
        gaps = values - values[:, [one]]
        error, loss = gaps.std(axis=0, ddof=1) / np.sqrt(300), gaps.mean(axis=0)
        means = rng.multinomial(300, [1 / 300] * 300, 3000) @ gaps / 300
        others = np.arange(6) != one
        half = error * np.quantile(np.abs((means - loss)[:, others] / error[others]).max(axis=1), 0.95)
        assert result.loss[one] == pytest.approx(loss.max())
        ends = max(0.0, (loss - half).max()), (loss + half).max()
        assert (result.low[one], result.high[one]) == pytest.approx(ends, abs=0.012)


def test_what_is_plain_is_told_apart_and_what_is_the_same_is_not():
    rng = np.random.default_rng(3)
    right = (rng.random((100, 1)) < [0.6]).astype(float)
    values = np.hstack([right, right, np.ones((100, 1)), np.ones((100, 1))])
    result = behind_best(values)
    assert (result.low > 0).tolist() == [True, True, False, False] and not np.any([result.loss[2:], result.high[2:]])
    assert behind_best(np.ones((10, 3))).low.tolist() == [0, 0, 0]
    assert behind_best(np.ones((4, 3))) is None


def test_as_many_units_as_it_says_decide():
    """With the number of units that is named, a difference as large as the true one is significant in about 80 %."""

    def drawn(n, seed):
        rng = np.random.default_rng(seed)
        shared, own = rng.standard_normal((n, 1)), rng.standard_normal((n, 4))
        return np.array([0.5, 0.45, 0.3, 0.3]) + 0.5 * shared + 0.2 * own

    # Without the inflation there are far more than enough.
    for inflation, least, most in ((2.25, 0.95, 1), (1.0, 0.65, 0.92)):
        needed = np.median([behind_best(drawn(2000, seed), inflation=inflation).needed[1] for seed in range(20)])
        assert least <= np.mean([behind_best(drawn(int(needed), seed)).low[1] > 0 for seed in range(100)]) <= most
    assert np.isnan(behind_best(drawn(2000, 0)).needed[0])


def test_spearman_with_ties_and_ranks_are_those_of_scipy_and_rounding_makes_no_order():
    x, y = np.random.default_rng(3).integers(0, 6, (2, 50)).astype(float) + 3
    assert correlation(x, y, "spearman") == pytest.approx(spearmanr(x, y).statistic, rel=1e-12)
    assert correlation(np.ones(9), x[:9], "spearman") is None
    assert correlation(x, x, "spearman") == pytest.approx(1) and correlation(x, -x, "spearman") == pytest.approx(-1)
    np.testing.assert_array_equal(statistics.ranks(x), rankdata(x))
    noisy = x * (1 + 1e-8 * np.random.default_rng(1).standard_normal(50))
    np.testing.assert_array_equal(statistics.ranks(noisy, 1e-6), rankdata(x))
    many = np.random.default_rng(0).standard_normal((2, 3, 9))
    for result, theirs in ((statistics.spearman, spearmanr), (statistics.kendall, kendalltau)):
        assert result(*many) == pytest.approx([theirs(a, b).statistic for a, b in zip(*many, strict=True)])


@pytest.mark.parametrize("n", [5, 8, 30])
@pytest.mark.parametrize("method", ["spearman", "pearson"])
def test_chance_is_that_of_all_orders_or_of_students_t(n, method):
    x, y = np.random.default_rng(n).standard_normal((2, n))
    high, low = statistics.by_chance(x, y, method)
    if n > 7:
        sides = (rankdata(x), rankdata(y)) if method == "spearman" else (x, y)
        assert high == pytest.approx(pearsonr(*sides, alternative="greater").pvalue)
        assert low == pytest.approx(1 - high)
    else:
        every = np.array([correlation(x, y[list(order)], method) for order in permutations(range(n))])
        observed = correlation(x, y, method)
        assert (high, low) == ((every >= observed - 1e-9).mean(), (every <= observed + 1e-9).mean())


def test_neighbouring_layers_are_worth_fewer_points():
    noise = np.random.default_rng(0).standard_normal((2, 4000))
    for step, expected in ((0.0, 4000), (0.8, 4000 * (1 - 0.64) / (1 + 0.64))):
        x, y = lfilter([1.0], [1.0, -step], noise)  # each goes on from the one before
        assert statistics.effective_points(x, y, "pearson") == pytest.approx(expected, rel=0.1)
    trend = np.arange(13.0)
    assert statistics.effective_points(trend, trend**2, "spearman") < 3.5
    assert statistics.effective_points(np.ones(13), trend, "pearson") == 13


def test_a_perfect_order_of_few_points_counts_as_half_a_step_below_it():
    perfect = (np.arctanh(0.9999) - np.arctanh(0.5)) / (np.arctanh(0.95) - np.arctanh(0.5))
    of = {(0.3, 10, 0.6): (1.18 / 1.045) ** 0.5, (0.6, 10, 0.3): 1.0, (1.0, 5, 0.5): perfect, (1.0, 5, 0.95): np.inf}
    for (r, n, bound), factor in of.items():
        assert statistics.near_perfect(r, n, bound) == pytest.approx(factor) == statistics.near_perfect(-r, n, bound)


def test_far_points_widen_the_error_as_the_jackknife_does():
    x, y = np.random.default_rng(4).standard_normal((2, 20))
    x[0], y[0] = 9, 8
    z = np.arctanh([np.corrcoef(np.delete(x, i), np.delete(y, i))[0, 1] for i in range(20)])
    bias = 19 * abs(z.mean() - np.arctanh(np.corrcoef(x, y)[0, 1]))
    assert statistics.far_points(x, y) == pytest.approx((19 / 20**0.5 * z.std() + bias) * 17**0.5)
    assert statistics.far_points(x, y) > 2 and 1 <= statistics.far_points(x[1:], y[1:]) < 2
    assert statistics.far_points(*2 * [np.eye(9)[0]]) == np.inf  # one point makes all of the correlation


def test_no_interval_without_points_or_for_a_line():
    for r, n, method in ((0.5, FEWEST - 1, "pearson"), (1 - 1e-10, 50, "pearson"), (1.0, 40, "spearman")):
        assert fisher_interval(r, n, method) == (None, None)
    low, high = fisher_interval(0.99999, 50, "spearman")
    assert low < 0.99999 < high < 1
    for method, error in (("pearson", 1 / 5), ("spearman", (1.125 / 25) ** 0.5)):  # Bonett & Wright 2000
        ends = np.tanh(np.arctanh(0.5) + 1.959964 * error * np.array([-1, 1]))
        assert fisher_interval(0.5, 28, method) == pytest.approx(ends, rel=1e-6)


ERRORS = np.full(8, 0.02)


def test_a_jump_is_found_between_its_two_points_and_a_turn_with_what_is_not_told_apart_from_it():
    jump = np.array([0.1, 0.1, 0.1, 0.9, 0.9, 0.9, 0.9, 0.9])
    peak = np.array([0.1, 0.3, 0.7, 0.71, 0.4, 0.3, 0.2, 0.1])
    for result, size in ((half_way(jump, ERRORS), 0.8), (half_way(-jump, ERRORS), -0.8), (turn(peak, ERRORS), 0.61)):
        assert (result.low, result.at, result.high, result.size) == (2, 3, 3, pytest.approx(size))
    result, half, valley = half_way(jump, ERRORS), 1.959964 * 0.02 * np.sqrt(2), turn(1 - peak, ERRORS)
    assert (result.size_low, result.size_high) == pytest.approx((0.8 - half, 0.8 + half))
    assert valley.at == 3 and valley.size == pytest.approx(-0.61) and valley.size_low < valley.size < valley.size_high
    assert rests(jump, ERRORS) == 3 and turn(jump, ERRORS) is None and half_way(peak, ERRORS) is None


def test_a_slow_change_has_a_wide_range_and_noise_widens_it():
    values = np.linspace(0, 1, 8)
    sharp, wide = half_way(values, ERRORS), half_way(values, np.full(8, 0.1))
    assert (sharp.low, sharp.high) == (3, 4)
    assert wide.low < 3 and wide.high > 4 and wide.at == sharp.at == 4
    assert half_way(values, np.full(8, 0.6)) is None
    for beyond, low in ((0.98, 2), (1.02, 3)):  # just within, and just beyond, what is told from the middle
        values[3] = 0.5 - beyond * quantile(1 - 0.05 / 16) * 0.02 * 1.5**0.5
        assert half_way(values, ERRORS).low == low
    assert half_way(values, ERRORS, least=0.99) is None


def test_noise_has_no_change_and_there_and_back_is_no_single_passage():
    assert half_way(np.array([0.0, 0.9, 0.1, 0.9, 1.0, 1, 1, 1]), ERRORS) is None
    rng = np.random.default_rng(0)
    series = rng.normal(0, 0.02, (800, 8))
    changes = [half_way(values, ERRORS) is not None or turn(values, ERRORS) is not None for values in series]
    assert np.mean(changes) <= 0.09  # half-way and turns at 5 % each
    assert np.mean([rests(values, ERRORS) > 0 for values in series]) <= 0.07
    assert statistics.passage(np.eye(4, dtype=bool)[0], np.zeros(4, dtype=bool)) == (0, 3)
    assert statistics.passage(np.eye(4, dtype=bool)[2], np.eye(4, dtype=bool)[2]) is None
    assert rests(np.ones(4), np.zeros(4)) == 0 and half_way(np.ones(4), np.zeros(4)) is None
