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

from reporter.errors import ReporterError
from reporter.models.pocket_tokenizer import SPECIAL_TOKENS

if TYPE_CHECKING:
    from reporter.spec.models import Recipe
    from reporter.texts.texts import Texts

IGNORED = -100  # the label of a token that is not to be predicted

HELD_OUT_SHARE, HELD_OUT_LEAST, HELD_OUT_MOST = 0.05, 16, 1024
_KEPT, _REPLACED = 0.1, 0.1  # of the tokens to be guessed: shown as they are, or as any other token (Devlin et al. 2019)
_AT_ONCE = 1024  # texts tokenised in one go


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
        self._pieces = self._cut(ends)
        if len(self._pieces) == 0:
            raise ReporterError(f"corpus '{texts.name}' has too few words to train on")

    def _read(
        self, texts: Texts, start: int, stop: int, folder: Path
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        end = [] if self._encoder else [self._special.id("eos")]
        parts: list[list[int]] = []
        for first in range(start, stop, _AT_ONCE):
            few = texts.slice(first, min(first + _AT_ONCE, stop))
            parts += [e.ids + end for e in tokenizer.encode_batch_fast(few, add_special_tokens=False)]
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        flat = (token for part in parts for token in part)
        return np.fromiter(flat, dtype=np.int64, count=int(ends[-1]) if parts else 0), ends

    def _cut(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where rows may begin and end, shape (rows, 2).

        An encoder's row lies inside one text, as it will when it is measured. A decoder's row may begin anywhere and
        go on into the next text, so that no token is wasted.
        """
        if self._encoder:
            size = self._recipe.context - 2  # the opening and closing special tokens need room
            starts = np.concatenate([[0], ends[:-1]])
            cuts = [
                (cut, min(cut + size, stop))
                for begin, stop in zip(starts.tolist(), ends.tolist(), strict=True)
                for cut in (range(begin, stop, size) if size else ())
            ]
        else:
            size = min(self._recipe.context, len(self.tokens))
            cuts = [(begin, begin + size) for begin in range(len(self.tokens) - size + 1)] if size > 1 else []
        return np.asarray(cuts, dtype=np.int64).reshape(-1, 2)

    def entropy(self) -> float:
        """Return −Σ p log p over the tokens to be predicted, in nats."""
        counts = np.bincount(self.tokens)
        p = counts[counts > 0] / counts.sum()
        return float(-(p * np.log(p)).sum())

    def draw(self, generator: torch.Generator) -> Batch:
        """Return the rows of one step, drawn with replacement."""
        rows = torch.randint(len(self._pieces), (self._recipe.batch,), generator=generator)
        return self._batch(self._pieces[rows.numpy()], generator)

    def all(self, generator: torch.Generator) -> list[Batch]:
        """Return every token in rows that do not overlap, in order."""
        pieces = self._pieces if self._encoder else self._pieces[:: max(1, self._recipe.context)]
        size = max(1, 4096 // self._recipe.context)
        return [self._batch(pieces[i : i + size], generator) for i in range(0, len(pieces), size)]

    def _batch(self, pieces: NDArray[np.int64], generator: torch.Generator) -> Batch:
        lengths = pieces[:, 1] - pieces[:, 0]
        columns = np.arange(lengths.max())
        real = columns < lengths[:, None]
        ids = self.tokens[np.where(real, pieces[:, :1] + columns, 0)]
        if not self._encoder:
            rows = torch.from_numpy(ids)
            return Batch(rows, torch.ones_like(rows), rows)
        return self._masked(torch.from_numpy(ids), torch.from_numpy(real), generator)

    def _masked(self, ids: Tensor, real: Tensor, generator: torch.Generator) -> Batch:
        special = self._special
        guess = real & (torch.rand(ids.shape, generator=generator) < self._recipe.mask_share)
        guess[:, 0] |= ~guess.any(dim=1)  # at least one in each row
        labels = ids.where(guess, torch.tensor(IGNORED))
        how = torch.rand(ids.shape, generator=generator)
        others = self.tokens[torch.randint(len(self.tokens), ids.shape, generator=generator).numpy()]
        shown = torch.where(how < 1 - _KEPT, torch.from_numpy(others), ids)
        shown = torch.where(how < 1 - _KEPT - _REPLACED, torch.tensor(special.id("mask")), shown)
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

    Of fewer than 32 texts it is half of them; of a single one none, and the loss is measured on what was trained on.
    """
    wanted = min(max(HELD_OUT_LEAST, math.ceil(HELD_OUT_SHARE * texts)), HELD_OUT_MOST)
    return min(wanted, texts // 2)
