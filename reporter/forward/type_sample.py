"""The token types of a corpus, and a few occurrences of some of them, each in another context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.forward.batch import GROUPS, HALVES, HiddenBatch, groups_of, key_of, packed
from reporter.forward.observable import Setting
from reporter.forward.sampled_states import RoundedStates, Sample, Sampled, smallest
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
        in_all, added_in_all = (x.sum(axis=0, dtype=np.int64) for x in (counts, added))
        occurring = np.flatnonzero(in_all + added_in_all)  # a few of the vocabulary; no other type is frequent
        counts, added = counts[:, occurring], added[:, occurring]
        columns = np.zeros((len(in_all), GROUPS), dtype=bool)
        for sample, held in enumerate([*HALVES, np.ones(GROUPS, dtype=bool)]):
            columns[occurring, sample] = _frequent(counts[held].sum(axis=0), added[held].sum(axis=0))
        return cls(in_all, added_in_all, packed(columns))

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


class TypeSample(Sampled):
    """For each chosen type and stratum the 12 occurrences with the smallest context keys.

    Types are chosen by a hash of their id among those that occur at least five times in the corpus, so that a larger
    sample begins with a smaller one. Context keys are hashes of what the model saw: occurrences for which it saw the
    same thing count once, and whatever the order and the split of a corpus, the same ones are kept.

    Memory: 4·12·d bytes for each type, place and stratum (ordinary tokens, and those set aside) that fills up,
    half of that once the pass is finished.
    """

    name = "type_sample"
    version = 4
    reads_types = True

    def __init__(self, layout: Layout, types: Sequence[int]) -> None:
        self.layout, self.types = layout, list(types)
        # Groups are stratum · types + rank of the type, in as many strata as ``TYPED``; the fact is the text.
        groups, merging = len(self.types) * len(TYPED), {0: np.minimum}
        self.sample = Sample(layout.widths, 1, OCCURRENCES, groups, merging, rounded_together=True)
        self._rank = rank_by_id(self.types)

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
        self.choose(groups, batch.contexts[rows], batch.units[rows, None], rows, batch.device)

    @classmethod
    def bytes_kept(cls, setting: Setting, tokens: Sequence[int]) -> int:
        """Return about what a finished one takes on disk, each type being set aside as often as any token."""
        counts = [setting.counts[token] for token in cls.empty(setting).types]
        typed = max(1, sum(tokens[stratum] for stratum in TYPED))
        rows = sum(min(round(count * tokens[stratum] / typed), OCCURRENCES) for count in counts for stratum in TYPED)
        return sum(RoundedStates.bytes(rows, width) for width in setting.layout.widths) + 24 * rows

    def select(
        self, strata: tuple[int, ...], types: int, occurrences: int, fewest: int, device: str = "cpu"
    ) -> Occurrences:
        """Return occurrences of the first ``types`` types over some strata, those with the smallest keys."""
        kept = self.sample
        stratum, rank = np.divmod(kept.groups, max(len(self.types), 1))
        rows = np.flatnonzero(np.isin(stratum, strata) & (rank < types))
        rows = rows[smallest(rank[rows], kept.keys[rows], occurrences)]  # a context found in two strata counts once
        which, first, size = np.unique(rank[rows], return_index=True, return_counts=True)
        enough = size >= fewest
        spans = [np.arange(start, start + count) for start, count in zip(first[enough], size[enough], strict=True)]
        taken = rows[np.concatenate(spans)] if spans else rows[:0]
        chosen = [self.types[i] for i in which[enough]]
        return Occurrences(self, chosen, size[enough], kept.slots[taken], kept.facts[taken, 0], device)


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
        return self._sample.sample.read(self._sample.layout.index[place], self._slots, self._device)
