"""How often each token type occurs in a corpus: counted before the pass, since a text's tokens are split by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reporter.forward.measure import longest
from reporter.texts.tokens import shards, tokenise

if TYPE_CHECKING:
    from reporter.models.load import LoadedModel
    from reporter.texts.texts import Texts


@dataclass(frozen=True)
class TypeCounts:
    """Occurrences of token types.

    Args:
        counts: for each token id, how often it occurs other than by the tokenizer's own doing, shape (vocabulary,).
        added: for each token id, how often the tokenizer added it, shape (vocabulary,).
    """

    counts: NDArray[np.int64]
    added: NDArray[np.int64]

    @property
    def frequent(self) -> NDArray[np.bool_]:
        """For each token id, whether it occurs more often than the median type (of those that occur by themselves)."""
        found = self.counts[self.counts > 0]
        median = float(np.median(found)) if len(found) else 0.0
        return np.asarray(self.counts + self.added > median)

    def at_least(self, occurrences: int) -> dict[int, int]:
        """Return the ids that occur so often, with their counts, most frequent first; of equals the smaller id."""
        ids = np.flatnonzero(self.counts >= occurrences)
        order = np.lexsort((ids, -self.counts[ids]))
        return {int(i): int(self.counts[i]) for i in ids[order]}


def count_types(model: LoadedModel, texts: Texts, max_tokens: int) -> TypeCounts:
    """Tokenise a corpus and count its token types."""
    counts, added = np.zeros((2, model.anatomy.vocabulary_size), dtype=np.int64)
    limit = longest(max_tokens, model)
    for shard in shards(texts):
        for text in tokenise(texts, shard, model.tokenizer, limit):
            np.add.at(counts, text.ids[~text.special], 1)
            np.add.at(added, text.ids[text.special], 1)
    return TypeCounts(counts, added)
