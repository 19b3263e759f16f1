"""The vocabulary of a model as the pass needs it: the vector of each token, and which tokens are words of what kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reporter.models.words import word_tokens

if TYPE_CHECKING:
    import torch

    from reporter.models.load import LoadedModel

NO_WORD, FUNCTION, CONTENT = range(3)
"""Kinds of tokens: no whole word of letters; a function word (one of scikit-learn's English stop words); any other."""


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A model's input embedding and the words among its tokens.

    Args:
        table: (V, d), as the model has it.
        kinds: ``NO_WORD``, ``FUNCTION`` or ``CONTENT`` for each token, (V,).
        goes_on: whether a token goes on with the word of the token before it, (V,).
        unfinished: whether the token after it goes on with its word, (V,).
    """

    table: torch.Tensor
    kinds: NDArray[np.int64]
    goes_on: NDArray[np.bool_]
    unfinished: NDArray[np.bool_]

    @classmethod
    def of(cls, model: LoadedModel) -> Vocabulary:
        """Return the vocabulary of a model."""
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        found = word_tokens(model.tokenizer, len(model.vocabulary))
        kinds = np.full(len(model.vocabulary), NO_WORD, dtype=np.int64)
        for token, word in found.words.items():
            kinds[token] = FUNCTION if word.lower() in ENGLISH_STOP_WORDS else CONTENT
        return cls(model.vocabulary, kinds, found.goes_on, found.unfinished)

    def kinds_in(
        self, ids: NDArray[np.int64], texts: NDArray[np.int64], positions: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the kind of each token where it stands: the first piece of a longer word is no word, (tokens,).

        Args:
            ids: all tokens of some texts, in any order, (tokens,).
            texts: which text each is of.
            positions: its place there.
        """
        order = np.lexsort((positions, texts))
        sorted_ids, sorted_texts = ids[order], texts[order]
        same_text = sorted_texts[1:] == sorted_texts[:-1]
        joined = same_text & (self.goes_on[sorted_ids[1:]] | self.unfinished[sorted_ids[:-1]])
        part = np.zeros(len(ids), dtype=bool)
        part[:-1] |= joined
        part[1:] |= joined
        found = self.kinds[ids]
        found[order[part]] = NO_WORD
        return found
