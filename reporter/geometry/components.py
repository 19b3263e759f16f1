"""Principal components of tables and of few vectors; leading subspaces and how far apart they lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reporter.geometry.arrays import TINY, Floats, Progress, blocks, silent
from reporter.geometry.spectra import EQUAL, ROOTS_ZERO, ZERO

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Axes:
    """The principal axes of the rows of some tables.

    Args:
        n: rows.
        mean: their mean, (d,).
        eigenvalues: of the covariance (1/n), largest first, min(d, n − 1) of them.
        directions: the first principal axes, orthonormal, (≤ 3, d). The largest entry of each is positive, so
            that a picture is the same on every machine.
    """

    n: int
    mean: Floats
    eigenvalues: Floats
    directions: Floats

    def coordinates(self, table: Tensor) -> Floats:
        """Return the coordinates of rows along the first axes, (rows, 3); zeros where there are fewer axes."""
        import torch

        places = np.zeros((len(table), 3))
        for start, block in blocks(table):
            x = block - torch.from_numpy(self.mean).to(block.device)
            along = x @ torch.from_numpy(self.directions.T.copy()).to(block.device)
            places[start : start + len(block), : len(self.directions)] = along.cpu().numpy()
        return places


def principal_axes(tables: Sequence[Tensor], what: str = "components", progress: Progress = silent) -> Axes | None:
    """Return the principal axes of all rows together, exactly; None where they do not vary.

    Rows are centred with a mean in float64, block products are in float32 and their sum in float64, so that
    eigenvalues below about 1e-7 of the largest are rounding.
    """
    n, d = sum(map(len, tables)), tables[0].shape[1]
    if n < 2:
        return None
    mean = sum((block.sum(dim=0).cpu().numpy() for t in tables for _, block in blocks(t)), np.zeros(d)) / n
    if n <= d:
        x = np.concatenate([block.cpu().numpy() - mean for table in tables for _, block in blocks(table)])
        _, singular, vectors = np.linalg.svd(x, full_matrices=False)
        values, vectors = (singular**2 / n)[: n - 1], vectors[: n - 1]
    else:
        values, vectors = _of_many(tables, mean, n, what, progress)
    if values.sum() <= EQUAL * (mean @ mean + values.sum()):
        return None
    directions = vectors[: min(3, int((values > ZERO * values.sum()).sum()))]
    signs = np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)])
    return Axes(n, mean, values, directions * signs[:, None])


def _of_many(tables: Sequence[Tensor], mean: Floats, n: int, what: str, progress: Progress) -> tuple[Floats, Floats]:
    import torch

    d = len(mean)
    total = torch.zeros((d, d), dtype=torch.float64)
    done = 0
    for table in tables:
        for _, block in blocks(table):
            x = (block - torch.from_numpy(mean).to(block.device)).float().to(table.device)
            total += (x.T @ x).cpu()
            done += len(block)
            progress(what, done, n)
    values, vectors = torch.linalg.eigh(total / n)
    return values.flip(0).clamp_min(0).numpy(), vectors.T.flip(0)[:3].numpy()


@dataclass(frozen=True)
class Components:
    """The first principal components of n vectors.

    Args:
        coordinates: of each vector on each component, (n, k), the one with the largest variance first. Of both
            directions of an axis the one is chosen in which the vector farthest out is positive.
        shares: share of the total variance that each holds, (k,); NaN where there is none.
    """

    coordinates: Floats
    shares: Floats


def components(x: Floats, most: int, centred: bool = True) -> Components:
    """Return the first components, at most ``most`` and no more than vectors or dimensions, exactly."""
    x = x - x.mean(axis=0) if centred else x
    total = float(np.square(x).sum())
    values, scores = largest_components(x, most)
    farthest = np.abs(scores).argmax(axis=0)
    scores = scores * np.where(scores[farthest, np.arange(scores.shape[1])] < 0, -1.0, 1.0)
    return Components(scores, values / total if total > 0 else np.full(len(values), np.nan))


def coordinates(x: Floats, dimensions: int, centred: bool = True) -> Floats:
    """Return vectors on their first components, (n, dimensions); 0 where there are fewer components than that."""
    scores = components(x, dimensions, centred).coordinates
    return np.pad(scores, ((0, 0), (0, dimensions - scores.shape[1])))


def largest_eigenvalue(product: Callable[[Tensor], Tensor], start: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the largest eigenvalue of a symmetric matrix without negative ones and its vector, (d,), from products.

    By Lanczos' method, every vector made orthogonal to all before. With a residual r the value is off by at most
    r²/gap (Kato 1949, "On the upper and lower bounds of eigenvalues"), the gap to the second one as far as it is known;
    it is taken where that is below 1e-13 of it. None where 64 products do not come as far, as where all are alike.
    """
    import torch

    steps = min(len(start), _PRODUCTS)
    basis, inner = start.new_zeros(steps, len(start)), start.new_zeros(steps, steps)
    w, length = start, start.norm()
    for step in range(steps):
        basis[step] = w / length
        earlier = basis[: step + 1]
        w = product(basis[step])
        along = earlier @ w
        inner[step, step] = along[step]
        w = w - along @ earlier
        w -= (earlier @ w) @ earlier  # what rounding left of it
        length = w.norm()
        if step % 4 == 3 or step + 1 == steps:
            values, vectors = torch.linalg.eigh(inner[: step + 1, : step + 1])
            residual, gap = length * vectors[-1, -1].abs(), values[-1] - values[-2:-1].sum()
            if step + 1 == len(start) or bool(residual.square() <= _SURE * values[-1] * gap):
                return values[-1], vectors[:, -1] @ earlier
        if step + 1 < steps:
            inner[step, step + 1] = inner[step + 1, step] = length
            if not bool(length > 0):
                return None  # nothing is left in which to look further
    return None


