"""Leading subspaces and how far apart they lie on the Grassmann manifold."""

from __future__ import annotations

import numpy as np

from reporter.geometry.arrays import Floats
from reporter.geometry.spectra import ROOTS_ZERO

_FEW = 0.1  # of all axes: up to it Lanczos iteration finds them faster than a decomposition of the whole


def leading_axes(covariance: Floats, k: int) -> Floats | None:
    """Return the eigenvectors of the k largest eigenvalues, (d, k); None where fewer than k are not zero.

    Args:
        covariance: (d, d).
        k: how many, at most d.
    """
    from scipy.linalg import eigh
    from scipy.sparse.linalg import eigsh

    d, total = len(covariance), float(np.trace(covariance))
    if k <= _FEW * d:
        start = np.random.default_rng(0).standard_normal(d)
        values, axes = eigsh(covariance, k, which="LA", v0=start)
    else:
        values, axes = eigh(covariance, subset_by_index=[d - k, d - 1], check_finite=False)
    return None if not total > 0 or values.min() <= ROOTS_ZERO * total else np.asarray(axes)


def grassmann(a: Floats, b: Floats) -> float:
    """Return √Σθ², θ the principal angles between the spans of two sets of orthonormal columns, (d, k) each.

    The sines of small angles are taken from what b has outside of a, as their cosines round to 1 (Björck & Golub 1973).
    """
    product = a.T @ b
    cosines = np.linalg.svd(product, compute_uv=False).clip(0, 1)
    sines = np.linalg.svd(b - a @ product, compute_uv=False)[::-1].clip(0, 1)
    angles = np.where(cosines**2 < 0.5, np.arccos(cosines), np.arcsin(sines))
    return float(np.sqrt(np.square(angles).sum()))


def menger(a: float, b: float, c: float) -> float:
    """Return the curvature of the circle through three points, 4·area/(abc), from their distances, none of them 0.

    Args:
        a: distance of the first two.
        b: distance of the last two.
        c: distance of the first and the last.
    """
    s = (a + b + c) / 2
    area = np.sqrt(max(s * (s - a) * (s - b) * (s - c), 0.0))
    return float(4 * area / (a * b * c))
