"""Uncertainty of a number: 95 % intervals from influences, replicates, half-samples and groups, and from counts.

**The delta method over texts.** To first order a number T of a corpus is a mean: T − E T ≈ (1/n) Σ φ(x) over its n
tokens, with φ(x) the *influence* of a token, which moments, eigenvectors and type means of the whole corpus give
exactly. Tokens of one text are not independent, texts are, so Var T ≈ (1/n²) Σ_i Φ_i², Φ_i = Σ φ over text i; texts
that say the same are one.

φ is taken of a uniform sample of m tokens. With q = m/n and q₂ = m(m − 1)/(n(n − 1)) the chances that a token and a
pair of tokens are in it, S_i and Q_i the sums of φ and φ² over the sampled tokens of text i,

    Σ_i Φ_i² is estimated by Σ_i c_i, c_i = (S_i² − Q_i)/q₂ + Q_i/q,

without bias (Horvitz & Thompson 1952): a sample does not overstate the error of what was computed from all tokens. It
is not taken below (1 − q) Σ Q_i/q, so that a small sample cannot find less than nothing; Σ Q_i/q is the variance of
independent tokens. The degrees of freedom are those of the estimate itself,
2(Σ c_i)²/Σ (c_i − c̄)² (Satterthwaite 1946), so that few texts that decide a number, or a sample with few pairs in one
text, make it wider.

Source of the method: Huber 1981, "Robust Statistics", section 2.5 (influence functions); Magnus 1985, "On
differentiating eigenvalues and eigenvectors", for dλ_k = v_kᵀ dΣ v_k.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from reporter.geometry.arrays import Bools, Floats, Ints

Scale = Literal["plain", "log", "logit", "fisher"]
Interval = tuple[float, float] | tuple[None, None]
Bounds = tuple[float | None, float | None]

PARTS = 100
"""Groups of texts that the parts of a number are kept for (:mod:`reporter.forward.parts`)."""
FEWEST_TEXTS = 5
"""Below it an interval over texts covers far less than it says: 74 % at three texts, 89 % at five."""
_AT_BOUND = 1e-6
"""Nearer to its bound a share or a cosine lies at it, up to rounding in float32: odds would be those of the residue."""
_ALMOST_ONE = 1 - _AT_BOUND  # a |CKA| beyond it is 1 up to float32


def quantile(probability: float, df: float = np.inf) -> float:
    """Return a quantile of Student's t with so many degrees of freedom; of the normal distribution for infinitely many.

    Args:
        probability: the probability below it.
        df: degrees of freedom.
    """
    from scipy.special import ndtri, stdtrit  # without the import of scipy.stats

    return float(ndtri(probability) if np.isinf(df) else stdtrit(df, probability))


def below(z: float | Floats, df: float = np.inf) -> Floats:
    """Return the probability of a number of at most z: under Student's t, or the normal distribution."""
    from scipy.special import ndtr, stdtr

    return np.asarray(ndtr(z) if np.isinf(df) else stdtr(df, z), dtype=np.float64)


def student_interval(values: Floats) -> tuple[float, float, float]:
    """Return the mean of some numbers, (n,), and its 95 % interval by Student's t."""
    half = quantile(0.975, len(values) - 1) * float(values.std(ddof=1)) / len(values) ** 0.5
    mean = float(values.mean())
    return mean, mean - half, mean + half


def sign_after(tests: int, value: float, low: float, high: float, df: float = np.inf) -> int:
    """Return 1 or −1 where a number differs from 0 significantly after Bonferroni's correction, else 0.

    Args:
        tests: how many numbers were tested.
        value: the number.
        low: lower end of its 95 % interval.
        high: upper end of this interval.
        df: degrees of freedom of the interval.
    """
    reach = quantile(1 - 0.025 / tests, df) / quantile(0.975, df)
    return int(value - reach * (value - low) > 0) - int(value + reach * (high - value) < 0)


def widening(texts: int) -> float:
    """Return how many normal quantiles of replicates over texts a 95 % interval reaches from their middle.

    Replicates of n texts vary by √((n − 1)/n) less than the number itself, and their spread is an estimate with n − 1
    degrees of freedom.

    Source: Hesterberg 2015, "What teachers should know about the bootstrap", section 5.3 (expanded percentiles).
    """
    return quantile(0.975, texts - 1) * float(np.sqrt(texts / (texts - 1)))


