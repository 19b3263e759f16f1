"""Statistics of many numbers: corrected p-values, correlations, the best of several, changes of a series."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from math import atanh, inf, sqrt, tanh
from typing import Literal

import numpy as np

from reporter.geometry.arrays import Bools, Floats
from reporter.geometry.intervals import FEWEST_TEXTS, Interval, below, quantile


def holm(p: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order given."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    adjusted = [1.0] * len(p)
    least = 0.0
    for rank, index in enumerate(order):
        least = max(least, min(1.0, (len(p) - rank) * p[index]))
        adjusted[index] = least
    return adjusted


# Correlations, and how sure they are: over independent points, and over points that hang together.


Method = Literal["spearman", "pearson"]
FEWEST = 4  # Fisher's z has the variance 1/(n − 3)
EXACT = 7  # up to here all orders are tried: 5040
SATURATED = 0.9999
"""Beyond it ranks agree: a larger z would only tell how many points there are."""
A_LINE = 1 - 1e-9
"""Beyond it points lie on a line but for rounding, which has no interval."""


def correlation(x: Floats, y: Floats, method: Method, equal: float = 0.0) -> float | None:
    """Return Pearson's or Spearman's correlation; None where a side does not vary."""
    a, b = (ranks(x, equal), ranks(y, equal)) if method == "spearman" else (x, y)
    a, b = a - a.mean(), b - b.mean()
    size = sqrt(float(a @ a) * float(b @ b))
    return None if size <= 1e-300 else float(np.clip(a @ b / size, -1.0, 1.0))


def ranks(x: Floats, equal: float = 0.0) -> Floats:
    """Return the rank of each number, from 1; equal numbers share their mean rank."""
    order = np.argsort(x)
    gaps = np.diff(x[order])
    group = np.concatenate([[0], np.cumsum(gaps > equal * np.abs(x[order][1:]))])
    count = np.bincount(group)
    last = np.cumsum(count)
    mean_ranks = np.empty(len(x))
    mean_ranks[order] = (last - (count - 1) / 2)[group]
    return mean_ranks


def spearman(x: Floats, y: Floats) -> Floats:
    """Return Spearman's correlation along the last axis, (…, k); NaN where a side does not vary."""
    from scipy.stats import rankdata

    a, b = (rankdata(side, axis=-1) - (side.shape[-1] + 1) / 2 for side in (x, y))
    return np.asarray((a * b).sum(axis=-1) / np.sqrt(np.square(a).sum(axis=-1) * np.square(b).sum(axis=-1)))


def kendall(x: Floats, y: Floats) -> Floats:
    """Return Kendall's τ along the last axis, (…, k): the mean over pairs of ±1; a pair with equal numbers counts 0."""
    i, j = np.triu_indices(x.shape[-1], 1)
    return np.asarray((np.sign(x[..., i] - x[..., j]) * np.sign(y[..., i] - y[..., j])).mean(axis=-1))


def fisher(r: float, n: float, method: Method) -> tuple[float, float]:
    """Return Fisher's z of a correlation, cut at that of ±0.9999, and its standard error; infinite below four points.

    The variance is 1/(n − 3), for Spearman's times 1 + ρ²/2 (Bonett & Wright 2000).
    """
    z = atanh(max(-SATURATED, min(SATURATED, r)))
    if n <= 3.0:
        return z, inf
    return z, sqrt((1 + r * r / 2 if method == "spearman" else 1.0) / (n - 3))


