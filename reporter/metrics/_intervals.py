"""Means with intervals from bootstrap replicates, and how intervals over texts are described."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from reporter.geometry.intervals import FEWEST_TEXTS, percentile_interval
from reporter.metrics.base import Value

if TYPE_CHECKING:
    from reporter.observables.observed import Place

BOOTSTRAP = (
    "95 % percentile interval of 1000 bootstrap replicates over texts (Poisson weights); "
    f"none for fewer than {FEWEST_TEXTS} texts"
)

HALF_SAMPLED = (
    "95 %, value ± 2.0 standard deviations over 63 balanced half-samples of the texts, each with its own split into "
    f"frequent and rare types; none for fewer than {FEWEST_TEXTS} texts; over 200 subsets of 100 of 2,000 texts it "
    "covers 92 to 99 %"
)


class Replicated(Protocol):
    """A mean with its bootstrap replicates over texts."""

    @property
    def value(self) -> float:
        """The mean."""

    @property
    def n(self) -> int:
        """How many observations have the quantity; 0 if none."""

    @property
    def replicates(self) -> NDArray[np.float64]:
        """The mean under each set of text weights, shape (R,)."""


def mean_with_interval(statistic: str, place: Place | None, mean: Replicated, texts: int, reason: str) -> Value:
    """Return a mean with its bootstrap interval, or, where nothing has the quantity, NULL with the reason."""
    if not mean.n:
        return Value(statistic, place, None, 0, reason=reason)
    return Value(statistic, place, mean.value, mean.n, *percentile_interval(mean.replicates, texts))
