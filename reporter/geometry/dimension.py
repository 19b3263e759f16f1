"""Dimension from the ratios of distances to neighbours: TwoNN (Facco et al. 2017) and GRIDE (Denti et al. 2022)."""

from __future__ import annotations

import numpy as np

from reporter.geometry.arrays import Floats

SCALES = (1, 2, 4, 8, 16, 32, 64)
RANKS = (*SCALES, 2 * SCALES[-1])  # the neighbours whose distances are needed

FEWEST = 10  # distinct states below which a slope means nothing
EQUAL = 1e-9  # a log ratio below it is none
NAMES = ("twonn", "twonn_published", "twonn_ml", *(f"gride_{scale}" for scale in SCALES))
PUBLISHED = 0.8  # the share of μ that twonn_published leaves out


def estimate(name: str, logs: Floats, discard: float) -> float:
    """Return the estimate called ``name`` from log ratios at all scales, ascending in the first column."""
    if name in ("twonn", "twonn_published"):
        return twonn_of(logs[:, 0], discard if name == "twonn" else PUBLISHED)
    if name == "twonn_ml":
        return twonn_ml_of(logs[:, 0])
    scale = int(name.removeprefix("gride_"))
    return gride_of(logs[:, SCALES.index(scale)], scale)


def kept_of(n: int, discard: float) -> int:
    """Return how many of n ratios are fitted: ⌊(1 − discard)·n⌋, but no more than n − 1, since F = 1 has no log."""
    return min(int((1 - discard) * n + 1e-9), n - 1)  # 1 − 0.8 is a little less than 0.2


def twonn_of(logs: Floats, discard: float = 0.1) -> float:
    """Return the slope through the origin of −log(1 − F) on log μ over the smallest μ.

    Args:
        logs: log μ, ascending, shape (N,), N ≥ 10.
        discard: share of the largest μ that are left out, 0 to 0.9.
    """
    n = len(logs)
    kept = logs[: kept_of(n, discard)]
    empirical = -np.log1p(-np.arange(1, len(kept) + 1) / n)
    return float(kept @ empirical / (kept @ kept))


def twonn_ml_of(logs: Floats) -> float:
    """Return (N − 1) / Σ log μ."""
    return float((len(logs) - 1) / logs.sum())


def gride_of(logs: Floats, n: int) -> float:
    """Return the maximum-likelihood dimension from the ratios of the distances to neighbours 2n and n.

    The ratio μ has the density d·(μ^d − 1)^(n−1) / (B(n, n)·μ^((2n−1)d+1)), so d is the only root of

        N/d − (2n − 1)·Σ log μ + (n − 1)·Σ log μ / (1 − μ^−d)

    which falls and is convex: from anywhere Newton's method comes to the left of the root in one step, and from there
    climbs to it. From 1 + x/2 ≤ x/(1 − e^−x) ≤ 1 + x the root is at least 2n·N / ((3n − 1)·Σ log μ).

    Args:
        logs: log μ ≥ 0, not all of them 0, shape (N,).
        n: the scale.
    """
    import torch

    from reporter.geometry.ratios import most_likely

    given = torch.from_numpy(np.ascontiguousarray(logs, dtype=np.float64))[None, None]
    count = given.new_full((1, 1), given.shape[2])
    return float(most_likely(given, count, given.sum(dim=2), torch.tensor([n])))
