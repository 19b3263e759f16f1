"""Count, mean and scatter of the states of each frequent token type, at each place and stratum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.forward.places import Layout
from reporter.forward.strata import ASIDE, ORDINARY, STRATA
from reporter.observables.observable import Observable
from reporter.observables.rounded import RoundedStates

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates
    from reporter.observables.observable import Setting

TYPED = (ORDINARY, ASIDE)  # a token that the tokenizer added is an occurrence of no type
FEWEST_OCCURRENCES = 5  # of a token type whose mean and variance mean anything
_MIB = 2**20


def types_within(mebibytes: int, layout: Layout) -> int:
    """Return how many types fit a budget, at 8·Σ(d + 2) bytes for a type, summed over the places."""
    return mebibytes * _MIB // (8 * sum(width + 2 for width in layout.widths))


class TypeMoments(Observable):
    """For each kept type t: n_t, μ_t and Σ‖x − μ_t‖², in float64, merged by the formula of Chan, Golub & LeVeque 1983.

    Kept are the types that occur at least five times in the corpus, the most frequent first, as many as fit the memory.
    Beside them, and not made from them, stand the same three numbers and Σ‖x‖² of all tokens that the kept types cover,
    so that what should add up can be checked. Tokens that the tokenizer added belong to no type. A type takes memory
    in a stratum once it is seen there, so the bound holds for each of two strata (ordinary tokens, those set aside).

    Batches are summed about their own mean in float64: no E‖x‖² − ‖μ‖² about the origin. Once the pass is finished the
    means are kept in 16 bits, see :mod:`reporter.observables.rounded`, and their norms in 32, since types are put in
    order by them: 2·(d + 11) bytes for a type.

    Args:
        layout: the places that are read.
        types: ids of the kept types, most frequent first.
        tokens: how the tokenizer writes them; the first few are enough.
    """

    name = "type_moments"
    version = 3
    reads_types = True
    bounded = "at least"

    def __init__(self, layout: Layout, types: Sequence[int], tokens: Sequence[str]) -> None:
        self.layout, self.types, self.tokens = layout, list(types), list(tokens)
        self.seen = np.zeros(len(STRATA))
        """Tokens of each stratum, covered or not, shape (S,)."""
        self.rounded = False
        """Whether the means of types were read from 16 bits."""
        self.strata = {stratum: _Stratum(len(self.types), layout.widths) for stratum in TYPED}
        self._rank = np.full(max(self.types, default=-1) + 1, -1, dtype=np.int64)
        self._rank[self.types] = np.arange(len(self.types))
        self._batches: list[tuple[_Stratum, _Batch]] = []

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing; ``setting.size`` is its memory in MiB."""
        types = list(setting.counts)[: types_within(setting.size, setting.layout)]
        return cls(setting.layout, types, [setting.tokens.get(token, "") for token in types])

    def start(self, batch: HiddenBatch) -> None:
        """Find the tokens of kept types."""
        self.seen += batch.sizes
        ids = batch.token_ids
        rank = np.full(len(ids), -1, dtype=np.int64)
        inside = ids < len(self._rank)
        rank[inside] = self._rank[ids[inside]]
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
            mean, scatter, whole = batch.moments(layer)
            kept.add(layer.index, batch.step, mean, scatter, whole)

    def finish(self, batch: HiddenBatch) -> None:
        """Count the batch, now that every place has used the old counts."""
        for kept, of_batch in self._batches:
            kept.counted(of_batch.step)
        self._batches = []

    def settle(self) -> None:
        """Bring the moments to the host."""
        for kept in self.strata.values():
            kept.follow(torch.device("cpu"))

    def occurrences(self) -> NDArray[np.int64]:
        """Return how often each kept type occurs in the corpus, whatever the view, shape (types,)."""
        found = np.zeros(len(self.types), dtype=np.int64)
        for kept in self.strata.values():
            found[kept.ranks] += kept.count[: len(kept.ranks)].astype(np.int64)
        return found

    def merge(self, other: TypeMoments) -> None:
        """Add the moments of other texts."""
        self.seen += other.seen
        for stratum, theirs in other.strata.items():
            mine = self.strata[stratum]
            if not len(theirs.ranks):
                continue
            used = len(theirs.ranks)
            step = mine.step(mine.slots_of(theirs.ranks), theirs.count[:used], theirs.total)
            for at in range(len(self.layout.places)):
                mine.add(at, step, theirs.mean[at][:used], theirs.scatter[at][:used], theirs.whole(at))
            mine.counted(step)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return ``seen`` and, for each stratum, ``ranks``, ``count``, and each place's moments, sorted by rank."""
        found = {"seen": torch.from_numpy(self.seen)}
        for stratum, kept in self.strata.items():
            order = np.argsort(kept.ranks)
            found[f"ranks/{stratum}"] = torch.from_numpy(kept.ranks[order])
            found[f"count/{stratum}"] = torch.from_numpy(kept.count[order])
            for at in range(len(self.layout.places)):
                found[f"mean/{stratum}/{at}"] = kept.mean[at][order]
                found[f"scatter/{stratum}/{at}"] = kept.scatter[at][order]
                found[f"whole_mean/{stratum}/{at}"] = kept.whole_mean[at]
            count = torch.full((len(self.layout.places),), kept.total, dtype=torch.float64)
            found[f"whole/{stratum}"] = torch.stack([count, *kept.totals.cpu().unbind(dim=1)], dim=1)
        return found

    @classmethod
    def bytes_kept(cls, setting: Setting, tokens: Sequence[int]) -> int:
        """Return about what a finished one takes on disk: no more types are set aside than there are such tokens."""
        types = min(len(setting.counts), types_within(setting.size, setting.layout))
        rows = sum(min(types, tokens[stratum]) for stratum in TYPED)
        widths = setting.layout.widths
        return sum(RoundedStates.bytes(rows, width) + 12 * rows + 16 * width for width in widths) + 16 * rows

    def compact(self) -> dict[str, torch.Tensor]:
        """Return the same with the means of types in 16 bits, those of all strata as ``types/PLACE``, and ``norms/…``.

        So what is equal in two strata stays equal: at the embedding a type's states are.
        """
        found = self.tensors()
        for at in range(len(self.layout.places)):
            means = torch.cat([found.pop(f"mean/{stratum}/{at}") for stratum in self.strata])
            found |= RoundedStates.of(means.float()).named(f"types/{at}")
            found[f"norms/types/{at}"] = means.norm(dim=1).float()
        return found

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        self.seen = tensors["seen"].numpy()
        places = range(len(self.layout.places))
        self.rounded = "states/types/0" in tensors
        start = 0
        for stratum, kept in self.strata.items():
            kept.slots_of(tensors[f"ranks/{stratum}"].numpy())
            kept.count = tensors[f"count/{stratum}"].numpy()
            kept.scatter = [tensors[f"scatter/{stratum}/{at}"] for at in places]
            kept.whole_mean = [tensors[f"whole_mean/{stratum}/{at}"] for at in places]
            if not self.rounded:
                kept.mean = [tensors[f"mean/{stratum}/{at}"] for at in places]
            else:
                rows = torch.arange(start, start + len(kept.ranks))
                kept.mean = [_as_long(tensors, f"types/{at}", rows) for at in places]
                start += len(kept.ranks)
            whole = tensors[f"whole/{stratum}"]
            kept.total, kept.totals = float(whole[0, 0]), whole[:, 1:].clone()


