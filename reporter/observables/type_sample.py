"""A few occurrences of some token types with their states, each in another context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.forward.contexts import Keys, key_of
from reporter.forward.places import Layout, Place
from reporter.observables.observable import Observable
from reporter.observables.rounded import RoundedStates
from reporter.observables.type_moments import TYPED

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates
    from reporter.observables.observable import Setting

OCCURRENCES = 12  # kept of a type in a stratum


Ints = NDArray[np.int64]


class TypeSample(Observable):
    """For each chosen type and stratum the 12 occurrences with the smallest context keys.

    Types are chosen by a hash of their id among those that occur at least five times in the corpus, so that a larger
    sample begins with a smaller one. Context keys are hashes of what the model saw: occurrences for which it saw the
    same thing count once, and whatever the order and the split of a corpus, the same ones are kept.

    Memory: 4·12·d bytes for each type, place and stratum (ordinary tokens, and those set aside) that fills up,
    half of that once the pass is finished.

    Args:
        layout: the places that are read.
        types: ids of the chosen types, in the order of their hashes.
    """

    name = "type_sample"
    version = 2
    reads_types = True
    bounded = "at least"
    states_kept = True

    def __init__(self, layout: Layout, types: Sequence[int]) -> None:
        self.layout, self.types = layout, list(types)
        # Sorted by group = stratum · types + rank of the type, then by key; the state lies in a slot.
        self.groups: Ints = np.zeros(0, dtype=np.int64)
        self.keys: Keys = np.zeros(0, dtype=np.uint64)
        self.slots: Ints = np.zeros(0, dtype=np.int64)
        self.states = [torch.zeros(0, width) for width in layout.widths]
        self._rounded: list[RoundedStates] = []  # of a finished pass, in the place of ``states``
        self._rank = np.full(max(self.types, default=-1) + 1, -1, dtype=np.int64)
        self._rank[self.types] = np.arange(len(self.types))
        self._rows, self._into = (torch.zeros(0, dtype=torch.int64) for _ in range(2))

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing; ``setting.size`` is the number of its occurrences."""
        ids = np.fromiter(setting.counts, dtype=np.int64, count=len(setting.counts))
        chosen = ids[np.argsort(key_of(setting.seed, ids), kind="stable")][: -(-setting.size // OCCURRENCES)]
        return cls(setting.layout, chosen.tolist())

    def start(self, batch: HiddenBatch) -> None:
        """Choose the occurrences of a batch that enter the sample."""
        self.follow(batch.device)
        rank = np.full(len(batch), -1, dtype=np.int64)
        inside = batch.token_ids < len(self._rank)
        rank[inside] = self._rank[batch.token_ids[inside]]
        rows = np.flatnonzero((rank >= 0) & np.isin(batch.strata, TYPED))
        groups = batch.strata[rows] * len(self.types) + rank[rows]
        chosen, slots = self._admit(groups, batch.contexts[rows])
        self._rows, self._into = (torch.from_numpy(x).to(batch.device) for x in (rows[chosen], slots))

    def observe(self, layer: LayerStates) -> None:
        """Copy the chosen occurrences' states."""
        if len(self._rows):
            self.states[layer.index].index_copy_(0, self._into, layer.states.index_select(0, self._rows).float())

    def follow(self, device: torch.device) -> None:
        """Move the sample to where the states are; it stays there until it is read."""
        self.states = [states.to(device) for states in self.states]

    def settle(self) -> None:
        """Leave the sample where it is: most of it stays from shard to shard."""

    def merge(self, other: TypeSample) -> None:
        """Take in the sample of other texts."""
        chosen, slots = self._admit(other.groups, other.keys)
        for at, states in enumerate(self.states):
            states[torch.from_numpy(slots)] = other.read(at, other.slots[chosen])

    def _admit(self, groups: Ints, keys: Keys) -> tuple[Ints, Ints]:
        """Take in occurrences; return those that need a state written, and its slots."""
        all_groups = np.concatenate([self.groups, groups])
        all_keys = np.concatenate([self.keys, keys])
        # lexsort is stable: of equal occurrences the one that is known, then the first, comes first.
        order = smallest(all_groups, all_keys)
        known = len(self.groups)
        new = order >= known
        stay = self.slots[order[~new]]
        free = self._free(stay, int(new.sum()))
        slots = np.empty(len(order), dtype=np.int64)
        slots[~new], slots[new] = stay, free
        self.groups, self.keys, self.slots = all_groups[order], all_keys[order], slots
        return order[new] - known, free

    def _free(self, stay: Ints, wanted: int) -> Ints:
        """Return ``wanted`` slots that no staying occurrence uses; make room by doubling, up to a full sample."""
        capacity, needed = len(self.states[0]), len(stay) + wanted
        if needed > capacity:
            full = len(self.types) * len(TYPED) * OCCURRENCES
            room = min(full, max(needed, 2 * capacity))
            for at, states in enumerate(self.states):  # one place at a time, so that only one is held twice
                self.states[at] = torch.cat([states, states.new_zeros(room - capacity, states.shape[1])])
            capacity = room
        used = np.zeros(capacity, dtype=bool)
        used[stay] = True
        return np.flatnonzero(~used)[:wanted]

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return ``groups``, ``keys`` and, for each place, ``states/PLACE``, sorted by group and key."""
        return self._known() | {f"states/{at}": self.read(at, self.slots) for at in range(len(self.layout.places))}

    def compact(self) -> dict[str, torch.Tensor]:
        """Return the same with states in 16 bits."""
        found = self._known()
        for at in range(len(self.layout.places)):
            found |= RoundedStates.of(self.read(at, self.slots)).named(str(at))
        return found

    @classmethod
    def bytes_kept(cls, setting: Setting, tokens: Sequence[int]) -> int:
        """Return about what a finished one takes on disk, each type being set aside as often as any token."""
        counts = [setting.counts[one] for one in cls.empty(setting).types]
        typed = max(1, sum(tokens[stratum] for stratum in TYPED))
        rows = sum(min(round(count * tokens[stratum] / typed), OCCURRENCES) for count in counts for stratum in TYPED)
        return sum(RoundedStates.bytes(rows, width) for width in setting.layout.widths) + 16 * rows

    def _known(self) -> dict[str, torch.Tensor]:
        return {"groups": torch.from_numpy(self.groups), "keys": torch.from_numpy(self.keys.view(np.int64).copy())}

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        self.groups, self.keys = tensors["groups"].numpy(), tensors["keys"].numpy().view(np.uint64)
        self.slots = np.arange(len(self.groups))
        names = [str(at) for at in range(len(self.layout.places))]
        self._rounded = [RoundedStates.read(tensors, name) for name in names if f"middle/{name}" in tensors]
        self.states = [] if self._rounded else [tensors[f"states/{name}"] for name in names]

    def read(self, at: int, slots: Ints, device: str = "cpu") -> torch.Tensor:
        """Return the states in some slots at a place, float32 on a device."""
        which = torch.from_numpy(slots)
        if self._rounded:
            return self._rounded[at].rows(which, device)
        return self.states[at].index_select(0, which.to(self.states[at].device)).to(device)

    def select(
        self, strata: tuple[int, ...], types: int, occurrences: int, fewest: int, device: str = "cpu"
    ) -> Occurrences:
        """Return occurrences of the first ``types`` types over some strata, those with the smallest keys.

        Args:
            strata: which tokens.
            types: how many types, in the order of their hashes, are looked at.
            occurrences: the most that are taken of a type; at most ``OCCURRENCES``.
            fewest: types with fewer are left out.
            device: where their states are read.
        """
        stratum, rank = np.divmod(self.groups, max(len(self.types), 1))
        rows = np.flatnonzero(np.isin(stratum, strata) & (rank < types))
        rows = rows[smallest(rank[rows], self.keys[rows], occurrences)]  # a context found in two strata counts once
        which, first, size = np.unique(rank[rows], return_index=True, return_counts=True)
        kept = size >= fewest
        spans = [np.arange(start, start + count) for start, count in zip(first[kept], size[kept], strict=True)]
        taken = rows[np.concatenate(spans)] if spans else rows[:0]
        return Occurrences(self, [self.types[i] for i in which[kept]], size[kept], self.slots[taken], device)


class Occurrences:
    """Some occurrences of some types.

    Args:
        sample: the sample.
        types: token ids, length T.
        sizes: occurrences of each, shape (T,).
        slots: where their states lie, type after type.
        device: where they are read.
    """

    def __init__(self, sample: TypeSample, types: list[int], sizes: Ints, slots: Ints, device: str) -> None:
        self._sample, self._slots, self._device = sample, slots, device
        self.types, self.sizes = types, sizes

    def keys(self) -> list[bytes]:
        """Return what is equal for types of which the same occurrences were selected, in this selection or another."""
        return [slots.tobytes() for slots in np.split(self._slots, np.cumsum(self.sizes)[:-1])] if self.types else []

    def states(self, place: Place) -> torch.Tensor:
        """Return the states at a place, type after type, float32 on the device, shape (Σ sizes, width)."""
        return self._sample.read(self._sample.layout.index[place], self._slots, self._device)


def smallest(groups: Ints, keys: Keys, size: int = OCCURRENCES) -> Ints:
    """Return the places of the ``size`` smallest distinct keys of each group, sorted by group and key."""
    order = np.lexsort((keys, groups))
    groups, keys = groups[order], keys[order]
    repeated = np.zeros(len(order), dtype=bool)
    repeated[1:] = (groups[1:] == groups[:-1]) & (keys[1:] == keys[:-1])
    order, groups = order[~repeated], groups[~repeated]
    start = np.searchsorted(groups, groups)  # of each group
    return order[np.arange(len(order)) - start < size]
