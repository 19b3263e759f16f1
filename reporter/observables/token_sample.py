"""A bounded sample of tokens with their states at every layer, chosen by hash so that it merges exactly.

Each token has a 64-bit key; the sample is the tokens with the k smallest keys. Whatever the order in which tokens come,
and however a corpus is split, the same tokens are kept ("bottom-k sampling", Cohen & Kaplan 2007). Since keys are
hashes, the sample sorted by key is in random order, and any run of it is a shuffled batch.

Once a pass is finished its states are kept in 16 bits, see :mod:`reporter.observables.rounded`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.forward.contexts import Keys, key_of
from reporter.forward.halves import FEW_HALVES, groups_of
from reporter.forward.places import Layout, Place
from reporter.forward.strata import STRATA, VIEWS
from reporter.observables.observable import Observable
from reporter.observables.rounded import RoundedStates
from reporter.threads import spread

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates
    from reporter.observables.observable import Setting

# Columns of ``facts``: what is known of a kept token besides its key and its states; its text is the first one of the
# corpus with the same content. The last four are only in ``Tokens``: whether it is the first own token of its text,
# the bits of two float64, those of ``Sinks``, and the key of its context.
COUNT, EMBEDDING_CONTEXT, TOKEN, TEXT, POSITION, FIRST, RATIO, DOMINANCE, CONTEXT = range(9)


class _Kept:
    """The sample of one stratum: sorted keys, facts (k, columns), and the slot of ``states`` where each one lies."""

    def __init__(self, widths: tuple[int, ...], columns: int) -> None:
        self.keys: Keys = np.zeros(0, dtype=np.uint64)
        self.facts: NDArray[np.int64] = np.zeros((0, columns), dtype=np.int64)
        self.slots: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.capacity = 0
        self.states = [torch.zeros(0, width) for width in widths]
        self.rounded: list[RoundedStates] = []  # of a finished pass, in the place of ``states``

    def read(self, at: int, slots: NDArray[np.int64], device: str = "cpu") -> torch.Tensor:
        """Return the states in some slots at a place, float32 on a device."""
        which = torch.from_numpy(slots)
        if self.rounded:
            return self.rounded[at].rows(which, device)
        return self.states[at].index_select(0, which.to(self.states[at].device)).to(device)

    def rounded_at(self, slots: NDArray[np.int64], at: int) -> RoundedStates:
        """Return the states in some slots at a place, rounded."""
        return RoundedStates.of(self.read(at, slots))

    def admit(self, keys: Keys, facts: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Take in tokens with distinct, sorted keys; return those that need a state written, and its slots."""
        at = np.searchsorted(self.keys, keys)
        known = np.zeros(len(keys), dtype=bool)
        inside = at < len(self.keys)
        known[inside] = self.keys[at[inside]] == keys[inside]
        self.facts[at[known], COUNT] += facts[known, COUNT]
        self.facts[at[known], TEXT] = np.minimum(self.facts[at[known], TEXT], facts[known, TEXT])

        new = np.flatnonzero(~known)
        merged = np.concatenate([self.keys, keys[new]])
        order = np.argsort(merged, kind="stable")[:size]
        added = order[order >= len(self.keys)] - len(self.keys)
        free = self._free(np.sort(order[order < len(self.keys)]), len(added), size)
        slots = np.concatenate([self.slots, np.full(len(new), -1)])
        slots[len(self.keys) + added] = free
        self.facts = np.concatenate([self.facts, facts[new]])[order]
        self.keys, self.slots = merged[order], slots[order]
        return new[added], free

    def _free(self, stay: NDArray[np.int64], wanted: int, size: int) -> NDArray[np.int64]:
        """Return ``wanted`` slots that no staying token uses; make room by doubling, up to ``size``."""
        needed = len(stay) + wanted
        if needed > self.capacity:
            room = min(size, max(needed, 2 * self.capacity))
            for at, states in enumerate(self.states):  # one place at a time, so that only one is held twice
                self.states[at] = torch.cat([states, states.new_zeros(room - self.capacity, states.shape[1])])
            self.capacity = room
        used = np.zeros(self.capacity, dtype=bool)
        used[self.slots[stay]] = True
        return np.flatnonzero(~used)[:wanted]


