"""The best of several alternatives, against a bootstrap by hand, and where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from reporter.geometry.statistics import behind_best


def by_bootstrap(values, one, rng, replicates=3000):
    """What an alternative loses, from replicates over units instead of a distribution: lower and upper end."""
    n = len(values)
    gaps = values - values[:, [one]]
    means = rng.multinomial(n, [1 / n] * n, replicates) @ gaps / n
    error = gaps.std(axis=0, ddof=1) / np.sqrt(n)
    others = np.arange(values.shape[1]) != one
    c = np.quantile(np.abs((means - gaps.mean(axis=0))[:, others] / error[others]).max(axis=1), 0.95)
    half = c * error
    return max(0.0, (gaps.mean(axis=0) - half).max()), (gaps.mean(axis=0) + half).max()


def test_it_agrees_with_a_bootstrap_over_units():
    rng = np.random.default_rng(1)
    shared = rng.standard_normal((300, 1))
    values = 0.8 * shared + 0.6 * rng.standard_normal((300, 6)) + np.array([0, 0.02, 0.05, 0.2, 0.25, -0.3])
    found = behind_best(values)
    assert found.best == int(values.mean(axis=0).argmax())
    for one in range(6):
        low, high = by_bootstrap(values, one, rng)
        assert found.loss[one] == pytest.approx(values.mean(axis=0).max() - values[:, one].mean())
        assert found.low[one] == pytest.approx(low, abs=0.012) and found.high[one] == pytest.approx(high, abs=0.012)


def test_the_set_holds_the_best_however_many_are_tried():
    rng = np.random.default_rng(2)
    kept, naive = [], []
    for _ in range(200):
        values = rng.standard_normal((60, 20))  # none is better than another
        found = behind_best(values)
        kept.append(found.low[0] == 0)
        lead = values[:, found.best] - values[:, 0]
        naive.append(found.best == 0 or lead.mean() < 1.96 * lead.std(ddof=1) / np.sqrt(60))
    assert np.mean(kept) >= 0.92 > np.mean(naive)


def test_what_is_plain_is_told_apart_and_what_is_the_same_is_not():
    rng = np.random.default_rng(3)
    right = (rng.random((100, 1)) < [0.6]).astype(float)
    values = np.hstack([right, right, np.ones((100, 1)), np.ones((100, 1))])
    found = behind_best(values)
    assert (found.low > 0).tolist() == [True, True, False, False]
    assert found.loss[2:].tolist() == [0, 0] and found.high[2:].tolist() == [0, 0]
    assert behind_best(np.ones((10, 3))).low.tolist() == [0, 0, 0]
    assert behind_best(np.ones((4, 3))) is None


def test_strata_keep_their_weight():
    rng = np.random.default_rng(4)
    few, many = rng.standard_normal((10, 2)) + 3.0 * np.eye(2)[0], rng.standard_normal((90, 2))
    strata = np.repeat([0, 1], [10, 90])
    found = behind_best(np.concatenate([few, many]), strata)
    assert found.values == pytest.approx((few.mean(axis=0) + many.mean(axis=0)) / 2)
    error = np.sqrt(sum((of[:, 0] - of[:, 1]).var(ddof=1) / len(of) for of in (few, many))) / 2
    assert found.high[1] - found.loss[1] == pytest.approx(1.984 * error, rel=0.05)  # Student's quantile at 98
    wider = behind_best(np.concatenate([few, many]), strata, inflation=4.0)
    assert wider.high[1] - wider.loss[1] == pytest.approx(2 * (found.high[1] - found.loss[1]))


def test_as_many_units_as_it_says_decide():
    """With the number of units that is named, a difference as large as the true one is significant in about 80 %."""
    truth = np.array([0.5, 0.45, 0.3, 0.3])

    def drawn(n, seed):
        rng = np.random.default_rng(seed)
        return truth + 0.5 * rng.standard_normal((n, 1)) + 0.2 * rng.standard_normal((n, 4))

    n = 2000
    needed = np.median([behind_best(drawn(n, seed), inflation=2.25).needed[1] for seed in range(20)])
    decided = [behind_best(drawn(int(needed), seed), inflation=1.0).low[1] > 0 for seed in range(100)]
    assert np.mean(decided) > 0.95  # without the inflation there are far more than enough
    needed = np.median([behind_best(drawn(n, seed)).needed[1] for seed in range(20)])
    decided = [behind_best(drawn(int(needed), seed)).low[1] > 0 for seed in range(100)]
    assert 0.65 <= np.mean(decided) <= 0.92
    assert np.isnan(behind_best(drawn(n, 0)).needed[0])
