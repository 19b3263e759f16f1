"""Count, mean and scatter of the states of each frequent token type, and the variance within and between types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
import torch

from reporter.forward.batch import HiddenBatch, LayerStates
from reporter.forward.observable import Observable, Setting
from reporter.forward.sampled_states import RoundedStates
from reporter.forward.token_categories import ASIDE, ORDINARY, STRATA
from reporter.geometry.arrays import Floats, Ints
from reporter.models.places import Layout, Place

if TYPE_CHECKING:
    from reporter.forward.observed import Observed

TYPED = (ORDINARY, ASIDE)  # a token that the tokenizer added is an occurrence of no type
FEWEST_OCCURRENCES = 5  # of a token type whose mean and variance mean anything
_MIB = 2**20


def types_within(mebibytes: int, layout: Layout) -> int:
    """Return how many types fit a budget, at 8·Σ(d + 2) bytes for a type, summed over the places."""
    return mebibytes * _MIB // (8 * sum(width + 2 for width in layout.widths))


def rank_by_id(types: Sequence[int]) -> Ints:
    """Return the place of each token id among some types, −1 for the others, shape (largest id + 1,)."""
    rank = np.full(max(types, default=-1) + 1, -1, dtype=np.int64)
    rank[types] = np.arange(len(types))
    return rank


def ranks_of(ids: Ints, rank: Ints) -> Ints:
    """Return the ranks of some ids as ``rank_by_id`` has them, −1 for ids beyond its end, shape (ids,)."""
    ranks = np.full(len(ids), -1, dtype=np.int64)
    inside = ids < len(rank)
    ranks[inside] = rank[ids[inside]]
    return ranks


class TypeMoments(Observable):
    """For each kept type t: n_t, μ_t and Σ‖x − μ_t‖², in float64, merged by the formula of Chan, Golub & LeVeque 1983.

    Kept are the types that occur at least five times in the corpus, the most frequent first, as many as fit the memory.
    Tokens that the tokenizer added belong to no type. A type takes memory in a stratum once it is seen there, so the
    bound holds for each of two strata (ordinary tokens, those set aside).

    Batches are summed about their own mean in float64: no E‖x‖² − ‖μ‖² about the origin. Once the pass is finished the
    means are kept in 16 bits, see :mod:`reporter.forward.sampled_states`, and their norms in 32, since types are put in
    order by them: 2·(d + 11) bytes for a type.
    """

    name = "type_moments"
    version = 4
    reads_types = True
    bounded = "at least"

    def __init__(self, layout: Layout, types: Sequence[int], tokens: Sequence[str]) -> None:
        self.layout, self.types, self.tokens = layout, list(types), list(tokens)
        self.seen = np.zeros(len(STRATA))
        """Tokens of each stratum, covered or not, shape (S,)."""
        self.strata = {stratum: _Stratum(len(self.types), layout.widths) for stratum in TYPED}
        self._rank = rank_by_id(self.types)
        self._batches: list[tuple[_Stratum, _Batch]] = []

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing; ``setting.size`` is its memory in MiB."""
        types = list(setting.counts)[: types_within(setting.size, setting.layout)]
        return cls(setting.layout, types, [setting.tokens.get(token, "") for token in types])

    def start(self, batch: HiddenBatch) -> None:
        """Find the tokens of kept types."""
        self.seen += batch.sizes
        rank = ranks_of(batch.token_ids, self._rank)
        self._batches = []
        for stratum, kept in self.strata.items():
            rows = batch.rows[stratum]
            covered = np.flatnonzero(rank[rows] >= 0) + rows.start
            if len(covered):
                ranks, group = np.unique(rank[covered], return_inverse=True)
                kept.follow(batch.device)
                every = len(covered) == rows.stop - rows.start
                slots = kept.slots_of(ranks)
                of_batch = _Batch(kept, stratum, slots, group, rows if every else covered, batch.device)
                self._batches.append((kept, of_batch))

    def observe(self, layer: LayerStates) -> None:
        """Add the states at one place."""
        for kept, batch in self._batches:
            kept.add(layer.index, batch.step, *batch.moments(layer))

    def finish(self, batch: HiddenBatch) -> None:
        """Count the batch, now that every place has used the old counts."""
        for kept, of_batch in self._batches:
            kept.count[of_batch.step.where] += of_batch.step.count
        self._batches = []

    def follow(self, device: torch.device) -> None:
        """Move the moments."""
        for kept in self.strata.values():
            kept.follow(device)

    def occurrences(self) -> Ints:
        """Return how often each kept type occurs in the corpus, whatever the view, shape (types,)."""
        counts = np.zeros(len(self.types), dtype=np.int64)
        for kept in self.strata.values():
            counts[kept.ranks] += kept.count[: len(kept.ranks)].astype(np.int64)
        return counts

    def merge(self, other: TypeMoments) -> None:
        """Add the moments of other texts."""
        self.seen += other.seen
        for stratum, theirs in other.strata.items():
            mine, used = self.strata[stratum], len(theirs.ranks)
            if used:
                step = mine.step(mine.slots_of(theirs.ranks), theirs.count[:used])
                for index in range(len(self.layout.places)):
                    mine.add(index, step, theirs.mean[index][:used], theirs.scatter[index][:used])
                mine.count[step.where] += step.count

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return ``seen`` and, for each stratum, ``ranks``, ``count``, and each place's moments, sorted by rank."""
        tensors = {"seen": torch.from_numpy(self.seen)}
        for stratum, kept in self.strata.items():
            order = np.argsort(kept.ranks)
            tensors[f"ranks/{stratum}"] = torch.from_numpy(kept.ranks[order])
            tensors[f"count/{stratum}"] = torch.from_numpy(kept.count[order])
            for index in range(len(self.layout.places)):
                tensors[f"mean/{stratum}/{index}"] = kept.mean[index][order]
                tensors[f"scatter/{stratum}/{index}"] = kept.scatter[index][order]
        return tensors

    @classmethod
    def bytes_kept(cls, setting: Setting, tokens: Sequence[int]) -> int:
        """Return about what a finished one takes on disk: no more types are set aside than there are such tokens."""
        types = min(len(setting.counts), types_within(setting.size, setting.layout))
        rows = sum(min(types, tokens[stratum]) for stratum in TYPED)
        return sum(RoundedStates.bytes(rows, width) + 12 * rows for width in setting.layout.widths) + 16 * rows

    def compact(self) -> dict[str, torch.Tensor]:
        """Return the same with the means of types in 16 bits, those of all strata as ``types/PLACE``, and ``norms/…``.

        So what is equal in two strata stays equal: at the embedding a type's states are.
        """
        tensors = self.tensors()
        for index in range(len(self.layout.places)):
            means = torch.cat([tensors.pop(f"mean/{stratum}/{index}") for stratum in self.strata])
            tensors |= RoundedStates.of(means.float()).named(f"types/{index}")
            tensors[f"norms/types/{index}"] = means.norm(dim=1).float()
        return tensors

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        self.seen = tensors["seen"].numpy()
        places = range(len(self.layout.places))
        is_rounded, start = "states/types/0" in tensors, 0
        for stratum, kept in self.strata.items():
            kept.slots_of(tensors[f"ranks/{stratum}"].numpy())
            kept.count = tensors[f"count/{stratum}"].numpy()
            kept.scatter = [tensors[f"scatter/{stratum}/{index}"] for index in places]
            if not is_rounded:
                kept.mean = [tensors[f"mean/{stratum}/{index}"] for index in places]
            else:
                rows = torch.arange(start, start + len(kept.ranks))
                for index in places:
                    states = RoundedStates.read(tensors, f"types/{index}").rows(rows).double()
                    lengths, norms = states.norm(dim=1), tensors[f"norms/types/{index}"][rows].double()
                    kept.mean[index] = states * torch.where(lengths > 0, norms / lengths, 1.0)[:, None]
                start += len(kept.ranks)


