"""Nearest neighbours, exact, at the price of a float32 matrix product: see :mod:`reporter.geometry.rows`.

Which other rows are nearest to each row, and how far away (:func:`nearest`); which vectors of a table are nearest to a
state, and how many are nearer than its own (:func:`compare`). Memory: a block of products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reporter.geometry.arrays import TINY, Floats, Ints, wide
from reporter.geometry.rows import UNIT32, UNIT64, Rows, measured, roundings, smallest

Nearness = Literal["cosine", "distance"]
BOTH: tuple[Nearness, ...] = ("cosine", "distance")

_GATHERED = 2**22  # numbers in float64 that are gathered at once

# --- The nearest other rows of each row ---

_SPARE = 6  # candidates beyond the k wanted, so that float32 rounding has to swap more than six to matter
_FAR = 1e-3  # of d²: how far float32 may be off before the further ranks are ordered in float64
_BLOCK = 1024  # rows of the distance matrix held at once
_TOGETHER = 64  # rows whose differences are held at once: they stay in the processor's cache


@dataclass(frozen=True)
class Neighbours:
    """Rows and their nearest other rows.

    Args:
        distances: to the k nearest and to the further ones that were asked for, shape (n, k + further).
        places: of the nearest other rows, nearest first, shape (n, listed).
        listed: their distances: exact for the first few, beyond them as float32 has them, shape (n, listed).
    """

    distances: Floats
    places: Ints
    listed: Floats


def nearest(x: Tensor | NDArray[np.floating], k: int, further: Sequence[int] = (), listed: int = 0) -> Neighbours:
    """Return the nearest other rows of each row and their Euclidean distances.

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
    n = len(x)
    exact = wide(x) if isinstance(x, Tensor) else torch.from_numpy(np.asarray(x, dtype=np.float64))
    exact = exact - exact.mean(dim=0)
    device, eps = exact.device, float(np.finfo(np.float32).eps)
    rough = exact.float()
    squares, exact_squares = rough.square().sum(dim=1), exact.square().sum(dim=1)
    wanted = min(k + _SPARE, n - 1)
    listed = min(listed, n - 1)
    most = max(wanted, listed, *further)
    at = torch.tensor(further, dtype=torch.int64, device=device) - 1
    result = exact.new_empty(n, k + len(further))
    places = torch.empty(n, listed, dtype=torch.int64, device=device)
    listed_distances = exact.new_empty(n, listed)
    product = rough.new_empty(min(_BLOCK, n), n)
    for start in range(0, n, _BLOCK):
        rows = torch.arange(start, min(start + _BLOCK, n), device=device)
        own_column = torch.arange(len(rows), device=device)
        # ‖row‖² is the same for all its candidates: it is left out here and added to the few that remain.
        d2 = torch.addmm(squares, rough[rows], rough.T, alpha=-2, out=product[: len(rows)])
        d2[own_column, rows] = torch.inf
        far, candidates = smallest(d2, most)
        columns = torch.cat([candidates[:, :wanted], candidates[:, at]], dim=1)
        found = _squares_of_differences(exact, rows, columns)
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
        tolerance = 16 * eps * (own + 4 * torch.maximum(own, last))
        doubtful = (found[:, k - 1] > last - tolerance) & (wanted < n - 1)
        if further:
            last = far[:, at].double() + own[:, None]
            tolerance = 16 * eps * (own[:, None] + 4 * torch.maximum(own[:, None], last))
            doubtful |= (tolerance > _FAR * last).any(dim=1)
        again = rows[doubtful]
        if len(again):
            d2 = torch.addmm(exact_squares, exact[again], exact.T, alpha=-2)
            d2[torch.arange(len(again), device=device), again] = torch.inf
            candidates = smallest(d2, min(most + _SPARE, n - 1))[1]
            found = _squares_of_differences(exact, again, candidates).sort(dim=1).values
            result[again] = torch.cat([found[:, :k], found[:, at]], dim=1)
    return Neighbours(*(part.cpu().numpy() for part in (result.sqrt(), places, listed_distances.sqrt())))


