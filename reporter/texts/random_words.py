"""Texts without structure: words drawn independently, so that a model has nothing to go on but the words.

Source: Lee 2024 (convergence of hidden states to the final layer): k words drawn uniformly from the
vocabulary, k itself uniform, set against sentences of a grammar.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reporter.errors import ReporterError
from reporter.texts.draws import Draws
from reporter.texts.record import Record

VERSION = 1  # counts up whenever the same seed gives other texts


def random_words(words: Sequence[str], texts: int, bounds: tuple[int, int], seed: int) -> Iterator[Record]:
    """Yield texts of k words from ``words``, each as likely; k uniform in ``bounds``.

    Args:
        words: the words to draw from, in an order that is always the same.
        texts: how many texts.
        bounds: fewest and most words of a text.
        seed: another seed gives other texts.

    Raises:
        ReporterError: there are no words.
    """
    if not words:
        raise ReporterError("there are no words to draw from: the tokenizer has no whole words; leave out 'vocabulary'")
    draws = Draws(seed)
    for _ in range(texts):
        yield Record(" ".join(draws.pick(words) for _ in range(draws.between(*bounds))))
