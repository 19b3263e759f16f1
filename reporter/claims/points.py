"""Values at common points (layers, training steps) with what is known of their uncertainty, and differences of them.

Two sources of uncertainty are kept apart:

- *Texts*: each number has an interval from its texts or batches. Numbers of different layers come from the same texts,
  so their errors are correlated, and the database does not say how strongly. Errors of layers that move together are
  taken as not negatively correlated; then the standard error of a weighted sum Σ c_l v_l is at most

      sqrt((Σ_{c_l>0} |c_l| s_l)² + (Σ_{c_l<0} |c_l| s_l)²)

  (within each sign as if perfectly correlated, so a mean over layers is no surer than one layer; between the signs as
  if independent). Numbers of a step from layer to layer share a layer with their neighbours and can be negatively
  correlated; for these the bound is Σ |c_l| s_l, which holds whatever the correlation. Both bounds overstate the
  error, so an interval covers at least what it says.
- *Models*: with several models the weighted sum is taken in each, and its mean over models has the standard error
  sd/√M and Student's t with M − 1 degrees of freedom. Models are measured on the same texts, whose error therefore does
  not average out: it is added in full (the mean over models of the text error).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimates:
    """P numbers, each with its standard error; leading axes, where there are any, are repetitions.

    Args:
        value: shape (..., P).
        error: standard errors, shape (..., P); infinite where nothing is known.
        df: degrees of freedom; infinite for the normal distribution.
    """

    value: Array
    error: Array
    df: float

    def above(self, bound: float | Array) -> Array:
        """Return the one-sided p-values of "the number is greater than ``bound``"."""
        return self._tail(self.value - bound)

    def below(self, bound: float | Array) -> Array:
        """Return the one-sided p-values of "the number is less than ``bound``"."""
        return self._tail(bound - self.value)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return both ends of the interval at ``level``."""
        from scipy.special import ndtri, stdtrit

        at = (1 + level) / 2
        reach = self.error * (ndtri(at) if np.isinf(self.df) else stdtrit(self.df, at))
        return self.value - reach, self.value + reach

    def _tail(self, by: Array) -> Array:
        from scipy.special import ndtr, stdtr

        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(self.error > 0, by / self.error, np.where(by > 0, np.inf, -np.inf))
        return np.asarray(ndtr(-z) if np.isinf(self.df) else stdtr(self.df, -z), dtype=np.float64)


@dataclass(frozen=True)
class Points:
    """Values of M models at K common points.

    Args:
        values: shape (..., M, K).
        errors: standard errors from texts, the same shape or one that broadcasts; None where they are not known.
        x: where the points are: depths or training steps, shape (K,).
        any_correlation: whether errors of two points may be negatively correlated.
    """

    values: Array
    errors: Array | None
    x: Array
    any_correlation: bool = False

    @property
    def mean(self) -> Array:
        """The mean over models, shape (..., K)."""
        return np.asarray(self.values.mean(axis=-2))

    @property
    def spread(self) -> Array:
        """How far the mean over models ranges over its points, shape (..., 1)."""
        return np.asarray(np.ptp(self.mean, axis=-1, keepdims=True))

    def combine(self, weights: Array) -> Estimates:
        """Return the weighted sums Σ c_l v_l.

        Args:
            weights: shape (P, K).
        """
        sums = self.values @ weights.T  # (..., M, P)
        models = sums.shape[-2]
        texts = None if self.errors is None else self._text_error(weights)
        if models == 1:
            error = np.full(sums.shape[:-2] + sums.shape[-1:], np.inf) if texts is None else texts[..., 0, :]
            return Estimates(sums[..., 0, :], np.broadcast_to(error, sums[..., 0, :].shape), np.inf)
        variance = sums.var(axis=-2, ddof=1) / models
        if texts is not None:
            variance = variance + texts.mean(axis=-2) ** 2
        return Estimates(sums.mean(axis=-2), np.sqrt(variance), models - 1)

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
        return Points(_of_three(self.values, np.median), errors, self.x, self.any_correlation)

    def _text_error(self, weights: Array) -> Array:
        assert self.errors is not None
        up, down = self.errors @ np.clip(weights, 0, None).T, self.errors @ np.clip(-weights, 0, None).T
        return np.asarray(up + down if self.any_correlation else np.hypot(up, down))


def _of_three(values: Array, function: object) -> Array:
    triples = np.stack([values[..., :-2], values[..., 1:-1], values[..., 2:]])
    middle = function(triples, axis=0)  # type: ignore[operator]
    return np.concatenate([values[..., :1], middle, values[..., -1:]], axis=-1)


def span(where: range | list[int], size: int) -> Array:
    """Return the weights of a mean over some of ``size`` points."""
    weights = np.zeros(size)
    weights[list(where)] = 1 / len(where)
    return weights