@dataclass(frozen=True)
class _Step:
    """Tokens to be added to a stratum, the same number at every place: what the formula makes of the numbers.

    Args:
        where: slots of the types, on the host, (types,).
        slots: the same, (types,).
        share: of the new tokens in all that a type will have then, (types,).
        between: n·m/(n + m) of known and new tokens, (types,).
        count: new tokens of each type, on the host, (types,).
    """

    where: Ints
    slots: torch.Tensor
    share: torch.Tensor
    between: torch.Tensor
    count: Floats


class _Batch:
    """The tokens of kept types in one stratum of a batch."""

    def __init__(
        self, kept: _Stratum, stratum: int, slots: Ints, group: Ints, rows: slice | Ints, device: torch.device
    ) -> None:
        count = np.bincount(group).astype(np.float64)
        self.step = kept.step(slots, count)
        self._stratum = stratum
        self._count = torch.as_tensor(count, device=device)
        self._group = torch.as_tensor(group, device=device)
        self._rows = rows if isinstance(rows, slice) else torch.as_tensor(rows, device=device)

    def moments(self, layer: LayerStates) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean and scatter of each type."""
        # Rows by ``index_select``: an index in brackets takes many times as long.
        rows = layer.states[self._rows] if isinstance(self._rows, slice) else layer.states.index_select(0, self._rows)
        x = rows.double()
        shift = layer.centred[self._stratum][0]
        x -= shift
        count = self._count
        sums = x.new_zeros(len(count), x.shape[1]).index_add_(0, self._group, x)
        about_shift = x.new_zeros(len(count)).index_add_(0, self._group, torch.linalg.vector_norm(x, dim=1).square())
        mean = sums / count[:, None]
        # About the mean of all, not about zero: what this loses is 1e-16 of the variance between types.
        return mean + shift, (about_shift - count * mean.square().sum(dim=1)).clamp(min=0)


class _Stratum:
    """Moments of the types seen in one stratum: slot i holds those of the type of rank ``ranks[i]``."""

    def __init__(self, types: int, widths: tuple[int, ...]) -> None:
        self._slot = np.full(types, -1, dtype=np.int64)
        self.ranks: Ints = np.zeros(0, dtype=np.int64)
        self.count: Floats = np.zeros(0)  # on the host
        self.mean = [torch.zeros(0, width, dtype=torch.float64) for width in widths]
        self.scatter = [torch.zeros(0, dtype=torch.float64) for _ in widths]

    def follow(self, device: torch.device) -> None:
        """Move the moments."""
        for held in (self.mean, self.scatter):
            held[:] = [x.to(device) for x in held]

    def slots_of(self, ranks: Ints) -> Ints:
        """Return the slot of each type, a new one for types not seen before."""
        new = ranks[self._slot[ranks] < 0]
        if len(new):
            self._slot[new] = len(self.ranks) + np.arange(len(new))
            self.ranks = np.concatenate([self.ranks, new])
            if len(self.ranks) > len(self.count):
                room = min(len(self._slot), max(len(self.ranks), 2 * len(self.count))) - len(self.count)
                self.count = np.concatenate([self.count, np.zeros(room)])
                for index in range(len(self.mean)):  # one place at a time, so that only one is held twice
                    self.mean[index] = _longer(self.mean[index], room)
                    self.scatter[index] = _longer(self.scatter[index], room)
        return self._slot[ranks]

    def step(self, slots: Ints, count: Floats) -> _Step:
        """Return what it takes to add tokens of some types at every place, where the moments are."""
        before = self.count[slots]
        numbers = (slots, count / (before + count), before * count / (before + count))
        where, share, between = (torch.as_tensor(x, device=self.scatter[0].device) for x in numbers)
        return _Step(slots, where, share, between, count)

    def add(self, index: int, step: _Step, mean: torch.Tensor, scatter: torch.Tensor) -> None:
        """Add moments of some types at a place; ``count`` is raised after the last place."""
        old = self.mean[index][step.slots]
        delta = mean - old
        self.mean[index].index_copy_(0, step.slots, old + delta * step.share[:, None])
        self.scatter[index].index_add_(0, step.slots, scatter + delta.square().sum(dim=1) * step.between)


def _longer(x: torch.Tensor, by: int) -> torch.Tensor:
    return torch.cat([x, x.new_zeros(by, *x.shape[1:])])


# Variance within and between types at one place under one view.

_EQUAL = 1e-12
"""Of E‖x‖²: a variance below it is what rounding in float32 leaves of equal states."""


@dataclass(frozen=True, eq=False)
class TypeView:
    """Variance within and between token types at one place, over the tokens that the types cover.

    Args:
        n: covered tokens.
        centre: μ, shape (width,).
        within: Σ p_t E‖x − μ_t‖², p_t = n_t/n.
        between: Σ p_t ‖μ_t − μ‖².
        ranks: of the types seen in the view, ascending; 0 is the most frequent in the corpus; shape (T,).
        count: n_t, shape (T,).
        means: μ_t, shape (T, width).
        variances: E‖x − μ_t‖², shape (T,).
    """

    n: int
    centre: Floats
    within: float
    between: float
    ranks: Ints
    count: Floats
    means: Floats
    variances: Floats

    @cached_property
    def norm_of_mean(self) -> float:
        """‖μ‖."""
        return float(np.linalg.norm(self.centre))

    @cached_property
    def norms(self) -> Floats:
        """‖μ_t‖, shape (T,)."""
        return np.asarray(np.linalg.norm(self.means, axis=1))

    @property
    def total(self) -> float:
        """V = E‖x − μ‖²."""
        return self.within + self.between

    @property
    def mean_square(self) -> float:
        """E‖x‖² = ‖μ‖² + V."""
        return self.norm_of_mean**2 + self.total

    @property
    def varies(self) -> bool:
        """Whether the variance is more than what float32 leaves of equal states."""
        return self.total > _EQUAL * self.mean_square

    @property
    def varies_within(self) -> bool:
        """Whether the variance within types is: the states of a type are equal where no position is added."""
        return self.within > _EQUAL * self.mean_square


def type_view(seen: Observed, place: Place, memory: int) -> TypeView:
    """Return variance within and between the types that fit a memory budget, whatever larger one was kept."""
    kept, strata = seen.get(TypeMoments), typed_strata(seen)
    ranks, count, mean, scatter = _merged(kept, kept.layout.index[place], strata)
    few = types_within(memory, kept.layout)
    inside = ranks < (few if few < len(kept.types) else np.inf)
    return _view_of(ranks[inside], count[inside], mean[inside], scatter[inside])


def typed_strata(seen: Observed) -> tuple[int, ...]:
    """Return the view's strata in which kept types were seen; views of which they are equal have the same types."""
    kept = seen.get(TypeMoments)
    return tuple(stratum for stratum in seen.strata if stratum in TYPED and len(kept.strata[stratum].ranks))


