"""Texts that mean nothing, made to match others: random characters, and random words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def random_characters(texts: Sequence[str], alphabet: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Return for each text one of the same length with white space where it has some, the rest drawn evenly.

    Args:
        texts: what to match.
        alphabet: characters that are drawn, each as likely.
        rng: draws them.
    """
    return [
        "".join(
            old if old.isspace() else alphabet[place]
            for old, place in zip(text, rng.integers(0, len(alphabet), len(text)).tolist(), strict=True)
        )
        for text in texts
    ]


def random_words(texts: Sequence[str], words: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Return for each text one of as many words, drawn evenly, with one space between two.

    Args:
        texts: what to match; words are what white space divides.
        words: what is drawn.
        rng: draws them.
    """
    return [
        " ".join(words[place] for place in rng.integers(0, len(words), len(text.split())).tolist()) for text in texts
    ]


def alphabet_of(texts: Sequence[str]) -> list[str]:
    """Return the characters of the texts other than white space, each once, sorted."""
    return sorted({character for text in texts for character in text if not character.isspace()})
