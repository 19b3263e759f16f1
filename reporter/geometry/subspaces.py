"""Leading subspaces, how far apart they lie on the Grassmann manifold, and the error of that distance.

The error follows from the influence of each token on the axes. To first order an eigenvector v_m of a covariance Σ
moves by Σ_j v_j (v_jᵀ dΣ v_m)/(λ_m − λ_j), and dΣ = x xᵀ − Σ for a token x, its mean taken off. So the cosine of the
i-th principal angle, a_iᵀ b_i with a_i = Σ_m A_mi v_m in the one subspace and b_i in the other, has the influence
Σ_m A_mi (x·v_m) (b_iᵀ R_m x), R_m = Σ_{j>k} v_j v_jᵀ/(λ_m − λ_j), of the first layer, and the like of the second.

Source: Björck & Golub 1973, "Numerical methods for computing angles between linear subspaces"; Magnus 1985, "On
differentiating eigenvalues and eigenvectors".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reporter.geometry.arrays import Floats
from reporter.geometry.spectra import ROOTS_ZERO

_FEW = 0.1  # of all axes: up to it Lanczos iteration finds them faster than a decomposition of the whole
_FOLLOWING = 3  # times k: so many axes beyond the k-th have their own eigenvalue in an error, the rest its mean


@dataclass(frozen=True, eq=False)
class Leading:
    """The leading axes of a covariance.

    Args:
        axes: the eigenvectors of the k largest eigenvalues, (d, k).
        values: these, largest first, (k,).
        next: eigenvectors of eigenvalues that follow, (d, q).
        next_values: these, (q,).
        rest: mean of the remaining ones; 0 where there are none.
    """

    axes: Floats
    values: Floats
    next: Floats
    next_values: Floats
    rest: float

    def response(self, pull: Floats) -> Floats:
        """Return R_m g_m for each leading axis, what g_m does not have outside of them left out, (d, k).

        Args:
            pull: g, (d, k).
        """
        pull = pull - self.axes @ (self.axes.T @ pull)
        along = self.next.T @ pull
        near = self.values - self.next_values[:, None]
        found = self.next @ (along / np.maximum(near, _TINY * self.values[0]))
        return np.asarray(found + (pull - self.next @ along) / np.maximum(self.values - self.rest, _TINY))


_TINY = 1e-12


def leading(covariance: Floats, k: int) -> Leading | None:
    """Return the k leading axes; None where fewer than k have any variance.

    Args:
        covariance: (d, d).
        k: how many, at most d.
    """
    from scipy.linalg import eigh
    from scipy.sparse.linalg import eigsh

    d, total = len(covariance), float(np.trace(covariance))
    found = min(k * (1 + _FOLLOWING), d)
    if found <= _FEW * d:
        values, axes = eigsh(covariance, found, which="LA", v0=np.random.default_rng(0).standard_normal(d))
    else:
        values, axes = eigh(covariance, subset_by_index=[d - found, d - 1], check_finite=False)
    values, axes = values[::-1], axes[:, ::-1]
    if not total > 0 or values[k - 1] <= ROOTS_ZERO * total:
        return None
    rest = max(total - float(values.sum()), 0.0) / max(d - found, 1)
    return Leading(axes[:, :k], values[:k], axes[:, k:], values[k:], rest)


@dataclass(frozen=True, eq=False)
class Apart:
    """The distance of two leading subspaces.

    Args:
        distance: √Σθ², θ the principal angles.
        first: what makes its influence at the first side: Σ_m (x·v_m)(r_m·x) of these r, (d, k).
        second: the same of the second side.
    """

    distance: float
    first: Floats
    second: Floats


def apart(a: Leading, b: Leading) -> Apart:
    """Return the distance of two leading subspaces, and what makes its influences.

    The sines of small angles are taken from what b has outside of a, as their cosines round to 1.
    """
    product = a.axes.T @ b.axes
    left, cosines, right = np.linalg.svd(product)
    sines = np.linalg.svd(b.axes - a.axes @ product, compute_uv=False)[::-1].clip(0, 1)
    cosines = cosines.clip(0, 1)
    angles = np.where(cosines**2 < 0.5, np.arccos(cosines), np.arcsin(sines))
    distance = float(np.sqrt(np.square(angles).sum()))
    # d distance / d cosine = −θ / (distance · sin θ), where θ / sin θ is 1 for no angle.
    by_cosine = -1 / (max(distance, _TINY) * np.sinc(angles / np.pi))
    return Apart(
        distance,
        a.response((b.axes @ right.T * by_cosine) @ left.T),
        b.response((a.axes @ left * by_cosine) @ right),
    )


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


def menger_by(a: float, b: float, c: float) -> Floats:
    """Return the derivatives of ``menger`` by its three distances, (3,)."""
    sides, found = np.array([a, b, c]), np.zeros(3)
    for i in range(3):
        step = np.zeros(3)
        step[i] = 1e-6 * sides[i]
        found[i] = (menger(*(sides + step)) - menger(*(sides - step))) / (2 * step[i])
    return found
