"""The generalised ratios estimate of intrinsic dimension at several scales (Denti et al. 2022)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SCALES = (1, 2, 4, 8, 16, 32, 64)
RANKS = (*SCALES, 2 * SCALES[-1])  # the neighbours whose distances are needed

_STEPS = 50  # of Newton's method; five or six are usual
_ENOUGH = 1e-8  # relative: the error left after a step is about its square


def gride(logs: Floats, n: int, start: float = 0.0) -> float:
    """Return the maximum-likelihood dimension from the ratios of the distances to neighbours 2n and n.

    The ratio μ has the density d·(μ^d − 1)^(n−1) / (B(n, n)·μ^((2n−1)d+1)), so d is the only root of

        N/d − (2n − 1)·Σ log μ + (n − 1)·Σ log μ / (1 − μ^−d)

    which falls and is convex: from anywhere Newton's method comes to the left of the root in one step, and from there
    climbs to it. From 1 + x/2 ≤ x/(1 − e^−x) ≤ 1 + x the root is at least 2n·N / ((3n − 1)·Σ log μ).

    Args:
        logs: log μ ≥ 0, not all of them 0, shape (N,).
        n: the scale.
        start: a dimension near the one sought, if one is known.
    """
    count, total = len(logs), float(logs.sum())
    if n == 1:
        return count / total
    least = 2 * n / (3 * n - 1) * count / total
    d = max(start, least)
    for _ in range(_STEPS):
        x = d * logs
        falls = np.expm1(-x)
        ratio = np.divide(x, -falls, out=np.ones_like(x), where=x > 0)
        slope = count - (2 * n - 1) * d * total + (n - 1) * float(ratio.sum())  # times d
        step = slope / (count + (n - 1) * float(np.square(ratio) @ (1 + falls)))  # relative to d
        d = max(d * (1 + step), least)
        if abs(step) < _ENOUGH:
            break
    return float(d)
