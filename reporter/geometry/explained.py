"""How much of a type's occurrences one axis explains, in the forms that are published."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from reporter.geometry.arrays import Floats, Ints

_EQUAL = 1e-12  # of Σ‖x‖²: a Σ‖x − mean‖² below it is what float32 leaves of equal states


def explained_by_first(x: Floats) -> Floats:
    """Return σ1²/Σσ² of each matrix, not centred; NaN for a matrix of zeros.

    Args:
        x: shape (T, m, d).
    """
    largest = np.abs(x).max(axis=(1, 2), initial=0.0)[:, None, None]
    x = np.divide(x, largest, out=np.zeros_like(x), where=largest > 0)
    squares = np.linalg.eigvalsh(x @ x.transpose(0, 2, 1))
    total = squares.sum(axis=1)
    share: Floats = np.divide(squares[:, -1], total, out=np.full(len(x), np.nan), where=total > 0)
    return share.clip(max=1)


def explained_about_mean(x: Floats, sizes: Ints) -> tuple[Floats, Floats]:
    """Return what share of the variance of each matrix about its mean is on one axis, NaN where nothing varies.

    First on the axis that has most of it (λ1/Σλ of the covariance); then on the first right singular vector v1 of the
    matrix as it is: with σ1 and u1 from XXᵀ = UΣ²Uᵀ, X·v1 = σ1·u1, whose variance is σ1²·(1/m − (mean u1)²).

    Args:
        x: shape (T, m, d); rows beyond a matrix's size are zero.
        sizes: rows of each, shape (T,).
    """
    largest = np.abs(x).max(axis=(1, 2), initial=0.0)[:, None, None]
    x = np.divide(x, largest, out=np.zeros_like(x), where=largest > 0)
    m = sizes.astype(np.float64)
    inside = np.arange(x.shape[1]) < sizes[:, None]
    centred = (x - (x.sum(axis=1) / m[:, None])[:, None]) * inside[:, :, None]
    squares = np.linalg.eigvalsh(centred @ centred.transpose(0, 2, 1))
    total = np.square(centred).sum(axis=(1, 2))
    varies = total > _EQUAL * np.square(x).sum(axis=(1, 2))
    found, left = np.linalg.eigh(x @ x.transpose(0, 2, 1))
    first = left[:, :, -1]
    along = found[:, -1] * (1 - np.square(first.sum(axis=1)) / m)
    shares = np.full((2, len(x)), np.nan)
    np.divide((squares[:, -1], along), total, out=shares, where=np.stack([varies, varies]))
    shares = shares.clip(0, 1)
    return shares[0], shares[1]


@lru_cache(maxsize=256)
def explained_floor(sizes: tuple[int, ...], d: int, seed: int) -> float:
    """Return the mean over types of σ1²/Σσ² of m isotropic Gaussian vectors each."""
    rng = np.random.default_rng([seed, d, *sizes])
    return float(np.mean([explained_by_first(rng.standard_normal((1, m, d)))[0] for m in sizes]))


@lru_cache(maxsize=256)
def about_mean_floors(sizes: tuple[int, ...], d: int, seed: int) -> tuple[float, float]:
    """Return the means over types of both numbers of ``explained_about_mean`` for m isotropic Gaussian vectors each."""
    rng = np.random.default_rng([seed, d, *sizes])
    found = [explained_about_mean(rng.standard_normal((1, m, d)), np.array([m])) for m in sizes]
    first, second = np.mean(found, axis=(0, 2))
    return float(first), float(second)
