"""The generalised ratios estimate of intrinsic dimension at several scales (Denti et al. 2022)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SCALES = (1, 2, 4, 8, 16, 32, 64)
RANKS = (*SCALES, 2 * SCALES[-1])  # the neighbours whose distances are needed


def gride(logs: Floats, n: int) -> float:
    """Return the maximum-likelihood dimension from the ratios of the distances to neighbours 2n and n.

    The ratio μ has the density d·(μ^d − 1)^(n−1) / (B(n, n)·μ^((2n−1)d+1)), so d is the only root of

        N/d − (2n − 1)·Σ log μ + (n − 1)·Σ log μ / (1 − μ^−d)

    which falls. From 1 + x/2 ≤ x/(1 − e^−x) ≤ 1 + x it lies between 2n·N / ((3n − 1)·Σ log μ) and N / Σ log μ.

    Args:
        logs: log μ ≥ 0, not all of them 0, shape (N,).
        n: the scale.
    """
    from scipy.optimize import brentq

    count, total = len(logs), float(logs.sum())

    def slope(d: float) -> float:
        x = d * logs
        ratio = np.divide(x, -np.expm1(-x), out=np.ones_like(x), where=x > 0)
        return float(count - (2 * n - 1) * d * total + (n - 1) * ratio.sum())  # times d

    high = count / total
    if n == 1:
        return high
    # A little wider, since rounding can put the root on an end.
    return float(brentq(slope, 2 * n / (3 * n - 1) * high * (1 - 1e-9), high * (1 + 1e-9), rtol=1e-12))