def first_axis(
    x: Tensor, centre: Tensor, weights: Tensor | None = None, near: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the largest eigenvalue of the sum of w·(x − c)(x − c)ᵀ over some rows, and its vector, (d,)."""
    import torch

    start = fixed_random_vector(x.shape[1]).to(x.device)
    if near is not None:  # not alone: the axis may be another one now
        start = near + start * (0.1 / start.norm())

    def product(v: Tensor) -> Tensor:
        along = x @ v - centre @ v
        along = along if weights is None else along * weights
        return along @ x - along.sum() * centre

    largest = largest_eigenvalue(product, start)
    if largest is not None:
        return largest
    rows = x - centre
    rows = rows if weights is None else rows * weights.sqrt()[:, None]
    if len(x) >= x.shape[1]:
        values, vectors = torch.linalg.eigh(rows.T @ rows)
        return values[-1].clamp(min=0), vectors[:, -1]
    values, vectors = torch.linalg.eigh(rows @ rows.T)
    along = vectors[:, -1] @ rows
    return values[-1].clamp(min=0), along / along.norm().clamp(min=TINY)


def fixed_random_vector(d: int) -> Tensor:
    """Return a vector that is orthogonal to no other by more than chance, the same at every call, (d,)."""
    import torch

    return torch.randn(d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


_PRODUCTS = 64
_SURE = 1e-13


def largest_components(x: Floats, most: int) -> tuple[Floats, Floats]:
    """Return the largest eigenvalues of XᵀX, (k,), and each row's coordinate on their vectors, (n, k); signs are open.

    From the smaller of XᵀX and XXᵀ, which have the same eigenvalues that are not zero.
    """
    from scipy.linalg import eigh

    wide = x.shape[1] > x.shape[0]
    square = x @ x.T if wide else x.T @ x
    indices = [len(square) - min(most, *x.shape), len(square) - 1]
    values, vectors = eigh(square, subset_by_index=indices, check_finite=False)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    return values, vectors * np.sqrt(values) if wide else x @ vectors


# Leading subspaces, how far apart they lie on the Grassmann manifold, and the error of that distance.
#
# The error follows from the influence of each token on the axes. To first order an eigenvector v_m of a covariance Σ
# moves by Σ_j v_j (v_jᵀ dΣ v_m)/(λ_m − λ_j), and dΣ = x xᵀ − Σ for a token x, its mean taken off. So the cosine of the
# i-th principal angle, a_iᵀ b_i with a_i = Σ_m A_mi v_m in the one subspace and b_i in the other, has the influence
# Σ_m A_mi (x·v_m) (b_iᵀ R_m x), R_m = Σ_{j>k} v_j v_jᵀ/(λ_m − λ_j), of the first layer, and the like of the second.
#
# Source: Björck & Golub 1973, "Numerical methods for computing angles between linear subspaces"; Magnus 1985, "On
# differentiating eigenvalues and eigenvectors".


_FEW = 0.1  # of all axes: up to it Lanczos iteration finds them faster than a decomposition of the whole
_FOLLOWING = 3  # times k: so many axes beyond the k-th have their own eigenvalue in an error, the rest its mean


@dataclass(frozen=True, eq=False)
class LeadingAxes:
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
        """Return R_m g_m for each leading axis, what g_m does not have outside of them left out, (d, k)."""
        pull = pull - self.axes @ (self.axes.T @ pull)
        along = self.next.T @ pull
        near = self.values - self.next_values[:, None]
        along_next = self.next @ (along / np.maximum(near, _TINY * self.values[0]))
        return np.asarray(along_next + (pull - self.next @ along) / np.maximum(self.values - self.rest, _TINY))


_TINY = 1e-12


def leading(covariance: Floats, k: int) -> LeadingAxes | None:
    """Return the k leading axes; None where fewer than k have any variance."""
    from scipy.linalg import eigh
    from scipy.sparse.linalg import eigsh

    d, total = len(covariance), float(np.trace(covariance))
    count = min(k * (1 + _FOLLOWING), d)
    if count <= _FEW * d:
        values, axes = eigsh(covariance, count, which="LA", v0=np.random.default_rng(0).standard_normal(d))
    else:
        values, axes = eigh(covariance, subset_by_index=[d - count, d - 1], check_finite=False)
    values, axes = values[::-1], axes[:, ::-1]
    if not total > 0 or values[k - 1] <= ROOTS_ZERO * total:
        return None
    rest = max(total - float(values.sum()), 0.0) / max(d - count, 1)
    return LeadingAxes(axes[:, :k], values[:k], axes[:, k:], values[k:], rest)


@dataclass(frozen=True, eq=False)
class SubspaceDistance:
    """The distance of two leading subspaces.

    Args:
        distance: √Σθ², θ the principal angles.
        first: what makes its influence at the first side: Σ_m (x·v_m)(r_m·x) of these r, (d, k).
        second: the same of the second side.
    """

    distance: float
    first: Floats
    second: Floats


def apart(a: LeadingAxes, b: LeadingAxes) -> SubspaceDistance:
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
    return SubspaceDistance(
        distance, a.response((b.axes @ right.T * by_cosine) @ left.T), b.response((a.axes @ left * by_cosine) @ right)
    )


def menger(a: float, b: float, c: float) -> float:
    """Return the curvature of the circle through three points, 4·area/(abc), from their distances, none of them 0."""
    s = (a + b + c) / 2
    area = np.sqrt(max(s * (s - a) * (s - b) * (s - c), 0.0))
    return float(4 * area / (a * b * c))


def menger_by(a: float, b: float, c: float) -> Floats:
    """Return the derivatives of ``menger`` by its three distances, (3,)."""
    sides, derivatives = np.array([a, b, c]), np.zeros(3)
    for i in range(3):
        step = np.zeros(3)
        step[i] = 1e-6 * sides[i]
        derivatives[i] = (menger(*(sides + step)) - menger(*(sides - step))) / (2 * step[i])
    return derivatives