def _merged(kept: TypeMoments, index: int, strata: tuple[int, ...]) -> tuple[Ints, Floats, Floats, Floats]:
    """Return rank, count, mean and scatter of each type seen in some strata, by rank."""
    parts = [kept.strata[stratum] for stratum in strata]
    ranks = np.unique(np.concatenate([part.ranks for part in parts] or [np.zeros(0, dtype=np.int64)]))
    count, scatter = np.zeros(len(ranks)), np.zeros(len(ranks))
    mean = np.zeros((len(ranks), kept.layout.widths[index]))
    for part in parts:
        used = len(part.ranks)
        rows = np.searchsorted(ranks, part.ranks)
        more, its_mean = part.count[:used], part.mean[index][:used].numpy()
        before, total = count[rows], count[rows] + more
        delta = its_mean - mean[rows]
        mean[rows] += delta * (more / total)[:, None]
        scatter[rows] += part.scatter[index][:used].numpy() + np.square(delta).sum(axis=1) * before * more / total
        count[rows] = total
    return ranks, count, mean, scatter


def _view_of(ranks: Ints, count: Floats, mean: Floats, scatter: Floats) -> TypeView:
    n = max(count.sum(), 1.0)
    centre = count @ mean / n
    between = count @ np.square(mean - centre).sum(axis=1) / n
    within, variances = float(scatter.sum() / n), scatter / np.maximum(count, 1.0)
    return TypeView(int(count.sum()), centre, within, float(between), ranks, count, mean, variances)
