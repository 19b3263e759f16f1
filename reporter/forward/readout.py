"""Reads states with what a model has of its vocabulary.

Its own language-model head gives the loss of each token and the logit lens; its input embedding, the vector of each
token and which tokens are words of what kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.forward.contexts import key_of
from reporter.models.words import word_tokens

if TYPE_CHECKING:
    import torch

    from reporter.models.head import Head
    from reporter.models.load import LoadedModel
    from reporter.texts.tokens import TokenBatch


Ints = NDArray[np.int64]
MASKED_SHARE = 0.15  # of the ordinary tokens, hidden from a masked language model at once
_LOGITS = 32 * 2**20  # logits held at once


@dataclass(frozen=True)
class Readout:
    """A model with its head.

    Args:
        model: the model.
        head: its language-model head.
    """

    model: LoadedModel
    head: Head

    @property
    def lens_problem(self) -> str:
        """Why states before the last cannot be read; empty if they can."""
        return self.model.closing.problem

    @property
    def loss_problem(self) -> str:
        """Why tokens cannot be predicted; empty if they can."""
        lost = self.head.kind == "masked" and self.head.mask_id is None
        return "its tokenizer has no mask token" if lost else ""

    def log_probabilities(self, states: torch.Tensor, closed: bool) -> Iterator[torch.Tensor]:
        """Yield log p over the vocabulary for each token, some tokens at a time, (some tokens, vocabulary) in float32.

        Args:
            states: residual stream (tokens, width), or the model's last states (tokens, final width) if ``closed``.
            closed: whether the closing norm has been applied.
        """
        rows = max(1, _LOGITS // self.model.anatomy.vocabulary_size)
        for start in range(0, len(states), rows):
            part = states[start : start + rows]
            last = part if closed else self.model.close(part)
            yield torch.log_softmax(self.head.logits(last).float(), dim=-1)

    def token_losses(self, batch: TokenBatch, last: torch.Tensor, seed: int) -> torch.Tensor:
        """Return −log p of each token, NaN for tokens that are not predicted, shape (texts, length) in float64.

        A causal model predicts each token of the text from those before it; the first one, and what the tokenizer
        added, are not counted. A masked model sees the text once more with ``MASKED_SHARE`` of its own tokens, chosen
        by a hash of seed, text and position, replaced by its mask token, and predicts those (pseudo-likelihood). What
        is context alone is read as it stands.

        Args:
            batch: the token ids.
            last: the model's last states on the batch, (texts, length, final width).
            seed: the study's seed.
        """
        own = batch.counted & ~batch.special
        if self.head.kind == "causal":
            own[:, 0] = False
            rows, columns = np.nonzero(own)
            return self._losses(last, batch, (rows, columns - 1), (rows, columns))
        assert self.head.mask_id is not None  # see ``loss_problem``
        hidden = _hidden(batch, seed) & own
        ids, mask = (
            torch.as_tensor(x, device=last.device) for x in (np.where(hidden, self.head.mask_id, batch.ids), batch.mask)
        )
        where = np.nonzero(hidden)
        return self._losses(self.model.run(ids, mask).last, batch, where, where)

    def _losses(
        self, last: torch.Tensor, batch: TokenBatch, read: tuple[Ints, ...], predicted: tuple[Ints, ...]
    ) -> torch.Tensor:
        """Return what the states at some places say of the tokens at others; places are known on the host."""
        device = last.device
        where = tuple(torch.as_tensor(index, device=device) for index in predicted)
        states = last[tuple(torch.as_tensor(index, device=device) for index in read)]
        targets = torch.as_tensor(batch.ids[predicted], device=device)
        losses = torch.full(batch.ids.shape, torch.nan, dtype=torch.float64, device=device)
        found, start = [], 0
        for log_p in self.log_probabilities(states, closed=True):
            some = targets[start : start + len(log_p)]
            found.append(-log_p.gather(1, some[:, None])[:, 0].double())
            start += len(log_p)
        if found:
            losses[where] = torch.cat(found)
        return losses


def _hidden(batch: TokenBatch, seed: int) -> NDArray[np.bool_]:
    positions = np.arange(batch.ids.shape[1])[None, :]
    return key_of(seed, batch.texts[:, None], positions) < np.uint64(MASKED_SHARE * 2.0**64)


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