def far_points(x: Floats, y: Floats) -> float:
    """Return by which factor the error of Fisher's z of Pearson's correlation exceeds its formula, at least 1.

    The formula holds for normal numbers. Where single points lie far out, the jackknife says more, of the error and of
    the bias. Where the points lie on a curve and one side is very skewed, most samples lack its largest points and have
    too high a correlation, by more than that.
    """
    n = len(x)
    a, b = x - x.mean(), y - y.mean()
    # Sums without each point, from those of all.
    a_left, b_left = -a / (n - 1), -b / (n - 1)
    squares = [float(side @ side) - side**2 - (n - 1) * left**2 for side, left in ((a, a_left), (b, b_left))]
    products = float(a @ b) - a * b - (n - 1) * a_left * b_left
    size = np.sqrt(np.maximum(squares[0], 0.0) * np.maximum(squares[1], 0.0))
    if (size <= 1e-12 * sqrt(float(a @ a) * float(b @ b))).any():
        return inf  # one point makes all of the correlation
    z = np.arctanh(np.clip(products / size, -SATURATED, SATURATED))
    jackknife = sqrt((n - 1) ** 2 / n * float(z.var()))
    r = correlation(x, y, "pearson") or 0.0
    bias = (n - 1) * abs(float(z.mean()) - atanh(max(-SATURATED, min(SATURATED, r))))
    return max(1.0, jackknife * sqrt(n - 3)) + bias * sqrt(n - 3)


def near_perfect(r: float, n: int, bound: float) -> float:
    """Return the factor that widens the error of Fisher's z of Spearman's correlation against a bound, at least 1.

    Its variance is that of the larger of both. A few points are in perfect order by chance, also where their
    correlation is far from 1: such an order counts as half a step of ranks below 1, and exceeds no bound above that.
    """
    most, edge, z = atanh(1 - 6 / (n**3 - n)), atanh(bound), atanh(min(SATURATED, abs(r)))
    if z <= most:
        return sqrt((1 + max(bound * bound, r * r) / 2) / (1 + r * r / 2))
    return (z - edge) / (most - edge) if edge < most else inf


def fisher_interval(r: float, n: int, method: Method) -> Interval:
    """Return the 95 % interval of a correlation by Fisher's z; none for fewer than four points, or for a line."""
    if n < FEWEST or abs(r) > A_LINE:
        return None, None
    z, reach = atanh(r), quantile(0.975) * fisher(r, n, method)[1]
    return tanh(z - reach), tanh(z + reach)


def effective_points(x: Floats, y: Floats, method: Method) -> float:
    """Return how many independent points two series of neighbouring layers are worth.

    n (1 − ab)/(1 + ab), with a and b the correlations of each series with itself one layer on (Bartlett 1935), each
    corrected for its bias in short series by (1 + 4a)/n (Marriott & Pope 1954). Two smooth trends over 13 layers are
    worth about three points: their correlation says next to nothing.
    """
    n = len(x)
    a, b = (_persistence(ranks(side) if method == "spearman" else side) for side in (x, y))
    return n * (1 - a * b) / (1 + a * b)


def _persistence(x: Floats) -> float:
    centred = x - x.mean()
    size = float(centred @ centred)
    if size == 0:
        return 0.0
    autocorrelation = float(centred[1:] @ centred[:-1]) / size
    return min(0.99, max(0.0, autocorrelation + (1 + 4 * autocorrelation) / len(x)))


def by_chance(x: Floats, y: Floats, method: Method) -> tuple[float, float]:
    """Return the probability of a correlation at least as high, and as low, if x and y are unrelated.

    All orders of y are tried for up to seven points; Student's t for more.
    """
    a, b = (ranks(x), ranks(y)) if method == "spearman" else (x, y)
    n = len(a)
    r = correlation(x, y, method) or 0.0
    if n > EXACT:
        t = r * sqrt((n - 2) / max(1e-12, 1 - r * r))
        return float(below(-t, n - 2)), float(below(t, n - 2))
    orders = np.array(list(permutations(range(n))))
    sums = (a - a.mean()) @ b[orders].T
    observed, tiny = float((a - a.mean()) @ b), 1e-9 * float(np.abs(sums).max() + 1e-300)
    return float((sums >= observed - tiny).mean()), float((sums <= observed + tiny).mean())


# Which of several alternatives is the best, and how far each lies behind it, from numbers of the same units.
#
# Several layers are tried on the same texts. The best one that is *seen* is best in part by luck, so that an interval
# of its lead over another, as if the two had been named beforehand, is too sure of itself. Here each alternative l has
# an interval of what it loses against the best one that there *is*, max_j θ_j − θ_l:
#
#     from max_j (θ̂_j − θ̂_l − c_l·s_jl), at least 0, to max_j (θ̂_j − θ̂_l + c_l·s_jl),
#
# s_jl the standard error of the difference, paired over units, and c_l the 95 % quantile of the largest |t_jl| under
# the joint distribution of all differences to l. Where the interval begins at 0, l is *not told apart* from the best:
# however many are tried, the set of all such l holds the best one in at least 95 % of cases.
#
# Sources: Hsu 1984, "Constrained simultaneous confidence intervals for multiple comparisons with the best", Annals of
# Statistics 12; Dunnett 1955 for the quantile, here by drawing from Student's joint distribution.


