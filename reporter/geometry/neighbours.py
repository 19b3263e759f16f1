"""Nearest neighbours, exact, at the price of a float32 matrix product: see :mod:`reporter.geometry.pairs`.

Which other rows are nearest to each row, and how far away (:func:`nearest`), also among several groups of rows at the
price of one search (:func:`nearest_within`); which vectors of a table are nearest to a state, and how many are nearer
than its own (:func:`compare`). Memory: a block of products.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reporter.geometry.arrays import TINY, ArgumentError, Floats, Ints, exact_products, wide
from reporter.geometry.pairs import UNIT32, UNIT64, TableRows, measured, roundings, smallest

Nearness = Literal["cosine", "distance"]
BOTH: tuple[Nearness, ...] = ("cosine", "distance")

_GATHERED = 2**22  # numbers in float64 that are gathered at once

# --- The nearest other rows of each row ---

_SPARE = 6  # candidates beyond the k wanted, so that float32 rounding has to swap more than six to matter
_ROUNDINGS = 16  # units of rounding that a product of two rows may be off
_FAR = 1e-3  # of d²: how far float32 may be off before a product in float64 decides the further ranks
_BLOCK = 512  # rows whose products with all others are taken at once
_WHOLE = 2**25  # products that may be held at once, so that those above the diagonal serve below it, too
_TOGETHER = 64  # rows whose differences are held at once: they stay in the processor's cache
_TOGETHER_ON_DEVICE = 1024  # the same on an accelerator, which would rather have few large steps
_LEFT_OUT = 1.5  # times the rows that a group lacks on average are listed besides; where more lack, a row is done again


@dataclass(frozen=True)
class Neighbours:
    """Some rows and their nearest other rows among them, on the rows' device.

    Args:
        rows: which rows they are, ascending, shape (m,).
        distances: to the k nearest and to the further ones that were asked for, in float64, shape (m, k + further).
        places: which rows are the nearest, nearest first, shape (m, listed).
        listed: their distances: exact for the first few, beyond them as float32 has them, shape (m, listed).
        doubtful: rows whose candidates float64 products could have missed, shape (r,).
    """

    rows: Tensor
    distances: Tensor
    places: Tensor
    listed: Tensor
    doubtful: Tensor


def nearest(x: Tensor | NDArray[np.floating], k: int, further: Sequence[int] = (), listed: int = 0) -> Neighbours:
    """Return the nearest other rows of each row and their Euclidean distances: :func:`nearest_within`, of all rows."""
    return nearest_within(x, [None], k, further, listed)[0]


_VANISHING = 2.0**-500  # a distance below it has a square without a float64 value


def nearest_of_any(x: Tensor, k: int, further: Sequence[int] = ()) -> Neighbours:
    """Return what :func:`nearest` does with k listed neighbours, of rows whose sizes differ by any factor.

    A row far from all others leaves products of the others to rounding. What these leave open is decided by the
    differences of all rows.

    Args:
        x: in float64, scaled, (n, d).

    Raises:
        ArgumentError: if rows differ by so little that the square of their distance vanishes.
    """
    near = nearest(x, k, further, listed=k)
    rows = near.doubtful[near.distances[near.doubtful, k - 1] > 0]
    ranks = [rank for rank in (*range(1, k + 1), *further) if rank < len(x)]
    for block in _blocks(rows):
        far = torch.cdist(x[block], x, compute_mode="donot_use_mm_for_euclid_dist")
        far.scatter_(1, block[:, None], torch.inf)
        values, places = smallest(far, max(ranks))
        near.distances[block] = values[:, [rank - 1 for rank in ranks]]
        near.places[block] = places[:, :k]
    for rank in range(k):
        rows = (near.distances[:, rank] < _VANISHING).nonzero()[:, 0]
        apart = (x[rows] != x[near.places[rows, rank]]).any(dim=1)
        if apart.any():
            raise ArgumentError(
                f"row {int(rows[apart][0])} of x differs from another row by too little next to the largest number of "
                "x; remove the rows that are far from all others, or round x"
            )
    return near


@exact_products()
def nearest_within(
    x: Tensor | NDArray[np.floating],
    groups: Sequence[Tensor | None],
    k: int,
    further: Sequence[int] = (),
    listed: int = 0,
) -> list[Neighbours]:
    """Return for each group of rows the nearest other rows of the same group, from one search among all rows.

    Candidates come from ‖a‖² + ‖b‖² − 2a·b in float32 on centred rows; their distances are then taken in float64
    from the differences. A row whose candidates float32 could have missed is done again with products in float64, and
    what these leave open is decided by the differences alone. What a row's candidates hold of other groups is passed
    over; where too few are left, the row is searched again among its own group.

    The k nearest are exact. A further one is the float64 distance of a row that the product puts at that rank: ranks
    that differ by less than rounding may be swapped, and where that could move the distance by more than 0.05 % the
    row is done again as above.

    Args:
        x: shape (n, d).
        groups: rows of each, ascending, more than k of them, shape (m,); None: all. A row may be in several.
    """
    n = len(x)
    exact = wide(x) if isinstance(x, Tensor) else torch.from_numpy(np.asarray(x, dtype=np.float64))
    exact = exact - exact.mean(dim=0)
    every = torch.arange(n, device=exact.device)
    among = [_Group(exact, every if rows is None else rows, k, further, listed) for rows in groups]
    most = max((group.most for group in among), default=0)
    lacking = max((1 - len(group.rows) / n for group in among), default=0.0)
    count = min(n - 1, most + (math.ceil(_LEFT_OUT * most * lacking) + _SPARE if lacking else 0))
    _search(exact.float(), every, among, count)
    _search(exact, torch.stack([group.doubtful for group in among]).any(dim=0).nonzero()[:, 0], among, count)
    return [group.found() for group in among]


def _search(x: Tensor, rows: Tensor, among: Sequence[_Group], count: int) -> None:
    squares = x.square().sum(dim=1)
    for block, products in _products(x, rows):
        # ‖row‖² is the same for all its candidates: it is left out here and added to the few that remain.
        d2 = torch.add(squares, products, alpha=-2, out=products)
        d2.scatter_(1, block[:, None], torch.inf)
        far, candidates = smallest(d2, count)
        for group in among:
            group.see(block, squares, d2, far, candidates)


def _products(x: Tensor, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield blocks of some rows, ascending, and their products with all rows, (b, n), which may be written over."""
    n = len(x)
    if len(rows) < n or n * n > _WHOLE:
        some = x.new_empty(min(_BLOCK, len(rows)), n)
        for block in _blocks(rows):
            yield block, torch.mm(x[block], x.T, out=some[: len(block)])
        return
    # In a tensor for each block: one for all of them would be asked of the system, and given back to it, every time.
    blocks = list(_blocks(rows))
    products = [x.new_empty(len(block), n) for block in blocks]
    start = 0
    for number, block in enumerate(blocks):
        stop = start + len(block)
        torch.mm(x[start:stop], x[start:].T, out=products[number][:, start:])
        for after in range(number + 1, len(blocks)):
            columns = slice(after * _BLOCK, after * _BLOCK + len(blocks[after]))
            products[after][:, start:stop] = products[number][:, columns].T
        yield block, products[number]
        start = stop


