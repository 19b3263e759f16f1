"""Dimension from the ratios of distances to neighbours: TwoNN (Facco et al. 2017) and GRIDE (Denti et al. 2022).

Of a batch of states, and of every half-sample of its texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reporter.geometry.arrays import Floats

if TYPE_CHECKING:
    from torch import Tensor

    from reporter.geometry.neighbours import Neighbours

SCALES = (1, 2, 4, 8, 16, 32, 64)
RANKS = (*SCALES, 2 * SCALES[-1])  # the neighbours whose distances are needed

_STEPS = 50  # of Newton's method; five or six are usual
_ENOUGH = 1e-8  # relative: the error left after a step is about its square
FEWEST = 10  # distinct states below which a slope means nothing
EQUAL = 1e-9  # a log ratio below it is none
NAMES = ("twonn", "twonn_published", "twonn_ml", *(f"gride_{scale}" for scale in SCALES))
PUBLISHED = 0.8  # the share of μ that twonn_published leaves out


@dataclass(frozen=True)
class Batch:
    """The ratios of one batch of states, and every estimate in each half-sample of its texts.

    Args:
        logs: as ``log_ratios`` returns them.
        halves: by statistic, NaN where a half has none, shape (halves,).
    """

    logs: Floats
    halves: Mapping[str, Floats]


def estimate(name: str, logs: Floats, discard: float) -> float:
    """Return the estimate called ``name`` from log ratios at all scales, ascending in the first column."""
    if name in ("twonn", "twonn_published"):
        return twonn_of(logs[:, 0], discard if name == "twonn" else PUBLISHED)
    if name == "twonn_ml":
        return twonn_ml_of(logs[:, 0])
    scale = int(name.removeprefix("gride_"))
    return gride_of(logs[:, SCALES.index(scale)], scale)


def batch_of(x: NDArray[np.floating], held: NDArray[np.bool_], discard: float = 0.1) -> Batch:
    """Return the ratios of a batch and its estimates in half-samples.

    Args:
        x: states, shape (n, d).
        held: which states each half-sample holds, up to 32 of them, shape (halves, n).
        discard: share of the largest μ that ``twonn`` leaves out.
    """
    found = neighbours(x)
    if (found.distances[:, 0] == 0).any():
        x, first = np.unique(x, axis=0, return_index=True)
        held, found = held[:, first], neighbours(x)
    halves = {name: np.full(len(held), np.nan) for name in NAMES}
    if len(found.distances) >= FEWEST:
        # Bit h says whether half h holds a state: looked up once for all neighbours, in all halves.
        bits = np.bitwise_or.reduce(held.astype(np.int64) << np.arange(len(held))[:, None]).astype(np.uint32)
        of_neighbours = bits[found.places]
        read, start = scales_read(bits, of_neighbours), dict[int, float]()
        for half, of_half in enumerate(held):
            inside = of_neighbours[of_half] & np.uint32(1 << half) > 0
            for name, value in half_estimates(found, of_half, inside, discard, read, start).items():
                halves[name][half] = value
    return Batch(_logs(found.distances), halves)


def scales_read(bits: NDArray[np.uint32], of_neighbours: NDArray[np.uint32]) -> dict[int, int]:
    """Return for each scale the one at which half-samples are read, so that it lies at the same distance.

    Neighbours in the same text are in the half with it, of others every second is. Where dimension changes with
    distance the same rank would be another number, so a scale n from 16 on is read at m, 2m being how many of the 2n
    nearest neighbours are in the half on average. Small scales, of which halving would leave too few neighbours, stay.

    Args:
        bits: which half-samples hold a state, shape (n,).
        of_neighbours: the same of its nearest neighbours, nearest first, shape (n, listed).
    """
    shared = np.bitwise_count(bits[:, None] & of_neighbours).sum(axis=0, dtype=np.int64)
    share = shared / max(int(np.bitwise_count(bits).sum()), 1)
    return {n: n if n < _MOVED else max(1, round(n * float(share[: 2 * n].mean()))) for n in SCALES}


def half_estimates(
    found: Neighbours,
    held: NDArray[np.bool_],
    inside: NDArray[np.bool_],
    discard: float,
    read: Mapping[int, int],
    start: dict[int, float],
) -> dict[str, float]:
    """Return every estimate among the states that a half-sample holds.

    The r-th neighbour within the half is the r-th one of the list that the half holds. A state whose list is too short
    for a scale is left out of it; a scale that more than one state in ten is left out of has no estimate.

    Args:
        found: neighbours among all states, with a list.
        held: which states the half-sample holds, shape (n,).
        inside: which of the neighbours of these states it holds, shape (states held, listed).
        discard: share of the largest μ that ``twonn`` leaves out.
        read: for each scale the one at which the half-sample is read.
        start: by scale an estimate from which the search sets out; this half's estimates are put there.
    """
    estimates: dict[str, float] = {}
    if len(inside) < FEWEST:
        return estimates
    rows, count, where = np.flatnonzero(held), np.count_nonzero(inside, axis=1), np.flatnonzero(inside)
    first = np.cumsum(count) - count
    for scale, here in read.items():
        enough = count >= 2 * here
        if enough.mean() < 0.9:
            break
        columns = (where[first[enough] + rank - 1] % inside.shape[1] for rank in (here, 2 * here))
        near, far = (found.listed[rows[enough], column] for column in columns)
        logs = np.log(far[near > 0] / near[near > 0])
        if len(logs) < FEWEST or logs.mean() < EQUAL:
            continue
        estimates[f"gride_{scale}"] = start[scale] = gride_of(logs, here, start.get(scale, 0.0))
        if scale == 1:
            logs.sort()
            estimates |= {
                name: twonn_of(logs, share)
                for name, share in {"twonn": discard, "twonn_published": PUBLISHED}.items()
                if logs[kept_of(len(logs), share) - 1] >= EQUAL
            }
            if logs[kept_of(len(logs), 0.1) - 1] >= EQUAL:
                estimates["twonn_ml"] = twonn_ml_of(logs)
    return estimates


def log_ratios(x: NDArray[np.floating] | Tensor) -> Floats:
    """Return log(r_2n / r_n) of each distinct row, ascending in the first column, shape (N, scales with 2n < N).

    Rows that are equal although the model saw different things (an architecture that forgets) are dropped here, since
    r1 = 0 has no ratio.
    """
    found = neighbours(x, listed=0)
    if (found.distances[:, 0] == 0).any():
        found = neighbours(np.unique(x if isinstance(x, np.ndarray) else x.cpu().numpy(), axis=0), listed=0)
    return _logs(found.distances)


def _logs(distances: Floats) -> Floats:
    if not len(distances):
        return np.zeros((0, 0))
    logs: Floats = np.diff(np.log(distances), axis=1)
    return logs[logs[:, 0].argsort()]


_MOVED = 16  # from this scale on half-samples are read at another one
_LISTED = 240  # more than the 128 that the largest scale needs, since a half may hold few of the nearest


def neighbours(x: NDArray[np.floating] | Tensor, listed: int = _LISTED) -> Neighbours:
    """Return the distances to the neighbours whose ratios are needed, and the nearest ones of each row in a list."""
    from reporter.geometry.neighbours import Neighbours, nearest

    if len(x) < 3:
        return Neighbours(np.zeros((0, 1)), np.zeros((0, 0), dtype=np.int64), np.zeros((0, 0)))
    return nearest(x, 2, [rank for rank in RANKS[2:] if rank < len(x)], listed)


def kept_of(n: int, discard: float) -> int:
    """Return how many of n ratios are fitted: ⌊(1 − discard)·n⌋, but no more than n − 1, since F = 1 has no log."""
    return min(int((1 - discard) * n + 1e-9), n - 1)  # 1 − 0.8 is a little less than 0.2


def twonn_of(logs: Floats, discard: float = 0.1) -> float:
    """Return the slope through the origin of −log(1 − F) on log μ over the smallest μ.

    Args:
        logs: log μ, ascending, shape (N,), N ≥ 10.
        discard: share of the largest μ that are left out, 0 to 0.9.
    """
    n = len(logs)
    kept = logs[: kept_of(n, discard)]
    empirical = -np.log1p(-np.arange(1, len(kept) + 1) / n)
    return float(kept @ empirical / (kept @ kept))


def twonn_ml_of(logs: Floats) -> float:
    """Return (N − 1) / Σ log μ."""
    return float((len(logs) - 1) / logs.sum())


def gride_of(logs: Floats, n: int, start: float = 0.0) -> float:
    """Return the maximum-likelihood dimension from the ratios of the distances to neighbours 2n and n.

    The ratio μ has the density d·(μ^d − 1)^(n−1) / (B(n, n)·μ^((2n−1)d+1)), so d is the only root of

        N/d − (2n − 1)·Σ log μ + (n − 1)·Σ log μ / (1 − μ^−d)

    which falls and is convex: from anywhere Newton's method comes to the left of the root in one step, and from there
    climbs to it. From 1 + x/2 ≤ x/(1 − e^−x) ≤ 1 + x the root is at least 2n·N / ((3n − 1)·Σ log μ).

    Args:
        logs: log μ ≥ 0, not all of them 0, shape (N,).
        n: the scale.
        start: a dimension near the one sought, if one is known.
    """
    count, total = len(logs), float(logs.sum())
    if n == 1:
        return count / total
    least = 2 * n / (3 * n - 1) * count / total
    d = max(start, least)
    for _ in range(_STEPS):
        x = d * logs
        falls = np.expm1(-x)
        ratio = np.divide(x, -falls, out=np.ones_like(x), where=x > 0)
        slope = count - (2 * n - 1) * d * total + (n - 1) * float(ratio.sum())  # times d
        step = slope / (count + (n - 1) * float(np.square(ratio) @ (1 + falls)))  # relative to d
        d = max(d * (1 + step), least)
        if abs(step) < _ENOUGH:
            break
    return float(d)
