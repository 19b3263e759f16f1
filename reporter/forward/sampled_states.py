"""Bounded samples of states: which rows they hold, where these lie, and how they are rounded.

Each row has a 64-bit key; the sample is the rows with the k smallest keys of each group. Whatever the order in which
rows come, and however a corpus is split, the same rows are kept ("bottom-k sampling", Cohen & Kaplan 2007).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from reporter.core.threads import spread
from reporter.forward.batch import Keys, LayerStates
from reporter.forward.observable import Observable
from reporter.geometry.arrays import Bools, Ints

# States are kept in 16 bits once a pass is finished. Metrics read the numbers that come back out of this form, in a
# fresh run as in one from the cache, so their rounding is part of what a sample is.

FIRST = 32  # rows whose median is taken off: a larger sample begins with the same ones, so it rounds them the same way
_TOP = 15  # the largest value of a row lies in [2^14, 2^15): float16 reaches 65504, and is full down to 2^-14
_LEAST_ROWS = 8192  # room on a processor, where memory that is not written takes none, and growing costs two copies
_STEEPEST = 110  # 2^110 is a float32: rows whose largest is below 2^-95 lose digits


@dataclass(frozen=True, eq=False)
class RoundedStates:
    """States x as float16 of (x − m)·2^−e: m of 11 significant bits is common to a group of rows, e is the row's own.

    m is the median of each coordinate: a mean would lie far from all states where a few of them are sinks. The error of
    a coordinate is at most 2^-11 of |x − m|, for coordinates down to 2^-28 of the row's largest. A state of zeros comes
    back as zeros (−m fits the form), equal states as equal ones, what is not finite as it was.

    Args:
        values: float16, shape (n, d).
        middle: m of each group, float32, shape (groups, d).
        exponents: int16, shape (n,).
        groups: of the rows, shape (n,).
    """

    values: torch.Tensor
    middle: torch.Tensor
    exponents: torch.Tensor
    groups: torch.Tensor

    @classmethod
    def of(cls, states: torch.Tensor, groups: torch.Tensor | None = None) -> RoundedStates:
        """Round states, shape (n, d); all are one group if None."""
        groups = torch.zeros(len(states), dtype=torch.int64) if groups is None else groups
        every = range(int(groups.max()) + 1 if len(groups) else 1)
        middle = torch.stack([_middle(states[groups == group]) for group in every])
        values, exponents = _halves(states.float() - middle[groups])
        return cls(values, middle, exponents, groups)

    @staticmethod
    def bytes(rows: int, width: int) -> int:
        """Return the size of rounded states of a group."""
        return 2 * rows * (width + 1) + 4 * width

    @classmethod
    def read(cls, tensors: Mapping[str, torch.Tensor], name: str, groups: torch.Tensor | None = None) -> RoundedStates:
        """Return what ``named`` put among some tensors."""
        values, middle, exponents = (tensors[f"{part}/{name}"] for part in ("states", "middle", "exponents"))
        groups = torch.zeros(len(values), dtype=torch.int64) if groups is None else groups
        return cls(values, middle.view(-1, values.shape[1]), exponents, groups)

    def named(self, name: str) -> dict[str, torch.Tensor]:
        """Return ``states/NAME``, ``middle/NAME`` and ``exponents/NAME``."""
        return {f"states/{name}": self.values, f"middle/{name}": self.middle, f"exponents/{name}": self.exponents}

    def rows(self, which: torch.Tensor, device: torch.device | str = "cpu") -> torch.Tensor:
        """Return some of the states, float32 on a device, shape (len(which), d)."""
        values, exponents = (x.index_select(0, which).to(device) for x in (self.values, self.exponents))
        middle = self.middle.to(device).index_select(0, self.groups[which].to(device))
        return values.float().mul_(_powers(exponents)).add_(middle)


def _middle(states: torch.Tensor) -> torch.Tensor:
    first = states[:FIRST].float()
    middle = first.nanmedian(dim=0, keepdim=True).values if len(first) else first.new_zeros(1, first.shape[1])
    rounded, exponents = _halves(middle.where(middle.isfinite(), 0.0))
    return rounded.float().mul_(_powers(exponents))[0]


def _halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    top = x.abs().nan_to_num_(0.0, 0.0).amax(dim=1) if x.numel() else x.new_zeros(len(x))
    exponents = (torch.frexp(top).exponent - _TOP).clamp(min=-_STEEPEST)
    return (x * _powers(-exponents)).half(), exponents.short()


def _powers(exponents: torch.Tensor) -> torch.Tensor:
    return ((exponents.int() + 127) << 23)[:, None].view(torch.float32)


def smallest(groups: Ints, keys: Keys, size: int) -> Ints:
    """Return the places of the ``size`` smallest distinct keys of each group, sorted by group and key.

    Of equal keys the first is taken.
    """
    order, starts = _runs(groups, keys)
    order = order[starts]
    return order[_within(groups[order], size)]


def _runs(groups: Ints, keys: Keys) -> tuple[Ints, Ints]:
    """Return rows sorted by group and key, equal ones in their order, and where those of another key begin."""
    order = np.lexsort((keys, groups))
    other = np.ones(len(order), dtype=bool)
    other[1:] = (np.diff(groups[order]) != 0) | (np.diff(keys[order]) != 0)
    return order, np.flatnonzero(other)


def _within(groups: Ints, size: int) -> Bools:
    """Return whether rows, sorted by group, are among the first so many of their group."""
    return np.asarray(np.arange(len(groups)) - np.searchsorted(groups, groups) < size)


class Sample:
    """The rows with the smallest keys of each group, sorted by group and key, with facts and states.

    Args:
        widths: of the states at each place.
        columns: of the facts.
        size: rows in a group, at most.
        groups: how many groups there are.
        merging: how columns of rows with equal keys merge; of other columns the first row counts.
        rounded_together: whether states of all groups are rounded about one median, or those of each about its own.
    """

    def __init__(
        self,
        widths: Sequence[int],
        columns: int,
        size: int,
        groups: int,
        merging: Mapping[int, np.ufunc],
        rounded_together: bool = False,
    ) -> None:
        self._size, self._most, self._merging, self._rounded_together = size, size * groups, merging, rounded_together
        self.groups: Ints = np.zeros(0, dtype=np.int64)
        self.keys: Keys = np.zeros(0, dtype=np.uint64)
        self.facts: Ints = np.zeros((0, columns), dtype=np.int64)
        self.slots: Ints = np.zeros(0, dtype=np.int64)
        """Where the state of each row lies."""
        self._places = [torch.zeros(0, width) for width in widths]
        self._rounded: list[RoundedStates] = []  # in the place of ``_places``, once the pass is finished

    def admit(self, groups: Ints, keys: Keys, facts: Ints) -> tuple[Ints, Ints]:
        """Take in rows; return those that need a state written, and its slots."""
        held, slots = len(self.keys), np.concatenate([self.slots, np.full(len(keys), -1)])
        groups, keys = np.concatenate([self.groups, groups]), np.concatenate([self.keys, keys])
        facts = np.concatenate([self.facts, facts])
        order, starts = _runs(groups, keys)  # of equal rows the one that is held, then the first, comes first
        merged = facts[order[starts]]
        for column, merging in self._merging.items():
            merged[:, column] = merging.reduceat(facts[order, column], starts)
        order = order[starts]
        inside = _within(groups[order], self._size)
        order = order[inside]
        new = order >= held
        slots[order[new]] = free = self._free(self.slots[order[~new]], int(new.sum()))
        self.groups, self.keys, self.facts, self.slots = groups[order], keys[order], merged[inside], slots[order]
        return order[new] - held, free

    def _free(self, used: Ints, count: int) -> Ints:
        """Return unused slots, shape (count,); new ones are made where there are too few."""
        capacity = len(self._places[0]) if self._places else 0
        if (needed := len(used) + count) > capacity:
            before, least = capacity, _LEAST_ROWS if self._places[0].device.type == "cpu" else 0
            capacity = min(self._most, max(needed, least, 2 * capacity))
            for index, states in enumerate(self._places):  # one place at a time, so that only one is held twice
                self._places[index] = states.new_empty(capacity, states.shape[1])
                self._places[index][:before] = states
        unused = np.ones(capacity, dtype=bool)
        unused[used] = False
        return np.flatnonzero(unused)[:count]

    def write(self, index: int, slots: torch.Tensor, states: torch.Tensor) -> None:
        """Put states at a place into slots."""
        self._places[index].index_copy_(0, slots, states.float())

    def read(self, index: int, slots: Ints, device: str = "cpu") -> torch.Tensor:
        """Return the states in some slots at a place, float32 on a device."""
        which = torch.from_numpy(slots)
        if self._rounded:
            return self._rounded[index].rows(which, device)
        return self._places[index].index_select(0, which.to(self._places[index].device)).to(device)

    def move(self, device: torch.device) -> None:
        """Move the states to a device; they stay there until they are read."""
        self._places = [states.to(device) for states in self._places]

    def merge(self, other: Sample) -> None:
        """Take in the sample of other texts."""
        chosen, slots = self.admit(other.groups, other.keys, other.facts)
        for index in range(len(self._places)):
            self.write(index, torch.from_numpy(slots), other.read(index, other.slots[chosen]))

    def tensors(self, rows: Bools | slice = slice(None), rounded: bool = False) -> dict[str, torch.Tensor]:
        """Return ``groups``, ``keys``, ``facts`` and, for each place, ``states/PLACE`` of some rows."""
        arrays = {"groups": self.groups, "keys": self.keys.view(np.int64), "facts": self.facts}
        tensors = {name: torch.from_numpy(array[rows].copy()) for name, array in arrays.items()}
        together = self._together(tensors["groups"])

        def states(index: int) -> dict[str, torch.Tensor]:
            x = self.read(index, self.slots[rows])
            return RoundedStates.of(x, together).named(str(index)) if rounded else {f"states/{index}": x}

        for of_place in spread(states, range(len(self._rounded or self._places))):
            tensors |= of_place
        return tensors

    def _together(self, groups: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(groups) if self._rounded_together else groups

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take over saved rows and states, in the order in which they were written."""
        self.groups, self.facts = tensors["groups"].numpy(), tensors["facts"].numpy()
        self.keys = tensors["keys"].numpy().view(np.uint64)
        self.slots = np.arange(len(self.keys))
        places, together = range(len(self._places)), self._together(tensors["groups"])
        if "middle/0" in tensors:
            self._rounded = [RoundedStates.read(tensors, str(index), together) for index in places]
            self._places = []
        else:
            self._places = [tensors[f"states/{index}"] for index in places]