class _Group:
    """Collects the neighbours of some rows among themselves, block by block."""

    def __init__(self, exact: Tensor, rows: Tensor, k: int, further: Sequence[int], listed: int) -> None:
        n, m, device = len(exact), len(rows), exact.device
        self.rows, self._exact, self._k, self._every = rows, exact, k, m == n
        self._wanted, self._listed = min(k + _SPARE, m - 1), min(listed, m - 1)
        ranks = [rank for rank in further if rank < m]
        self.most = max(self._wanted, self._listed, *ranks, 0)
        self._at = torch.tensor(ranks, dtype=torch.int64, device=device) - 1
        self._place = torch.empty(n, dtype=torch.int64, device=device)
        self._place[rows] = torch.arange(m, device=device)
        self._inside = torch.zeros(n, dtype=torch.bool, device=device)
        self._inside[rows] = True
        self.doubtful = self._inside.clone()
        """Rows of the group that have not been found with certainty, of all rows, (n,)."""
        self._distances = exact.new_empty(m, k + len(ranks))
        self._places = torch.empty(m, self._listed, dtype=torch.int64, device=device)
        self._of_listed = exact.new_empty(m, self._listed)

    def see(self, rows: Tensor, squares: Tensor, d2: Tensor, far: Tensor, candidates: Tensor) -> None:
        """Take in a block of rows, those of it that were not found with certainty before."""
        here, wanted = self.doubtful[rows].nonzero()[:, 0], self._wanted
        rows = rows[here]
        if not len(rows):
            return
        far, candidates = far[here], candidates[here]
        if self._every:
            far, candidates = far[:, : self.most], candidates[:, : self.most]
        else:
            far, candidates = self._own(here, d2, far, candidates)
        columns = torch.cat([candidates[:, :wanted], candidates[:, self._at]], dim=1)
        squared = _squares_of_differences(self._exact, rows, columns)
        closest = squared[:, :wanted].sort(dim=1)
        squared = torch.cat([closest.values[:, : self._k], squared[:, wanted:]], dim=1)
        group_rows, own_square = self._place[rows], squares[rows].double()[:, None]
        self._distances[group_rows] = squared
        if self._listed:
            order = torch.cat([candidates[:, :wanted].gather(1, closest.indices), candidates[:, wanted:]], dim=1)
            beyond = (far[:, wanted:].double() + own_square).clamp(min=0)
            self._places[group_rows] = order[:, : self._listed]
            self._of_listed[group_rows] = torch.cat([closest.values, beyond], dim=1)[:, : self._listed]
        # A row b that is no candidate has rough d² ≥ a := the last candidate's. If ‖b‖ ≥ 2·max(‖row‖, √a) its true
        # distance is at least √a; else rounding took off no more than this tolerance.
        last = torch.cat([far[:, wanted - 1 : wanted], far[:, self._at]], dim=1).double() + own_square
        kind = torch.finfo(d2.dtype)
        tolerance = _ROUNDINGS * kind.eps * (own_square + 4 * torch.maximum(own_square, last)) + kind.tiny
        doubtful = (tolerance > _FAR * last)[:, 1:].any(dim=1)
        if wanted < len(self.rows) - 1:
            doubtful |= squared[:, self._k - 1] > (last - tolerance)[:, 0]
        self.doubtful[rows] = doubtful

    def _own(self, here: Tensor, d2: Tensor, far: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        inside = self._inside[candidates]
        rank = inside.cumsum(dim=1)
        # Those inside move up to their rank among themselves, all others to a last column that is cut off.
        to = torch.where(inside & (rank <= self.most), rank - 1, self.most)
        near = far.new_empty(len(far), self.most + 1).scatter_(1, to, far)[:, :-1]
        which = candidates.new_empty(len(far), self.most + 1).scatter_(1, to, candidates)[:, :-1]
        short = (rank[:, -1] < self.most).nonzero()[:, 0]
        if len(short):
            values, columns = smallest(d2[here[short]][:, self.rows], self.most)
            near[short], which[short] = values, self.rows[columns]
        return near, which

    def found(self) -> Neighbours:
        """Return what was found; the differences of rows that float64 products leave in doubt decide."""
        for rows in _blocks(self.doubtful.nonzero()[:, 0]):
            x, group_rows = self._exact[self.rows], self._place[rows]
            d2 = torch.addmm(x.square().sum(dim=1), self._exact[rows], x.T, alpha=-2)
            d2.scatter_(1, group_rows[:, None], torch.inf)
            most = min(max(self._wanted, *(self._at + 1).tolist(), 0) + _SPARE, len(x) - 1)
            squared = _squares_of_differences(self._exact, rows, self.rows[smallest(d2, most)[1]]).sort(dim=1).values
            self._distances[group_rows] = torch.cat([squared[:, : self._k], squared[:, self._at]], dim=1)
        distances, listed = self._distances.sqrt_(), self._of_listed.sqrt_()
        return Neighbours(self.rows, distances, self._places, listed, self.rows[self.doubtful[self.rows]])


def _blocks(rows: Tensor) -> Iterator[Tensor]:
    return (rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK))


