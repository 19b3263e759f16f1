"""Intervals of numbers that are no means: the delta method over texts.

To first order a number T of a corpus is a mean: T − E T ≈ (1/n) Σ φ(x) over its n tokens, with φ(x) the *influence* of
a token, which moments, eigenvectors and type means of the whole corpus give exactly. Tokens of one text are not
independent, texts are, so Var T ≈ (1/n²) Σ_i Φ_i², Φ_i = Σ φ over text i; texts that say the same are one.

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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from numpy.typing import NDArray

from reporter.metrics._intervals import FEWEST_TEXTS
from reporter.metrics._spectra import ZERO
from reporter.metrics.base import INFLUENCES

if TYPE_CHECKING:
    from reporter.observables.observed import Observed, Place
    from reporter.observables.token_sample import Selection, TokenSample

Floats = NDArray[np.float64]
Scale = Literal["plain", "log", "logit", "fisher"]
Interval = tuple[float, float] | tuple[None, None]

DELTA = (
    f"95 %, delta method over texts: influences of up to {INFLUENCES} sampled tokens, summed by distinct text, "
    f"Student's t {{scale}}; covered {{covered}} where measured; none for fewer than {FEWEST_TEXTS} texts"
)
ON_SCALE: Mapping[Scale, str] = {
    "plain": "on its own scale",
    "log": "on the log scale",
    "logit": "on the logit scale",
    "fisher": "on the scale of Fisher's z",
}


def described(scale: Scale, covered: str) -> str:
    """Return what ``interval=`` of a statistic says.

    Args:
        scale: of the interval.
        covered: least and most of the statistic in ``tests/intervals/README.md``.
    """
    return DELTA.format(scale=ON_SCALE[scale], covered=covered)


@dataclass(frozen=True)
class Error:
    """The error of a number.

    Args:
        sd: standard deviation over corpora.
        df: degrees of freedom of that estimate.
    """

    sd: float
    df: float


def error_over_texts(influence: Floats, texts: NDArray[np.int64], n: int, distinct: int) -> Error | None:
    """Return the error of a number of n tokens from the influences of m of them; None for fewer than five texts.

    Args:
        influence: φ of each sampled token, shape (m,).
        texts: which text each belongs to; those that say the same have one number; shape (m,).
        n: tokens that the number was computed from; m where it was computed from the sample.
        distinct: texts that they come from, no two of which say the same.
    """
    m = len(influence)
    if distinct < FEWEST_TEXTS or m < 2:
        return None
    _, which = np.unique(texts, return_inverse=True)
    sums, squares = np.bincount(which, influence), np.bincount(which, np.square(influence))
    single = min(1.0, m / n)
    double = min(1.0, m * (m - 1) / (n * (n - 1)))
    parts = (np.square(sums) - squares) / double + squares / single
    total = max(float(parts.sum()), (1 - single) * float(squares.sum()) / single)
    if not total > 0:
        return Error(0.0, float(distinct - 1))
    # Texts without a sampled token count as zeros.
    noise = float(np.square(parts).sum()) - float(parts.sum()) ** 2 / max(distinct, len(parts))
    df = 2 * total**2 / noise if noise > 0 else np.inf
    return Error(float(np.sqrt(total * distinct / (distinct - 1))) / n, float(np.clip(df, 1.0, distinct - 1)))


def interval(value: float, error: Error | None, scale: Scale, bounds: tuple[float, float]) -> Interval:
    """Return a 95 % interval on a scale on which the bounds lie at infinity, cut at the bounds.

    Args:
        value: the number.
        error: its error; None gives no interval.
        scale: ``log`` for positive numbers (``plain`` where they may be zero), ``logit`` for shares, ``fisher`` for
            cosines.
        bounds: least and most that the number can be.
    """
    from scipy.special import stdtrit  # a quantile of Student's t, without the import of scipy.stats

    if error is None:
        return None, None
    half = float(stdtrit(error.df, 0.975)) * error.sd
    if half <= 1e-12 * abs(value):
        return value, value
    with np.errstate(over="ignore", divide="ignore"):
        if scale == "log" and half < value:  # where zero is not ruled out, a logarithm has no end
            low, high = value * np.exp([-half / value, half / value])
        elif scale == "logit" and 0 < value < 1:
            odds, step = np.log(value / (1 - value)), half / (value * (1 - value))
            low, high = 1 / (1 + np.exp(-np.array([odds - step, odds + step])))
        elif scale == "fisher" and abs(value) < 1:
            z, step = np.arctanh(value), half / (1 - value**2)
            low, high = np.tanh([z - step, z + step])
        else:
            low, high = value - half, value + half
    least, most = min(bounds[0], value), max(bounds[1], value)  # rounding may leave the number beyond its bounds
    return float(np.clip(low, least, value)), float(np.clip(high, value, most))


def reciprocal(ends: Interval) -> Interval:
    """Return the interval of 1/T from that of a positive T."""
    low, high = ends
    return (None, None) if low is None or high is None else (1 / high, 1 / low)


def sampled(seen: Observed, strata: tuple[int, ...] | None = None) -> Selection:
    """Return the tokens whose influences are taken: the same ones for every number of a view, or of some strata."""
    if strata is None:
        return seen.token_sample(INFLUENCES)
    tokens = cast("TokenSample", seen.observables["tokens"])
    return seen.once(("influences", strata), lambda: tokens.select(strata, INFLUENCES))


def texts_of(sample: Selection) -> NDArray[np.int64]:
    """Return which text each sampled token belongs to, shape (m,)."""
    from reporter.observables.token_sample import TEXT

    return sample.facts[:, TEXT]


def spectral_errors(seen: Observed, place: Place) -> dict[str, Error | None]:
    """Return the errors of numbers of the covariance's eigenvalues, by the names that ``_gradients`` gives them."""

    def compute() -> dict[str, Error | None]:
        values, vectors = np.linalg.eigh(seen.covariance(place))
        n = seen.tokens
        spectrum, vectors = values[::-1][: n - 1], vectors[:, ::-1][:, : n - 1]
        kept = spectrum > ZERO * spectrum.sum()
        spectrum, vectors = spectrum[kept], vectors[:, kept]
        sample = sampled(seen)
        x = sample.states(place).astype(np.float64) - seen.moments(place).mean
        numbers = _gradients(spectrum, min(seen.width(place), n - 1))
        gradients = np.stack(list(numbers.values()), axis=1)
        influences = np.square(x @ vectors) @ gradients - spectrum @ gradients
        texts = texts_of(sample)
        return {
            name: error_over_texts(influence, texts, n, seen.texts)
            for name, influence in zip(numbers, influences.T, strict=True)
        }

    return seen.once(("spectral errors", seen.held, place), compute)