class TokenSample(Observable):
    """The ``size`` tokens with the smallest keys in each stratum; subclasses say what the key is.

    Memory: 4·size·d bytes for each place and stratum that fills up, half of that once the pass is finished.

    Args:
        layout: the places that are read.
        size: tokens kept in each stratum.
        seed: the study's seed: another one keeps other tokens.
    """

    version = 4
    bounded = "at least"
    states_kept = True
    columns: ClassVar[int] = 5

    def __init__(self, layout: Layout, size: int, seed: int) -> None:
        self.layout, self.size, self.seed = layout, size, seed
        self._kept = [_Kept(layout.widths, self.columns) for _ in STRATA]
        self._rows: list[tuple[_Kept, torch.Tensor, torch.Tensor]] = []

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing."""
        return cls(setting.layout, setting.size, setting.seed)

    def keys(self, batch: HiddenBatch) -> Keys:
        """Return the key of each token of a batch, shape (tokens,)."""
        raise NotImplementedError

    def facts(self, batch: HiddenBatch) -> list[NDArray[np.int64]]:
        """Return what is known of each token of a batch, column by column."""
        ones = np.ones(len(batch), dtype=np.int64)
        return [ones, batch.embedding_contexts.view(np.int64), batch.token_ids, batch.originals, batch.positions]

    def start(self, batch: HiddenBatch) -> None:
        """Choose the tokens of a batch that enter the sample."""
        self.follow(batch.device)
        keys = self.keys(batch)
        facts = np.stack(self.facts(batch), axis=1)
        self._rows = []
        for kept, rows in zip(self._kept, batch.rows, strict=True):
            if rows.stop == rows.start:
                continue
            distinct, first, which, count = np.unique(
                keys[rows], return_index=True, return_inverse=True, return_counts=True
            )
            candidates = facts[rows][first]
            candidates[:, COUNT] = count
            # The first text of the corpus, not of the batch, so that neither batches nor merges change it.
            np.minimum.at(candidates[:, TEXT], which, batch.originals[rows])
            chosen, slots = kept.admit(distinct, candidates, self.size)
            if len(chosen):
                of_batch = torch.from_numpy(first[chosen] + rows.start).to(batch.device)
                self._rows.append((kept, of_batch, torch.from_numpy(slots).to(batch.device)))

    def observe(self, layer: LayerStates) -> None:
        """Copy the chosen tokens' states."""
        for kept, rows, slots in self._rows:
            kept.states[layer.index].index_copy_(0, slots, layer.states.index_select(0, rows).float())

    def follow(self, device: torch.device) -> None:
        """Move the sample to where the states are; it stays there until it is read."""
        for kept in self._kept:
            kept.states = [states.to(device) for states in kept.states]

    def settle(self) -> None:
        """Leave the sample where it is: most of it stays from shard to shard."""

    def merge(self, other: TokenSample) -> None:
        """Take in the sample of other texts."""
        for mine, theirs in zip(self._kept, other._kept, strict=True):
            chosen, slots = mine.admit(theirs.keys, theirs.facts, self.size)
            for at, states in enumerate(mine.states):
                states[torch.from_numpy(slots)] = theirs.read(at, theirs.slots[chosen])

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return ``keys/STRATUM``, ``facts/…`` and, for each place, ``states/STRATUM/PLACE``, sorted by key."""
        found = {}
        for stratum, kept in enumerate(self._kept):
            found[f"keys/{stratum}"] = torch.from_numpy(kept.keys.view(np.int64).copy())
            found[f"facts/{stratum}"] = torch.from_numpy(kept.facts)
            for at in range(len(self.layout.places)):
                found[f"states/{stratum}/{at}"] = kept.read(at, kept.slots)
        return found

    def compact(self) -> dict[str, torch.Tensor]:
        """Return the same with states in 16 bits, without the tokens that no view draws.

        A view draws the smallest keys of all its strata together: few of a stratum that holds few tokens.
        """
        found = {}
        places = range(len(self.layout.places))
        for stratum, kept in enumerate(self._kept):
            drawn = kept.keys <= self._largest_drawn(stratum)
            found[f"keys/{stratum}"] = torch.from_numpy(kept.keys[drawn].view(np.int64))
            found[f"facts/{stratum}"] = torch.from_numpy(kept.facts[drawn])
            for at, states in enumerate(spread(partial(kept.rounded_at, kept.slots[drawn]), places)):
                found |= states.named(f"{stratum}/{at}")
        return found

    def _largest_drawn(self, stratum: int) -> np.uint64:
        """Return the largest key that any view with this stratum draws."""
        found = np.uint64(0)
        for strata in VIEWS.values():
            if stratum in strata:
                keys = np.unique(np.concatenate([self._kept[one].keys for one in strata]))[: self.size]
                found = max([found, *keys[-1:]])  # of strata without tokens there is none
        return found

    @classmethod
    def bytes_kept(cls, setting: Setting, tokens: Sequence[int]) -> int:
        """Return about what a finished one takes on disk."""
        kept = cls.drawn(setting, tokens)
        of_places = sum(RoundedStates.bytes(rows, width) for rows in kept for width in setting.layout.widths)
        return of_places + 8 * (1 + cls.columns) * sum(kept)

    @classmethod
    def drawn(cls, setting: Setting, tokens: Sequence[int]) -> list[int]:
        """Return how many of each stratum views draw, about."""
        totals = [(strata, max(1, sum(tokens[one] for one in strata))) for strata in VIEWS.values()]
        return [
            max(min(rows, setting.size * rows // total) for strata, total in totals if stratum in strata)
            for stratum, rows in enumerate(tokens)
        ]

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        for stratum, kept in enumerate(self._kept):
            kept.keys = tensors[f"keys/{stratum}"].numpy().view(np.uint64)
            kept.facts = tensors[f"facts/{stratum}"].numpy()
            names = [f"{stratum}/{at}" for at in range(len(kept.states))]
            kept.rounded = [RoundedStates.read(tensors, name) for name in names if f"middle/{name}" in tensors]
            kept.states = [] if kept.rounded else [tensors[f"states/{name}"] for name in names]
            kept.capacity = len(kept.keys)
            kept.slots = np.arange(len(kept.keys))

    def select(self, strata: tuple[int, ...], size: int, device: str = "cpu") -> Selection:
        """Return the ``size`` tokens with the smallest keys among some strata; a key found in two counts once.

        Args:
            strata: which tokens.
            size: how many.
            device: where their states are read.
        """
        merged = _Kept((), self.columns)
        home = []
        for stratum in strata:
            kept = self._kept[stratum]
            chosen, slots = merged.admit(kept.keys, kept.facts.copy(), len(merged.keys) + len(kept.keys))
            home.append((stratum, kept.slots[chosen], slots))
        where = np.zeros((merged.capacity, 2), dtype=np.int64)
        for stratum, source, slots in home:
            where[slots] = np.stack([np.full(len(source), stratum), source], axis=1)
        return Selection(self, merged.keys[:size], merged.facts[:size], where[merged.slots[:size]], device)


class Selection:
    """Some tokens of a sample, sorted by key.

    Args:
        sample: the sample.
        keys: shape (n,).
        facts: shape (n, columns), see ``COUNT`` and the other columns.
        where: stratum and slot of each token, shape (n, 2).
        device: where states are read.
    """

    def __init__(
        self, sample: TokenSample, keys: Keys, facts: NDArray[np.int64], where: NDArray[np.int64], device: str
    ) -> None:
        self._sample, self._where, self._device = sample, where, device
        self.keys, self.facts = keys, facts

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def texts(self) -> NDArray[np.int64]:
        """Place in the corpus of each token's text, or of the first one that says the same, shape (n,)."""
        return self.facts[:, TEXT]

    def halves(self, seed: int) -> NDArray[np.bool_]:
        """Return which tokens each of 31 half-samples of the texts holds, shape (31, n): ``FEW_HALVES``."""
        return FEW_HALVES[:, groups_of(self.texts, seed)]

    def distinct(self) -> Selection:
        """Return the first token of each context, counted as often as the selection holds that context.

        Dimension and neighbours are read off these, since equal states would be each other's nearest neighbours.
        """
        _, first, which = np.unique(self.facts[:, CONTEXT], return_index=True, return_inverse=True)
        facts = self.facts[first]
        facts[:, COUNT] = np.bincount(which, self.facts[:, COUNT], len(first))
        order = np.argsort(first)
        rows = first[order]
        return Selection(self._sample, self.keys[rows], facts[order], self._where[rows], self._device)

    def shared(self, other: Selection) -> tuple[Selection, Selection]:
        """Return both with only the tokens that both have, in the same order: those with equal keys."""
        _, mine, theirs = np.intersect1d(self.keys, other.keys, assume_unique=True, return_indices=True)
        return self._take(mine), other._take(theirs)

    def _take(self, rows: NDArray[np.int64]) -> Selection:
        return Selection(self._sample, self.keys[rows], self.facts[rows], self._where[rows], self._device)

    def states(self, place: Place) -> torch.Tensor:
        """Return the tokens' states at a place, float32 on the device, shape (n, width)."""
        at, held = self._sample.layout.index[place], self._sample._kept
        strata: list[int] = np.unique(self._where[:, 0]).tolist()
        if len(strata) == 1:
            return held[strata[0]].read(at, self._where[:, 1], self._device)
        x = torch.empty(len(self), self._sample.layout.widths[at], device=self._device)
        for stratum in strata:
            rows = np.flatnonzero(self._where[:, 0] == stratum)
            x[torch.from_numpy(rows).to(self._device)] = held[stratum].read(at, self._where[rows, 1], self._device)
        return x


class Tokens(TokenSample):
    """A uniform sample of tokens as they occur, duplicates included."""

    name = "tokens"
    columns = 9

    def facts(self, batch: HiddenBatch) -> list[NDArray[np.int64]]:
        """Add whether a token is the first own one of its text, how near it is to being a sink, and its context."""
        sinks = batch.sinks
        return [
            *super().facts(batch),
            batch.first_own.astype(np.int64),
            sinks.ratio.view(np.int64),
            sinks.dominance.view(np.int64),
            batch.contexts.view(np.int64),
        ]

    def keys(self, batch: HiddenBatch) -> Keys:
        """Return a hash of each token's place in the corpus."""
        return key_of(self.seed, batch.texts, batch.positions)
