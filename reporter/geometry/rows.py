"""Rows of a table in two precisions: products in float32, a block at a time, and what rounding leaves open in float64.

Rounding can only change the order of two vectors whose scores lie within a margin of each other, and those are compared
again in float64, from the vectors themselves. :mod:`reporter.geometry.neighbours` and :mod:`reporter.geometry.pairs`
decide in this way.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from reporter.geometry.arrays import BLOCK, TINY, Floats, Ints, wide

Measure = Literal["cosine", "distance", "dot"]

UNIT32, UNIT64 = 2.0**-24, 2.0**-53
"""The largest relative error of one rounding."""


class Rows:
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
        found = [
            self.wide(every[start : start + BLOCK]).norm(dim=1).cpu().numpy() for start in range(0, len(self), BLOCK)
        ]
        return np.concatenate([np.zeros(0), *found])

    def ids(self, places: Ints) -> Ints:
        """Return which rows of the table stand at some places of these rows, (m,)."""
        return places if self._order is None else self._order[places]

    def pick(self, places: Ints) -> Rows:
        """Choose among these rows.

        Args:
            places: which, in the order wanted, (m,).
        """
        return Rows(self.table, self.ids(places), None if self._norms is None else self._norms[places], self._shift)

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
        """Return rows in float64, (…, d).

        Args:
            places: which of these rows, (…).
        """
        if self._order is not None:
            places = torch.from_numpy(self._order)[places.cpu()]
        rows = wide(self.table[places.to(self.table.device)].detach())
        return rows if self._shift is None else rows + wide(self._shift).to(rows.device)


def measured(measure: Measure, x: Tensor, y: Tensor) -> Tensor:
    """Return a measure of vectors, in float64 where they are, (…); the cosine of a zero vector is NaN.

    Args:
        measure: which.
        x: (…, d).
        y: (…, d).
    """
    if measure == "distance":
        found: Tensor = (x - y).norm(dim=-1)
        return found
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
    """Return the ``count`` smallest entries of each row, ascending, and their columns.

    The smallest entries lie in the groups of columns that have the smallest minima: with groups of four, a quarter of
    the columns is searched and then the few groups found.
    """
    size = x.shape[1] // 4
    if count > size // 2:
        found = x.topk(count, dim=1, largest=False)
        return found.values, found.indices
    minima = x[:, :size].clone()
    for group in range(1, 4):
        torch.minimum(minima, x[:, group * size : (group + 1) * size], out=minima)
    groups = minima.topk(count, dim=1, largest=False, sorted=False).indices
    columns = torch.cat([groups + group * size for group in range(4)], dim=1)
    if rest := x.shape[1] - 4 * size:
        columns = torch.cat([columns, torch.arange(4 * size, 4 * size + rest, device=x.device).expand(len(x), -1)], 1)
    values, at = x.gather(1, columns).topk(count, dim=1, largest=False)
    return values, columns.gather(1, at)