class Sampled(Observable):
    """Keeps a sample of states."""

    bounded = "at least"
    states_kept = True
    sample: Sample
    _rows: torch.Tensor  # of the batch at hand, whose states enter the sample
    _slots: torch.Tensor  # where they go

    def choose(self, groups: Ints, keys: Keys, facts: Ints, rows: Ints, device: torch.device) -> None:
        """Take in rows of a batch, by their place in it."""
        chosen, slots = self.sample.admit(groups, keys, facts)
        self._rows, self._slots = (torch.from_numpy(x).to(device) for x in (rows[chosen], slots))

    def observe(self, layer: LayerStates) -> None:
        """Copy the chosen rows' states."""
        if len(self._rows):
            self.sample.write(layer.index, self._slots, layer.states.index_select(0, self._rows))

    def follow(self, device: torch.device) -> None:
        """Move the sample to where the states are; it stays there until it is read."""
        self.sample.move(device)

    def settle(self) -> None:
        """Leave the sample where it is: most of it stays from shard to shard."""

    def merge(self, other: Sampled) -> None:
        """Take in the sample of other texts."""
        self.sample.merge(other.sample)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the rows of the sample, with their states."""
        return self.sample.tensors()

    def compact(self) -> dict[str, torch.Tensor]:
        """Return the same with states in 16 bits."""
        return self.sample.tensors(rounded=True)

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved rows."""
        self.sample.restore(tensors)
