"""Rows of a table in two precisions, and all pairs of rows, tile by tile, never a matrix of rows × rows.

:func:`tiles` yields them. Their consumers read them one by one: a histogram, or :class:`Top`, which keeps the pairs at
one end and measures them again in float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from reporter.geometry.arrays import BLOCK, TINY, Floats, Ints, Progress, exact_products, silent, wide

# Rows of a table in two precisions: products in float32, a block at a time, and what rounding leaves open in float64.
#
# Rounding can only change the order of two vectors whose scores lie within a margin of each other, and those are
# compared again in float64, from the vectors themselves. :mod:`reporter.geometry.neighbours` and
# :mod:`reporter.geometry.pairs` decide in this way.


Measure = Literal["cosine", "distance", "dot"]

UNIT32, UNIT64 = 2.0**-24, 2.0**-53
"""The largest relative error of one rounding."""


class TableRows:
    """Rows of a table: all, or some of them in an order; with the same vector added to each where one is given.

    Args:
        table: (rows of the table, d), in any precision and on any device; it is not copied.
        order: the chosen rows, (n,); None: all of them.
        norms: Euclidean norms of the chosen rows, (n,), where they are known.
        shift: what is added to each, (d,), or None.
    """

    def __init__(
        self, table: Tensor, order: Ints | None = None, norms: Floats | None = None, shift: Tensor | None = None
    ) -> None:
        self.table, self._order, self._norms, self._shift = table, order, norms, shift

    def __len__(self) -> int:
        return len(self.table) if self._order is None else len(self._order)

    @cached_property
    def norms(self) -> Floats:
        """Their Euclidean norms in float64, (n,)."""
        if self._norms is not None:
            return self._norms
        every = torch.arange(len(self))
        parts = [
            self.wide(every[start : start + BLOCK]).norm(dim=1).cpu().numpy() for start in range(0, len(self), BLOCK)
        ]
        return np.concatenate([np.zeros(0), *parts])

    def ids(self, places: Ints) -> Ints:
        """Return which rows of the table stand at some places of these rows, (m,)."""
        return places if self._order is None else self._order[places]

    def pick(self, places: Ints) -> TableRows:
        """Choose among these rows."""
        return TableRows(
            self.table, self.ids(places), None if self._norms is None else self._norms[places], self._shift
        )

    def block(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Return the rows from start to stop, (m, d), and their norms, (m,), both in float32."""
        here: slice | Tensor = slice(start, stop)
        if self._order is not None:
            here = torch.from_numpy(self._order[start:stop]).to(self.table.device)
        x = self.table[here].detach().float()
        if self._shift is not None:
            x = x + self._shift.to(x.device).float()
        norms = x.norm(dim=1) if self._norms is None else torch.from_numpy(self._norms[start:stop])
        return x, norms.float().to(x.device)

    def wide(self, places: Tensor) -> Tensor:
        """Return rows in float64, (…, d)."""
        if self._order is not None:
            places = torch.from_numpy(self._order)[places.cpu()]
        rows = wide(self.table[places.to(self.table.device)].detach())
        return rows if self._shift is None else rows + wide(self._shift).to(rows.device)


def measured(measure: Measure, x: Tensor, y: Tensor) -> Tensor:
    """Return a measure of vectors, in float64 where they are, (…); the cosine of a zero vector is NaN."""
    if measure == "distance":
        distances: Tensor = (x - y).norm(dim=-1)
        return distances
    dots = (x * y).sum(dim=-1)
    if measure == "dot":
        return dots
    a, b = x.norm(dim=-1), y.norm(dim=-1)
    return torch.where((a > TINY) & (b > TINY), dots / (a * b), torch.nan)


def roundings(d: int) -> float:
    """Return how many units of rounding a sum of d rounded products may be off, of the product of both norms.

    The rounding errors of 8 standard deviations are never met (Higham & Mary 2019, SIAM J. Sci. Comput. 41: below
    3e-14), and d of them cannot be exceeded at all.
    """
    return min(float(d), 8 * math.sqrt(d)) * 1.5 + 8


