"""The token types of a corpus, and a few occurrences of some of them, each in another context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.forward.batch import GROUPS, HALVES, HiddenBatch, Keys, LayerStates, groups_of, key_of, packed
from reporter.forward.observable import Observable, RoundedStates, Setting, SlottedStates
from reporter.forward.type_moments import TYPED, rank_by_id, ranks_of
from reporter.geometry.arrays import Bools, Ints
from reporter.models.places import Layout, Place
from reporter.texts.tokens import TokenisedCorpus


@dataclass(frozen=True)
class TypeCounts:
    """Occurrences of token types.

    Args:
        counts: for each token id, how often it occurs other than by the tokenizer's own doing, shape (vocabulary,).
        added: for each token id, how often the tokenizer added it, shape (vocabulary,).
        splits: for each token id, in which samples of the corpus its type is a frequent one: bits 0…62 are the
            half-samples of ``reporter.forward.batch``, bit 63 is the whole corpus, shape (vocabulary,).
    """

    counts: Ints
    added: Ints
    splits: Ints

    @classmethod
    def of_groups(cls, counts: NDArray[np.int32], added: NDArray[np.int32]) -> TypeCounts:
        """Return the counts of a corpus from those of its groups of texts, each of shape (groups, vocabulary)."""
        columns = np.zeros((counts.shape[1], GROUPS), dtype=bool)
        for sample, held in enumerate([*HALVES, np.ones(GROUPS, dtype=bool)]):
            columns[:, sample] = _frequent(counts[held].sum(axis=0), added[held].sum(axis=0))
        return cls(counts.sum(axis=0, dtype=np.int64), added.sum(axis=0, dtype=np.int64), packed(columns))

    @property
    def frequent(self) -> Bools:
        """For each token id, whether it occurs more often than the median type (of those that occur by themselves)."""
        return np.asarray(self.splits < 0)  # bit 63 is the sign

    def at_least(self, occurrences: int) -> dict[int, int]:
        """Return the ids that occur so often, with their counts, most frequent first; of equals the smaller id."""
        ids = np.flatnonzero(self.counts >= occurrences)
        order = np.lexsort((ids, -self.counts[ids]))
        return {int(i): int(self.counts[i]) for i in ids[order]}


def count_types(corpus: TokenisedCorpus, vocabulary_size: int, seed: int) -> TypeCounts:
    """Count the token types of a corpus, in all of it and in its half-samples.

    Memory: 512 bytes for each token id of the vocabulary.
    """
    counts, added = np.zeros((2, GROUPS, vocabulary_size), dtype=np.int32)
    for shard in corpus.shards:
        tokenised = corpus.of(shard)
        texts = corpus.text_of(np.array([text.index for text in tokenised], dtype=np.int64))
        for text, group in zip(tokenised, groups_of(corpus.units[texts], seed), strict=True):
            np.add.at(counts[group], text.ids[text.counted & ~text.special], 1)
            np.add.at(added[group], text.ids[text.counted & text.special], 1)
    return TypeCounts.of_groups(counts, added)


def _frequent(counts: Ints, added: Ints) -> Bools:
    occurring = counts[counts > 0]
    median = float(np.median(occurring)) if len(occurring) else 0.0
    return np.asarray(counts + added > median)


OCCURRENCES = 12  # kept of a type in a stratum


class TypeSample(Observable):
    """For each chosen type and stratum the 12 occurrences with the smallest context keys.

    Types are chosen by a hash of their id among those that occur at least five times in the corpus, so that a larger
    sample begins with a smaller one. Context keys are hashes of what the model saw: occurrences for which it saw the
    same thing count once, and whatever the order and the split of a corpus, the same ones are kept.

    Memory: 4·12·d bytes for each type, place and stratum (ordinary tokens, and those set aside) that fills up,
    half of that once the pass is finished.
    """

    name = "type_sample"
    version = 3
    reads_types = True
    bounded = "at least"
    states_kept = True

    def __init__(self, layout: Layout, types: Sequence[int]) -> None:
        self.layout, self.types = layout, list(types)
        # Sorted by group = stratum · types + rank of the type, then by key; of the texts with this context the first;
        # the state lies in a slot.
        self.groups: Ints = np.zeros(0, dtype=np.int64)
        self.keys: Keys = np.zeros(0, dtype=np.uint64)
        self.texts: Ints = np.zeros(0, dtype=np.int64)
        self.slots: Ints = np.zeros(0, dtype=np.int64)
        self.states = SlottedStates(layout.widths)
        self._rank = rank_by_id(self.types)
        self._rows, self._into = (torch.zeros(0, dtype=torch.int64) for _ in range(2))

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing; ``setting.size`` is the number of its occurrences."""
        ids = np.fromiter(setting.counts, dtype=np.int64, count=len(setting.counts))
        chosen = ids[np.argsort(key_of(setting.seed, ids), kind="stable")][: -(-setting.size // OCCURRENCES)]
        return cls(setting.layout, chosen.tolist())

    def start(self, batch: HiddenBatch) -> None:
        """Choose the occurrences of a batch that enter the sample."""
        super().start(batch)
        rank = ranks_of(batch.token_ids, self._rank)
        rows = np.flatnonzero((rank >= 0) & np.isin(batch.strata, TYPED))
        groups = batch.strata[rows] * len(self.types) + rank[rows]
        chosen, slots = self._admit(groups, batch.contexts[rows], batch.units[rows])
        self._rows, self._into = (torch.from_numpy(x).to(batch.device) for x in (rows[chosen], slots))

    def observe(self, layer: LayerStates) -> None:
        """Copy the chosen occurrences' states."""
        if len(self._rows):
            self.states.write(layer.index, self._into, layer.states.index_select(0, self._rows))

    def follow(self, device: torch.device) -> None:
        """Move the sample to where the states are; it stays there until it is read."""
        self.states.move(device)

    def settle(self) -> None:
        """Leave the sample where it is: most of it stays from shard to shard."""

    def merge(self, other: TypeSample) -> None:
        """Take in the sample of other texts."""
        chosen, slots = self._admit(other.groups, other.keys, other.texts)
        self.states.take(slots, other.states, other.slots[chosen])

    def _admit(self, groups: Ints, keys: Keys, texts: Ints) -> tuple[Ints, Ints]:
        """Take in occurrences; return those that need a state written, and its slots."""
        all_groups = np.concatenate([self.groups, groups])
        all_keys = np.concatenate([self.keys, keys])
        all_texts = np.concatenate([self.texts, texts])
        # lexsort is stable: of equal occurrences the one that is known, then the first, comes first.
        order = smallest(all_groups, all_keys)
        held = len(self.groups)
        new = order >= held
        stay = self.slots[order[~new]]
        free = self.states.free(stay, int(new.sum()), len(self.types) * len(TYPED) * OCCURRENCES)
        slots = np.empty(len(order), dtype=np.int64)
        slots[~new], slots[new] = stay, free
        self.groups, self.keys, self.slots = all_groups[order], all_keys[order], slots
        self.texts = all_texts[smallest(all_groups, all_keys, ties=all_texts)]
        return order[new] - held, free

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return ``groups``, ``keys``, ``texts`` and, for each place, ``states/PLACE``, sorted by group and key."""
        return self._chosen() | self.states.tensors(self.slots)

    def compact(self) -> dict[str, torch.Tensor]:
        """Return the same with states in 16 bits."""
        return self._chosen() | self.states.compact(self.slots)

    @classmethod
    def bytes_kept(cls, setting: Setting, tokens: Sequence[int]) -> int:
        """Return about what a finished one takes on disk, each type being set aside as often as any token."""
        counts = [setting.counts[token] for token in cls.empty(setting).types]
        typed = max(1, sum(tokens[stratum] for stratum in TYPED))
        rows = sum(min(round(count * tokens[stratum] / typed), OCCURRENCES) for count in counts for stratum in TYPED)
        return sum(RoundedStates.bytes(rows, width) for width in setting.layout.widths) + 24 * rows

    def _chosen(self) -> dict[str, torch.Tensor]:
        arrays = {"groups": self.groups, "keys": self.keys.view(np.int64).copy(), "texts": self.texts}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        self.groups, self.keys = tensors["groups"].numpy(), tensors["keys"].numpy().view(np.uint64)
        self.texts = tensors["texts"].numpy()
        self.slots = np.arange(len(self.groups))
        self.states.restore(tensors)

    def select(
        self, strata: tuple[int, ...], types: int, occurrences: int, fewest: int, device: str = "cpu"
    ) -> Occurrences:
        """Return occurrences of the first ``types`` types over some strata, those with the smallest keys."""
        stratum, rank = np.divmod(self.groups, max(len(self.types), 1))
        rows = np.flatnonzero(np.isin(stratum, strata) & (rank < types))
        rows = rows[
            smallest(rank[rows], self.keys[rows], size=occurrences)
        ]  # a context found in two strata counts once
        which, first, size = np.unique(rank[rows], return_index=True, return_counts=True)
        kept = size >= fewest
        spans = [np.arange(start, start + count) for start, count in zip(first[kept], size[kept], strict=True)]
        taken = rows[np.concatenate(spans)] if spans else rows[:0]
        chosen = [self.types[i] for i in which[kept]]
        return Occurrences(self, chosen, size[kept], self.slots[taken], self.texts[taken], device)


class Occurrences:
    """Some occurrences of some types.

    Args:
        types: their token ids.
        sizes: occurrences of each.
        slots: where the state of each occurrence lies in the sample, type after type.
        texts: which unit of observation each occurrence belongs to.
    """

    def __init__(
        self, sample: TypeSample, types: list[int], sizes: Ints, slots: Ints, texts: Ints, device: str
    ) -> None:
        self._sample, self._slots, self._device = sample, slots, device
        self.types, self.sizes, self.texts = types, sizes, texts

    def states(self, place: Place) -> torch.Tensor:
        """Return the states at a place, type after type, float32 on the device, shape (Σ sizes, width)."""
        return self._sample.states.read(self._sample.layout.index[place], self._slots, self._device)


def smallest(groups: Ints, keys: Keys, ties: Ints | None = None, size: int = OCCURRENCES) -> Ints:
    """Return the places of the ``size`` smallest distinct keys of each group, sorted by group and key.

    Of equal keys the first is taken, or the one with the least of ``ties``.
    """
    order = np.lexsort((keys, groups) if ties is None else (ties, keys, groups))
    groups, keys = groups[order], keys[order]
    repeated = np.zeros(len(order), dtype=bool)
    repeated[1:] = (groups[1:] == groups[:-1]) & (keys[1:] == keys[:-1])
    order, groups = order[~repeated], groups[~repeated]
    start = np.searchsorted(groups, groups)  # of each group
    return order[np.arange(len(order)) - start < size]
