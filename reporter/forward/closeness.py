"""How near states are to the vectors of a vocabulary: ranks and the nearest of them, exact.

Products are taken in float32, a block of the vocabulary at a time. Rounding can only change the order of two vectors
whose scores lie within a margin of each other, and those are compared again in float64; two that float64 cannot tell
apart either count as equally near. Memory: a block of vectors and one number for each state and vector of the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Measure = Literal["cosine", "distance"]
BOTH: tuple[Measure, ...] = ("cosine", "distance")

BLOCK = 8192  # vectors whose products are held at once
STATES = 512  # states that are compared at once
_SPARE = 28  # more vectors than asked for are kept in float32, so that rounding leaves out none
_GATHERED = 2**22  # numbers in float64 that are gathered at once
_UNIT32, _UNIT64 = 2.0**-24, 2.0**-53
_TINY = 1e-18  # a norm up to it is zero: its square has no float32 value


class Vectors:
    """The vectors of a vocabulary, with the same vector added to each where one is given.

    Args:
        table: (V, d), in any precision and on any device; it is not copied.
        shift: (d,), or None.
    """

    def __init__(self, table: Tensor, shift: Tensor | None = None) -> None:
        self.table = table
        self.shift = shift

    def __len__(self) -> int:
        return len(self.table)

    def blocks(self) -> Iterator[tuple[int, Tensor]]:
        """Yield the id of the first vector of each block, and the block in float32."""
        shift = None if self.shift is None else self.shift.to(self.table.device).float()
        for start in range(0, len(self.table), BLOCK):
            block = self.table[start : start + BLOCK].detach().float()
            yield start, block if shift is None else block + shift

    def rows(self, ids: Tensor) -> Tensor:
        """Return vectors in float64, (…, d), where float64 exists."""
        rows = _wide(self.table[ids.to(self.table.device)].detach())
        return rows if self.shift is None else rows + _wide(self.shift).to(rows.device)


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

    cosine: NDArray[np.float64]
    distance: NDArray[np.float64]
    ranks: Mapping[Measure, NDArray[np.int64]]
    nearest: Mapping[Measure, NDArray[np.int64]]


def compare(
    states: Tensor,
    own: NDArray[np.int64],
    vectors: Vectors,
    measures: tuple[Measure, ...] = BOTH,
    nearest: int = 0,
    tell: Callable[[int], None] = lambda states: None,
) -> Closeness:
    """Compare states with all vectors of a vocabulary.

    Args:
        states: (n, d) in float32.
        own: id of each state's own vector, (n,).
        vectors: the vocabulary.
        measures: nearer by what.
        nearest: how many of the nearest vectors are wanted.
        tell: told after each group of states how many it were.
    """
    cosine, distance = against(states, own[:, None], vectors)
    ranks: dict[Measure, list[NDArray[np.int64]]] = {measure: [] for measure in measures}
    found: dict[Measure, list[NDArray[np.int64]]] = {measure: [] for measure in measures}
    for start in range(0, len(states), STATES):
        group = _Group(states[start : start + STATES], own[start : start + STATES], vectors, nearest)
        searches = {measure: _Search(group, measure) for measure in measures}
        for first, block in vectors.blocks():
            products = group.x @ block.T
            norms = block.norm(dim=1)
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
        {measure: np.concatenate([none[:, 0] if nearest else none.reshape(-1), *of]) for measure, of in ranks.items()},
        {measure: np.concatenate([none, *of]) for measure, of in found.items()} if nearest else {},
    )


def against(
    states: Tensor, ids: NDArray[np.int64], vectors: Vectors
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return cosine and distance of each state and some vectors of a vocabulary, each (n, k), in float64.

    Args:
        states: (n, d).
        ids: which vectors, (n, k).
        vectors: the vocabulary.
    """
    cosines, distances = np.empty(ids.shape), np.empty(ids.shape)
    step = max(1, _GATHERED // max(1, ids.shape[1] * vectors.table.shape[1]))
    for start in range(0, len(ids), step):
        w = vectors.rows(torch.from_numpy(ids[start : start + step]))
        x = _wide(states[start : start + step]).to(w.device)[:, None]
        size = x.norm(dim=-1) * w.norm(dim=-1)
        known = (x.norm(dim=-1) > _TINY) & (w.norm(dim=-1) > _TINY)
        cosine = torch.where(known, ((x * w).sum(dim=-1) / size).clamp(-1, 1), torch.nan)
        cosines[start : start + step] = cosine.cpu().numpy()
        distances[start : start + step] = (x - w).norm(dim=-1).cpu().numpy()
    return cosines, distances


class _Group:
    """Some states, in both precisions, with their own vectors."""

    def __init__(self, states: Tensor, own: NDArray[np.int64], vectors: Vectors, nearest: int) -> None:
        self.vectors, self.size, self.k = vectors, len(states), min(nearest, len(vectors))
        self.x = states.to(vectors.table.device).float()
        self.own = vectors.rows(torch.from_numpy(own))
        self.wide = _wide(self.x).to(self.own.device)
        self.norm = self.wide.norm(dim=1)
        width = vectors.table.shape[1]
        # Of a sum of d rounded products. The rounding errors of 8 standard deviations are never met (Higham & Mary
        # 2019, SIAM J. Sci. Comput. 41: below 3e-14), and d of them cannot be exceeded at all.
        self.roundings = min(width, 8 * width**0.5) * 1.5 + 8


class _Search:
    """Counts the vectors that are nearer than a state's own, by one measure, and keeps the nearest.

    The score by cosine is the cosine, by distance ⟨x, w⟩ − ‖w‖²/2, which is (‖x‖² − ‖x − w‖²)/2 without what is the
    same for all vectors: the larger, the nearer.
    """

    def __init__(self, group: _Group, measure: Measure) -> None:
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
            scores = products / x_norm.clamp_min(_TINY)[:, None] / norms.clamp_min(_TINY)
            scores.masked_fill_(norms[None] <= _TINY, -torch.inf)
            margins = torch.full_like(x_norm, 2 * group.roundings * _UNIT32)
        else:
            scores = products - norms.square() / 2
            largest = torch.maximum(norms.max(), group.own.norm(dim=1).to(device).float())
            margins = 2 * group.roundings * _UNIT32 * (x_norm + largest) * largest
        own = self._score.to(device).float()
        above = scores - own[:, None]
        self._count += (above > margins[:, None]).sum(dim=1).to(self._count.device)
        near = (above.abs() <= margins[:, None]) & self._defined.to(device)[:, None]
        for state, vector in _pairs(near.nonzero().to(group.wide.device), group.wide.shape[1]):
            score, unit = self._exact(state, group.vectors.rows(vector + first))
            apart = group.roundings * _UNIT64 * torch.maximum(unit, self._unit[state])
            self._count.index_add_(0, state, (score - self._score[state] > apart).long())
        if group.k:
            self._keep(first, scores)
            self._margins = torch.maximum(self._margins, margins)

    def rank(self) -> NDArray[np.int64]:
        """Return how many vectors are strictly nearer than each state's own, −1 where that is undefined."""
        return torch.where(self._defined, self._count, -1).cpu().numpy()

    def nearest(self) -> NDArray[np.int64]:
        """Return the ids of the nearest vectors, (states, k)."""
        group = self._group
        found = np.full((group.size, group.k), -1, dtype=np.int64)
        for i in range(group.size if group.k else 0):
            if self._measure == "cosine" and group.norm[i] <= _TINY:
                continue
            best, ids = self._best[i], self._ids[i][self._best[i].isfinite()]
            score, _ = self._exact(torch.full((len(ids),), i), group.vectors.rows(ids))
            order = np.lexsort((ids.cpu().numpy(), -score.cpu().numpy()))[: group.k]
            all_kept = self._best.shape[1] == len(group.vectors) or len(ids) < len(best)
            if all_kept or float(score[order[-1]]) > float(best[-1]) + float(self._margins[i]):
                found[i, : len(order)] = ids.cpu().numpy()[order]
            else:  # more vectors than are kept are about as near as the last one, such as rows never trained
                order = self._all(i)
                found[i, : len(order)] = order
        return found

    def _keep(self, first: int, scores: Tensor) -> None:
        """Keep the best scores, some more than are wanted."""
        here = scores.topk(min(self._group.k + _SPARE, scores.shape[1]), dim=1)
        best = torch.cat([self._best, here.values], dim=1)
        ids = torch.cat([self._ids, here.indices + first], dim=1)
        self._best, at = best.topk(min(self._group.k + _SPARE, best.shape[1]), dim=1)
        self._ids = ids.gather(1, at)

    def _all(self, i: int) -> NDArray[np.int64]:
        """Return the nearest vectors of one state, all scores in float64."""
        group = self._group
        scores = []
        step = max(1, _GATHERED // group.wide.shape[1])
        for start in range(0, len(group.vectors), step):
            ids = torch.arange(start, min(start + step, len(group.vectors)))
            score, _ = self._exact(torch.full((len(ids),), i), group.vectors.rows(ids))
            scores.append(score.nan_to_num(nan=-torch.inf).cpu().numpy())
        joined = np.concatenate(scores)
        order = np.lexsort((np.arange(len(joined)), -joined))[: group.k]
        return np.asarray(order[np.isfinite(joined[order])], dtype=np.int64)

    def _exact(self, state: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores in float64, and the size of the numbers that were added up for each.

        Args:
            state: which states, (pairs,).
            w: a vector for each, (pairs, d).
        """
        x, x_norm = self._group.wide[state.to(w.device)], self._group.norm[state.to(w.device)]
        w_norm = w.norm(dim=1)
        dot = (x * w).sum(dim=1)
        if self._measure == "distance":
            return dot - w_norm.square() / 2, 2 * (x_norm + w_norm) * w_norm
        known = (x_norm > _TINY) & (w_norm > _TINY)
        return torch.where(known, dot / (x_norm * w_norm), torch.nan), torch.full_like(dot, 2.0)


def _pairs(found: Tensor, width: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield rows and columns, as many at a time as may be gathered."""
    step = max(1, _GATHERED // width)
    for start in range(0, len(found), step):
        part = found[start : start + step]
        yield part[:, 0], part[:, 1]


def _wide(x: Tensor) -> Tensor:
    """Return float64 numbers, on the processor where the accelerator has none (Apple's)."""
    return x.cpu().double() if x.device.type == "mps" else x.double()