def _squares_of_differences(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    squared = x.new_empty(columns.shape)
    together = _TOGETHER if x.device.type == "cpu" else _TOGETHER_ON_DEVICE
    for start in range(0, len(rows), together):
        part = slice(start, start + together)
        differences = x.index_select(0, columns[part].flatten()).view(*columns[part].shape, x.shape[1])
        differences -= x[rows[part], None]
        squared[part] = torch.linalg.vector_norm(differences, dim=2).square_()
    return squared


# --- States against the vectors of a table ---

VECTORS = 8192  # whose products are held at once
STATES = 512  # that are compared at once
_MORE = 28  # more vectors than asked for are kept in float32, so that rounding leaves out none


@dataclass(frozen=True)
class Closeness:
    """States against the vectors of a vocabulary.

    Args:
        cosine: of each state and its own vector, (states,); NaN where one of them is zero.
        distance: of the two, (states,).
        ranks: by measure, how many vectors are strictly nearer to a state than its own, (states,); −1 where undefined.
        nearest: by measure, ids of the nearest vectors, the nearest first and of equal ones the smaller id first,
            (states, k); −1 where there are fewer.
    """

    cosine: Floats
    distance: Floats
    ranks: Mapping[Nearness, Ints]
    nearest: Mapping[Nearness, Ints]


@exact_products()
def compare(
    states: Tensor, own_ids: Ints, vectors: TableRows, measures: tuple[Nearness, ...] = BOTH, nearest: int = 0
) -> Closeness:
    """Compare states with all vectors of a vocabulary; two that float64 cannot tell apart count as equally near.

    Args:
        states: (n, d) in float32.
        own_ids: id of each state's own vector, (n,).
    """
    cosine, distance = against(states, own_ids[:, None], vectors)
    ranks: dict[Nearness, list[Ints]] = {measure: [] for measure in measures}
    nearest_ids: dict[Nearness, list[Ints]] = {measure: [] for measure in measures}
    for start in range(0, len(states), STATES):
        x = states[start : start + STATES].to(vectors.table.device).float()
        searches = {
            measure: _Search(x, own_ids[start : start + STATES], vectors, nearest, measure) for measure in measures
        }
        for first in range(0, len(vectors), VECTORS):
            block, norms = vectors.block(first, first + VECTORS)
            products = x @ block.T
            for search in searches.values():
                search.see(first, products, norms)
        for measure, search in searches.items():
            ranks[measure].append(search.rank())
            nearest_ids[measure].append(search.nearest())
    none = np.zeros((0, min(nearest, len(vectors))), dtype=np.int64)
    return Closeness(
        cosine[:, 0],
        distance[:, 0],
        {measure: np.concatenate([none.reshape(-1), *blocks]) for measure, blocks in ranks.items()},
        {measure: np.concatenate([none, *blocks]) for measure, blocks in nearest_ids.items()} if nearest else {},
    )


def against(states: Tensor, ids: Ints, vectors: TableRows) -> tuple[Floats, Floats]:
    """Return cosine and distance of each state and some vectors of a vocabulary, each (n, k), in float64."""
    cosines, distances = np.empty(ids.shape), np.empty(ids.shape)
    step = max(1, _GATHERED // max(1, ids.shape[1] * vectors.table.shape[1]))
    for start in range(0, len(ids), step):
        w = vectors.wide(torch.from_numpy(ids[start : start + step]))
        x = wide(states[start : start + step]).to(w.device)[:, None]
        cosines[start : start + step] = measured("cosine", x, w).clamp(-1, 1).cpu().numpy()
        distances[start : start + step] = measured("distance", x, w).cpu().numpy()
    return cosines, distances


class _Search:
    """Counts the vectors that are nearer than a state's own, by one measure, and keeps the nearest.

    The score by cosine is the cosine, by distance ⟨x, w⟩ − ‖w‖²/2, which is (‖x‖² − ‖x − w‖²)/2 without what is the
    same for all vectors: the larger, the nearer.
    """

    def __init__(self, x: Tensor, own_ids: Ints, vectors: TableRows, nearest: int, measure: Nearness) -> None:
        self._vectors, self._k, self._measure = vectors, min(nearest, len(vectors)), measure
        own_vectors = vectors.wide(torch.from_numpy(own_ids))
        self._wide = wide(x).to(own_vectors.device)
        self._norm, self._own_norm = self._wide.norm(dim=1), own_vectors.norm(dim=1)
        self._roundings = roundings(vectors.table.shape[1])
        self._score, self._unit = self._exact(torch.arange(len(x), device=self._wide.device), own_vectors)
        self._defined = self._score.isfinite()
        self._count = torch.zeros(len(x), dtype=torch.int64, device=self._wide.device)
        self._best = torch.zeros(len(x), 0, device=x.device)
        self._ids = torch.zeros(len(x), 0, dtype=torch.int64, device=x.device)
        self._margins = torch.zeros(len(x), device=x.device)

    def see(self, first: int, products: Tensor, norms: Tensor) -> None:
        """Take in a block of vectors."""
        device = products.device
        x_norm = self._norm.float().to(device)
        if self._measure == "cosine":
            scores = products / x_norm.clamp_min(TINY)[:, None] / norms.clamp_min(TINY)
            scores.masked_fill_(norms[None] <= TINY, -torch.inf)
            margins = torch.full_like(x_norm, 2 * self._roundings * UNIT32)
        else:
            scores = products - norms.square() / 2
            largest = torch.maximum(norms.max(), self._own_norm.float().to(device))
            margins = 2 * self._roundings * UNIT32 * (x_norm + largest) * largest
        above = scores - self._score.float().to(device)[:, None]
        self._count += (above > margins[:, None]).sum(dim=1).to(self._count.device)
        near = (above.abs() <= margins[:, None]) & self._defined.to(device)[:, None]
        for state, vector in _pairs(near.nonzero().to(self._wide.device), self._wide.shape[1]):
            score, unit = self._exact(state, self._vectors.wide(vector + first))
            apart = self._roundings * UNIT64 * torch.maximum(unit, self._unit[state])
            self._count.index_add_(0, state, (score - self._score[state] > apart).long())
        if self._k:
            here, columns = smallest(scores.neg_(), min(self._k + _MORE, scores.shape[1]))
            best = torch.cat([self._best, here.neg()], dim=1)
            self._best, order = best.topk(min(self._k + _MORE, best.shape[1]), dim=1)
            self._ids = torch.cat([self._ids, columns + first], dim=1).gather(1, order)
            self._margins = torch.maximum(self._margins, margins)

    def rank(self) -> Ints:
        """Return how many vectors are strictly nearer than each state's own, −1 where that is undefined."""
        return torch.where(self._defined, self._count, -1).cpu().numpy()

    def nearest(self) -> Ints:
        """Return the ids of the nearest vectors, (states, k)."""
        kept = self._best.isfinite()
        if not self._k:
            return np.zeros((len(self._wide), 0), dtype=np.int64)
        exact = self._wide.new_full(self._best.shape, -torch.inf)
        for state, column in _pairs(kept.nonzero().to(exact.device), self._wide.shape[1]):
            exact[state, column] = self._exact(state, self._vectors.wide(self._ids.to(exact.device)[state, column]))[0]
        scores, ids, last = exact.cpu().numpy(), self._ids.cpu().numpy(), self._best[:, -1].cpu().double().numpy()
        order = np.lexsort((ids, -scores), axis=1)[:, : self._k]
        scores = np.take_along_axis(scores, order, axis=1)
        nearest_ids = np.where(np.isfinite(scores), np.take_along_axis(ids, order, axis=1), -1)
        certain = scores[:, -1] > last + self._margins.cpu().double().numpy()
        certain |= ~kept.all(dim=1).cpu().numpy() | (kept.shape[1] == len(self._vectors))
        if self._measure == "cosine":  # a zero state has no nearest
            nothing = (self._norm <= TINY).cpu().numpy()
            nearest_ids[nothing], certain[nothing] = -1, True
        for i in np.flatnonzero(~certain).tolist():
            # More vectors than are kept are about as near as the last one, such as rows never trained.
            nearest_ids[i] = self._among_all(i)
        return nearest_ids

    def _among_all(self, i: int) -> Ints:
        scores = []
        for start in range(0, len(self._vectors), step := max(1, _GATHERED // self._wide.shape[1])):
            ids = torch.arange(start, min(start + step, len(self._vectors)))
            score, _ = self._exact(torch.full((len(ids),), i), self._vectors.wide(ids))
            scores.append(score.nan_to_num(nan=-torch.inf).cpu().numpy())
        joined = np.concatenate(scores)
        order = np.lexsort((np.arange(len(joined)), -joined))[: self._k]
        return np.where(np.isfinite(joined[order]), order, -1)

    def _exact(self, state: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores in float64, and the size of the numbers that were added up for each."""
        x = self._wide[state.to(w.device)]
        if self._measure == "cosine":
            score = measured("cosine", x, w)
            return score, torch.full_like(score, 2.0)
        w_norm = w.norm(dim=1)
        return measured("dot", x, w) - w_norm.square() / 2, 2 * (x.norm(dim=1) + w_norm) * w_norm


def _pairs(indices: Tensor, width: int) -> Iterator[tuple[Tensor, Tensor]]:
    step = max(1, _GATHERED // width)
    for start in range(0, len(indices), step):
        part = indices[start : start + step]
        yield part[:, 0], part[:, 1]