def _gradients(spectrum: Floats, most: int) -> dict[str, Floats]:
    """Return the derivative of each number by each eigenvalue, each of shape (eigenvalues,).

    Args:
        spectrum: the eigenvalues that are not zero, largest first.
        most: how many there can be.
    """
    total, squares = spectrum.sum(), spectrum @ spectrum
    p = spectrum / total
    share = -p[0] * np.ones_like(p)
    share[0] += 1
    participation = total**2 / squares
    entropy = -(p @ np.log(p))
    decay, fitted = np.zeros_like(p), spectrum[: most // 2]
    if len(fitted) >= 3:
        rank = np.arange(1, len(fitted) + 1)
        weight, x = 1 / rank, np.log(rank)
        x = x - weight @ x / weight.sum()
        decay[: len(fitted)] = -weight * x / (weight @ x**2) / fitted
    return {
        "top_variance_share": share / total,
        "participation_ratio": participation * 2 * (1 / total - spectrum / squares),
        "effective_rank": -np.exp(entropy) * (np.log(p) + entropy) / total,
        "decay": decay,
    }


def cosine_influence(units: Floats, mean: Floats) -> Floats:
    """Return the influence of each token on ‖mean of u‖², which the mean cosine is but for n/(n − 1), shape (m,).

    Args:
        units: u = x/‖x‖ of each token, 0 where x is, shape (m, d).
        mean: of u over all tokens, shape (d,).
    """
    return 2 * (units @ mean - mean @ mean)