def _squares_of_differences(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return ‖x_row − x_column‖² for the columns of each row, in float64, shape (rows, columns)."""
    found = x.new_empty(columns.shape)
    for start in range(0, len(rows), _TOGETHER):
        part = slice(start, start + _TOGETHER)
        differences = x[columns[part]]
        differences -= x[rows[part], None]
        found[part] = torch.linalg.vector_norm(differences, dim=2).square()
    return found


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


def compare(
    states: Tensor,
    own: Ints,
    vectors: Rows,
    measures: tuple[Nearness, ...] = BOTH,
    nearest: int = 0,
    tell: Callable[[int], None] = lambda states: None,
) -> Closeness:
    """Compare states with all vectors of a vocabulary; two that float64 cannot tell apart count as equally near.

    Args:
        states: (n, d) in float32.
        own: id of each state's own vector, (n,).
        vectors: the vocabulary.
        measures: nearer by what.
        nearest: how many of the nearest vectors are wanted.
        tell: told after each group of states how many it were.
    """
    cosine, distance = against(states, own[:, None], vectors)
    ranks: dict[Nearness, list[Ints]] = {measure: [] for measure in measures}
    found: dict[Nearness, list[Ints]] = {measure: [] for measure in measures}
    for start in range(0, len(states), STATES):
        group = _Group(states[start : start + STATES], own[start : start + STATES], vectors, nearest)
        searches = {measure: _Search(group, measure) for measure in measures}
        for first in range(0, len(vectors), VECTORS):
            block, norms = vectors.block(first, first + VECTORS)
            products = group.x @ block.T
            for search in searches.values():
                search.see(first, products, norms)
        for measure, search in searches.items():
            ranks[measure].append(search.rank())
            found[measure].append(search.nearest())
        tell(group.size)
    none = np.zeros((0, min(nearest, len(vectors))), dtype=np.int64)
    return Closeness(
        cosine[:, 0],
        distance[:, 0],
        {measure: np.concatenate([none.reshape(-1), *of]) for measure, of in ranks.items()},
        {measure: np.concatenate([none, *of]) for measure, of in found.items()} if nearest else {},
    )


def against(states: Tensor, ids: Ints, vectors: Rows) -> tuple[Floats, Floats]:
    """Return cosine and distance of each state and some vectors of a vocabulary, each (n, k), in float64.

    Args:
        states: (n, d).
        ids: which vectors, (n, k).
        vectors: the vocabulary.
    """
    cosines, distances = np.empty(ids.shape), np.empty(ids.shape)
    step = max(1, _GATHERED // max(1, ids.shape[1] * vectors.table.shape[1]))
    for start in range(0, len(ids), step):
        w = vectors.wide(torch.from_numpy(ids[start : start + step]))
        x = wide(states[start : start + step]).to(w.device)[:, None]
        cosines[start : start + step] = measured("cosine", x, w).clamp(-1, 1).cpu().numpy()
        distances[start : start + step] = measured("distance", x, w).cpu().numpy()
    return cosines, distances


class _Group:
    """Some states, in both precisions, with their own vectors."""

    def __init__(self, states: Tensor, own: Ints, vectors: Rows, nearest: int) -> None:
        self.vectors, self.size, self.k = vectors, len(states), min(nearest, len(vectors))
        self.x = states.to(vectors.table.device).float()
        self.own = vectors.wide(torch.from_numpy(own))
        self.wide = wide(self.x).to(self.own.device)
        self.norm = self.wide.norm(dim=1)
        self.roundings = roundings(vectors.table.shape[1])


class _Search:
    """Counts the vectors that are nearer than a state's own, by one measure, and keeps the nearest.

    The score by cosine is the cosine, by distance ⟨x, w⟩ − ‖w‖²/2, which is (‖x‖² − ‖x − w‖²)/2 without what is the
    same for all vectors: the larger, the nearer.
    """

    def __init__(self, group: _Group, measure: Nearness) -> None:
        self._group, self._measure = group, measure
        every = torch.arange(group.size, device=group.wide.device)
        self._score, self._unit = self._exact(every, group.own)
        self._defined = self._score.isfinite()
        self._count = torch.zeros(group.size, dtype=torch.int64, device=group.wide.device)
        self._best = torch.zeros(group.size, 0, device=group.x.device)
        self._ids = torch.zeros(group.size, 0, dtype=torch.int64, device=group.x.device)
        self._margins = torch.zeros(group.size, device=group.x.device)

    def see(self, first: int, products: Tensor, norms: Tensor) -> None:
        """Take in a block of vectors.

        Args:
            first: id of the first one.
            products: of all states with them, in float32.
            norms: of the vectors.
        """
        group, device = self._group, products.device
        x_norm = group.norm.to(device).float()
        if self._measure == "cosine":
            scores = products / x_norm.clamp_min(TINY)[:, None] / norms.clamp_min(TINY)
            scores.masked_fill_(norms[None] <= TINY, -torch.inf)
            margins = torch.full_like(x_norm, 2 * group.roundings * UNIT32)
        else:
            scores = products - norms.square() / 2
            largest = torch.maximum(norms.max(), group.own.norm(dim=1).to(device).float())
            margins = 2 * group.roundings * UNIT32 * (x_norm + largest) * largest
        own = self._score.to(device).float()
        above = scores - own[:, None]
        self._count += (above > margins[:, None]).sum(dim=1).to(self._count.device)
        near = (above.abs() <= margins[:, None]) & self._defined.to(device)[:, None]
        for state, vector in _pairs(near.nonzero().to(group.wide.device), group.wide.shape[1]):
            score, unit = self._exact(state, group.vectors.wide(vector + first))
            apart = group.roundings * UNIT64 * torch.maximum(unit, self._unit[state])
            self._count.index_add_(0, state, (score - self._score[state] > apart).long())
        if group.k:
            here, columns = smallest(scores.neg_(), min(group.k + _MORE, scores.shape[1]))
            best = torch.cat([self._best, here.neg()], dim=1)
            self._best, at = best.topk(min(group.k + _MORE, best.shape[1]), dim=1)
            self._ids = torch.cat([self._ids, columns + first], dim=1).gather(1, at)
            self._margins = torch.maximum(self._margins, margins)

    def rank(self) -> Ints:
        """Return how many vectors are strictly nearer than each state's own, −1 where that is undefined."""
        return torch.where(self._defined, self._count, -1).cpu().numpy()

    def nearest(self) -> Ints:
        """Return the ids of the nearest vectors, (states, k)."""
        group, kept = self._group, self._best.isfinite()
        if not group.k:
            return np.zeros((group.size, 0), dtype=np.int64)
        exact = group.wide.new_full(self._best.shape, -torch.inf)
        for state, at in _pairs(kept.nonzero().to(exact.device), group.wide.shape[1]):
            exact[state, at] = self._exact(state, group.vectors.wide(self._ids.to(exact.device)[state, at]))[0]
        scores, ids, last = exact.cpu().numpy(), self._ids.cpu().numpy(), self._best[:, -1].double().cpu().numpy()
        order = np.lexsort((ids, -scores), axis=1)[:, : group.k]
        scores = np.take_along_axis(scores, order, axis=1)
        found = np.where(np.isfinite(scores), np.take_along_axis(ids, order, axis=1), -1)
        certain = scores[:, -1] > last + self._margins.double().cpu().numpy()
        certain |= ~kept.all(dim=1).cpu().numpy() | (kept.shape[1] == len(group.vectors))
        if self._measure == "cosine":  # a zero state has no nearest
            nothing = (group.norm <= TINY).cpu().numpy()
            found[nothing], certain[nothing] = -1, True
        for i in np.flatnonzero(~certain).tolist():
            # More vectors than are kept are about as near as the last one, such as rows never trained.
            found[i] = self._among_all(i)
        return found

    def _among_all(self, i: int) -> Ints:
        """Return the nearest vectors of one state, all scores in float64, (k,)."""
        group, scores = self._group, []
        for start in range(0, len(group.vectors), step := max(1, _GATHERED // group.wide.shape[1])):
            ids = torch.arange(start, min(start + step, len(group.vectors)))
            score, _ = self._exact(torch.full((len(ids),), i), group.vectors.wide(ids))
            scores.append(score.nan_to_num(nan=-torch.inf).cpu().numpy())
        joined = np.concatenate(scores)
        order = np.lexsort((np.arange(len(joined)), -joined))[: group.k]
        return np.where(np.isfinite(joined[order]), order, -1)

    def _exact(self, state: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores in float64, and the size of the numbers that were added up for each.

        Args:
            state: which states, (pairs,).
            w: a vector for each, (pairs, d).
        """
        x = self._group.wide[state.to(w.device)]
        if self._measure == "cosine":
            score = measured("cosine", x, w)
            return score, torch.full_like(score, 2.0)
        w_norm = w.norm(dim=1)
        return measured("dot", x, w) - w_norm.square() / 2, 2 * (x.norm(dim=1) + w_norm) * w_norm


def _pairs(found: Tensor, width: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield rows and columns, as many at a time as may be gathered."""
    step = max(1, _GATHERED // width)
    for start in range(0, len(found), step):
        part = found[start : start + step]
        yield part[:, 0], part[:, 1]
