"""Exact distances to neighbours, at the price of a float32 matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

_SPARE = 6  # candidates beyond the k wanted, so that float32 rounding has to swap more than six to matter
_FAR = 1e-3  # of d²: how far float32 may be off before the further ranks are ordered in float64
_BLOCK = 1024  # rows of the distance matrix held at once
_GATHERED = 64  # rows whose differences are held at once: they stay in the processor's cache


@dataclass(frozen=True)
class Neighbours:
    """Rows and their nearest other rows.

    Args:
        distances: to the k nearest and to the further ones that were asked for, shape (n, k + further).
        places: of the nearest other rows, nearest first, shape (n, listed).
        listed: their distances: exact for the first few, beyond them as float32 has them, shape (n, listed).
    """

    distances: NDArray[np.float64]
    places: NDArray[np.int64]
    listed: NDArray[np.float64]


def nearest_distances(x: NDArray[np.floating], k: int, further: Sequence[int] = ()) -> NDArray[np.float64]:
    """Return the distance of each row to its k nearest other rows and to some further ones, shape (n, k + further)."""
    return nearest(x, k, further).distances


def nearest(x: NDArray[np.floating], k: int, further: Sequence[int] = (), listed: int = 0) -> Neighbours:
    """Return the nearest other rows of each row and their distances.

    Candidates come from ‖a‖² + ‖b‖² − 2a·b in float32 on centred rows; their distances are then taken in float64
    from the differences. A row whose candidates float32 could have missed is done again in float64.

    The k nearest are exact. A further one is the float64 distance of a row that float32 puts at that rank: ranks that
    differ by less than rounding may be swapped, and where that could move the distance by more than 0.05 % the row is
    done again in float64.

    Args:
        x: shape (n, d), n > k.
        k: neighbours.
        further: ranks beyond k, ascending, below n; 1 is the nearest.
        listed: how many neighbours to name, if there are as many.
    """
    import torch

    n = len(x)
    exact = torch.from_numpy(np.asarray(x, dtype=np.float64))
    exact = exact - exact.mean(dim=0)
    rough = exact.float()
    squares, exact_squares = rough.square().sum(dim=1), exact.square().sum(dim=1)
    wanted = min(k + _SPARE, n - 1)
    listed = min(listed, n - 1)
    most = max(wanted, listed, *further)
    at = torch.tensor(further, dtype=torch.int64) - 1
    result = torch.empty(n, k + len(further), dtype=torch.float64)
    places, listed_distances = torch.empty(n, listed, dtype=torch.int64), torch.empty(n, listed, dtype=torch.float64)
    product = torch.empty(min(_BLOCK, n), n)
    for start in range(0, n, _BLOCK):
        rows = torch.arange(start, min(start + _BLOCK, n))
        # ‖row‖² is the same for all its candidates: it is left out here and added to the few that remain.
        d2 = torch.addmm(squares, rough[rows], rough.T, alpha=-2, out=product[: len(rows)])
        d2[torch.arange(len(rows)), rows] = torch.inf
        far, candidates = _smallest(d2, most)
        columns = torch.cat([candidates[:, :wanted], candidates[:, at]], dim=1)
        found = _from_differences(exact, rows, columns)
        closest = found[:, :wanted].sort(dim=1)
        found = torch.cat([closest.values[:, :k], found[:, wanted:]], dim=1)
        result[rows] = found
        if listed:
            order = torch.cat([candidates[:, :wanted].gather(1, closest.indices), candidates[:, wanted:]], dim=1)
            rough_d2 = (far[:, wanted:].double() + squares[rows, None].double()).clamp(min=0)
            places[rows] = order[:, :listed]
            listed_distances[rows] = torch.cat([closest.values, rough_d2], dim=1)[:, :listed]
        # A row b that is no candidate has rough d² ≥ a := the last candidate's. If ‖b‖ ≥ 2·max(‖row‖, √a) its true
        # distance is at least √a; else rounding took off no more than this tolerance.
        own = squares[rows].double()
        last = far[:, wanted - 1].double() + own
        tolerance = 16 * float(np.finfo(np.float32).eps) * (own + 4 * torch.maximum(own, last))
        doubtful = (found[:, k - 1] > last - tolerance) & (wanted < n - 1)
        if further:
            last = far[:, at].double() + own[:, None]
            tolerance = 16 * float(np.finfo(np.float32).eps) * (own[:, None] + 4 * torch.maximum(own[:, None], last))
            doubtful |= (tolerance > _FAR * last).any(dim=1)
        again = rows[doubtful]
        if len(again):
            d2 = torch.addmm(exact_squares, exact[again], exact.T, alpha=-2)
            d2[torch.arange(len(again)), again] = torch.inf
            candidates = _smallest(d2, min(most + _SPARE, n - 1))[1]
            found = _from_differences(exact, again, candidates).sort(dim=1).values
            result[again] = torch.cat([found[:, :k], found[:, at]], dim=1)
    return Neighbours(result.sqrt().numpy(), places.numpy(), listed_distances.sqrt().numpy())


def _smallest(d2: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the ``count`` smallest entries of each row, ascending, and their columns.

    The smallest entries lie in the groups of columns that have the smallest minima: with groups of four, a quarter of
    the columns is searched and then the few groups found.
    """
    import torch

    size = d2.shape[1] // 4
    if count > size // 2:
        found = d2.topk(count, dim=1, largest=False)
        return found.values, found.indices
    minima = d2[:, :size].clone()
    for group in range(1, 4):
        torch.minimum(minima, d2[:, group * size : (group + 1) * size], out=minima)
    groups = minima.topk(count, dim=1, largest=False, sorted=False).indices
    columns = torch.cat([groups + group * size for group in range(4)], dim=1)
    if rest := d2.shape[1] - 4 * size:
        columns = torch.cat([columns, torch.arange(4 * size, 4 * size + rest).expand(len(d2), -1)], dim=1)
    values, at = d2.gather(1, columns).topk(count, dim=1, largest=False)
    return values, columns.gather(1, at)


def _from_differences(x: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Return ‖x_row − x_column‖² for the columns of each row, in float64, shape (rows, columns)."""
    import torch

    found = torch.empty(columns.shape, dtype=torch.float64)
    for start in range(0, len(rows), _GATHERED):
        part = slice(start, start + _GATHERED)
        differences = x[columns[part]]
        differences -= x[rows[part], None]
        found[part] = torch.linalg.vector_norm(differences, dim=2).square()
    return found
