"""How sure a correlation is, over independent points, over layers that hang together, and over models."""

from __future__ import annotations

from itertools import permutations
from math import atanh, sqrt
from typing import Literal

import numpy as np

from reporter.claims.points import Array

Method = Literal["spearman", "pearson"]
FEWEST = 4  # Fisher's z has the variance 1/(n − 3)
EXACT = 7  # up to here all orders are tried: 5040
NEARLY_ONE = 0.9999


def correlation(x: Array, y: Array, method: Method) -> float | None:
    """Return Pearson's or Spearman's correlation; None where a side does not vary."""
    a, b = (ranks(x), ranks(y)) if method == "spearman" else (x, y)
    a, b = a - a.mean(), b - b.mean()
    size = sqrt(float(a @ a) * float(b @ b))
    return None if size <= 1e-300 else float(np.clip(a @ b / size, -1.0, 1.0))


def ranks(x: Array) -> Array:
    """Return ranks from 1; equal values share their mean rank."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(x), dtype=np.float64)


def fisher(r: float, n: float, method: Method) -> tuple[float, float]:
    """Return Fisher's z of a correlation and its standard error; infinite below about four points.

    The variance is 1/(n − 3), for Spearman's times 1 + ρ²/2 (Bonett & Wright 2000).
    """
    z = atanh(max(-NEARLY_ONE, min(NEARLY_ONE, r)))
    if n <= 3.0:
        return z, float("inf")
    return z, sqrt((1 + r * r / 2 if method == "spearman" else 1.0) / (n - 3))


def effective_points(x: Array, y: Array, method: Method) -> float:
    """Return how many independent points two series of neighbouring layers are worth.

    n (1 − ab)/(1 + ab), with a and b the correlations of each series with itself one layer on (Bartlett 1935), each
    corrected for its bias in short series by (1 + 4a)/n (Marriott & Pope 1954). Two smooth trends over 13 layers are
    worth about three points: their correlation says next to nothing.
    """
    n = len(x)
    a, b = (_persistence(ranks(side) if method == "spearman" else side) for side in (x, y))
    return n * (1 - a * b) / (1 + a * b)


def _persistence(x: Array) -> float:
    centred = x - x.mean()
    size = float(centred @ centred)
    if size == 0:
        return 0.0
    found = float(centred[1:] @ centred[:-1]) / size
    return min(0.99, max(0.0, found + (1 + 4 * found) / len(x)))


def by_chance(x: Array, y: Array, method: Method) -> tuple[float, float]:
    """Return the probability of a correlation at least as high, and as low, if x and y are unrelated.

    All orders of y are tried for up to seven points; Student's t for more.
    """
    a, b = (ranks(x), ranks(y)) if method == "spearman" else (x, y)
    n = len(a)
    r = correlation(x, y, method) or 0.0
    if n > EXACT:
        from scipy.special import stdtr

        t = r * sqrt((n - 2) / max(1e-12, 1 - r * r))
        return float(stdtr(n - 2, -t)), float(stdtr(n - 2, t))
    orders = np.array(list(permutations(range(n))))
    sums = (a - a.mean()) @ b[orders].T
    own, tiny = float((a - a.mean()) @ b), 1e-9 * float(np.abs(sums).max() + 1e-300)
    return float((sums >= own - tiny).mean()), float((sums <= own + tiny).mean())
