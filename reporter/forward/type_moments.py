"""Count, mean and scatter of the states of each frequent token type, and the variance within and between types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import torch

from reporter.forward.batch import HiddenBatch, LayerStates
from reporter.forward.observable import Field, Observable, Setting, Sum
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
    """Return the place of each token id among some types, −1 for the others, shape (largest id + 2,)."""
    rank = np.full(max(types, default=-1) + 2, -1, dtype=np.int64)
    rank[types] = np.arange(len(types))
    return rank


def ranks_of(ids: Ints, rank: Ints) -> Ints:
    """Return the ranks of some ids as ``rank_by_id`` has them, −1 for ids beyond its end, shape (ids,)."""
    return np.asarray(rank[np.minimum(ids, len(rank) - 1)])


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
    version = 5
    reads_types = True
    bounded = "at least"
    fields: ClassVar[Mapping[str, Field]] = {
        "seen": Sum(),
        **dict.fromkeys(("groups", "count", "mean", "scatter"), Field()),
    }

    def __init__(self, layout: Layout, types: Sequence[int], tokens: Sequence[str]) -> None:
        self.layout, self.types, self.tokens = layout, list(types), list(tokens)
        self.seen = np.zeros(len(STRATA))
        """Tokens of each stratum, covered or not, shape (S,)."""
        # Of each type in each stratum where it was seen, which is a group: stratum · types + rank.
        self.groups: Ints = np.zeros(0, dtype=np.int64)
        self.count = torch.zeros(0, dtype=torch.float64)  # with spare room behind the groups, as mean and scatter have
        self.mean = [torch.zeros(0, width, dtype=torch.float64) for width in layout.widths]
        self.scatter = [torch.zeros(0, dtype=torch.float64) for _ in layout.widths]
        self._slot = np.full(len(STRATA) * len(self.types), -1, dtype=np.int64)  # of each group
        self._rank = rank_by_id(self.types)
        self._batch: _Batch | None = None

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing; ``setting.size`` is its memory in MiB."""
        types = list(setting.counts)[: types_within(setting.size, setting.layout)]
        return cls(setting.layout, types, [setting.tokens.get(token, "") for token in types])

    def start(self, batch: HiddenBatch) -> None:
        """Find the tokens of kept types."""
        super().start(batch)
        self.seen += batch.sizes
        rank = ranks_of(batch.token_ids, self._rank)
        rows = np.flatnonzero((rank >= 0) & np.isin(batch.strata, TYPED))
        self._batch = None
        if len(rows):
            strata, types = batch.strata[rows], len(self.types)
            groups, group = np.unique(strata * types + rank[rows], return_inverse=True)
            step = self._step(groups, torch.as_tensor(np.bincount(group), device=batch.device).double())
            of_rows = [slice(*np.searchsorted(strata, (part, part + 1))) for part in TYPED]
            of_groups = [slice(*np.searchsorted(groups, (part * types, part * types + types))) for part in TYPED]
            row, of_row = (torch.as_tensor(x, device=batch.device) for x in (rows, group))
            self._batch = _Batch(step, row, of_row, list(zip(TYPED, of_rows, of_groups, strict=True)))

    def observe(self, layer: LayerStates) -> None:
        """Add the states at one place."""
        if self._batch is not None:
            self._add(layer.index, self._batch.step, *self._batch.moments(layer))

    def finish(self, batch: HiddenBatch) -> None:
        """Count the batch, now that every place has used the old counts."""
        if self._batch is not None:
            self.count.index_add_(0, self._batch.step.slots, self._batch.step.new)
            self._batch = None

    def _step(self, groups: Ints, new: torch.Tensor) -> _Step:
        """Return what it takes to add so many tokens of some groups at every place; groups not seen before get room."""
        unseen = groups[self._slot[groups] < 0]
        self._slot[unseen] = len(self.groups) + np.arange(len(unseen))
        self.groups = np.concatenate([self.groups, unseen])
        if len(self.groups) > len(self.count):
            room = min(len(self._slot), max(len(self.groups), 2 * len(self.count))) - len(self.count)
            self.count = _longer(self.count, room)
            for index in range(len(self.mean)):  # one place at a time, so that only one is held twice
                self.mean[index] = _longer(self.mean[index], room)
                self.scatter[index] = _longer(self.scatter[index], room)
        slots = torch.as_tensor(self._slot[groups], device=new.device)
        before = self.count[slots]
        return _Step(slots, new, new / (before + new), before * new / (before + new))

    def _add(self, index: int, step: _Step, mean: torch.Tensor, scatter: torch.Tensor) -> None:
        """Add moments of some groups at a place; ``count`` is raised after the last place."""
        old = self.mean[index][step.slots]
        delta = mean - old
        self.mean[index].index_copy_(0, step.slots, old + delta * step.share[:, None])
        self.scatter[index].index_add_(0, step.slots, scatter + delta.square().sum(dim=1) * step.between)

    def occurrences(self) -> Ints:
        """Return how often each kept type occurs in the corpus, whatever the view, shape (types,)."""
        counts = np.zeros(len(self.types), dtype=np.int64)
        np.add.at(counts, self.groups % max(len(self.types), 1), self.count[: len(self.groups)].long().numpy())
        return counts

    def merge(self, other: TypeMoments) -> None:
        """Add the moments of other texts."""
        self.seen += other.seen
        used = len(other.groups)
        step = self._step(other.groups, other.count[:used])
        for index in range(len(self.layout.places)):
            self._add(index, step, other.mean[index][:used], other.scatter[index][:used])
        self.count.index_add_(0, step.slots, step.new)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return ``seen``, and sorted by group ``groups``, ``count``, ``mean/PLACE`` and ``scatter/PLACE``."""
        order = torch.from_numpy(np.argsort(self.groups))
        return {name: x if name == "seen" else x[order] for name, x in super().tensors().items()}

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
            means = tensors.pop(f"mean/{index}")
            tensors |= RoundedStates.of(means.float()).named(f"types/{index}")
            tensors[f"norms/types/{index}"] = means.norm(dim=1).float()
        return tensors

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        means: dict[str, torch.Tensor] = {}
        if "norms/types/0" in tensors:
            rows = torch.arange(len(tensors["groups"]))
            for index in range(len(self.layout.places)):
                states = RoundedStates.read(tensors, f"types/{index}").rows(rows).double()
                lengths, norms = states.norm(dim=1), tensors[f"norms/types/{index}"].double()
                means[f"mean/{index}"] = states * torch.where(lengths > 0, norms / lengths, 1.0)[:, None]
        super().restore(tensors | means)
        self._slot[self.groups] = np.arange(len(self.groups))


@dataclass(frozen=True)
class _Step:
    """Tokens to be added, the same number at every place: what the formula makes of the numbers.

    Args:
        slots: of the groups, (groups,).
        new: new tokens of each group, (groups,).
        share: of the new tokens in all that a group will have then, (groups,).
        between: n·m/(n + m) of known and new tokens, (groups,).
    """

    slots: torch.Tensor
    new: torch.Tensor
    share: torch.Tensor
    between: torch.Tensor


@dataclass(frozen=True)
class _Batch:
    """The tokens of kept types in a batch.

    Args:
        step: how many there are of each group.
        rows: of the batch, (tokens,).
        group: of each row, (tokens,).
        strata: strata, and of each which rows and groups belong to it.
    """

    step: _Step
    rows: torch.Tensor
    group: torch.Tensor
    strata: Sequence[tuple[int, slice, slice]]

    def moments(self, layer: LayerStates) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean and scatter of each group."""
        # Rows by ``index_select``: an index in brackets takes many times as long.
        x, count = layer.states.index_select(0, self.rows).double(), self.step.new
        for stratum, rows, _ in self.strata:
            x[rows] -= layer.centred[stratum][0]
        sums = x.new_zeros(len(count), x.shape[1]).index_add_(0, self.group, x)
        about_shift = x.new_zeros(len(count)).index_add_(0, self.group, torch.linalg.vector_norm(x, dim=1).square())
        mean = sums / count[:, None]
        # About the mean of all, not about zero: what this loses is 1e-16 of the variance between types.
        scatter = (about_shift - count * mean.square().sum(dim=1)).clamp(min=0)
        for stratum, _, groups in self.strata:
            mean[groups] += layer.centred[stratum][0]
        return mean, scatter


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
    return tuple(np.intersect1d(seen.strata, kept.groups // max(len(kept.types), 1)).tolist())


def _merged(kept: TypeMoments, index: int, strata: tuple[int, ...]) -> tuple[Ints, Floats, Floats, Floats]:
    """Return rank, count, mean and scatter of each type seen in some strata, by rank."""
    stratum, rank = np.divmod(kept.groups, max(len(kept.types), 1))
    ranks = np.unique(rank[np.isin(stratum, strata)])
    count, scatter = np.zeros(len(ranks)), np.zeros(len(ranks))
    mean = np.zeros((len(ranks), kept.layout.widths[index]))
    for part in strata:
        slots = np.flatnonzero(stratum == part)
        rows = np.searchsorted(ranks, rank[slots])
        more, its_mean = kept.count.numpy()[slots], kept.mean[index].numpy()[slots]
        before, total = count[rows], count[rows] + more
        delta = its_mean - mean[rows]
        mean[rows] += delta * (more / total)[:, None]
        scatter[rows] += kept.scatter[index].numpy()[slots] + np.square(delta).sum(axis=1) * before * more / total
        count[rows] = total
    return ranks, count, mean, scatter


def _view_of(ranks: Ints, count: Floats, mean: Floats, scatter: Floats) -> TypeView:
    n = max(count.sum(), 1.0)
    centre = count @ mean / n
    between = count @ np.square(mean - centre).sum(axis=1) / n
    within, variances = float(scatter.sum() / n), scatter / np.maximum(count, 1.0)
    return TypeView(int(count.sum()), centre, within, float(between), ranks, count, mean, variances)
