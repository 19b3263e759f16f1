"""Principal components of tables: the whole spectrum and coordinates, reading the rows block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reporter.weights.kinds import Kind
from reporter.weights.tables import Floats, Progress, blocks, silent


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
        found = np.zeros((len(table), 3))
        for start, block in blocks(table):
            x = block - torch.from_numpy(self.mean).to(block.device)
            along = x @ torch.from_numpy(self.directions.T.copy()).to(block.device)
            found[start : start + len(block), : len(self.directions)] = along.cpu().numpy()
        return found


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
    if values.sum() <= 1e-12 * scale:
        return None
    directions = vectors[: min(3, int((values > 1e-12 * values.sum()).sum()))]
    signs = np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)])
    return Axes(n, mean, values, directions * signs[:, None])


def spectrum(kinds: tuple[Kind, ...], axes: Axes) -> Spectrum:
    """Return the curve of explained variance."""
    shares = axes.eigenvalues / axes.eigenvalues.sum()
    explained = np.minimum(1.0, np.cumsum(shares))
    return Spectrum(kinds, axes.n, len(axes.mean), axes.eigenvalues, shares, explained)


def _centred(table: Tensor, mean: Floats) -> Floats:
    return np.concatenate([block.cpu().numpy() - mean for _, block in blocks(table)])


def _of_few(x: Floats) -> tuple[Floats, Floats]:
    _, singular, vectors = np.linalg.svd(x, full_matrices=False)
    count = min(x.shape[1], len(x) - 1)
    return (singular**2 / len(x))[:count], vectors[:count]


def _of_many(tables: Sequence[Tensor], mean: Floats, n: int, what: str, progress: Progress) -> tuple[Floats, Floats]:
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
