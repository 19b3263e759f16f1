"""The ratios of the distances to neighbours, of batches of states and of every half-sample of their texts.

What :mod:`reporter.geometry.spectra` estimates from; in torch, where the states are.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reporter.geometry.arrays import Floats, Ints, wide
from reporter.geometry.neighbours import Neighbours, nearest_of_any, nearest_within
from reporter.geometry.spectra import EQUALLY_FAR, FEWEST, NAMES, RANKS, SCALES, kept_of

_MOVED = 16  # from this scale on half-samples are read at another one
_LISTED = 240  # neighbours; more than the 128 that the largest scale needs, since a half may hold few of the nearest
_STEPS = 50  # of Newton's method; five or six are usual
_ENOUGH = 1e-6  # relative: the error left after a step is about its square
_NONE = 1e-300  # in the place of a log ratio of 0: x / (1 − e^−x) is 1 of both, without 0 / 0


@dataclass(frozen=True)
class RatioBatch:
    """The ratios of one batch of states, and every estimate in each half-sample of its texts.

    Args:
        logs: as ``log_ratios`` returns them.
        halves: by statistic, NaN where a half has none, shape (halves,).
    """

    logs: Floats
    halves: Mapping[str, Floats]


def batches_of(x: Tensor, held: Tensor, batches: Sequence[Tensor | slice], discard: float) -> list[RatioBatch]:
    """Return the ratios of each batch of states, in which neighbours are sought, and its estimates in half-samples.

    All batches share one search: those of views that differ in a few states cost little more than one.
    """
    every = torch.arange(len(x), device=x.device)
    groups = [every[rows].sort().values for rows in batches]
    ratios = []
    for rows, near in zip(groups, neighbours(x, groups), strict=True):
        if len(rows) < 3 or not (near.distances[:, 0] == 0).any():
            ratios.append(_batch(near, held, discard))
        else:
            rows = rows[_distinct(x[rows])]
            ratios.append(_batch(neighbours(x[rows], [every[: len(rows)]])[0], held[:, rows], discard))
    return ratios


def _distinct(x: Tensor) -> Tensor:
    _, which = torch.unique(x, dim=0, return_inverse=True)
    every = torch.arange(len(x), device=x.device)
    first = every.new_full((int(which.max()) + 1,), len(x)).scatter_reduce_(0, which, every, "amin")
    return first.sort().values


def _batch(neighbours: Neighbours, held: Tensor, discard: float) -> RatioBatch:
    halves = {name: np.full(len(held), np.nan) for name in NAMES}
    if len(neighbours.distances) >= FEWEST:
        # Bit h says whether half h holds a state: looked up once for all neighbours, in all halves.
        bits = (held.int() << torch.arange(len(held), dtype=torch.int32, device=held.device)[:, None]).sum(0).int()
        of_neighbours = bits[neighbours.places]
        read = scales_read(bits[neighbours.rows], of_neighbours)
        for name, values in half_estimates(neighbours, held[:, neighbours.rows], of_neighbours, discard, read).items():
            halves[name] = values.cpu().numpy()
    return RatioBatch(_logs(neighbours.distances), halves)


def scales_read(bits: Tensor, of_neighbours: Tensor) -> dict[int, int]:
    """Return for each scale the one at which half-samples are read, so that it lies at the same distance.

    Neighbours in the same text are in the half with it, of others every second is. Where dimension changes with
    distance the same rank would be another number, so a scale n from 16 on is read at m, 2m being how many of the 2n
    nearest neighbours are in the half on average. Small scales, of which halving would leave too few neighbours, stay.
    """
    shared = np.bitwise_count((bits[:, None] & of_neighbours).cpu().numpy()).sum(axis=0, dtype=np.int64)
    share = shared / max(int(np.bitwise_count(bits.cpu().numpy()).sum()), 1)
    return {n: n if n < _MOVED else max(1, round(n * float(np.mean(share[: 2 * n])))) for n in SCALES}


def half_estimates(
    neighbours: Neighbours, held: Tensor, of_neighbours: Tensor, discard: float, read: Mapping[int, int]
) -> dict[str, Tensor]:
    """Return every estimate among the states that each half-sample holds, NaN where it has none, shape (halves,).

    The r-th neighbour within the half is the r-th one of the list that the half holds. A state whose list is too short
    for a scale is left out of it; a scale that more than one state in ten is left out of has no estimate.
    """
    halves, device = len(held), held.device
    pairs = torch.tensor([(here, 2 * here) for here in read.values()], device=device)
    ranks, which = torch.unique(pairs, return_inverse=True)  # most are wanted by two scales
    sizes = held.sum(dim=1)
    most, listed = int(sizes.max()), of_neighbours.shape[1]
    if most < FEWEST:
        return {}
    distances = neighbours.listed.new_full((halves, most, len(ranks)), torch.nan)
    ranks_wanted = ranks.to(torch.uint8)  # lists are shorter than 256: bytes are read fastest
    for half, size in enumerate(sizes.tolist()):
        if half % 8 == 0:
            of_eight = (of_neighbours >> half).to(torch.uint8)
        rows = held[half].nonzero()[:, 0]
        inside = of_eight.index_select(0, rows).bitwise_and_(1 << half % 8).ne_(0)
        count = inside.cumsum(dim=1, dtype=torch.uint8)
        slots = torch.searchsorted(count, ranks_wanted.expand(size, -1).contiguous())
        near = neighbours.listed.take(rows[:, None] * listed + slots.clamp(max=listed - 1))
        distances[half, :size] = near.masked_fill_(slots == listed, torch.nan)
    near, far = (distances[:, :, chosen].transpose(1, 2).contiguous() for chosen in which.T)
    logs = (far / near).log_().masked_fill_(~(near > 0), torch.nan)  # (halves, scales, states)
    enough = (~far.isnan()).sum(dim=2) / sizes[:, None].double() >= 0.9
    enough = enough.cumprod(dim=1).bool() & (sizes[:, None] >= FEWEST)
    return _of_halves(logs, enough, discard, list(read.values()))


def _of_halves(logs: Tensor, enough: Tensor, discard: float, scales: Sequence[int]) -> dict[str, Tensor]:
    """Return every estimate from the log ratios of each half-sample, NaN for states that it lacks."""
    defined = ~logs.isnan()
    n, total = defined.sum(dim=2).double(), logs.nansum(dim=2)
    enough &= (n >= FEWEST) & (total >= EQUALLY_FAR * n)
    dimensions = most_likely(logs.nan_to_num(nan=0.0), n, total, torch.tensor(scales, device=logs.device))
    dimensions = dimensions.masked_fill(~enough, torch.nan)
    estimates = {f"gride_{scale}": dimensions[:, index] for index, scale in enumerate(SCALES)}
    first = logs[:, 0].sort(dim=1).values.nan_to_num(nan=torch.inf)  # NaN comes last
    count, rank = n[:, :1], torch.arange(1, first.shape[1] + 1, dtype=logs.dtype, device=logs.device)
    empirical = -torch.log1p(-rank / count)
    kept = torch.minimum(((1 - discard) * count + 1e-9).floor(), count - 1)
    fits = enough[:, 0] & (first.gather(1, (kept - 1).clamp(min=0).long())[:, 0] >= EQUALLY_FAR)
    used = torch.where(rank <= kept, first, 0.0)
    values = (used * torch.where(rank <= kept, empirical, 0.0)).sum(dim=1) / used.square().sum(dim=1)
    estimates["twonn"] = values.masked_fill(~fits, torch.nan)
    return estimates


def log_ratios_within(x: Tensor, groups: Sequence[Tensor]) -> list[Floats]:
    """Return the log ratios at all scales of each group of distinct rows, as ``log_ratios`` does, from one search."""
    return [_logs(near.distances) for near in neighbours(x, groups, 0)]


def log_ratios(x: Tensor, scales: int = len(SCALES)) -> Floats:
    """Return log(r_2n / r_n) of each distinct row, ascending in the first column, shape (N, scales with 2n < N).

    Rows that are equal although the model saw different things (an architecture that forgets) are dropped here, since
    r1 = 0 has no ratio.
    """
    # Equal rows have equal sums, nearly always: where some have, they are dropped before the search, not after it.
    if (x.sum(dim=1).sort().values.diff() == 0).any():
        x = x[_distinct(x)]
    if len(x) < 3:
        return np.zeros((0, 0))
    near = nearest_of_any(x, 2, RANKS[2 : scales + 1])
    return log_ratios(x[_distinct(x)], scales) if (near.distances[:, 0] == 0).any() else _logs(near.distances)


def _logs(distances: Tensor) -> Floats:
    if not len(distances):
        return np.zeros((0, 0))
    logs = distances.log().diff(dim=1)
    return np.asarray(logs[logs[:, 0].argsort()].cpu().numpy())


def neighbours(x: Tensor, groups: Sequence[Tensor], listed: int = _LISTED) -> list[Neighbours]:
    """Return the distances to the neighbours whose ratios are needed, and the nearest ones of each row in a list."""
    large = [rows for rows in groups if len(rows) >= 3]
    searched = iter(nearest_within(x, large, 2, RANKS[2:], listed) if large else [])
    none = Neighbours(*(torch.zeros(shape, dtype=kind) for shape, kind in _NOTHING))
    return [next(searched) if len(rows) >= 3 else none for rows in groups]


_NOTHING = ((0, torch.int64), ((0, 1), torch.float64), ((0, 0), torch.int64), ((0, 0), torch.float64), (0, torch.int64))


def most_likely(logs: Tensor, count: Tensor, total: Tensor, scales: Tensor) -> Tensor:
    """Return what ``gride_of`` of :mod:`reporter.geometry.spectra` finds, of many samples and scales at once."""
    dimensions = count / total
    for index, n in enumerate(scales.tolist()):
        if n > 1:
            dimensions[:, index] = _most_likely(logs[:, index], count[:, index], total[:, index], n)
    return dimensions


def _most_likely(logs: Tensor, count: Tensor, total: Tensor, n: int) -> Tensor:
    """Return the same at one scale beyond the first, shape (samples,); logs have the shape (samples, states)."""
    minus = -logs.clamp(min=_NONE)
    least = 2 * n / (3 * n - 1) * count / total
    left_out, d = logs.shape[1] - count, least
    for _ in range(_STEPS):
        x = d[:, None] * minus
        ratio = x / x.expm1()  # 1 for a state that is left out
        sums = ratio.sum(dim=1)
        # Σ ratio²·e^x, since ratio·(e^x − 1) = x
        squares = torch.linalg.vecdot(ratio, ratio) + torch.linalg.vecdot(ratio, x) - left_out
        slope = count - (2 * n - 1) * d * total + (n - 1) * (sums - left_out)  # times d
        step = slope / (count + (n - 1) * squares)  # relative to d
        d = torch.maximum(d * (1 + step), least)
        if not (step.abs() >= _ENOUGH).any():
            break
    return d


# Dimension around a single state: TwoNN (Facco et al. 2017) among its nearest states (Ruppik et al. 2025).


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
        groups: of each row, 0…G − 1, to be left out in turn, (n,): a centre that is left out itself is NaN; None: none.
    """
    x = wide(x)
    n, parts = len(x), 0 if groups is None else int(groups.max()) + 1
    more = 0.0 if groups is None else _MORE * k * float(np.bincount(groups).max()) / n + _SPARE
    listed = min(n - 1, k + math.ceil(more))
    x = x - x.mean(dim=0)
    squares = x.square().sum(dim=1)
    of_row = torch.as_tensor(np.zeros(n, dtype=np.int64) if groups is None else groups, device=x.device)
    estimates = x.new_full((1 + parts, centres), torch.nan)
    for start in range(0, centres, _AT_ONCE):
        rows = torch.arange(start, min(start + _AT_ONCE, centres), device=x.device)
        far = torch.addmm(squares, x[rows], x.T, alpha=-2)
        far.scatter_(1, rows[:, None], torch.inf)
        near = far.topk(listed, dim=1, largest=False).indices  # the nearest first
        about = x[near] - x[rows, None]  # so that nothing large is left to cancel
        own_squares = about.square().sum(dim=2)
        between = torch.baddbmm(own_squares[:, :, None] + own_squares[:, None], about, about.mT, alpha=-2)
        between.diagonal(dim1=1, dim2=2).fill_(torch.inf)
        for group in range(-1, parts):
            kept = of_row[near] != group
            kept &= kept.cumsum(dim=1) <= k
            dimensions = _twonn(between.masked_fill(~kept[:, None], torch.inf), kept, k, discard)
            estimates[group + 1, rows] = dimensions.masked_fill(of_row[rows] == group, torch.nan)
    values = estimates.cpu().numpy()
    return np.asarray(values if parts else values[0])


def _twonn(squares: Tensor, kept: Tensor, k: int, discard: float) -> Tensor:
    """Return the estimate of each neighbourhood, NaN where it has none, (b,)."""
    first, nearest = squares.min(dim=2, keepdim=True)
    second = squares.scatter(2, nearest, torch.inf).amin(dim=2)
    logs = (second.clamp(min=0).log() - first[:, :, 0].clamp(min=0).log()) / 2
    logs = logs.masked_fill(~kept, torch.inf).sort(dim=1).values[:, : kept_of(k, discard)]
    empirical = -torch.log1p(-torch.arange(1, logs.shape[1] + 1, dtype=logs.dtype, device=logs.device) / k)
    slopes = logs @ empirical / logs.square().sum(dim=1)
    good = (kept.sum(dim=1) == k) & logs.isfinite().all(dim=1) & (logs[:, -1] >= EQUALLY_FAR)
    return slopes.where(good, torch.nan)
