"""Principal components: of tables, reading the rows block by block, and of a few hundred or thousand vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reporter.geometry.arrays import TINY, Floats, Progress, blocks, silent
from reporter.geometry.spectra import EQUAL, ZERO

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

        found = np.zeros((len(table), 3))
        for start, block in blocks(table):
            x = block - torch.from_numpy(self.mean).to(block.device)
            along = x @ torch.from_numpy(self.directions.T.copy()).to(block.device)
            found[start : start + len(block), : len(self.directions)] = along.cpu().numpy()
        return found


def principal_axes(tables: Sequence[Tensor], what: str = "components", progress: Progress = silent) -> Axes | None:
    """Return the principal axes of all rows together, exactly; None where they do not vary.

    Rows are centred with a mean in float64, block products are in float32 and their sum in float64, so that
    eigenvalues below about 1e-7 of the largest are rounding.

    Args:
        tables: with the same width d; a d × d matrix is kept.
        what: what this is called.
        progress: told of each block.
    """
    n, d = sum(map(len, tables)), tables[0].shape[1]
    if n < 2:
        return None
    mean = sum((block.sum(dim=0).cpu().numpy() for t in tables for _, block in blocks(t)), np.zeros(d)) / n
    if n <= d:
        values, vectors = _of_few(np.concatenate([_centred(t, mean) for t in tables]))
    else:
        values, vectors = _of_many(tables, mean, n, what, progress)
    scale = mean @ mean + values.sum()
    if values.sum() <= EQUAL * scale:
        return None
    directions = vectors[: min(3, int((values > ZERO * values.sum()).sum()))]
    signs = np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)])
    return Axes(n, mean, values, directions * signs[:, None])


def _centred(table: Tensor, mean: Floats) -> Floats:
    return np.concatenate([block.cpu().numpy() - mean for _, block in blocks(table)])


def _of_few(x: Floats) -> tuple[Floats, Floats]:
    _, singular, vectors = np.linalg.svd(x, full_matrices=False)
    count = min(x.shape[1], len(x) - 1)
    return (singular**2 / len(x))[:count], vectors[:count]


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
    """Return the first components, at most ``most`` and no more than vectors or dimensions, exactly.

    Args:
        x: vectors, (n, d) in float64.
        most: components that are wanted.
        centred: whether the mean is taken off first, as in PCA; if not, the origin stays where it is.
    """
    x = x - x.mean(axis=0) if centred else x
    total = float(np.square(x).sum())
    values, at = largest_components(x, most)
    farthest = np.abs(at).argmax(axis=0)
    at = at * np.where(at[farthest, np.arange(at.shape[1])] < 0, -1.0, 1.0)
    return Components(at, values / total if total > 0 else np.full(len(values), np.nan))


def coordinates(x: Floats, dimensions: int, centred: bool = True) -> Floats:
    """Return vectors on their first components, (n, dimensions); 0 where there are fewer components than that.

    Args:
        x: vectors, (n, d) in float64.
        dimensions: of the picture.
        centred: see :func:`components`.
    """
    at = components(x, dimensions, centred).coordinates
    return np.pad(at, ((0, 0), (0, dimensions - at.shape[1])))


def largest_eigenvalue(product: Callable[[Tensor], Tensor], start: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the largest eigenvalue of a symmetric matrix without negative ones and its vector, (d,), from products.

    By Lanczos' method, every vector made orthogonal to all before. With a residual r the value is off by at most
    r²/gap (Kato 1949, "On the upper and lower bounds of eigenvalues"), the gap to the second one as far as it is known;
    it is taken where that is below 1e-13 of it. None where 64 products do not come as far, as where all are alike.

    Args:
        product: of the matrix and a vector, (d,), in float64.
        start: a vector that is not orthogonal to the one sought, (d,); the nearer, the fewer products.
    """
    import torch

    steps = min(len(start), _PRODUCTS)
    basis, inner = start.new_zeros(steps, len(start)), start.new_zeros(steps, steps)
    w, length = start, start.norm()
    for step in range(steps):
        basis[step] = w / length
        known = basis[: step + 1]
        w = product(basis[step])
        along = known @ w
        inner[step, step] = along[step]
        w = w - along @ known
        w -= (known @ w) @ known  # what rounding left of it
        length = w.norm()
        if step % 4 == 3 or step + 1 == steps:
            values, vectors = torch.linalg.eigh(inner[: step + 1, : step + 1])
            residual, gap = length * vectors[-1, -1].abs(), values[-1] - values[-2:-1].sum()
            if step + 1 == len(start) or bool(residual.square() <= _SURE * values[-1] * gap):
                return values[-1], vectors[:, -1] @ known
        if step + 1 < steps:
            inner[step, step + 1] = inner[step + 1, step] = length
            if not bool(length > 0):
                return None  # nothing is left in which to look further
    return None


def first_axis(
    x: Tensor, weights: Tensor | None = None, near: Tensor | None = None, centre: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the largest eigenvalue of the sum of w·(x − c)(x − c)ᵀ over some rows, and its vector, (d,).

    Args:
        x: rows, (n, d), in float64.
        weights: w ≥ 0 of each, (n,); None: 1.
        near: a vector that may be near the one sought, (d,).
        centre: c, (d,), no longer than rows are; None: 0. It is never taken off the rows, which would copy them all.
    """
    import torch

    start = scattered(x.shape[1]).to(x.device)
    if near is not None:  # not alone: the axis may be another one now
        start = near + start * (0.1 / start.norm())

    def product(v: Tensor) -> Tensor:
        along = x @ v if centre is None else x @ v - centre @ v
        along = along if weights is None else along * weights
        return along @ x if centre is None else along @ x - along.sum() * centre

    found = largest_eigenvalue(product, start)
    if found is not None:
        return found
    rows = x if centre is None else x - centre
    rows = rows if weights is None else rows * weights.sqrt()[:, None]
    if len(x) >= x.shape[1]:
        values, vectors = torch.linalg.eigh(rows.T @ rows)
        return values[-1].clamp(min=0), vectors[:, -1]
    values, vectors = torch.linalg.eigh(rows @ rows.T)
    along = vectors[:, -1] @ rows
    return values[-1].clamp(min=0), along / along.norm().clamp(min=TINY)


def scattered(d: int) -> Tensor:
    """Return a vector that is orthogonal to no other by more than chance, the same at every call, (d,)."""
    import torch

    return torch.randn(d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


_PRODUCTS = 64
_SURE = 1e-13


def largest_components(x: Floats, most: int) -> tuple[Floats, Floats]:
    """Return the largest eigenvalues of XᵀX, (k,), and each row's coordinate on their vectors, (n, k); signs are open.

    From the smaller of XᵀX and XXᵀ, which have the same eigenvalues that are not zero.

    Args:
        x: (n, d) in float64.
        most: how many, of min(n, d).
    """
    from scipy.linalg import eigh

    wide = x.shape[1] > x.shape[0]
    square = x @ x.T if wide else x.T @ x
    wanted = [len(square) - min(most, *x.shape), len(square) - 1]
    values, vectors = eigh(square, subset_by_index=wanted, check_finite=False)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    return values, vectors * np.sqrt(values) if wide else x @ vectors
