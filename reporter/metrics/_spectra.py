"""The eigenvalues of a covariance, and the numbers that sum up how they fall."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from reporter.observables.observed import Observed, Place

Floats = NDArray[np.float64]

ZERO = 1e-12  # of Σλ: an eigenvalue up to it is what rounding leaves of zero
ROOTS_ZERO = 1e-8
"""Of Σλ, where roots are taken: a LayerNorm leaves a direction without variance, float32 products some 1e-9 there, and
the root of that would count as an axis."""


def varies(variance: float, n: int, seen: Observed, place: Place) -> bool:
    """Tell whether a total variance is more than what rounding leaves of equal float32 states."""
    moments = seen.moments(place)
    scale = moments.mean @ moments.mean + moments.squares.sum() / n
    return bool(variance > 1e-12 * scale)


def eigenvalues(seen: Observed, place: Place) -> tuple[Floats, str]:
    """Return the eigenvalues of the covariance that are not zero, largest first, and why there are none if so.

    n tokens span n − 1 directions about their mean: what lies beyond is rounding and left out.
    """
    n = seen.tokens
    if n < 2:
        return np.zeros(0), "fewer than two tokens"
    found = seen.eigenvalues(place)[: n - 1]
    total = found.sum()
    if not varies(total, n, seen, place):
        return np.zeros(0), "all states are equal"
    return found[found > ZERO * total], ""


def uncentred_eigenvalues(seen: Observed, place: Place) -> Floats:
    """Return the eigenvalues of E xxᵀ = covariance + μμᵀ that have roots, largest first; n tokens span n directions.

    They are the squared singular values of the matrix of states as they are, over n.
    """
    covariance, mean = seen.covariance(place), seen.moments(place).mean
    values = np.linalg.eigvalsh(covariance + np.outer(mean, mean))[::-1][: seen.tokens]
    return np.asarray(values[values > ROOTS_ZERO * np.trace(covariance)])


def effective_rank(spectrum: Floats) -> float:
    """Return exp(−Σ p log p), p = λ/Σλ; of singular values where they are given instead."""
    p = spectrum / spectrum.sum()
    p = p[p > 0]
    return float(np.exp(-(p @ np.log(p))))


def participation_ratio(spectrum: Floats) -> float:
    """Return (Σλ)² / Σλ²."""
    p = spectrum / spectrum.sum()
    return float(1 / (p @ p))


def stable_rank(spectrum: Floats) -> float:
    """Return Σλ / λ1."""
    return float(spectrum.sum() / spectrum[0])


def isoscore(spectrum: Floats, d: int) -> float:
    """Return IsoScore in d ≥ 2 dimensions: the participation ratio, 1…d, stretched to 0…1.

    With Σ̂ = √d·λ/‖λ‖ the paper's isotropy defect is δ = ‖Σ̂ − 1‖ / √(2(d − √d)), its φ = (d − δ²(d − √d))² / d² and
    its score (dφ − 1)/(d − 1). Since ‖Σ̂ − 1‖² = 2d − 2√d·Σλ/‖λ‖, dφ = (Σλ)²/Σλ².
    """
    return float(np.clip((participation_ratio(spectrum) - 1) / (d - 1), 0.0, 1.0))


def decay(spectrum: Floats, most: int) -> float | None:
    """Return α of λ_i ∝ i^−α: minus the slope of log λ on log i over i = 1…⌊most/2⌋, each weighted by 1/i.

    None for fewer than three eigenvalues.

    Args:
        spectrum: the eigenvalues that are not zero, largest first.
        most: how many there can be, min(d, n − 1).
    """
    found = spectrum[: most // 2]
    if len(found) < 3:
        return None
    rank = np.arange(1, len(found) + 1)
    weight, x, y = 1 / rank, np.log(rank), np.log(found)
    x = x - weight @ x / weight.sum()
    return max(0.0, float(-(weight * x) @ y / (weight @ x**2)))  # a sorted spectrum never rises


def thinned(count: int) -> NDArray[np.int64]:
    """Return which ranks of ``count`` eigenvalues make the curve: all up to 512; else 1…64, then evenly in log."""
    if count <= 512:
        return np.arange(1, count + 1)
    beyond = np.rint(np.geomspace(64, count, 193)).astype(np.int64)
    return np.unique(np.concatenate([np.arange(1, 65), beyond]))
