"""Cross-validation: every vector is classified by a classifier that has not seen it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reporter.analyses import _logistic as logistic
from reporter.analyses import _perceptron as perceptron
from reporter.analyses._samples import stream
from reporter.geometry.clouds import ROUNDING
from reporter.geometry.intervals import normal_interval

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Train = Callable[[Floats, Ints, int], Callable[[Floats], Ints]]
"""Given training vectors, their classes and the fold that is left out: a function that tells classes of vectors."""

STANDARDISED = (
    "each dimension minus its mean over its standard deviation, both of the training folds (0 where the deviation is "
    "at most 1e-5 of the dimension's root mean square: rounding)"
)
WILSON_SAID = (
    "95 % interval of Wilson for the share of right predictions, those of all folds together; a little too narrow, "
    "since classifiers of different folds share training texts"
)


@dataclass(frozen=True)
class Outcome:
    """What came of one cross-validation.

    Args:
        right: whether each vector's class was told rightly by the classifier that had not seen it, (n,).
        seen: share of its own training vectors that a classifier tells rightly, mean over folds.
    """

    right: Bools
    seen: float

    @property
    def accuracy(self) -> float:
        """Share of the vectors whose class was told rightly."""
        return float(self.right.mean())


def linear(classes: int) -> Train:
    """Return the linear classifier."""

    def train(x: Floats, y: Ints, fold: int) -> Callable[[Floats], Ints]:
        model = logistic.fit(x, y, classes)
        return lambda rows: logistic.predict(rows, model)

    return train


def one_hidden_layer(classes: int, hidden: int, seed: int, what: str) -> Train:
    """Return the classifier with one hidden layer.

    Args:
        classes: how many there are.
        hidden: units of the hidden layer.
        seed: the study's.
        what: what it is trained on, so that each classifier starts from weights of its own.
    """

    def train(x: Floats, y: Ints, fold: int) -> Callable[[Floats], Ints]:
        model = perceptron.fit(x, y, classes, hidden, stream(seed, "first weights", what, fold))
        return lambda rows: perceptron.predict(rows, model)

    return train


def stratified(y: Ints, folds: int, rng: np.random.Generator) -> Ints:
    """Return the fold of each vector, (n,): at random, each class spread evenly over the folds, the folds of one size.

    Args:
        y: class of each.
        folds: how many.
        rng: draws them.
    """
    found, start = np.empty(len(y), dtype=np.int64), 0
    for one in np.unique(y).tolist():
        rows = rng.permutation(np.flatnonzero(y == one))
        found[rows] = (start + np.arange(len(rows))) % folds
        start += len(rows)
    return found


def cross_validated(x: Floats, y: Ints, fold: Ints, train: Train) -> Outcome:
    """Train on all folds but one and classify that one, for each fold.

    Args:
        x: vectors as they are, (n, d); standardised here, with what the training folds know.
        y: class of each, (n,).
        fold: of each, (n,).
        train: makes a classifier.
    """
    right, seen = np.zeros(len(y), dtype=bool), []
    for one in np.unique(fold).tolist():
        out = fold == one
        inside, outside = standardised(x[~out], x[out])
        tell = train(inside, y[~out], one)
        right[out] = tell(outside) == y[out]
        seen.append(float((tell(inside) == y[~out]).mean()))
    return Outcome(right, float(np.mean(seen)))


def standardised(inside: Floats, outside: Floats) -> tuple[Floats, Floats]:
    """Return both with each dimension standardised by the first; see ``STANDARDISED``.

    Args:
        inside: training vectors, (m, d).
        outside: others, (n, d).
    """
    mean, deviation = inside.mean(axis=0), inside.std(axis=0)
    varies = deviation > ROUNDING * np.sqrt(np.square(inside).mean(axis=0))
    factor = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
    return (inside - mean) * factor, (outside - mean) * factor


def all_the_same(x: Floats) -> bool:
    """Return whether all vectors are the same but for rounding."""
    return not np.any(standardised(x, x[:1])[0])


def paired(a: Bools, b: Bools) -> tuple[float, float, float]:
    """Return the mean of a − b and its 95 % interval, from the normal approximation, cut at −1 and 1."""
    mean, low, high = normal_interval(a.astype(np.float64) - b)
    return mean, max(-1.0, low), min(1.0, high)