def _as_long(tensors: dict[str, torch.Tensor], at: str, rows: torch.Tensor) -> torch.Tensor:
    """Return vectors that were kept in 16 bits, stretched to the norms that were kept beside them, in float64."""
    found = RoundedStates.read(tensors, at).rows(rows).double()
    now, norms = found.norm(dim=1), tensors[f"norms/{at}"][rows].double()
    return found * torch.where(now > 0, norms / now, 1.0)[:, None]


@dataclass(frozen=True)
class Whole:
    """Moments of all tokens that the kept types cover, at one place and stratum.

    Args:
        count: tokens.
        mean: shape (width,).
        scatter: Σ‖x − mean‖².
        squares: Σ‖x‖².
    """

    count: float
    mean: torch.Tensor
    scatter: torch.Tensor
    squares: torch.Tensor


@dataclass(frozen=True)
class _Step:
    """Tokens to be added to a stratum, the same number at every place: what the formula makes of the numbers.

    Args:
        where: slots of the types, on the host, (types,).
        slots: the same, (types,).
        share: of the new tokens in all that a type will have then, (types,).
        between: n·m/(n + m) of known and new tokens, (types,).
        count: new tokens of each type, on the host, (types,).
        whole: new tokens.
    """

    where: NDArray[np.int64]
    slots: torch.Tensor
    share: torch.Tensor
    between: torch.Tensor
    count: NDArray[np.float64]
    whole: float