DRAWS = 4000
"""Of the joint distribution: the quantile is then known to about 2 %."""
_POWER = 0.8
_ROUNDING = 1e-7  # of the largest number: a difference that small is none


@dataclass(frozen=True)
class GapsToBest:
    """The gaps between alternatives and the best.

    Args:
        values: the mean of each, (k,).
        loss: what each loses against the best one seen, (k,).
        low: lower end of what it loses against the best one that there is, (k,).
        high: upper end, (k,).
        needed: units with which the difference from the best one seen, if it is as large as it is seen, would be
            significant with a probability of 80 %, (k,); NaN where there is no difference.
    """

    values: Floats
    loss: Floats
    low: Floats
    high: Floats
    needed: Floats

    @property
    def best(self) -> int:
        """The best one seen; of equals the first."""
        return int(np.argmax(self.values))


def behind_best(values: Floats, inflation: float = 1.0) -> GapsToBest | None:
    """Return how far alternatives lie behind the best; None for fewer than five units.

    Args:
        values: a number of each unit for each alternative, more being better, (n, k).
    """
    n, k = values.shape
    if n < FEWEST_TEXTS:
        return None
    values = np.ascontiguousarray(values)
    means, centred = values.mean(axis=0), values - values.mean(axis=0)
    covariance = centred.T @ centred / (n * (n - 1))
    draws = _student(covariance, n - 1)
    gaps = means[:, None] - means[None, :]  # gaps[j, l]: what l lies behind j
    variances = covariance.diagonal()
    spread = np.sqrt(np.maximum(variances[:, None] + variances[None, :] - 2 * covariance, 0.0))
    tiny = _ROUNDING * max(float(np.abs(values).max()), np.finfo(float).tiny)
    sure = spread <= tiny  # itself, and what differs by the same in every unit
    half, error = np.zeros((k, k)), np.sqrt(inflation) * spread
    for column in range(k):
        unsure = ~sure[:, column]
        t = draws[:, unsure]  # changed in place: fresh memory costs more than arithmetic
        t -= draws[:, [column]]
        t = np.abs(t, out=t)
        t /= spread[unsure, column]
        c = float(np.quantile(t.max(axis=1, initial=0.0), 0.95))
        half[unsure, column] = c * error[unsure, column]
    low, best = (gaps - half).max(axis=0), int(means.argmax())
    loss, reach = gaps[best], half[best] + quantile(_POWER) * error[best]
    needed = n * np.divide(reach, loss, out=np.full(k, np.nan), where=loss > tiny) ** 2
    return GapsToBest(means, loss, np.where(low <= tiny, 0.0, low), (gaps + half).max(axis=0), needed)


def _student(covariance: Floats, free: int) -> Floats:
    rng = np.random.default_rng(0)
    eigenvalues, vectors = np.linalg.eigh(covariance)
    normal = rng.standard_normal((DRAWS, len(eigenvalues))) * np.sqrt(np.maximum(eigenvalues, 0.0))
    return np.asarray(normal @ vectors.T / np.sqrt(rng.chisquare(free, (DRAWS, 1)) / free))


# Where a short series of noisy numbers changes: half-way from first to last value, at a turn, and when it rests.
#
# The numbers are measured at checkpoints, each with a standard error. Errors are taken as independent from one
# checkpoint to the next, as the database has them; where they come from the same texts they go together, and
# differences are surer than is said here. Findings know how layers go together and test the same questions with it
# (``findings/training.py``); what is told from that is found by the same ``passage``. Every statement about several
# checkpoints holds for all of them at once (Bonferroni).


