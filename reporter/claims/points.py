"""Values at common points (layers, training steps) with what is known of their uncertainty, and differences of them.

Two sources of uncertainty are kept apart:

- *Texts*: each number has an interval from its texts or batches. Numbers of different layers come from the same texts,
  so their errors are correlated. Of a profile over depth of most headline statistics the database says how strongly
  (``layer_errors``), and a weighted sum Σ c_l v_l has the standard error sqrt(Σ c_l c_k C_lk), C the covariance of the
  errors: the layers are paired. Of others it does not. Errors of layers that move together are then taken as not
  negatively correlated; the standard error of a weighted sum is at most

      sqrt((Σ_{c_l>0} |c_l| s_l)² + (Σ_{c_l<0} |c_l| s_l)²)

  (within each sign as if perfectly correlated, so a mean over layers is no surer than one layer; between the signs as
  if independent). Numbers of a step from layer to layer share a layer with their neighbours and can be negatively
  correlated; for these the bound is Σ |c_l| s_l, which holds whatever the correlation. Both bounds overstate the
  error, so an interval covers at least what it says. Running medians have the bounds, too, of profiles of any kind.
- *Models*: from three independent models on, the weighted sum is taken in each, and its mean over models has the
  standard error sd/√M and Student's t with M − 1 degrees of freedom. Models are measured on the same texts, whose error
  therefore does not average out: it is added in full (the mean over models of the text error). One model, or two, say
  nothing of others: their interval is the one over texts, and speaks of these models alone. Models that differ by less
  than rounding are no sample of anything: without a text error nothing is known then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reporter.geometry.intervals import below, quantile

Array = NDArray[np.float64]

FEWEST_MODELS = 3
"""From how many independent models on their spread is taken as an error; with two, t has one degree of freedom."""
ROUNDING = 1e-6
"""Of the size of the numbers: what float32 leaves uncertain in a cosine or a mean."""


@dataclass(frozen=True)
class Estimates:
    """P numbers, each with its standard error; leading axes, where there are any, are repetitions.

    Args:
        value: shape (..., P).
        error: standard errors, shape (..., P); infinite where nothing is known.
        df: degrees of freedom; infinite for the normal distribution.
        texts: the part of the error that is due to texts, shape (..., P); None where it is not known.
    """

    value: Array
    error: Array
    df: float
    texts: Array | None = None

    def above(self, bound: float | Array) -> Array:
        """Return the one-sided p-values of "the number is greater than ``bound``"."""
        return self._tail(self.value - bound)

    def below(self, bound: float | Array) -> Array:
        """Return the one-sided p-values of "the number is less than ``bound``"."""
        return self._tail(bound - self.value)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return both ends of the interval at ``level``."""
        reach = self.error * self.quantile((1 + level) / 2)
        return self.value - reach, self.value + reach

    def quantile(self, at: float) -> float:
        """Return the quantile of Student's t, or of the normal distribution, that goes with the errors."""
        return quantile(at, self.df)

    def at(self, index: NDArray[np.int64]) -> Estimates:
        """Pick one of the P numbers, in each repetition; P is 1 then."""
        place = np.asarray(index)[..., None]
        value, error = (np.take_along_axis(side, place, -1) for side in (self.value, self.error))
        texts = None if self.texts is None else np.take_along_axis(self.texts, place, -1)
        return Estimates(value, error, self.df, texts)

    def _tail(self, by: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(self.error > 0, by / self.error, np.where(by > 0, np.inf, -np.inf))
        return below(-z, self.df)


def over_models(values: Array, texts: Array | None, size: Array | float) -> Estimates:
    """Return means over models with their errors, as the head of this module says.

    Args:
        values: shape (..., M, P), one row for each independent model.
        texts: standard errors of the means from texts, shape (..., P); None where they are not known.
        size: how large the numbers are that the values come from, for rounding; shape (..., 1), or a number.
    """
    models, mean = values.shape[-2], values.mean(axis=-2)
    least = np.broadcast_to(ROUNDING * np.asarray(size, dtype=np.float64), mean.shape)
    shared = None if texts is None else np.maximum(np.broadcast_to(texts, mean.shape), least)
    if models < FEWEST_MODELS:
        return Estimates(mean, np.full(mean.shape, np.inf) if shared is None else shared, np.inf, shared)
    spread = values.std(axis=-2, ddof=1)
    if shared is None:
        return Estimates(mean, np.where(spread > least, spread / np.sqrt(models), np.inf), models - 1)
    return Estimates(mean, np.sqrt(spread**2 / models + shared**2), models - 1, shared)


@dataclass(frozen=True)
class Points:
    """Values of M independent models at K common points.

    Args:
        values: shape (..., M, K).
        errors: standard errors from texts, the same shape or one that broadcasts; None where they are not known.
        x: where the points are: depths or training steps, shape (K,).
        any_correlation: whether errors of two points may be negatively correlated.
        labels: what the points are called: layers, depths or steps; empty to count them.
        what: what a label is: ``layer``, ``block``, ``depth`` or ``step`` (of training).
        covariance: of the errors of the points of a model, shape (..., M, K, K) or one that broadcasts; None where it
            is not known, and bounds take its place.
    """

    values: Array
    errors: Array | None
    x: Array
    any_correlation: bool = False
    labels: tuple[str, ...] = ()
    what: str = "layer"
    covariance: Array | None = None

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
        texts = None if self.errors is None else self._text_error(weights).mean(axis=-2)
        return over_models(self.values @ weights.T, texts, self.size)

    def differences(self) -> Estimates:
        """Return v_i − v_j for every ordered pair of points, i-major, P = K²."""
        eye = np.eye(len(self.x))
        return self.combine((eye[:, None, :] - eye[None, :, :]).reshape(-1, len(self.x)))

    def smoothed(self) -> Points:
        """Return running medians of three points, so that one odd point neither makes nor hides a hill or a valley.

        The first and the last point stay as they are. A median's error is taken to be the largest of the three.
        """
        if len(self.x) < 4:
            return self
        errors = None if self.errors is None else _of_three(np.broadcast_to(self.errors, self.values.shape), np.max)
        values = _of_three(self.values, np.median)
        covariance = None if self.covariance is None else _of_medians(self.covariance)
        return Points(values, errors, self.x, self.any_correlation, self.labels, self.what, covariance)

    def _text_error(self, weights: Array) -> Array:
        assert self.errors is not None
        if self.covariance is not None:
            return np.asarray(np.sqrt(np.maximum(((weights @ self.covariance) * weights).sum(axis=-1), 0.0)))
        up, down = self.errors @ np.clip(weights, 0, None).T, self.errors @ np.clip(-weights, 0, None).T
        return np.asarray(up + down if self.any_correlation else np.hypot(up, down))


def nonnegative(matrix: Array) -> Array:
    """Return the nearest symmetric matrix, of shape (..., K, K), that gives no weighted sum less than no variance.

    No weighted sum is surer for it.
    """
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def _of_medians(covariance: Array) -> Array:
    """Return the covariance of the errors of running medians, shape (..., K, K), from that of their points.

    A median moves by no more than one of its points does, so two come apart by no more than a point of the one and a
    point of the other: their difference is taken to be as unsure as the least sure of these nine.
    """
    own = np.diagonal(covariance, axis1=-2, axis2=-1)
    apart = own[..., :, None] + own[..., None, :] - 2 * covariance
    for axis in (-1, -2):
        apart = np.swapaxes(_of_three(np.swapaxes(apart, -1, axis), np.max), -1, axis)
    own = _of_three(own, np.max)
    found = (own[..., :, None] + own[..., None, :] - apart) / 2
    found[..., range(own.shape[-1]), range(own.shape[-1])] = own
    return nonnegative(found)


def _of_three(values: Array, function: object) -> Array:
    triples = np.stack([values[..., :-2], values[..., 1:-1], values[..., 2:]])
    middle = function(triples, axis=0)  # type: ignore[operator]
    return np.concatenate([values[..., :1], middle, values[..., -1:]], axis=-1)


def span(where: range | list[int], size: int) -> Array:
    """Return the weights of a mean over some of ``size`` points."""
    weights = np.zeros(size)
    weights[list(where)] = 1 / len(where)
    return weights
