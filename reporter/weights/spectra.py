"""How much variance the principal components of tables explain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reporter.geometry.arrays import Floats
from reporter.geometry.components import Axes
from reporter.weights.kinds import Kind


@dataclass(frozen=True)
class Spectrum:
    """How much variance how many components explain.

    Args:
        kinds: whose vectors: one kind, or several together.
        n: how many vectors.
        d: their dimension.
        eigenvalues: of the covariance (1/n), largest first, (min(d, n − 1),).
        shares: λ / Σλ.
        explained: by the first 1, 2, … components, the sums of these shares.
    """

    kinds: tuple[Kind, ...]
    n: int
    d: int
    eigenvalues: Floats
    shares: Floats
    explained: Floats


def spectrum(kinds: tuple[Kind, ...], axes: Axes) -> Spectrum:
    """Return the curve of explained variance."""
    shares = axes.eigenvalues / axes.eigenvalues.sum()
    explained = np.minimum(1.0, np.cumsum(shares))
    return Spectrum(kinds, axes.n, len(axes.mean), axes.eigenvalues, shares, explained)
