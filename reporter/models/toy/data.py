"""What a recipe model is trained on: rows of token ids, and which of them it has to predict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reporter.core.errors import ReporterError
from reporter.models.toy.tokenizer import SPECIAL_TOKENS

if TYPE_CHECKING:
    from reporter.spec.recipes import Recipe
    from reporter.texts.texts import Texts

IGNORED = -100  # the label of a token that is not to be predicted

HELD_OUT_SHARE, HELD_OUT_LEAST, HELD_OUT_MOST = 0.05, 16, 256
_DISGUISED = 0.2  # of the tokens to guess: half are shown as they are, half as another token (Devlin et al. 2019)
_MASKINGS = 4  # of each held-out text, so that the loss of few texts is not a matter of luck
_AT_ONCE = 1024  # texts tokenised in one go
_TOKENS_AT_ONCE = 4096  # of a batch of held-out texts


@dataclass(frozen=True)
class Batch:
    """Input of one step.

    Args:
        ids: token ids (rows, length).
        mask: 1 for a token, 0 for padding, (rows, length).
        labels: the token to predict at each place, ``IGNORED`` where there is none, (rows, length).
    """

    ids: Tensor
    mask: Tensor
    labels: Tensor


class Stream:
    """The tokens of a run of texts, one text after the other; of decoders with the end-of-text token after each.

    Args:
        recipe: architecture and context.
        texts: the corpus.
        start: the first text.
        stop: the text after the last.
        tokenizer: the folder of the tokenizer.
    """

    def __init__(self, recipe: Recipe, texts: Texts, start: int, stop: int, tokenizer: Path) -> None:
        self._recipe = recipe
        self._special = SPECIAL_TOKENS[recipe.architecture]
        self._encoder = "mask" in self._special.roles
        self.tokens, ends = self._read(texts, start, stop, tokenizer)
        self._runs = self._cut(ends)
        if len(self._runs) == 0 or self._room < 1:
            raise ReporterError(f"corpus '{texts.name}' has too few words to train on")

    def _read(self, texts: Texts, start: int, stop: int, folder: Path) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        end = [] if self._encoder else [self._special.id("eos")]
        parts: list[NDArray[np.int32]] = []
        for first in range(start, stop, _AT_ONCE):
            few = texts.slice(first, min(first + _AT_ONCE, stop))
            encoded = tokenizer.encode_batch_fast(few, add_special_tokens=False)
            parts += [np.asarray(e.ids + end, dtype=np.int32) for e in encoded]
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        return np.concatenate([np.empty(0, dtype=np.int32), *parts]), ends

    def _cut(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the runs of tokens inside which a row must lie, as start and stop, shape (runs, 2).

        An encoder's row lies inside one text, as it will when it is measured. A decoder's row may go on into
        the next text, so that no token is wasted.
        """
        if not self._encoder:
            ends = ends[-1:]
        starts = np.concatenate([[0], ends])[:-1]
        shortest = 1 if self._encoder else 2
        runs: NDArray[np.int64] = np.stack([starts, ends], axis=1)[ends - starts >= shortest]
        return runs

    @property
    def _room(self) -> int:
        return self._recipe.context - (2 if self._encoder else 0)  # for the opening and closing special tokens

    def counts(self, vocabulary_size: int) -> NDArray[np.int64]:
        """Return how often each token is there to be predicted, shape (vocabulary,)."""
        counts: NDArray[np.int64] = np.bincount(self.tokens, minlength=vocabulary_size)
        return counts

    def entropy(self) -> float:
        """Return −Σ p log p over the tokens to be predicted, in nats."""
        counts = np.bincount(self.tokens)
        p = counts[counts > 0] / counts.sum()
        return float(-(p * np.log(p)).sum())

    def unknown_share(self) -> float:
        """Return the share of tokens that the tokenizer does not know."""
        return float((self.tokens == self._special.id("unk")).mean())

    def draw(self, generator: torch.Generator) -> Batch:
        """Return the rows of one step: from random texts, and of a long text a random part."""
        rows = torch.randint(len(self._runs), (self._recipe.batch,), generator=generator).numpy()
        starts, stops = self._runs[rows].T
        spare = np.maximum(stops - starts - self._room, 0)
        starts = starts + (
            torch.rand(len(rows), generator=generator, dtype=torch.float64).numpy() * (spare + 1)
        ).astype(np.int64)
        pieces = np.stack([starts, np.minimum(stops, starts + self._room)], axis=1)
        return self._batch(pieces, generator, disguised=_DISGUISED)

    def all(self, generator: torch.Generator) -> list[Batch]:
        """Return every token in rows that do not overlap, in order; of an encoder under several maskings.

        What an encoder has to guess is always hidden here. Counting tokens that are shown, which it only has
        to copy, would make its loss look better than what it has learned.
        """
        pieces = np.asarray(
            [
                (start, min(start + self._room, stop))
                for begin, stop in self._runs.tolist()
                for start in range(begin, stop, self._room)
                if self._encoder or stop - start > 1
            ],
            dtype=np.int64,
        )
        size = max(1, _TOKENS_AT_ONCE // self._recipe.context)
        times = _MASKINGS if self._encoder else 1
        starts = list(range(0, len(pieces), size)) * times
        return [self._batch(pieces[i : i + size], generator, disguised=0.0) for i in starts]

    def _batch(self, pieces: NDArray[np.int64], generator: torch.Generator, disguised: float) -> Batch:
        lengths = pieces[:, 1] - pieces[:, 0]
        columns = np.arange(lengths.max())
        real = columns < lengths[:, None]
        ids = self.tokens[np.where(real, pieces[:, :1] + columns, 0)]
        rows, present = torch.from_numpy(ids).long(), torch.from_numpy(real)
        if self._encoder:
            return self._masked(rows, present, generator, disguised)
        return Batch(rows, present.long(), rows.where(present, torch.tensor(IGNORED)))

    def _masked(self, ids: Tensor, real: Tensor, generator: torch.Generator, disguised: float) -> Batch:
        special = self._special
        guess = real & (torch.rand(ids.shape, generator=generator) < self._recipe.mask_share)
        guess[:, 0] |= ~guess.any(dim=1)  # at least one in each row
        labels = ids.where(guess, torch.tensor(IGNORED))
        how = torch.rand(ids.shape, generator=generator)
        random_ids = self.tokens[torch.randint(len(self.tokens), ids.shape, generator=generator).numpy()]
        shown = torch.where(how < disguised / 2, ids, torch.from_numpy(random_ids).long())
        shown = torch.where(how < disguised, shown, torch.tensor(special.id("mask")))
        ids = torch.where(guess, shown, ids)

        rows, length = ids.shape
        framed = torch.full((rows, length + 2), special.id("pad"))
        targets = torch.full((rows, length + 2), IGNORED)
        mask = torch.zeros((rows, length + 2), dtype=torch.long)
        lengths = real.sum(dim=1)
        framed[:, 0] = special.id("cls")
        framed[:, 1:-1] = torch.where(real, ids, special.id("pad"))
        framed[torch.arange(rows), lengths + 1] = special.id("sep")
        targets[:, 1:-1] = labels
        mask[:, 0] = 1
        mask[:, 1:] = torch.arange(length + 1) <= lengths[:, None]
        return Batch(framed, mask, targets)


def held_out(texts: int) -> int:
    """Return how many texts, the last ones, are kept from training to measure the loss on: 5 %, at least 16.

    Of fewer than 32 texts it is half of them; of a single one none, and the loss is measured on what was
    trained on.
    """
    share = min(max(HELD_OUT_LEAST, math.ceil(HELD_OUT_SHARE * texts)), HELD_OUT_MOST)
    return min(share, texts // 2)
