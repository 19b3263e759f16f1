"""The pairs with the largest or smallest values, kept while tiles pass by, then measured again in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reporter.weights.tables import TINY, Floats, Ints, wide
from reporter.weights.tiles import Measure, Rows, Tile


@dataclass(frozen=True)
class Best:
    """Pairs, the first one best.

    Args:
        rows: places in the order of the rows, (k,).
        columns: places in the order of the columns, (k,).
        values: their measure in float64, (k,).
        certain: whether no other pair can belong here, float32 having left it out; False where more pairs than
            were kept lie within rounding of the last one.
    """

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

    def best(self, rows: Rows, columns: Rows) -> Best:
        """Measure what was kept again, in float64, and return the k best.

        Args:
            rows: those whose pairs were taken in.
            columns: on the other side; the same ones within a kind.
        """
        i, j = self._places[:, 0].numpy(), self._places[:, 1].numpy()
        values = measured(self.measure, rows, columns, i, j)
        scores = np.abs(values) if self._absolute else values if self.largest else -values
        order = np.lexsort((columns.order[j], rows.order[i], -scores))[: self.k]
        certain = bool(not len(order) or self._left_out < scores[order[-1]] - self._rounding(rows, columns, scores))
        return Best(i[order], j[order], values[order], certain or self._left_out == -math.inf)

    def _rounding(self, rows: Rows, columns: Rows, scores: Floats) -> float:
        """Return how far a value in float32 may be from the true one."""
        most = len(self._scores) and float(rows.norms.max() * columns.norms.max())
        unit = 2.0**-24 * 4 * math.sqrt(rows.table.shape[1])
        if self.measure == "cosine":
            return unit
        if self.measure == "dot":
            return unit * most
        last = abs(float(np.sort(scores)[::-1][: self.k][-1]))
        return math.sqrt(last**2 + 2 * unit * most) - last  # of the square root of a sum with that rounding


def measured(measure: Measure, rows: Rows, columns: Rows, i: Ints, j: Ints) -> Floats:
    """Return a measure of single pairs in float64, from the vectors themselves.

    Args:
        measure: which.
        rows: on one side.
        columns: on the other.
        i: places in the order of the rows, (n,).
        j: places in the order of the columns, (n,).
    """
    found = [np.zeros(0)]
    for start in range(0, len(i), 1024):
        x = _vectors(rows, i[start : start + 1024])
        y = _vectors(columns, j[start : start + 1024])
        if measure == "distance":
            found.append((x - y).norm(dim=1).cpu().numpy())
            continue
        dots = (x * y).sum(dim=1)
        sizes = (x.norm(dim=1) * y.norm(dim=1)).clamp_min(TINY**2) if measure == "cosine" else 1
        found.append((dots / sizes).cpu().numpy())
    return np.concatenate(found)


def _vectors(rows: Rows, places: Ints) -> Tensor:
    return wide(rows.table[torch.from_numpy(rows.order[places]).to(rows.table.device)])
