"""Values at common points: layers, or training steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from reporter.judge.estimates import ROUNDING, Array, Estimates, over_models


@dataclass(frozen=True)
class Points:
    """Values of M independent models at K common points.

    Args:
        numbers: shape (..., M, K), with errors over texts.
        x: where the points are: depths or training steps, shape (K,).
        any_correlation: whether errors of two points may be negatively correlated.
        labels: what the points are called: layers, depths or steps; empty to count them.
        what: what a label is: ``layer``, ``block``, ``depth`` or ``step`` (of training).
    """

    numbers: Estimates
    x: Array
    any_correlation: bool = False
    labels: tuple[str, ...] = ()
    what: str = "layer"

    @property
    def values(self) -> Array:
        """The values alone."""
        return self.numbers.value

    @property
    def mean(self) -> Array:
        """The mean over models, shape (..., K)."""
        return np.asarray(self.values.mean(axis=-2))

    @property
    def size(self) -> Array:
        """The largest number by its size, shape (..., 1)."""
        return np.asarray(np.abs(self.values).max(axis=(-2, -1)))[..., None]

    def least(self, effect: float) -> Array:
        """Return an effect, or what rounding makes where that is more, shape (..., 1)."""
        return np.maximum(effect, ROUNDING * self.size)

    def place(self, index: int) -> str:
        """Return what a point is called, such as ``3`` or ``0.25``."""
        return self.labels[index] if self.labels else str(index)

    def combine(self, weights: Array) -> Estimates:
        """Return the weighted sums Σ c_l v_l.

        Args:
            weights: shape (P, K).
        """
        return over_models(self.numbers.weighted(weights, self.any_correlation), self.size)

    def differences(self) -> Estimates:
        """Return v_i − v_j for every ordered pair of points, i-major, P = K²."""
        eye = np.eye(len(self.x))
        return self.combine((eye[:, None, :] - eye[None, :, :]).reshape(-1, len(self.x)))

    def smoothed(self) -> Points:
        """Return running medians of three points, so that one odd point neither makes nor hides a peak or a valley.

        The first and the last point stay as they are. A median has the parts of the point that it is; without parts its
        error is taken to be the largest of the three.
        """
        if len(self.x) < 4:
            return self
        numbers = self.numbers
        values = _of_three(numbers.value, np.median)
        if numbers.parts is not None:
            return replace(self, numbers=replace(numbers, value=values, parts=self._parts_of_medians(numbers.parts)))
        error = _of_three(np.broadcast_to(numbers.larger, values.shape), np.max)
        texts = None if numbers.texts is None else error
        return replace(self, numbers=Estimates(values, error, numbers.df, texts))

    def _parts_of_medians(self, parts: Array) -> Array:
        triples = np.stack([self.values[..., :-2], self.values[..., 1:-1], self.values[..., 2:]])
        middle = np.arange(1, len(self.x) - 1) - 1 + triples.argsort(axis=0)[1]  # which point each median is
        ends = np.zeros_like(middle[..., :1])
        which = np.concatenate([ends, middle, ends + len(self.x) - 1], axis=-1)
        every = np.broadcast_to(parts, (*self.values.shape, parts.shape[-1]))
        return np.asarray(np.take_along_axis(every, which[..., None], axis=-2))


def _of_three(values: Array, function: Callable[..., Array]) -> Array:
    triples = np.stack([values[..., :-2], values[..., 1:-1], values[..., 2:]])
    return np.concatenate([values[..., :1], function(triples, axis=0), values[..., -1:]], axis=-1)


def span(where: range | list[int], size: int) -> Array:
    """Return the weights of a mean over some of ``size`` points."""
    weights = np.zeros(size)
    weights[list(where)] = 1 / len(where)
    return weights


def around(index: int, holds: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return a point and its neighbours as far as a condition holds without a gap; it holds for the point itself."""
    gaps = np.flatnonzero(~holds)
    first, last = gaps[gaps < index].max(initial=-1) + 1, gaps[gaps > index].min(initial=len(holds)) - 1
    return tuple(range(int(first), int(last) + 1))
