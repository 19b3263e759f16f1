"""Classifiers of probes and corpus comparisons, cross-validated: a vector's classifier has not seen it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reporter.geometry.arrays import Bools, Floats, Ints
from reporter.geometry.clouds import ROUNDING
from reporter.geometry.intervals import of_units, student_interval, sums_of_units
from reporter.metrics._items import stream

if TYPE_CHECKING:
    import torch

Train = Callable[[Floats, Ints, int], Callable[[Floats], Ints]]
"""Given training vectors, their classes and the fold that is left out: a function that predicts classes of vectors."""

PENALTY = 0.1
"""λ of the linear classifier."""

LOGISTIC = (
    "The classifier is multinomial logistic regression. It minimises the mean of −log p(class) + (λ/2)·‖W‖² with λ = "
    "0.1 and free intercepts. From W = 0 it takes at most 100 steps of L-BFGS, or of Newton's method if texts are "
    "fewer than dimensions. This is scikit-learn's LogisticRegression with C = 1/(λ·n) for n training texts, and "
    "C = 2/(λ·n) for two classes."
)
STEPS = 40
RATE = 0.1  # over √d: a step of Adam moves every weight by about the rate, and a unit sums up d of them
DECAY = 3.0
_BETAS = (0.9, 0.999)

PERCEPTRON = (
    "The classifier has one hidden layer of rectified linear units (64 by default), with weights drawn from N(0, "
    f"2/inputs). It takes {STEPS} full-batch steps of AdamW on the mean of −log p(class), in float32 on the CPU. The "
    f"rate is {RATE}/√d for d dimensions and falls to 0 along a cosine; weight decay {DECAY:g}, moments 0.9 and 0.999."
)


STANDARDISED = (
    "Vectors are standardised with the mean and standard deviation of each dimension over the training folds. A "
    "deviation of at most 1e-5 of the dimension's root mean square is rounding, and the dimension is then 0."
)
WILSON = (
    "95 % CI over texts (Wilson). It is for the share of correct predictions of all folds together. Slightly too "
    "narrow, since classifiers of different folds share training texts."
)


@dataclass(frozen=True)
class Classified:
    """The outcome of one cross-validation.

    Args:
        right: whether the classifier that had not seen a vector predicted its class, (n,).
        predicted: the class that it predicted, (n,).
        memorised: share of its own training vectors whose class a classifier predicts, mean over folds.
    """

    right: Bools
    predicted: Ints
    memorised: float

    @property
    def accuracy(self) -> float:
        """Share of the vectors whose class was predicted."""
        return float(self.right.mean())


def linear(x: Floats, y: Ints, fold: int) -> Callable[[Floats], Ints]:
    """Train the linear classifier on standardised vectors, (n, d), and their classes, (n,)."""
    from sklearn.linear_model import LogisticRegression

    classes = np.unique(y)
    if len(classes) < 2:
        return lambda rows: np.full(len(rows), classes[0])
    # With two classes scikit-learn has one weight vector, w = w_1 − w_0: half the penalty.
    strength = (2 if len(classes) == 2 else 1) / (PENALTY * len(y))
    # W lies in the span of fewer rows than dimensions; there Newton's method takes a third of the time.
    span = np.linalg.qr(x.T)[0] if len(x) < x.shape[1] else None
    solver = "lbfgs" if span is None else "newton-cg"
    model = LogisticRegression(C=strength, tol=1e-5, max_iter=100, solver=solver)
    model.fit(x if span is None else x @ span, y)
    return lambda rows: np.asarray(model.predict(rows if span is None else rows @ span))


def one_hidden_layer(classes: int, hidden: int, seed: int, what: str) -> Train:
    """Return the classifier with one hidden layer; ``what`` it is trained on decides its first weights."""

    def train(x: Floats, y: Ints, fold: int) -> Callable[[Floats], Ints]:
        import torch

        weights = perceptron(x, y, classes, hidden, stream(seed, "first weights", what, fold))
        return lambda rows: np.asarray(_logits(torch.from_numpy(rows.astype(np.float32)), weights).argmax(dim=1))

    return train


def perceptron(x: Floats, y: Ints, classes: int, hidden: int, rng: np.random.Generator) -> list[torch.Tensor]:
    """Return weights (d, hidden), biases (hidden,), weights (hidden, classes), biases (classes,)."""
    import torch

    inputs, targets = torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)
    weights = [
        torch.from_numpy((rng.standard_normal(s) * (2 / s[0]) ** 0.5 if len(s) > 1 else np.zeros(s)).astype(np.float32))
        for s in [(x.shape[1], hidden), (hidden,), (hidden, classes), (classes,)]
    ]
    for weight in weights:
        weight.requires_grad_(True)
    firsts, seconds = [torch.zeros_like(w) for w in weights], [torch.zeros_like(w) for w in weights]
    for step in range(STEPS):
        rate = RATE / x.shape[1] ** 0.5 * (1 + np.cos(np.pi * step / STEPS)) / 2
        loss = torch.nn.functional.cross_entropy(_logits(inputs, weights), targets)
        slopes = torch.autograd.grad(loss, weights)
        # AdamW by hand: importing torch.optim's takes longer than all of this.
        with torch.no_grad():
            for weight, slope, first, second in zip(weights, slopes, firsts, seconds, strict=True):
                first.lerp_(slope, 1 - _BETAS[0])
                second.mul_(_BETAS[1]).addcmul_(slope, slope, value=1 - _BETAS[1])
                spread = (second / (1 - _BETAS[1] ** (step + 1))).sqrt_().add_(1e-8)
                weight.mul_(1 - rate * DECAY).addcdiv_(first, spread, value=-rate / (1 - _BETAS[0] ** (step + 1)))
    return [weight.detach() for weight in weights]


def _logits(x: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
    a, b, c, d = weights
    return (x @ a + b).relu() @ c + d


def stratified(y: Ints, folds: int, rng: np.random.Generator, units: Ints | None = None) -> Ints:
    """Return the fold of each vector, (n,): drawn at random, each class spread evenly over folds of one size.

    With clusters each is in one fold, and the largest ones choose first: the fold that has least of their classes.
    """
    if units is not None and len(np.unique(units)) < len(units):
        counts = sums_of_units(np.eye(y.max() + 1)[y], units) / np.bincount(y)
        held, fold_of = np.zeros((folds, counts.shape[1])), np.zeros(len(counts), dtype=np.int64)
        order = rng.permutation(len(counts))
        for unit in order[np.argsort(-counts[order].sum(axis=1), kind="stable")].tolist():
            fold_of[unit] = (held @ counts[unit]).argmin()
            held[fold_of[unit]] += counts[unit]
        return np.asarray(fold_of[np.unique(units, return_inverse=True)[1]])
    fold, start = np.empty(len(y), dtype=np.int64), 0
    for label in np.unique(y).tolist():
        rows = rng.permutation(np.flatnonzero(y == label))
        fold[rows] = (start + np.arange(len(rows))) % folds
        start += len(rows)
    return fold


def cross_validated(x: Floats, y: Ints, fold: Ints, train: Train) -> Classified:
    """Train on all folds but one and classify that one, for each fold."""
    predicted, memorised = np.zeros(len(y), dtype=np.int64), []
    for left_out in np.unique(fold).tolist():
        out = fold == left_out
        inside, outside = standardised(x[~out], x[out])
        predict = train(inside, y[~out], left_out)
        predicted[out] = predict(outside)
        memorised.append(float((predict(inside) == y[~out]).mean()))
    return Classified(predicted == y, predicted, float(np.mean(memorised)))


def standardised(inside: Floats, outside: Floats) -> tuple[Floats, Floats]:
    """Return both with each dimension standardised by the first; see ``STANDARDISED``."""
    mean, deviation = inside.mean(axis=0), inside.std(axis=0)
    varies = deviation > ROUNDING * np.sqrt(np.square(inside).mean(axis=0))
    factor = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
    return (inside - mean) * factor, (outside - mean) * factor


def all_the_same(x: Floats) -> bool:
    """Return whether all vectors are the same but for rounding."""
    return not np.any(standardised(x, x[:1])[0])


def paired(a: Bools, b: Bools, units: Ints | None = None) -> tuple[float, float, float]:
    """Return the mean of a − b and its 95 % interval by Student's t over units, cut at −1 and 1."""
    mean, low, high = student_interval(of_units(a.astype(np.float64) - b, units))
    return mean, max(-1.0, low), min(1.0, high)
