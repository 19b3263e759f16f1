"""What an observable must know before it sees the first batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reporter.forward.places import Layout


@dataclass(frozen=True)
class Setting:
    """Model, corpus and study, as far as an empty observable hangs on them.

    Args:
        layout: the places that are read.
        seed: the study's seed.
        texts: texts of the corpus.
        size: how much a bounded observable must keep (sampled tokens, texts, MiB), as its metrics ask for it.
        counts: occurrences in the corpus of each token id that the tokenizer did not add; only ids that occur.
        tokens: how the tokenizer writes every id that occurs, added ones included.
        tokens_in_all: tokens of the corpus, those that the tokenizer adds included.
        splits: for each token id, in which samples of the corpus its type is a frequent one, as bits; see
            ``TypeCounts``, shape (vocabulary,).
    """

    layout: Layout
    seed: int
    texts: int
    size: int
    counts: Mapping[int, int] = field(default_factory=dict)
    tokens: Mapping[int, str] = field(default_factory=dict)
    tokens_in_all: int = 0
    splits: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