LEVEL = 0.05
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class SeriesChange:
    """A change of a series.

    Args:
        at: the point that shows it best: the first one past the middle; the highest or the lowest.
        low: first point of the range in which it lies with 95 % confidence.
        high: last point of that range.
        size: how large it is: last minus first value; the turn's height above the nearer end (below it: negative).
        size_low: lower end of the 95 % interval of the size.
        size_high: upper end.
        p: probability of one so large, up or down, by noise alone.
    """

    at: int
    low: int
    high: int
    size: float
    size_low: float
    size_high: float
    p: float


def half_way(values: Floats, errors: Floats, least: float = 0.0) -> SeriesChange | None:
    """Return where a series passes the middle between its first and its last value.

    The range goes from the last point that is told to lie before the middle to the first one that is told to lie beyond
    it. None where the first and the last value are not told apart, or where a point told to lie beyond the middle comes
    before one told not to have reached it, so that there is no single passage.

    Args:
        values: by checkpoint, (n,) with n ≥ 3.
        errors: their standard errors, (n,).
    """
    n, change, error = len(values), float(values[-1] - values[0]), float(np.hypot(errors[0], errors[-1]))
    p = 2 * float(below(-(abs(change) - least) / max(error, _TINY)))
    if p > LEVEL:
        return None
    past = np.sign(change) * (values - (values[0] + values[-1]) / 2)
    spread = np.sqrt(errors**2 + (errors[0] ** 2 + errors[-1] ** 2) / 4)
    spread[[0, -1]] = error / 2  # half of their difference
    sure = quantile(1 - LEVEL / (2 * n)) * spread
    passed = passage(past < -sure, past > sure)
    if passed is None:
        return None
    low, high = passed
    index = low + 1 + int(np.argmax(past[low + 1 : high + 1] >= 0))
    return SeriesChange(index, low, high, change, *_interval(change, error), p)


def passage(before: Bools, after: Bools) -> tuple[int, int] | None:
    """Return between which two points a series passes the middle; None where there is no single passage."""
    low = max([0, *np.flatnonzero(before).tolist()])
    high = min([len(after) - 1, *np.flatnonzero(after).tolist()])
    return (low, high) if low < high else None


def turn(values: Floats, errors: Floats, least: float = 0.0) -> SeriesChange | None:
    """Return where a series is highest or lowest between its ends, the clearer one of both; None where it is not.

    The range has every point that is not told apart from the extreme; neither end of the series is among them.

    Args:
        values: by checkpoint, (n,) with n ≥ 3.
        errors: their standard errors, (n,).
    """
    peaks = [_peak(sign * values, errors, least, sign) for sign in (1.0, -1.0)]
    return min((peak for peak in peaks if peak is not None), key=lambda peak: peak.p, default=None)


def _peak(values: Floats, errors: Floats, least: float, sign: float) -> SeriesChange | None:
    n, index = len(values), int(np.argmax(values))
    end = 0 if values[0] >= values[-1] else n - 1
    if index in (0, n - 1):
        return None
    height, error = float(values[index] - values[end]), float(np.hypot(errors[index], errors[end]))
    p = min(1.0, 2 * (n - 2) * float(below(-(height - least) / max(error, _TINY))))
    apart = quantile(1 - LEVEL / (2 * (n - 1))) * np.hypot(errors, errors[index])
    among = np.flatnonzero(values[index] - values <= apart + least)
    if p > LEVEL or {0, n - 1} & set(among.tolist()):
        return None
    ends = sorted(sign * x for x in _interval(height, error))
    return SeriesChange(index, int(among[0]), int(among[-1]), sign * height, ends[0], ends[1], p)


def rests(values: Floats, errors: Floats, least: float = 0.0) -> int:
    """Return the first point from which on no value is told apart from the last one."""
    apart = quantile(1 - LEVEL / (2 * max(len(values) - 1, 1))) * np.hypot(errors, errors[-1]) + least
    away = np.flatnonzero(np.abs(values - values[-1])[:-1] > apart[:-1])
    return int(away[-1]) + 1 if len(away) else 0


def _interval(value: float, error: float) -> tuple[float, float]:
    half = quantile(0.975) * error
    return value - half, value + half
