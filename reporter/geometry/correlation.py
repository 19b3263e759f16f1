"""Correlations, and how sure they are: over independent points, and over points that hang together."""

from __future__ import annotations

from itertools import permutations
from math import atanh, inf, sqrt, tanh
from typing import Literal

import numpy as np

from reporter.geometry.arrays import Floats
from reporter.geometry.intervals import Interval, below, quantile

Method = Literal["spearman", "pearson"]
FEWEST = 4  # Fisher's z has the variance 1/(n − 3)
EXACT = 7  # up to here all orders are tried: 5040
SATURATED = 0.9999
"""Beyond it ranks agree: a larger z would only tell how many points there are."""
A_LINE = 1 - 1e-9
"""Beyond it points lie on a line but for rounding, which has no interval."""


def correlation(x: Floats, y: Floats, method: Method, equal: float = 0.0) -> float | None:
    """Return Pearson's or Spearman's correlation; None where a side does not vary.

    Args:
        x: one side, (n,).
        y: the other, (n,).
        method: which.
        equal: see :func:`ranks`.
    """
    a, b = (ranks(x, equal), ranks(y, equal)) if method == "spearman" else (x, y)
    a, b = a - a.mean(), b - b.mean()
    size = sqrt(float(a @ a) * float(b @ b))
    return None if size <= 1e-300 else float(np.clip(a @ b / size, -1.0, 1.0))


def ranks(x: Floats, equal: float = 0.0) -> Floats:
    """Return the rank of each number, from 1; equal numbers share their mean rank.

    Args:
        x: numbers, (n,).
        equal: two neighbours count as equal that differ by no more than this share of the larger one. What float32
            states cannot tell apart would else come in an order that depends on the batch.
    """
    order = np.argsort(x)
    gaps = np.diff(x[order])
    group = np.concatenate([[0], np.cumsum(gaps > equal * np.abs(x[order][1:]))])
    count = np.bincount(group)
    last = np.cumsum(count)
    found = np.empty(len(x))
    found[order] = (last - (count - 1) / 2)[group]
    return found


def fisher(r: float, n: float, method: Method) -> tuple[float, float]:
    """Return Fisher's z of a correlation, cut at that of ±0.9999, and its standard error; infinite below four points.

    The variance is 1/(n − 3), for Spearman's times 1 + ρ²/2 (Bonett & Wright 2000).
    """
    z = atanh(max(-SATURATED, min(SATURATED, r)))
    if n <= 3.0:
        return z, inf
    return z, sqrt((1 + r * r / 2 if method == "spearman" else 1.0) / (n - 3))


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
    found = float(centred[1:] @ centred[:-1]) / size
    return min(0.99, max(0.0, found + (1 + 4 * found) / len(x)))


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
    own, tiny = float((a - a.mean()) @ b), 1e-9 * float(np.abs(sums).max() + 1e-300)
    return float((sums >= own - tiny).mean()), float((sums <= own + tiny).mean())
