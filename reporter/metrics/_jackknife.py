"""Intervals from groups of texts: what a number becomes when one group is left out, or what each group says."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GROUPS = 10
_ALMOST_ONE = 1 - 1e-6  # |CKA| beyond it is 1 up to float32

JACKKNIFE = (
    f"95 %, from a jackknife that leaves out one of {GROUPS} groups of texts, on the scale of Fisher's z with "
    "Student's t; it covers 93 to 99 % of Gaussian data in simulation, 85 to 99 % of heavy-tailed"
)


def jackknife_interval(value: float, without: NDArray[np.float64]) -> tuple[float, float] | tuple[None, None]:
    """Return a 95 % interval of a number in −1…1 from its values without each group, shape (G,).

    There is none where the number does not exist without some group (NaN).

    Source: Busing, Meijer & van der Leeden 1999, "Delete-m Jackknife for Unequal m", for groups of about equal size.
    """
    if not np.isfinite(without).all():
        return None, None
    z = np.arctanh(np.clip(without, -_ALMOST_ONE, _ALMOST_ONE))
    centre = np.arctanh(np.clip(value, -_ALMOST_ONE, _ALMOST_ONE))
    half = _quantile(len(z)) * np.sqrt((len(z) - 1) * np.var(z))
    low, high = np.tanh([centre - half, centre + half])
    return min(float(low), value), max(float(high), value)


def mean_interval(value: float, groups: NDArray[np.float64], bounds: tuple[float, float]) -> tuple[float, float]:
    """Return a 95 % interval of a mean from the means of its groups, shape (G,), cut at the bounds."""
    half = _quantile(len(groups)) * np.std(groups, ddof=1) / np.sqrt(len(groups))
    return float(max(value - half, bounds[0])), float(min(value + half, bounds[1]))


def _quantile(groups: int) -> float:
    from scipy.special import stdtrit  # a quantile of Student's t, without the import of scipy.stats

    return float(stdtrit(groups - 1, 0.975))
