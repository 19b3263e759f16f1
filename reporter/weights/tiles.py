"""All pairs of rows, tile by tile: products in float32, never a matrix of rows × rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from reporter.weights.tables import Floats, Ints, Progress, silent

Measure = Literal["cosine", "distance", "dot"]
MEASURES: tuple[Measure, ...] = ("cosine", "distance", "dot")


@dataclass(frozen=True)
class Rows:
    """Rows of a table in a chosen order.

    Args:
        table: (rows of the table, d), anywhere, in any precision.
        order: the chosen rows, none of them zero, (n,).
        norms: their Euclidean norms, (n,).
    """

    table: Tensor
    order: Ints
    norms: Floats

    def __len__(self) -> int:
        return len(self.order)

    @classmethod
    def of(cls, table: Tensor, norms: Floats, order: Ints) -> Rows:
        """Choose rows.

        Args:
            table: (rows of the table, d).
            norms: of all of them.
            order: the chosen ones.
        """
        return cls(table, order, norms[order])

    def block(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Return the chosen rows from start to stop, (n, d), and their norms, (n,), both in float32."""
        order = torch.from_numpy(self.order[start:stop]).to(self.table.device)
        sizes = torch.from_numpy(self.norms[start:stop]).float().to(self.table.device)
        return self.table[order].float(), sizes


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
    """The pairs of some rows with some others. Its numbers are overwritten by the next tile.

    Args:
        dots: ⟨x, y⟩, (r, c), float32.
        sizes: norms of its rows and of its columns.
        place: the first row and the first column, in the order of each side.
        diagonal: whether rows and columns are the same, so that only pairs above the diagonal count.
        workspace: where the other measures are put.
    """

    def __init__(
        self,
        dots: Tensor,
        sizes: tuple[Tensor, Tensor],
        place: tuple[int, int],
        diagonal: bool,
        workspace: Workspace,
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
        if not self.diagonal:
            return x
        return x[torch.ones(x.shape, dtype=torch.bool, device=x.device).triu(1)]


class Consumer(Protocol):
    """Takes in tile after tile."""

    def take(self, tile: Tile) -> None:
        """Take in one tile; its buffers are overwritten afterwards."""


def pairs_within(
    rows: Rows,
    consumers: Sequence[Consumer],
    first: int | None = None,
    what: str = "pairs",
    progress: Progress = silent,
) -> int:
    """Send each unordered pair of two different rows to the consumers once; return the number of pairs.

    Args:
        rows: the rows.
        consumers: who takes them in.
        first: only pairs with at least one of the first so many rows. Where these were drawn at random, every
            pair had the same chance to be among them.
        what: what this work is called.
        progress: told after each block of rows.
    """
    return _walk(rows, None, consumers, len(rows) if first is None else min(first, len(rows)), what, progress)


def pairs_between(
    rows: Rows, columns: Rows, consumers: Sequence[Consumer], what: str = "pairs", progress: Progress = silent
) -> int:
    """Send each pair of a row and a column to the consumers once; return the number of pairs.

    Args:
        rows: on one side.
        columns: on the other, of the same width.
        consumers: who takes them in.
        what: what this work is called.
        progress: told after each block of rows.
    """
    return _walk(rows, columns, consumers, len(rows), what, progress)


def _walk(
    rows: Rows,
    columns: Rows | None,
    consumers: Sequence[Consumer],
    first: int,
    what: str,
    progress: Progress,
    size: int | None = None,
) -> int:
    device = rows.table.device
    size = size or (1024 if device.type == "cpu" else 8192)
    workspace = Workspace(device)
    other = rows if columns is None else columns
    total = first * len(other) - (first * (first + 1) // 2 if columns is None else 0)
    done = 0
    for i in range(0, first, size):
        i_stop = min(i + size, first)
        x, x_sizes = rows.block(i, i_stop)
        for j, j_stop in _columns(i, i_stop, len(other), size, columns is None):
            y, y_sizes = (x, x_sizes) if columns is None and j == i else other.block(j, j_stop)
            dots = torch.mm(x, y.T, out=workspace.get("dot", (len(x), len(y))))
            tile = Tile(dots, (x_sizes, y_sizes), (i, j), columns is None and j == i, workspace)
            for consumer in consumers:
                consumer.take(tile)
            done += len(x) * (len(x) - 1) // 2 if tile.diagonal else dots.numel()
        progress(what, done, total)
    return done


def _columns(i: int, i_stop: int, count: int, size: int, same: bool) -> list[tuple[int, int]]:
    """Return where the tiles of a block of rows begin and end; within one table, from the diagonal on."""
    begins = [(i, i_stop)] if same else []
    return begins + [(j, min(j + size, count)) for j in range(i_stop if same else 0, count, size)]
