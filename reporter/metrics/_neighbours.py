"""Exact distances to the nearest neighbours, at the price of a float32 matrix product."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_SPARE = 6  # candidates beyond the k wanted, so that float32 rounding has to swap more than six to matter
_BLOCK = 1024  # rows of the distance matrix held at once


def nearest_distances(x: NDArray[np.floating], k: int) -> NDArray[np.float64]:
    """Return the distance of each row to its k nearest other rows, ascending, in float64, shape (n, k).

    Candidates come from ‖a‖² + ‖b‖² − 2a·b in float32 on centred rows; their distances are then taken in float64
    from the differences. A row whose candidates float32 could have missed is done again in float64, so the result is
    exact.

    Args:
        x: shape (n, d), n > k.
        k: neighbours.
    """
    import torch

    n = len(x)
    exact = torch.from_numpy(np.asarray(x, dtype=np.float64))
    exact = exact - exact.mean(dim=0)
    rough = exact.float()
    squares = rough.square().sum(dim=1)
    wanted = min(k + _SPARE, n - 1)
    result = torch.empty(n, k, dtype=torch.float64)
    for start in range(0, n, _BLOCK):
        rows = torch.arange(start, min(start + _BLOCK, n))
        d2 = squares[rows, None] + squares[None, :] - 2 * (rough[rows] @ rough.T)
        d2[torch.arange(len(rows)), rows] = torch.inf
        far, candidates = d2.topk(wanted, dim=1, largest=False)
        found = (exact[rows, None] - exact[candidates]).square().sum(dim=2).sort(dim=1).values[:, :k]
        # A row b that is no candidate has rough d² ≥ a := the last candidate's. If ‖b‖ ≥ 2·max(‖row‖, √a) its true
        # distance is at least √a; else rounding took off no more than this tolerance.
        last = far[:, -1].double()
        own = squares[rows].double()
        tolerance = 16 * np.finfo(np.float32).eps * (own + 4 * torch.maximum(own, last))
        doubtful = (found[:, -1] > last - tolerance) & (wanted < n - 1)
        result[rows] = found
        for row in rows[doubtful].tolist():
            all_d2 = (exact - exact[row]).square().sum(dim=1)
            all_d2[row] = torch.inf
            result[row] = all_d2.topk(k, largest=False).values.sort().values
    return result.sqrt().numpy()
