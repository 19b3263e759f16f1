"""Random choices of an analysis: each has a stream of its own, so that one more of them changes no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

if TYPE_CHECKING:
    from reporter.analyses.base import Context, Corpus

MOST_LABEL = 80
_AT_ONCE = 512


def stream(seed: int, *what: str | int) -> np.random.Generator:
    """Return the random numbers of one purpose under a study's seed.

    Args:
        seed: the study's.
        what: the purpose, in words and numbers.
    """
    return np.random.default_rng([seed, *(crc32(str(part).encode()) for part in what)])


def evenly(count: int, most: int) -> list[int]:
    """Return at most ``most`` of ``count`` places, spread evenly from the first to the last."""
    if count <= most:
        return list(range(count))
    return [round(place) for place in np.linspace(0, count - 1, most).tolist()]


def drawn_texts(corpus: Corpus, size: int, context: Context) -> list[str]:
    """Return the first ``size`` distinct texts of a corpus in a random order.

    Texts in which the tokenizer finds no token are passed over. A smaller sample is the beginning of a larger one.

    Args:
        corpus: whose texts.
        size: how many at most.
        context: seed and tokenizer.
    """
    order = stream(context.seed, "texts").permutation(len(corpus.texts))
    found: dict[str, None] = {}
    for start in range(0, len(order), _AT_ONCE):
        texts = [corpus.texts[index] for index in order[start : start + _AT_ONCE].tolist()]
        found |= dict.fromkeys(readable(texts, context))
        if len(found) >= size:
            break
    return list(found)[:size]


def readable(texts: Sequence[str], context: Context) -> list[str]:
    """Return the texts in which the tokenizer finds a token, in their order."""
    from reporter.forward.measure import longest
    from reporter.texts.tokens import tokenise_texts

    model = context.model
    return [texts[found.index] for found in tokenise_texts(list(texts), model.tokenizer, longest(10**9, model))]


def label(text: str) -> str:
    """Return what a point is called: the first words of its text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= MOST_LABEL else line[: MOST_LABEL - 1].rstrip() + "…"