class _Batch:
    """The tokens of kept types in one stratum of a batch."""

    def __init__(
        self,
        kept: _Stratum,
        stratum: int,
        slots: NDArray[np.int64],
        group: NDArray[np.int64],
        rows: slice | NDArray[np.int64],
        device: torch.device,
    ) -> None:
        count = np.bincount(group).astype(np.float64)
        self.step = kept.step(slots, count, len(group))
        self._stratum = stratum
        self._count = torch.as_tensor(count, device=device)
        self._group = torch.as_tensor(group, device=device)
        self._rows = rows if isinstance(rows, slice) else torch.as_tensor(rows, device=device)

    def moments(self, layer: LayerStates) -> tuple[torch.Tensor, torch.Tensor, Whole]:
        """Return mean and scatter of each type, and the same of all of them together with Σ‖x‖²."""
        # Rows by ``index_select``: an index in brackets takes many times as long.
        rows = layer.states[self._rows] if isinstance(self._rows, slice) else layer.states.index_select(0, self._rows)
        x = rows.double()
        shift = layer.centred[self._stratum][0]
        x -= shift
        count = self._count
        sums = x.new_zeros(len(count), x.shape[1]).index_add_(0, self._group, x)
        of_row = torch.linalg.vector_norm(x, dim=1).square()
        about_shift = x.new_zeros(len(count)).index_add_(0, self._group, of_row)
        mean = sums / count[:, None]
        # About the mean of all, not about zero: what this loses is 1e-16 of the variance between types.
        scatter = (about_shift - count * mean.square().sum(dim=1)).clamp(min=0)
        rest, squares = x.mean(dim=0), of_row.sum()
        whole = Whole(
            len(x),
            shift + rest,
            squares - len(x) * (rest @ rest),
            squares + len(x) * (2 * (shift @ rest) + shift @ shift),
        )
        return mean + shift, scatter, whole


class _Stratum:
    """Moments of the types seen in one stratum: slot i holds those of the type of rank ``ranks[i]``."""

    def __init__(self, types: int, widths: tuple[int, ...]) -> None:
        self._slot = np.full(types, -1, dtype=np.int64)
        self.ranks: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.count: NDArray[np.float64] = np.zeros(0)  # on the host, as ``total`` is; all else may be elsewhere
        self.total = 0.0
        self.mean = [torch.zeros(0, width, dtype=torch.float64) for width in widths]
        self.scatter = [torch.zeros(0, dtype=torch.float64) for _ in widths]
        self.whole_mean = [torch.zeros(width, dtype=torch.float64) for width in widths]
        self.totals = torch.zeros(len(widths), 2, dtype=torch.float64)

    def follow(self, device: torch.device) -> None:
        """Move the moments."""
        for held in (self.mean, self.scatter, self.whole_mean):
            held[:] = [x.to(device) for x in held]
        self.totals = self.totals.to(device)

    def whole(self, at: int) -> Whole:
        """Return the moments of all covered tokens at a place."""
        return Whole(self.total, self.whole_mean[at], *self.totals[at])

    def slots_of(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the slot of each type, a new one for types not seen before."""
        new = ranks[self._slot[ranks] < 0]
        if len(new):
            self._slot[new] = len(self.ranks) + np.arange(len(new))
            self.ranks = np.concatenate([self.ranks, new])
            if len(self.ranks) > len(self.count):
                room = min(len(self._slot), max(len(self.ranks), 2 * len(self.count))) - len(self.count)
                self.count = np.concatenate([self.count, np.zeros(room)])
                for at in range(len(self.mean)):  # one place at a time, so that only one is held twice
                    self.mean[at] = _longer(self.mean[at], room)
                    self.scatter[at] = _longer(self.scatter[at], room)
        return self._slot[ranks]

    def step(self, slots: NDArray[np.int64], count: NDArray[np.float64], whole: float) -> _Step:
        """Return what it takes to add tokens of some types at every place, where the moments are."""
        known = self.count[slots]
        numbers = (slots, count / (known + count), known * count / (known + count))
        there, share, between = (torch.as_tensor(x, device=self.totals.device) for x in numbers)
        return _Step(slots, there, share, between, count, whole)

    def add(self, at: int, step: _Step, mean: torch.Tensor, scatter: torch.Tensor, whole: Whole) -> None:
        """Add moments of some types and of all covered tokens at a place; ``counted`` comes after the last place."""
        old = self.mean[at][step.slots]
        delta = mean - old
        self.mean[at].index_copy_(0, step.slots, old + delta * step.share[:, None])
        self.scatter[at].index_add_(0, step.slots, scatter + delta.square().sum(dim=1) * step.between)

        n = self.total + whole.count
        moved = whole.mean - self.whole_mean[at]
        self.whole_mean[at] = self.whole_mean[at] + moved * (whole.count / n)
        self.totals[at] += torch.stack(
            [whole.scatter + (moved @ moved) * (self.total * whole.count / n), whole.squares]
        )

    def counted(self, step: _Step) -> None:
        """Count tokens that were added at every place."""
        self.count[step.where] += step.count
        self.total += step.whole


def _longer(x: torch.Tensor, by: int) -> torch.Tensor:
    return torch.cat([x, x.new_zeros(by, *x.shape[1:])])
