"""Intervals from bootstrap replicates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FEWEST_TEXTS = 5  # below it the interval covers far less than it says: 74 % at three texts, 89 % at five

BOOTSTRAP = (
    "95 % percentile interval of 1000 bootstrap replicates over texts (Poisson weights); "
    f"none for fewer than {FEWEST_TEXTS} texts"
)

OVER_BATCHES = "mean ± standard deviation over the batches; none for a single batch"


def mean_of_batches(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Return the mean over batches, and the mean minus and plus the standard deviation (n − 1) of a batch."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, None, None
    spread = float(np.std(values, ddof=1))
    return mean, mean - spread, mean + spread


def percentile_interval(replicates: NDArray[np.float64], texts: int) -> tuple[float, float] | tuple[None, None]:
    """Return the 2.5 % and 97.5 % quantiles of the replicates that drew any text; none for few texts."""
    drawn = replicates[np.isfinite(replicates)]
    if texts < FEWEST_TEXTS or len(drawn) < len(replicates) / 2:
        return None, None
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)
