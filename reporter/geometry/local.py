"""Dimension around a single state: TwoNN (Facco et al. 2017) among its nearest states (Ruppik et al. 2025)."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from reporter.geometry.arrays import Floats, Ints, wide
from reporter.geometry.dimension import EQUAL, kept_of

_AT_ONCE = 16  # neighbourhoods whose distances are looked at together: they stay in the processor's cache
_MORE = 1.5  # times the neighbours that a group left out takes on average, so that enough are left
_SPARE = 20


def local_dimensions(x: Tensor, centres: int, k: int, groups: Ints | None = None, discard: float = 0.1) -> Floats:
    """Return TwoNN among the k nearest other rows of each of the first rows, (centres,) or (1 + G, centres).

    The row itself is not among them. Of the k ratios of distances to the second and the first neighbour within the
    neighbourhood the smallest ⌊(1 − discard)·k⌋ are fitted. NaN where rows are equal or equally far, and where leaving
    out a group leaves fewer than k of the rows that were looked at.

    Args:
        x: in random order, (n, d), n > k.
        centres: the rows whose neighbourhoods are looked at are the first so many.
        k: rows of a neighbourhood, at least 10.
        groups: of each row, 0…G − 1, to be left out in turn, (n,): a centre that is left out itself is NaN; None: none.
        discard: share of the largest ratios that are left out.
    """
    x = wide(x)
    n, parts = len(x), 0 if groups is None else int(groups.max()) + 1
    more = 0.0 if groups is None else _MORE * k * float(np.bincount(groups).max()) / n + _SPARE
    listed = min(n - 1, k + math.ceil(more))
    x = x - x.mean(dim=0)
    squares = x.square().sum(dim=1)
    of_row = torch.as_tensor(np.zeros(n, dtype=np.int64) if groups is None else groups, device=x.device)
    found = x.new_full((1 + parts, centres), torch.nan)
    for start in range(0, centres, _AT_ONCE):
        rows = torch.arange(start, min(start + _AT_ONCE, centres), device=x.device)
        far = torch.addmm(squares, x[rows], x.T, alpha=-2)
        far.scatter_(1, rows[:, None], torch.inf)
        near = far.topk(listed, dim=1, largest=False).indices  # the nearest first
        about = x[near] - x[rows, None]  # so that nothing large is left to cancel
        own = about.square().sum(dim=2)
        between = torch.baddbmm(own[:, :, None] + own[:, None], about, about.mT, alpha=-2)
        between.diagonal(dim1=1, dim2=2).fill_(torch.inf)
        for group in range(-1, parts):
            kept = of_row[near] != group
            kept &= kept.cumsum(dim=1) <= k
            dimensions = _twonn(between.masked_fill(~kept[:, None], torch.inf), kept, k, discard)
            found[group + 1, rows] = dimensions.masked_fill(of_row[rows] == group, torch.nan)
    values = found.cpu().numpy()
    return np.asarray(values if parts else values[0])


def _twonn(squares: Tensor, kept: Tensor, k: int, discard: float) -> Tensor:
    """Return the estimate of each neighbourhood, NaN where it has none, (b,).

    Args:
        squares: squared distances, infinite to itself and to rows that do not count, (b, listed, listed).
        kept: rows that count, k of them or fewer, (b, listed).
        k: how many there should be.
        discard: share of the largest ratios that are left out.
    """
    first, at = squares.min(dim=2, keepdim=True)
    second = squares.scatter(2, at, torch.inf).amin(dim=2)
    logs = (second.clamp(min=0).log() - first[:, :, 0].clamp(min=0).log()) / 2
    logs = logs.masked_fill(~kept, torch.inf).sort(dim=1).values[:, : kept_of(k, discard)]
    empirical = -torch.log1p(-torch.arange(1, logs.shape[1] + 1, dtype=logs.dtype, device=logs.device) / k)
    found = logs @ empirical / logs.square().sum(dim=1)
    good = (kept.sum(dim=1) == k) & logs.isfinite().all(dim=1) & (logs[:, -1] >= EQUAL)
    return found.where(good, torch.nan)
