"""The vocabulary: what its tokens are, what share of it each kind has, and where each token's vector lies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reporter.geometry.arrays import TINY, Floats, Ints
from reporter.geometry.components import Axes
from reporter.weights.kinds import StaticVectors
from reporter.weights.rows import VocabularyShare
from reporter.weights.tables import Repeats, to_point
from reporter.weights.token_classes import Token


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a model, column by column; V of each.

    Args:
        token_id: 0 … V − 1.
        token: how it reads; None where no token has the row.
        described: what it is.
        norm: ‖x‖.
        mean_cosine: cosine to the mean of all vectors that are not zero; NaN for a zero vector.
        mean_distance: distance to that mean.
        repeated: whether another row is exactly equal.
        pc: coordinates on the first three principal components of the token vectors, (V, 3).
    """

    token_id: Ints
    token: tuple[str | None, ...]
    described: tuple[Token, ...]
    norm: Floats
    mean_cosine: Floats
    mean_distance: Floats
    repeated: NDArray[np.bool_]
    pc: Floats


def describe(
    vectors: StaticVectors, described: Sequence[Token], norms: Floats, mean: Floats, axes: Axes | None, repeats: Repeats
) -> Vocabulary:
    """Put together what is known of each token.

    Args:
        vectors: the tables.
        described: what each token is.
        norms: of the tokens.
        mean: of their vectors.
        axes: their principal components; None where they do not vary.
        repeats: which are equal.
    """
    size = len(vectors.tokens)
    cosines, distances = to_point(vectors.tokens, mean)
    if np.linalg.norm(mean) <= TINY:
        cosines = np.full(size, np.nan)
    copies = np.bincount(repeats.first, minlength=size)[repeats.first] > 1
    pc = axes.coordinates(vectors.tokens) if axes else np.zeros((size, 3))
    return Vocabulary(np.arange(size), vectors.shown, tuple(described), norms, cosines, distances, copies, pc)


def shares(described: Sequence[Token]) -> list[VocabularyShare]:
    """Return how much of a vocabulary is of which class, written as part of a word, and in which script."""
    sorts: dict[str, Counter[str]] = {
        "class": Counter(token.kind for token in described),
        "subword": Counter("subword" if token.subword else "word" for token in described if token.subword is not None),
        "script": Counter(token.script for token in described if token.script),
    }
    return [
        VocabularyShare(by, name, count, count / counts.total())
        for by, counts in sorts.items()
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
