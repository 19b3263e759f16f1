"""Exact distances to the nearest neighbours, at the price of a float32 matrix product."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

_SPARE = 6  # candidates beyond the k wanted, so that float32 rounding has to swap more than six to matter
_BLOCK = 1024  # rows of the distance matrix held at once


def nearest_distances(x: NDArray[np.floating], k: int) -> NDArray[np.float64]:
    """Return the distance of each row to its k nearest other rows, ascending, in float64, shape (n, k).

    Candidates come from ‖a‖² + ‖b‖² − 2a·b in float32 on centred rows; their distances are then taken in float64
    from the differences. A row whose candidates float32 could have missed is done again in float64.

    Args:
        x: shape (n, d), n > k.
        k: neighbours.
    """
    import torch

    n = len(x)
    exact = torch.from_numpy(np.asarray(x, dtype=np.float64))
    exact = exact - exact.mean(dim=0)
    rough = exact.float()
    squares, exact_squares = rough.square().sum(dim=1), exact.square().sum(dim=1)
    wanted = min(k + _SPARE, n - 1)
    result = torch.empty(n, k, dtype=torch.float64)
    for start in range(0, n, _BLOCK):
        rows = torch.arange(start, min(start + _BLOCK, n))
        # ‖row‖² is the same for all its candidates: it is left out here and added to the few that remain.
        d2 = torch.addmm(squares, rough[rows], rough.T, alpha=-2)
        d2[torch.arange(len(rows)), rows] = torch.inf
        far, candidates = d2.topk(wanted, dim=1, largest=False)
        found = _from_differences(exact, rows, candidates, k)
        # A row b that is no candidate has rough d² ≥ a := the last candidate's. If ‖b‖ ≥ 2·max(‖row‖, √a) its true
        # distance is at least √a; else rounding took off no more than this tolerance.
        own = squares[rows].double()
        last = far[:, -1].double() + own
        tolerance = 16 * float(np.finfo(np.float32).eps) * (own + 4 * torch.maximum(own, last))
        doubtful = (found[:, -1] > last - tolerance) & (wanted < n - 1)
        result[rows] = found
        again = rows[doubtful]
        if len(again):
            d2 = torch.addmm(exact_squares, exact[again], exact.T, alpha=-2)
            d2[torch.arange(len(again)), again] = torch.inf
            candidates = d2.topk(wanted, dim=1, largest=False).indices
            result[again] = _from_differences(exact, again, candidates, k)
    return result.sqrt().numpy()


def _from_differences(x: torch.Tensor, rows: torch.Tensor, candidates: torch.Tensor, k: int) -> torch.Tensor:
    """Return the k smallest ‖x_row − x_candidate‖² of each row, ascending, shape (rows, k)."""
    return (x[rows, None] - x[candidates]).square().sum(dim=2).sort(dim=1).values[:, :k]
