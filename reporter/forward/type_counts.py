"""How often each token type occurs in a corpus: counted before the pass, since a text's tokens are split by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reporter.forward.halves import GROUPS, HALVES, groups_of, packed

if TYPE_CHECKING:
    from reporter.texts.tokens import TokenisedCorpus


@dataclass(frozen=True)
class TypeCounts:
    """Occurrences of token types.

    Args:
        counts: for each token id, how often it occurs other than by the tokenizer's own doing, shape (vocabulary,).
        added: for each token id, how often the tokenizer added it, shape (vocabulary,).
        splits: for each token id, in which samples of the corpus its type is a frequent one: bits 0…62 are the
            half-samples of ``reporter.forward.halves``, bit 63 is the whole corpus, shape (vocabulary,).
    """

    counts: NDArray[np.int64]
    added: NDArray[np.int64]
    splits: NDArray[np.int64]

    @classmethod
    def of_groups(cls, counts: NDArray[np.int32], added: NDArray[np.int32]) -> TypeCounts:
        """Return the counts of a corpus from those of its groups of texts, each of shape (groups, vocabulary)."""
        columns = np.zeros((counts.shape[1], GROUPS), dtype=bool)
        for sample, held in enumerate([*HALVES, np.ones(GROUPS, dtype=bool)]):
            columns[:, sample] = _frequent(counts[held].sum(axis=0), added[held].sum(axis=0))
        return cls(counts.sum(axis=0, dtype=np.int64), added.sum(axis=0, dtype=np.int64), packed(columns))

    @property
    def frequent(self) -> NDArray[np.bool_]:
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

    Args:
        corpus: the corpus.
        vocabulary_size: token ids of the model that reads it.
        seed: the study's seed, for the half-samples.
    """
    counts, added = np.zeros((2, GROUPS, vocabulary_size), dtype=np.int32)
    for shard in corpus.shards:
        tokenised = corpus.of(shard)
        groups = groups_of(corpus.original(np.array([text.index for text in tokenised], dtype=np.int64)), seed)
        for text, group in zip(tokenised, groups, strict=True):
            np.add.at(counts[group], text.ids[text.counted & ~text.special], 1)
            np.add.at(added[group], text.ids[text.counted & text.special], 1)
    return TypeCounts.of_groups(counts, added)


def _frequent(counts: NDArray[np.int64], added: NDArray[np.int64]) -> NDArray[np.bool_]:
    found = counts[counts > 0]
    median = float(np.median(found)) if len(found) else 0.0
    return np.asarray(counts + added > median)