def smallest(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` smallest entries of each row, ascending, and their columns."""
    if x.device.type != "cpu":
        top = x.topk(count, dim=1, largest=False)
        return top.values, top.indices
    # NumPy partitions and sorts in a third of the time of topk.
    columns = torch.from_numpy(x.numpy().argpartition(count - 1, axis=1)[:, :count])
    values = x.gather(1, columns)
    order = torch.from_numpy(values.numpy().argsort(axis=1))
    return values.gather(1, order), columns.gather(1, order)


TILE, TILE_ON_DEVICE = 1024, 8192  # rows and columns of a tile


class Workspace:
    """Buffers that are used again for every tile: fresh memory would cost as much as the arithmetic."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._kept: dict[str, Tensor] = {}

    def get(self, name: str, shape: torch.Size | tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the buffer of that name in that shape; what it holds is left over."""
        size = int(np.prod(shape))
        kept = self._kept.get(name)
        if kept is None or kept.numel() < size:
            kept = self._kept[name] = torch.empty(size, dtype=dtype, device=self._device)
        return kept[:size].view(shape)


class Tile:
    """The pairs of some rows with some others. Its numbers are overwritten by the next tile."""

    def __init__(
        self, dots: Tensor, sizes: tuple[Tensor, Tensor], place: tuple[int, int], diagonal: bool, workspace: Workspace
    ) -> None:
        self.row, self.column = place
        self.diagonal = diagonal
        self.workspace = workspace
        self._dots, self._sizes = dots, sizes
        self._known: dict[Measure, Tensor] = {"dot": dots}

    def matrix(self, measure: Measure) -> Tensor:
        """Return a measure of all pairs (r, c), also of those that do not count; not to be changed."""
        if measure not in self._known:
            made = self.workspace.get(measure, self._dots.shape)
            rows, columns = self._sizes
            if measure == "cosine":
                torch.mul(self._dots, (1 / rows)[:, None], out=made).mul_(1 / columns).clamp_(-1, 1)
            else:  # ‖x − y‖² = ‖x‖² + ‖y‖² − 2⟨x, y⟩
                torch.mul(self._dots, -2, out=made).add_((rows**2)[:, None]).add_(columns**2)
                made.clamp_(min=0).sqrt_()
            self._known[measure] = made
        return self._known[measure]

    def values(self, measure: Measure) -> Tensor:
        """Return a measure of the pairs that count; not to be changed."""
        x = self.matrix(measure)
        return x if not self.diagonal else x[torch.ones(x.shape, dtype=torch.bool, device=x.device).triu(1)]


def tiles(
    rows: TableRows, columns: TableRows | None = None, what: str = "pairs", progress: Progress = silent
) -> Iterator[Tile]:
    """Yield tiles that hold each pair of a row and a column once; without columns, each two different rows once."""
    device, other = rows.table.device, rows if columns is None else columns
    size = TILE if device.type == "cpu" else TILE_ON_DEVICE
    workspace, done = Workspace(device), 0
    total = len(rows) * (len(rows) - 1) // 2 if columns is None else len(rows) * len(columns)
    for i in range(0, len(rows), size):
        x, x_sizes = rows.block(i, i + size)
        for j in range(i if columns is None else 0, len(other), size):
            diagonal = columns is None and j == i
            y, y_sizes = (x, x_sizes) if diagonal else other.block(j, j + size)
            with exact_products():
                dots = torch.mm(x, y.T, out=workspace.get("dot", (len(x), len(y))))
            yield Tile(dots, (x_sizes, y_sizes), (i, j), diagonal, workspace)
            done += len(x) * (len(x) - 1) // 2 if diagonal else dots.numel()
        progress(what, done, total)


@dataclass(frozen=True)
class Best:
    """Pairs, the first one best."""

    rows: Ints
    columns: Ints
    values: Floats
    certain: bool


class Top:
    """Keeps the k best pairs and a margin of others, whose order float32 may have confused.

    Args:
        measure: what they are compared by.
        largest: whether the largest values are best, or the smallest.
        k: how many are wanted.
        rows: the first so many rows take part,
        columns: and the first so many columns.
        absolute: whether the sign of a value counts for nothing.
    """

    def __init__(
        self, measure: Measure, largest: bool, k: int, rows: int, columns: int, absolute: bool = False
    ) -> None:
        self.measure, self.largest, self.k = measure, largest, k
        self._absolute = absolute
        self._limits = rows, columns
        self._kept = 4 * k + 64
        self._scores = torch.empty(0)  # the larger the better
        self._places = torch.empty((0, 2), dtype=torch.long)
        self._left_out = -math.inf  # the best score that was not kept

    def take(self, tile: Tile) -> None:
        """Take in one tile."""
        scores = tile.matrix(self.measure)[
            : max(0, self._limits[0] - tile.row), : max(0, self._limits[1] - tile.column)
        ]
        if scores.numel() == 0 or (tile.diagonal and scores.numel() == 1):
            return
        if len(self._scores) == self._kept and not tile.diagonal and self._best(scores) <= self._scores[-1]:
            self._left_out = max(self._left_out, self._best(scores))
            return
        scores = scores.abs() if self._absolute else scores if self.largest else -scores
        if tile.diagonal:
            below = torch.ones(scores.shape, dtype=torch.bool, device=scores.device).tril()
            scores = scores.masked_fill(below, -math.inf)
        self._add(scores, tile)

    def _best(self, scores: Tensor) -> float:
        low, high = (float(v) for v in torch.aminmax(scores))
        if self._absolute:
            return max(-low, high)
        return high if self.largest else -low

    def _add(self, scores: Tensor, tile: Tile) -> None:
        values, flat = scores.reshape(-1).topk(min(self._kept + 1, scores.numel()))
        values, flat = values.cpu(), flat.cpu()
        places = torch.stack([flat // scores.shape[1] + tile.row, flat % scores.shape[1] + tile.column], dim=1)
        places, values = places[values > -math.inf], values[values > -math.inf]
        everything, order = torch.cat([self._scores, values]).sort(descending=True, stable=True)
        if len(everything) > self._kept:
            self._left_out = max(self._left_out, float(everything[self._kept]))
        self._scores = everything[: self._kept]
        self._places = torch.cat([self._places, places])[order[: self._kept]]

    def best(self, rows: TableRows, columns: TableRows) -> Best:
        """Measure what was kept again, in float64, and return the k best."""
        i, j = self._places[:, 0].numpy(), self._places[:, 1].numpy()
        values = self._measured(rows.pick(i), columns.pick(j))
        scores = np.abs(values) if self._absolute else values if self.largest else -values
        order = np.lexsort((columns.ids(j), rows.ids(i), -scores))[: self.k]
        certain = bool(not len(order) or self._left_out < scores[order[-1]] - self._rounding(rows, columns, scores))
        return Best(i[order], j[order], values[order], certain or self._left_out == -math.inf)

    def _rounding(self, rows: TableRows, columns: TableRows, scores: Floats) -> float:
        most = len(self._scores) and float(rows.norms.max() * columns.norms.max())
        unit = UNIT32 * roundings(rows.table.shape[1])
        if self.measure == "cosine":
            return unit
        if self.measure == "dot":
            return unit * most
        last = abs(float(np.sort(scores)[::-1][: self.k][-1]))
        return math.sqrt(last**2 + 2 * unit * most) - last  # of the square root of a sum with that rounding

    def _measured(self, rows: TableRows, columns: TableRows) -> Floats:
        parts = [np.zeros(0)]
        for start in range(0, len(rows), 1024):
            places = torch.arange(start, min(start + 1024, len(rows)))
            parts.append(measured(self.measure, rows.wide(places), columns.wide(places)).cpu().numpy())
        return np.concatenate(parts)