def wilson(right: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927)."""
    from scipy.stats import binomtest

    share, proportion = right / n, binomtest(right, n).proportion_ci(0.95, "wilson")
    # Rounding may carry an end past the share itself where that is 0 or 1.
    return min(share, float(proportion.low)), max(share, float(proportion.high))


def share_ends(share: float, ends: Interval, units: int) -> Interval:
    """Return the interval of a share of tokens, or a mean of numbers in 0…1; at 0 and 1 Wilson's for as many texts.

    Texts that all have 0, or all have 1, do not vary, so no error follows from them. Another text may still differ in
    every token.

    Args:
        share: the number.
        ends: of its interval; without one there is none at 0 and 1 either.
        units: texts, or clusters of texts.
    """
    low, high = ends
    if low is None or high is None or units < 1 or _AT_BOUND < share < _ALMOST_ONE:
        return ends
    z = quantile(0.975) ** 2
    reach = z / (units + z)
    return (low, max(high, reach)) if share <= _AT_BOUND else (min(low, 1 - reach), high)


def of_units(values: Floats, units: Ints | None) -> Floats:
    """Return a number of each unit from numbers of texts, (n, …): clusters of texts are resampled as a whole.

    The mean of k units with sums S of deviations is that of the n texts, and k/(k − 1)·Σ S²/n² its variance, that of a
    mean over clusters of unequal sizes.

    Source: Cochran 1977, "Sampling Techniques", section 9A.

    Args:
        values: a number of each text.
        units: the unit of each, (n,); each text is a unit if None.
    """
    if units is None or len(np.unique(units)) == len(values):
        return values
    mean = values.mean(axis=0)
    sums = sums_of_units(values - mean, units)
    return np.asarray(mean + sums * (len(sums) / len(values)))


def sums_of_units(values: Floats, units: Ints) -> Floats:
    """Return the sum over the texts of each unit, units ascending, of numbers of texts, (n, …)."""
    numbers, which = np.unique(units, return_inverse=True)
    sums = np.zeros((len(numbers), *values.shape[1:]))
    np.add.at(sums, which, values)
    return sums


SHARED_TRAINING = 1.2
"""By so much classifiers of different folds raise the variance of their share over clusters, of which there are few."""


def share_interval(right: Bools, units: Ints | None) -> tuple[float, float]:
    """Return the 95 % interval of a share of texts that classifiers predict: Wilson's, with clusters of fewer texts.

    Clusters are worth as many independent texts as would give the share the same error and, by Student's t, the same
    reach; never more than there are, and one each where all are right or all wrong.

    Source: Korn & Graubard 1998, "Confidence intervals for proportions with small expected number of positive counts
    estimated from survey data", Survey Methodology 24.

    Args:
        right: of each text, (n,).
        units: the unit of each, (n,); each text is a unit if None.
    """
    n, share = len(right), float(right.mean())
    by_unit = of_units(right.astype(np.float64), units)
    k = len(by_unit)
    if k == n:
        return wilson(int(right.sum()), n)
    z = quantile(0.975)
    z2, square = z**2 / k, float(by_unit.var()) / (k - 1) if k > 1 else 0.0
    if square > 0:
        square *= SHARED_TRAINING * (quantile(0.975, k - 1) / z) ** 2
        z2 = max(z**2 / n, z**2 * square / (share * (1 - share)))
    middle, half = (share + z2 / 2) / (1 + z2), (z2 * share * (1 - share) + z2**2 / 4) ** 0.5 / (1 + z2)
    return min(share, middle - half), max(share, middle + half)


@dataclass(frozen=True)
class Error:
    """The error of a number.

    Args:
        sd: standard deviation over corpora.
        df: degrees of freedom of that estimate.
        of: what it was taken from.
    """

    sd: float
    df: float
    of: Influences | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class Influences:
    """The influence of each sampled token on a number, as :func:`error_over_texts` takes it.

    Args:
        each: shape (m,).
        texts: which text each token belongs to, shape (m,).
        n: tokens that the number was computed from.
        distinct: texts that they come from, no two of which say the same.
        keys: what identifies each token in two models; empty where the number is not compared with a base's.
    """

    each: Floats
    texts: Ints
    n: int
    distinct: int
    keys: NDArray[np.uint64]


Spread = Error | Floats
"""What tells how a number varies over texts: its error, or the number in each bootstrap replicate, (R,)."""


def error_over_texts(
    influence: Floats, texts: Ints, n: int, distinct: int, keys: NDArray[np.uint64] | None = None
) -> Error | None:
    """Return the error of a number of n tokens from the influences of m of them; None for fewer than five texts.

    Args:
        influence: φ of each sampled token, shape (m,).
        texts: which text each belongs to; those that say the same have one number; shape (m,).
        n: tokens that the number was computed from; m where it was computed from the sample.
        distinct: texts that they come from, no two of which say the same.
        keys: what identifies each token in two models, shape (m,), where the number is compared with a base's.
    """
    if distinct < FEWEST_TEXTS or len(influence) < 2:
        return None
    m, (_, which) = len(influence), np.unique(texts, return_inverse=True)
    sums, squares = np.bincount(which, influence), np.bincount(which, np.square(influence))
    influences = Influences(influence, texts, n, distinct, texts[:0].astype(np.uint64) if keys is None else keys)
    single = min(1.0, m / n)
    double = min(1.0, m * (m - 1) / (n * (n - 1)))
    parts = (np.square(sums) - squares) / double + squares / single
    total = max(float(parts.sum()), (1 - single) * float(squares.sum()) / single)
    if not total > 0:
        return Error(0.0, float(distinct - 1), influences)
    # Texts without a sampled token count as zeros.
    noise = float(np.square(parts).sum()) - float(parts.sum()) ** 2 / max(distinct, len(parts))
    df = 2 * total**2 / noise if noise > 0 else np.inf
    sd = float(np.sqrt(total * distinct / (distinct - 1))) / n
    return Error(sd, float(np.clip(df, 1.0, distinct - 1)), influences)


def interval(
    value: float, error: Error | None, scale: Scale, bounds: tuple[float, float], skewed: bool = False
) -> Interval:
    """Return a 95 % interval on a scale on which the bounds lie at infinity, cut at the bounds.

    Args:
        value: the number.
        error: its error; None gives no interval.
        scale: ``log`` for positive numbers (``plain`` where they may be zero), ``logit`` for shares, ``fisher`` for
            cosines. A share or a cosine that lies at its bound up to rounding has its interval on its own scale.
        bounds: least and most that the number can be.
        skewed: whether few texts may decide the number, so that the interval allows for large parts (:func:`tails_of`).
    """
    if error is None:
        return None, None
    half = quantile(0.975, error.df) * error.sd
    if half <= 1e-12 * abs(value):
        return value, value
    reach = np.array([-half, half])
    if skewed and error.of is not None:
        _, which = np.unique(error.of.texts, return_inverse=True)
        tails = tails_of(np.asarray(np.bincount(which, error.of.each), dtype=np.float64))
        reach *= 1.0 + skew_weight(error.of.distinct) * np.array(tails)
    with np.errstate(over="ignore", divide="ignore"):
        if scale == "log" and half < value:  # where zero is not ruled out, a logarithm has no end
            low, high = value * np.exp(reach / value)
        elif scale == "logit" and _AT_BOUND < value < _ALMOST_ONE:
            low, high = 1 / (1 + np.exp(-(np.log(value / (1 - value)) + reach / (value * (1 - value)))))
        elif scale == "fisher" and abs(value) < _ALMOST_ONE:
            low, high = np.tanh(np.arctanh(value) + reach / (1 - value**2))
        else:
            low, high = value + reach
    least, most = min(bounds[0], value), max(bounds[1], value)  # rounding may leave the number beyond its bounds
    return float(np.clip(low, least, value)), float(np.clip(high, value, most))


def reciprocal(ends: Interval) -> Interval:
    """Return the interval of 1/T from that of a positive T."""
    low, high = ends
    return (None, None) if low is None or high is None else (1 / high, 1 / low)


def percentile_interval(replicates: Floats, texts: int) -> Interval:
    """Return the expanded 95 % percentile interval of the replicates that drew any text; none for few texts.

    See :func:`widening`: of 100 texts it ends at the 2.3 % and 97.7 % quantiles, of 10 texts at 0.9 % and 99.1 %.
    """
    drawn = replicates[np.isfinite(replicates)]
    if texts < FEWEST_TEXTS or len(drawn) < len(replicates) / 2:
        return None, None
    tail = float(below(-widening(texts)))
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return float(low), float(high)


def simultaneous_intervals(values: Floats, replicates: Floats, texts: int) -> list[Interval]:
    """Return 95 % intervals of numbers, (k,), that hold for all at once, whichever is chosen; none for few texts.

    Each number is within c deviations of itself, c the 95 % quantile over replicates, (R, k), of the largest |t|.
    :func:`widening` applies.
    """
    drawn = replicates[np.isfinite(replicates).all(axis=1)]
    if texts < FEWEST_TEXTS or len(drawn) < len(replicates) / 2:
        return [(None, None)] * len(values)
    deviations = drawn.std(axis=0, ddof=1)
    t = np.abs(drawn - values) / np.maximum(deviations, np.finfo(float).tiny)
    half = float(np.quantile(t.max(axis=1), 0.95)) * widening(texts) / quantile(0.975) * deviations
    return list(zip((values - half).tolist(), (values + half).tolist(), strict=True))


def half_sample_interval(
    value: float, halves: Floats, texts: int, bounds: tuple[float, float] = (-1.0, 1.0)
) -> Interval:
    """Return value ± t·sd of its half-samples, cut at the bounds; none for few texts.

    A half-sample lies as far from the whole as the whole from the truth. The number itself may move with the number of
    texts, so what counts is the spread of the halves about their own mean.
    """
    drawn = halves[np.isfinite(halves)]
    if texts < FEWEST_TEXTS or len(drawn) < len(halves) / 2:
        return None, None
    half = max(quantile(0.975, len(drawn)), widening(texts)) * float(np.std(drawn))
    return max(value - half, bounds[0]), min(value + half, bounds[1])


def jackknife_interval(value: float, without: Floats, scale: Literal["fisher", "log"] = "fisher") -> Interval:
    """Return a 95 % interval of a number in −1…1 from its values without each group, shape (G,).

    There is none for few groups, or where the number does not exist without some group (NaN). On the scale ``log`` the
    number is any positive one.

    Source: Busing, Meijer & van der Leeden 1999, "Delete-m Jackknife for Unequal m", for groups of about equal size.
    """
    if not np.isfinite(without).all() or len(without) < FEWEST_TEXTS:
        return None, None
    every = np.array([value, *without])
    every = np.log(every) if scale == "log" else np.arctanh(np.clip(every, -_ALMOST_ONE, _ALMOST_ONE))
    centre, z = every[0], every[1:]
    half = quantile(0.975, len(z) - 1) * np.sqrt((len(z) - 1) * np.var(z))
    low, high = (np.exp if scale == "log" else np.tanh)([centre - half, centre + half])
    return min(float(low), value), max(float(high), value)


# What a test takes from an interval over few texts: the error that it was made of, widened for skewed texts.


VERDICT_TEXTS = 12
"""A verdict needs this many texts; with fewer, a widened interval still misses more often than in 5 %."""
SKEW = 1.5
OPEN = 4.0
"""Of a number without an upper bound the factor is 1 + OPEN · relative error where that is more."""


def widened_for_skew(texts: float) -> float:
    """Return the least factor by which a test widens an error over so many texts: 1 + SKEW/√T."""
    return float(1.0 + SKEW / max(texts, 1) ** 0.5)


def freedom(texts: float | None) -> float:
    """Return the degrees of freedom of an error over texts; infinitely many where it is not over texts."""
    return np.inf if texts is None else max(1.0, texts - 1.0)


SKEW_OF_FEW, SKEW_OF_MANY, OTHER_TAIL = 80.0, 2.6, 0.6


def errors_of(parts: Floats, texts: float) -> tuple[Floats, Floats]:
    """Return the standard errors below and above numbers, which Student's t with T − 1 degrees of freedom multiplies.

    Contributions of texts are skewed. A sample that lacks one of the rare large contributions gives a number that is
    too small, and an error that is too small. So the error above grows with the weight of the large parts that the
    sample has, Σ φ³/‖φ‖³ over the positive ones less a share of the same over the negative ones; the error below the
    other way round. A sample of few texts shows little of its skewness, so that it counts for more there. The three
    constants are fitted to log-normal texts with log sd up to 1.5 (``tests/judge/claims/README.md``).

    Source of the idea: Johnson 1978, "Modified t Tests and Confidence Intervals for Asymmetrical Populations", JASA 73.

    Args:
        parts: of the groups of texts, shape (..., G).
        texts: how many texts, or clusters, there are.

    Returns:
        two arrays of shape (...).
    """
    error, weight = np.linalg.norm(parts, axis=-1), skew_weight(texts)
    low, high = tails_of(parts)
    return error * (1 + weight * low), error * (1 + weight * high)


def skew_weight(texts: float) -> float:
    """Return how much the large parts that a sample of so many texts has widen an interval."""
    return SKEW_OF_MANY + SKEW_OF_FEW / max(texts, 1.0)


def tails_of(parts: Floats) -> tuple[Floats, Floats]:
    """Return how much large parts weigh below and above, each from 0 to 1, shape (...), of parts (..., G)."""
    error = np.linalg.norm(parts, axis=-1)
    share = parts / np.maximum(error, np.finfo(np.float64).tiny)[..., None]
    high, low = (np.power(np.clip(sign * share, 0, None), 3).sum(axis=-1) for sign in (1, -1))
    return np.clip(low - OTHER_TAIL * high, 0, None), np.clip(high - OTHER_TAIL * low, 0, None)


def interval_over_texts(value: float, parts: Floats, texts: float) -> tuple[float, float]:
    """Return the 95 % interval of a number over texts, from its parts, (G,)."""
    down, up = errors_of(parts, texts)
    reach = quantile(0.975, freedom(int(texts)))
    return value - reach * float(down), value + reach * float(up)


def errors_within(value: float, low: float, high: float, texts: int | None) -> tuple[float, float]:
    """Return the standard errors below and above a number that its interval was made of."""
    reach = quantile(0.975, freedom(texts))
    return max(value - low, 0.0) / reach, max(high - value, 0.0) / reach


def text_errors(
    value: float, low: float | None, high: float | None, texts: int | None = None, bounds: Bounds = (None, None)
) -> tuple[float, float] | None:
    """Return the standard errors below and above a number that a test takes from its 95 % interval over texts.

    Every interval over texts is made with Student's t (:func:`widening`, :func:`interval`). A test applies Student's t
    with :func:`freedom` to these errors, so the same quantile is taken off here: t counts once.

    Contributions of texts are skewed. A sample that lacks one of the rare large contributions gives a number that is
    too small and an error that is too small, so a 95 % interval misses mostly on one side. For T texts, the tail error
    of Student's t is of order skewness/√T. A number without an upper bound, such as a norm, is taken as log-normal: its
    skewness is about three times the coefficient of variation, and the latter over √T is the relative error. The
    skewness of other numbers is not known. Both factors keep each side at 2.5 % (``tests/judge/claims/README.md``).

    Source: Johnson 1978, "Modified t Tests and Confidence Intervals for Asymmetrical Populations", JASA 73.

    Args:
        value: the number.
        low: lower end of its interval.
        high: upper end.
        texts: how many there are; None where it is not an interval over texts.
        bounds: least and most that the number can be.

    Returns:
        None where there is no interval.
    """
    if low is None or high is None:
        return None
    down, up = errors_within(value, low, high, texts)
    error = max(down, up)
    if texts is None or not error:
        return down, up
    least, most = bounds
    distance = np.inf if least is None or most is not None else max(value - least, error)
    wider = max(widened_for_skew(texts), 1.0 + OPEN * error / distance)
    return wider * down, wider * up
