"""Intervals from bootstrap replicates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BOOTSTRAP = "95 % percentile interval of 1000 bootstrap replicates over texts (Poisson weights)"


def percentile_interval(
    replicates: NDArray[np.float64], texts: int
) -> tuple[float, float] | tuple[None, None]:
    """Return the 2.5 % and 97.5 % quantiles of the replicates that drew any text; none for fewer than two texts."""
    drawn = replicates[np.isfinite(replicates)]
    if texts < 2 or len(drawn) < len(replicates) / 2:
        return None, None
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)
