"""Numbers with what is known of their uncertainty, their differences, and their means over models.

Two sources of uncertainty are kept apart:

- *Texts*: each number has an interval from its texts or batches. Numbers of different layers, models and checkpoints
  come from the same texts, so their errors are correlated. Of most main statistics the database has the parts of texts
  (``text_parts``), and Σ c_l v_l has the parts Σ c_l φ_l: whatever is compared is paired by text, and skewed texts make
  the interval longer on the side where it needs to be (:func:`reporter.geometry.intervals.errors_of`). Of others it
  does not. Errors of layers that move together are then taken as not negatively correlated; the standard error of a
  weighted sum is at most

      sqrt((Σ_{c_l>0} |c_l| s_l)² + (Σ_{c_l<0} |c_l| s_l)²), s_l on the side of l that faces that of the sum

  (within each sign as if perfectly correlated, so a mean over layers is no surer than one layer; between the signs as
  if independent). Numbers of a step from layer to layer share a layer with their neighbours and can be negatively
  correlated; for these the bound is Σ |c_l| s_l, which holds whatever the correlation. Both bounds overstate the
  error, so an interval covers at least what it says.
- *Models*: from three independent models on, the weighted sum is taken in each, and its mean over models has the
  standard error sd/√M and Student's t with M − 1 degrees of freedom. Models are measured on the same texts, whose error
  therefore does not average out: it is added in full (the mean over models of the text error). One model, or two, say
  nothing of others: their interval is the one over texts, and speaks of these models alone. Models that differ by less
  than rounding are no sample of anything: without a text error nothing is known then.

*Few texts*: an error from T texts has Student's t with T − 1 degrees of freedom, an error from the parts of G groups of
texts with G − 1. Without parts it is widened; fewer than a dozen texts decide nothing
(:mod:`reporter.geometry.intervals`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reporter.geometry.intervals import below, errors_of, errors_within, freedom, quantile, text_errors

Array = NDArray[np.float64]
Bounds = tuple[float | None, float | None]
"""The ends of an interval, or what a number cannot exceed; None where that is not known."""
Parts = Sequence[Array | None]
"""The parts of texts in some numbers; None where they are not known."""

_Pick = Callable[[Array, int], Array]

FEWEST_MODELS = 3
"""From how many independent models on their spread is taken as an error; with two, t has one degree of freedom."""
ROUNDING = 1e-6
"""Of the size of the numbers: what float32 leaves uncertain in a cosine or a mean."""


@dataclass(frozen=True)
class Estimates:
    """P numbers, each with its standard error; leading axes, where there are any, are models or repetitions.

    Args:
        value: the number, shape (..., P).
        error: standard errors, shape (..., P); infinite where nothing is known.
        df: degrees of freedom; infinite for the normal distribution.
        texts: the part of the error that is due to texts, shape (..., P); None where it is not known.
        parts: the parts of texts in that part, shape (..., P, G); None where they are not known.
        units: how many texts, or clusters, these are.
        tails: the errors below and above where they are not alike and no parts are known, each (..., P).
        fixed: whether the texts are no sample of others: the error is rounding, and there is no interval to show.
    """

    value: Array
    error: Array
    df: float = np.inf
    texts: Array | None = None
    parts: Array | None = None
    units: float = np.inf
    tails: tuple[Array, Array] | None = None
    fixed: bool = False

    @classmethod
    def of_parts(cls, value: Array, parts: Array, units: float, df: float = np.inf) -> Estimates:
        """Return numbers whose error is that of their texts, (..., P) and (..., P, G), of ``df`` or fewer."""
        texts = np.asarray(np.linalg.norm(parts, axis=-1))
        return cls(value, texts, min(freedom(units), parts.shape[-1] - 1.0, df), texts, parts, units)

    @classmethod
    def of_texts(cls, value: Array, error: Array, df: float = np.inf) -> Estimates:
        """Return numbers whose error is that of their texts without parts; infinite where it is not known."""
        return cls(value, error, df, error)

    @classmethod
    def of_pair(cls, value: float, low: float, high: float, texts: int | None) -> Estimates:
        """Return a stored difference on the same texts, P = 1, whose interval no test widens again."""
        down, up = (np.array([error]) for error in errors_within(value, low, high, texts))
        return cls.of_tails(np.array([value]), down, up, freedom(texts))

    @classmethod
    def of_tails(
        cls, value: Array, down: Array, up: Array, df: float = np.inf, known: bool = True, fixed: bool = False
    ) -> Estimates:
        """Return numbers with the errors below and above them, which are those of their texts if ``known``."""
        error = np.maximum(down, up)
        return cls(value, error, df, error if known else None, tails=(down, up), fixed=fixed)

    @property
    def known(self) -> bool:
        """Whether the error of every number is known."""
        return bool(np.isfinite(self.error).all())

    @cached_property
    def errors(self) -> tuple[Array, Array]:
        """The standard errors below and above the numbers, each of shape (..., P)."""
        if self.parts is None or self.texts is None:
            return self.tails or (self.error, self.error)
        rest = np.maximum(np.square(self.error) - np.square(self.texts), 0.0)
        down, up = errors_of(self.parts, self.units)
        return np.sqrt(rest + np.square(down)), np.sqrt(rest + np.square(up))

    @property
    def larger(self) -> Array:
        """The larger of the errors below and above each number."""
        return np.maximum(*self.errors)

    def above(self, bound: float | Array) -> Array:
        """Return the one-sided p-values of "the number is greater than ``bound``"."""
        return self._tail(self.value - bound, self.errors[0])

    def below(self, bound: float | Array) -> Array:
        """Return the one-sided p-values of "the number is less than ``bound``"."""
        return self._tail(bound - self.value, self.errors[1])

    @property
    def p(self) -> Array:
        """The two-sided p-values of "the number is 0"."""
        return np.asarray(np.minimum(1.0, 2 * np.minimum(self.above(0.0), self.below(0.0))))

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return both ends of the interval at ``level``."""
        reach, (down, up) = quantile((1 + level) / 2, self.df), self.errors
        return self.value - reach * down, self.value + reach * up

    def ends(self, bounds: Bounds = (None, None), level: float = 0.95) -> Bounds:
        """Return the interval of a single number within its bounds; (None, None) where there is none to show."""
        low, high = (float(np.ravel(end)[0]) for end in self.interval(level))
        shown = np.isfinite([low, high]).all() and not self.fixed
        return clipped((low, high), bounds) if shown else (None, None)

    def minus(self, other: Estimates, paired: bool = False) -> Estimates:
        """Return the differences from other numbers, on the same texts if ``paired``, else on others."""
        value, df = self.value - other.value, min(self.df, other.df)
        if self.parts is None or other.parts is None or self.texts is None or other.texts is None:
            (a, b), (c, d), known = self.errors, other.errors, self.texts is not None and other.texts is not None
            return Estimates.of_tails(value, np.hypot(a, d), np.hypot(b, c), df, known, self.fixed and other.fixed)
        rest = np.square(self.error) - np.square(self.texts) + np.square(other.error) - np.square(other.texts)
        if paired and self.parts.shape[-1] == other.parts.shape[-1]:
            parts = self.parts - other.parts
        else:
            shape = np.broadcast_shapes(self.parts.shape[:-1], other.parts.shape[:-1])
            both = [np.broadcast_to(part, (*shape, part.shape[-1])) for part in (self.parts, -other.parts)]
            parts = np.concatenate(both, axis=-1)
        texts = np.asarray(np.linalg.norm(parts, axis=-1))
        error = np.sqrt(np.maximum(rest, 0.0) + np.square(texts))
        return Estimates(value, error, df, texts, parts, min(self.units, other.units))

    def times(self, signs: Array) -> Estimates:
        """Return the numbers, each times 1 or −1."""
        parts = None if self.parts is None else self.parts * signs[..., None]
        tails = None
        if self.tails is not None:
            down, up = self.tails
            tails = np.where(signs > 0, down, up), np.where(signs > 0, up, down)
        return replace(self, value=self.value * signs, parts=parts, tails=tails)

    def weighted(self, weights: Array, any_correlation: bool = True) -> Estimates:
        """Return weighted sums; without parts their errors are bounded, as the head of this module says.

        Args:
            weights: (Q, P) for Q sums of the P numbers.
            any_correlation: whether errors of two numbers may be negatively correlated.
        """
        value = self.value @ weights.T
        if self.parts is not None:
            return Estimates.of_parts(value, weights @ self.parts, self.units, self.df)
        known, joined = np.isfinite(self.larger), np.add if any_correlation else np.hypot
        down, up = (np.where(known, side, 0.0) for side in self.errors)
        plus, minus = (np.clip(side, 0, None).T for side in (weights, -weights))
        ends = joined(down @ plus, up @ minus), joined(up @ plus, down @ minus)
        low, high = (np.where(~known @ np.abs(weights).T > 0, np.inf, end) for end in ends)
        return Estimates.of_tails(value, low, high, self.df, self.texts is not None, self.fixed)

    def some(self, places: Sequence[int]) -> Estimates:
        """Return some of the P numbers."""
        return self._picked(lambda array, axis: np.take(array, places, axis))

    def at(self, index: NDArray[np.int64]) -> Estimates:
        """Pick one of the P numbers, in each repetition; P is 1 then."""
        place = np.asarray(index)[..., None]
        return self._picked(
            lambda array, axis: np.take_along_axis(array, place if axis == -1 else place[..., None], axis)
        )

    def of_models(self, which: int | list[int]) -> Estimates:
        """Return the P numbers of one of M models, or of some in an order: (P,) or (m, P) of (M, P)."""
        return self._picked(lambda array, axis: array[which])

    def averaged(self) -> Estimates:
        """Return the means over models, (..., P) of (..., M, P): they read the same texts, so no error averages out."""
        value = self.value.mean(axis=-2)
        if self.parts is not None:
            parts = np.broadcast_to(self.parts.mean(axis=-3), (*value.shape, self.parts.shape[-1]))
            return Estimates.of_parts(value, parts, self.units, self.df)
        down, up = (np.broadcast_to(side.mean(axis=-2), value.shape) for side in self.errors)
        return Estimates.of_tails(value, down, up, self.df, self.texts is not None, self.fixed)

    def spread_by(self, variance: Array | float, least: Array | float) -> Estimates:
        """Return the numbers with a further variance in their errors, none of which is below ``least``."""
        errors = [np.sqrt(variance + np.square(np.maximum(side, least))) for side in (self.error, *(self.tails or ()))]
        fixed, tails = self.fixed and not np.any(variance), None if self.tails is None else (errors[1], errors[2])
        return replace(self, error=errors[0], tails=tails, fixed=fixed)

    @property
    def transposed(self) -> Estimates:
        """The numbers of M models or steps, (M, 1), as M numbers."""
        return self._picked(lambda array, axis: array[..., 0] if axis == -1 else array[..., 0, :])

    def _picked(self, pick: _Pick) -> Estimates:
        """Return some of the numbers: ``pick`` takes them from an array, along an axis."""
        return replace(
            self,
            value=pick(self.value, -1),
            error=pick(self.error, -1),
            texts=None if self.texts is None else pick(self.texts, -1),
            parts=None if self.parts is None else pick(self.parts, -2),
            tails=None if self.tails is None else (pick(self.tails[0], -1), pick(self.tails[1], -1)),
        )

    def _tail(self, by: Array, error: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(error > 0, by / error, np.where(by > 0, np.inf, -np.inf))
        return below(-z, self.df)


def measured(
    values: Array, ends: Sequence[Bounds], parts: Parts, texts: int | None, bounds: Bounds, fixed: bool = False
) -> Estimates:
    """Return stored numbers with their errors over texts, P = K.

    A number whose texts do not vary has the smallest error of the others; nothing is known if no number varies.

    Args:
        values: shape (K,).
        ends: of each the ends of its 95 % interval; None where it has none, and its error is infinite.
        parts: of texts in each, (G,), which go before intervals where all have them.
        texts: how many there are; None where intervals are not over texts.
        bounds: least and most that the numbers can be.
        fixed: whether the texts are no sample of others, so that only rounding is left.
    """
    if fixed:
        rounding = np.full(len(values), ROUNDING * float(np.abs(values).max()))
        return replace(Estimates.of_texts(values, rounding), fixed=True)
    every = [part for part in parts if part is not None]
    if len(every) == len(values):
        numbers = Estimates.of_parts(values, np.stack(every), math.inf if texts is None else texts)
    else:
        pairs = [text_errors(value, *of, texts, bounds) for value, of in zip(values.tolist(), ends, strict=True)]
        down, up = np.array([(np.inf, np.inf) if pair is None else pair for pair in pairs]).T
        numbers = Estimates.of_tails(values, down, up, freedom(texts))
    varies = numbers.error > 0
    if varies.all():
        return numbers
    least = numbers.error[varies].min() if varies.any() else np.inf
    if numbers.parts is not None and varies.any():
        return replace(numbers, error=np.where(varies, numbers.error, least))
    low, high = (np.where(varies, side, least) for side in numbers.errors)
    return Estimates.of_tails(values, low, high, numbers.df)


def stacked(numbers: Sequence[Estimates]) -> Estimates:
    """Return the numbers of several models as one, shape (M, P): all of them with parts, or none."""
    value = np.stack([number.value for number in numbers])
    df, units = min(number.df for number in numbers), min(number.units for number in numbers)
    parts = [number.parts for number in numbers if number.parts is not None]
    if len(parts) == len(numbers):
        every = Estimates.of_parts(value, np.stack(parts), units)
        return replace(every, error=np.stack([number.error for number in numbers]), df=df)
    down, up = (np.stack(sides) for sides in zip(*(number.errors for number in numbers), strict=True))
    known, fixed = all(number.texts is not None for number in numbers), all(number.fixed for number in numbers)
    return Estimates.of_tails(value, down, up, df, known, fixed)


def over_models(numbers: Estimates, size: Array | float) -> Estimates:
    """Return means over independent models with their errors, as the head of this module says.

    Args:
        numbers: shape (..., M, P), one row for each model.
        size: how large the numbers are that they come from, for rounding; shape (..., 1), or a number.
    """
    mean, models = numbers.averaged(), numbers.value.shape[-2]
    least = np.broadcast_to(ROUNDING * np.asarray(size, dtype=np.float64), mean.value.shape)
    over_texts = mean.texts is not None and np.isfinite(mean.texts).all()
    if models < FEWEST_MODELS:
        return mean.spread_by(0.0, least) if over_texts else mean
    spread = numbers.value.std(axis=-2, ddof=1)
    if not over_texts:
        return Estimates(mean.value, np.where(spread > least, spread / np.sqrt(models), np.inf), models - 1)
    return replace(mean.spread_by(spread**2 / models, least), df=min(models - 1, mean.df))


def bounds_of_difference(bounds: Bounds) -> Bounds:
    """Return what a difference of two numbers within bounds cannot exceed."""
    low, high = bounds
    return (None, None) if low is None or high is None else (low - high, high - low)


def clipped(ends: Bounds, bounds: Bounds) -> Bounds:
    """Return the ends of an interval without what the number cannot be; None stays None."""
    least, most = (-math.inf if bounds[0] is None else bounds[0]), (math.inf if bounds[1] is None else bounds[1])
    low, high = (None if end is None else min(max(end, least), most) for end in ends)
    return low, high
