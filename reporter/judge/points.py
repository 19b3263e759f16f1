"""Values at common points (layers, training steps) with what is known of their uncertainty, and differences of them.

Two sources of uncertainty are kept apart:

- *Texts*: each number has an interval from its texts or batches. Numbers of different layers, models and checkpoints
  come from the same texts, so their errors are correlated. Of most main statistics the database has the parts of texts
  (``text_parts``), and Σ c_l v_l has the parts Σ c_l φ_l: whatever is compared is paired by text, and skewed texts make
  the interval longer on the side where it needs to be (:func:`reporter.geometry.intervals.errors_of`). Of others it
  does not. Errors of layers that move together are then taken as not negatively correlated; the standard error of a
  weighted sum is at most

      sqrt((Σ_{c_l>0} |c_l| s_l)² + (Σ_{c_l<0} |c_l| s_l)²)

  (within each sign as if perfectly correlated, so a mean over layers is no surer than one layer; between the signs as
  if independent). Numbers of a step from layer to layer share a layer with their neighbours and can be negatively
  correlated; for these the bound is Σ |c_l| s_l, which holds whatever the correlation. Both bounds overstate the
  error, so an interval covers at least what it says.
- *Models*: from three independent models on, the weighted sum is taken in each, and its mean over models has the
  standard error sd/√M and Student's t with M − 1 degrees of freedom. Models are measured on the same texts, whose error
  therefore does not average out: it is added in full (the mean over models of the text error). One model, or two, say
  nothing of others: their interval is the one over texts, and speaks of these models alone. Models that differ by less
  than rounding are no sample of anything: without a text error nothing is known then.

*Few texts*: an error from T texts has Student's t with T − 1 degrees of freedom. Without parts it is widened; fewer
than a dozen texts decide nothing (:mod:`reporter.geometry.intervals`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reporter.geometry.intervals import below, errors_of, freedom, quantile, text_error
from reporter.store.schema import Word

Array = NDArray[np.float64]
Bounds = tuple[float | None, float | None]
"""The ends of an interval, or what a number cannot exceed; None where that is not known."""

FEWEST_MODELS = 3
"""From how many independent models on their spread is taken as an error; with two, t has one degree of freedom."""
ROUNDING = 1e-6
"""Of the size of the numbers: what float32 leaves uncertain in a cosine or a mean."""


@dataclass(frozen=True)
class Estimates:
    """P numbers, each with its standard error; leading axes, where there are any, are repetitions.

    Args:
        value: the number, shape (..., P).
        error: standard errors, shape (..., P); infinite where nothing is known.
        df: degrees of freedom; infinite for the normal distribution.
        texts: the part of the error that is due to texts, shape (..., P); None where it is not known.
        parts: the parts of texts in that part, shape (..., P, G); None where they are not known, and errors are taken
            to be alike above and below.
        units: how many texts, or clusters, these are.
    """

    value: Array
    error: Array
    df: float
    texts: Array | None = None
    parts: Array | None = None
    units: float = np.inf

    @classmethod
    def of_parts(cls, value: Array, parts: Array, df: float) -> Estimates:
        """Return numbers whose error is that of their texts, shape (..., P) and (..., P, G)."""
        texts = np.asarray(np.linalg.norm(parts, axis=-1))
        return cls(value, texts, min(df, parts.shape[-1] - 1.0), texts, parts, df + 1)

    @cached_property
    def errors(self) -> tuple[Array, Array]:
        """The standard errors below and above the numbers, each of shape (..., P)."""
        if self.parts is None or self.texts is None:
            return self.error, self.error
        rest = np.maximum(np.square(self.error) - np.square(self.texts), 0.0)
        down, up = errors_of(self.parts, self.units)
        return np.sqrt(rest + np.square(down)), np.sqrt(rest + np.square(up))

    def above(self, bound: float | Array) -> Array:
        """Return the one-sided p-values of "the number is greater than ``bound``"."""
        return self._tail(self.value - bound, self.errors[0])

    def below(self, bound: float | Array) -> Array:
        """Return the one-sided p-values of "the number is less than ``bound``"."""
        return self._tail(bound - self.value, self.errors[1])

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return both ends of the interval at ``level``."""
        reach, (down, up) = quantile((1 + level) / 2, self.df), self.errors
        return self.value - reach * down, self.value + reach * up

    def minus(self, other: Estimates, paired: bool = False) -> Estimates:
        """Return the differences from other numbers, on the same texts if ``paired``, else on others."""
        value, df = self.value - other.value, min(self.df, other.df)
        if self.parts is None or other.parts is None or self.texts is None or other.texts is None:
            known = self.texts is not None and other.texts is not None
            error = np.hypot(max_of(self), max_of(other))
            return Estimates(value, error, df, error if known else None)
        rest = np.square(self.error) - np.square(self.texts) + np.square(other.error) - np.square(other.texts)
        parts = (
            self.parts - other.parts if paired else np.concatenate(np.broadcast_arrays(self.parts, -other.parts), -1)
        )
        texts = np.asarray(np.linalg.norm(parts, axis=-1))
        error = np.sqrt(np.maximum(rest, 0.0) + np.square(texts))
        return Estimates(value, error, df, texts, parts, min(self.units, other.units))

    def times(self, signs: Array) -> Estimates:
        """Return the numbers, each times 1 or −1."""
        parts = None if self.parts is None else self.parts * signs[..., None]
        return replace(self, value=self.value * signs, parts=parts)

    def weighted(self, weights: Array) -> Estimates:
        """Return weighted sums, (Q, P) by P numbers; without parts their errors go together, which overstates them."""
        value, size = self.value @ weights.T, np.abs(weights)
        if self.parts is not None and self.texts is not None:
            return Estimates.of_parts(value, weights @ self.parts, self.df)
        with np.errstate(invalid="ignore"):
            error = np.where(size > 0, size * self.error[..., None, :], 0.0).sum(axis=-1)
        return Estimates(value, error, self.df, error)

    def some(self, places: Sequence[int]) -> Estimates:
        """Return some of the P numbers."""
        texts = None if self.texts is None else self.texts[..., places]
        parts = None if self.parts is None else self.parts[..., places, :]
        return replace(self, value=self.value[..., places], error=self.error[..., places], texts=texts, parts=parts)

    def at(self, index: NDArray[np.int64]) -> Estimates:
        """Pick one of the P numbers, in each repetition; P is 1 then."""
        place = np.asarray(index)[..., None]
        value, error = (np.take_along_axis(side, place, -1) for side in (self.value, self.error))
        texts = None if self.texts is None else np.take_along_axis(self.texts, place, -1)
        parts = None if self.parts is None else np.take_along_axis(self.parts, place[..., None], -2)
        return replace(self, value=value, error=error, texts=texts, parts=parts)

    def _tail(self, by: Array, error: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(error > 0, by / error, np.where(by > 0, np.inf, -np.inf))
        return below(-z, self.df)


def measured(
    values: Array, ends: Sequence[Bounds], parts: Array | None, texts: int | None, bounds: Bounds, fixed: bool = False
) -> Estimates:
    """Return stored numbers with their errors over texts, P = K.

    Args:
        values: shape (K,).
        ends: of each the ends of its 95 % interval; None where it has none, and its error is infinite.
        parts: of texts in each, (K, G), which go before intervals; None where they are not known.
        texts: how many there are; None where intervals are not over texts.
        bounds: least and most that the numbers can be.
        fixed: whether the texts are no sample of others, so that only rounding is left.
    """
    df = np.inf if fixed else freedom(texts)
    if fixed:
        errors = np.full(len(values), ROUNDING * float(np.abs(values).max()))
    elif parts is not None:
        return Estimates.of_parts(values, parts, df)
    else:
        found = [text_error(value, *of, texts, bounds) for value, of in zip(values.tolist(), ends, strict=True)]
        errors = np.array([np.inf if error is None else error for error in found])
    return Estimates(values, errors, df, errors)


def max_of(estimates: Estimates) -> Array:
    """Return the larger of the errors below and above each number."""
    return np.maximum(*estimates.errors)


def over_models(
    values: Array, texts: Array | None, size: Array | float, df: float = np.inf, parts: Array | None = None
) -> Estimates:
    """Return means over models with their errors, as the head of this module says.

    Args:
        values: shape (..., M, P), one row for each independent model.
        texts: standard errors of the means from texts, shape (..., P); None where they are not known.
        size: how large the numbers are that the values come from, for rounding; shape (..., 1), or a number.
        df: degrees of freedom of the errors from texts.
        parts: the parts of texts in the means, shape (..., P, G), of which ``texts`` are the lengths.
    """
    models, mean = values.shape[-2], values.mean(axis=-2)
    least = np.broadcast_to(ROUNDING * np.asarray(size, dtype=np.float64), mean.shape)
    shared = None if texts is None else np.maximum(np.broadcast_to(texts, mean.shape), least)
    if models < FEWEST_MODELS:
        return Estimates(mean, np.full(mean.shape, np.inf) if shared is None else shared, df, shared, parts, df + 1)
    spread = values.std(axis=-2, ddof=1)
    if shared is None:
        return Estimates(mean, np.where(spread > least, spread / np.sqrt(models), np.inf), models - 1)
    return Estimates(mean, np.sqrt(spread**2 / models + shared**2), min(models - 1, df), shared, parts, df + 1)


def with_spread(
    texts: Estimates | None, value: Array, variance: float, least: float, df: float, shared: bool
) -> Estimates:
    """Return a number whose error is the spread between models and, in full, that of its texts, P = 1.

    Args:
        texts: the number with its error over texts alone; None where nothing is known of it.
        value: the number.
        variance: the squared standard error from models alone.
        least: the least error, which is rounding.
        df: degrees of freedom of ``variance``.
        shared: whether the error over texts is that of both sides of a difference.
    """
    if texts is None:
        return Estimates(value, np.maximum(np.sqrt([variance]), least), df)
    error = np.maximum(np.sqrt(variance + np.square(texts.error)), least)
    known = texts.error if shared else None
    parts = texts.parts if shared else None
    return Estimates(value, error, min(df, texts.df), known, parts, texts.units)


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
        parts: the parts of texts in the points of a model, shape (..., M, K, G) or one that broadcasts; None where they
            are not known, and bounds take their place.
        df: degrees of freedom of the errors.
    """

    values: Array
    errors: Array | None
    x: Array
    any_correlation: bool = False
    labels: tuple[str, ...] = ()
    what: str = "layer"
    parts: Array | None = None
    df: float = np.inf

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
        values = self.values @ weights.T
        if self.parts is not None:  # models read the same texts, so that what a text does is averaged, not its size
            parts = (weights @ self.parts).mean(axis=-3)
            parts = np.broadcast_to(parts, (*values.shape[:-2], *parts.shape[-2:]))
            return over_models(values, np.linalg.norm(parts, axis=-1), self.size, self.df, parts)
        texts = None if self.errors is None else self._text_error(weights).mean(axis=-2)
        return over_models(values, texts, self.size, self.df)

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
        errors = None if self.errors is None else _of_three(np.broadcast_to(self.errors, self.values.shape), np.max)
        values = _of_three(self.values, np.median)
        parts = None if self.parts is None else self._parts_of_medians()
        return replace(self, values=values, errors=errors, parts=parts)

    def _parts_of_medians(self) -> Array:
        assert self.parts is not None
        triples = np.stack([self.values[..., :-2], self.values[..., 1:-1], self.values[..., 2:]])
        middle = np.arange(1, len(self.x) - 1) - 1 + triples.argsort(axis=0)[1]  # which point each median is
        ends = np.zeros_like(middle[..., :1])
        which = np.concatenate([ends, middle, ends + len(self.x) - 1], axis=-1)
        parts = np.broadcast_to(self.parts, (*self.values.shape, self.parts.shape[-1]))
        return np.asarray(np.take_along_axis(parts, which[..., None], axis=-2))

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


def around(index: int, holds: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return a point and its neighbours as far as a condition holds without a gap; it holds for the point itself."""
    gaps = np.flatnonzero(~holds)
    first, last = gaps[gaps < index].max(initial=-1) + 1, gaps[gaps > index].min(initial=len(holds)) - 1
    return tuple(range(int(first), int(last) + 1))


# What a test finds before the correction for the number of claims turns it into a verdict.


LEVEL = 0.025  # one-sided: a 95 % interval that excludes the bound
FIXED = "the texts are fixed (`texts: fixed`), so numbers are compared as they are, up to rounding"
THESE_MODELS = "it is about these models, not about others like them"


@dataclass(frozen=True)
class Range:
    """The range in which a claim expects a number.

    Args:
        text: in words and rounded, such as ``> 0.01``; empty where there is nothing to say.
        low: the lower end; None where it is open or not known.
        high: the upper end.
        outside: whether the number is to lie outside of both ends.
    """

    text: str = ""
    low: float | None = None
    high: float | None = None
    outside: bool = False

    @classmethod
    def of(cls, claimed: str, by: float, digits: str = ".3g") -> Range:
        """Return where a claim of :func:`inequalities` wants its number."""
        if claimed in ("above", "below"):
            return cls(f"> {by:{digits}}", low=by) if claimed == "above" else cls(f"< {-by:{digits}}", high=-by)
        return cls(f"{'within' if claimed == 'same' else 'beyond'} ± {by:{digits}}", -by, by, claimed == "different")

    @property
    def known(self) -> bool:
        """Whether it has an end."""
        return self.low is not None or self.high is not None


@dataclass(frozen=True)
class Inequality:
    """A number and what it must exceed (or, with ``less``, stay below) for the claim to hold.

    Args:
        name: what the number is.
        estimates: the number, P = 1.
        bound: what it is compared with.
        less: whether the claim wants it to be less.
        fails: whether it is tested that the claim is false, so that the number lies on the other side of the bound.
        scale: among how many such tests it was chosen; p and interval are corrected for them (Bonferroni).
        shown: from the scale that it is tested on to the one that people read.
    """

    name: str
    estimates: Estimates
    bound: float | Array = 0.0
    less: bool = False
    fails: bool = False
    scale: float = 1.0
    shown: Callable[[float], float] = float

    @property
    def p(self) -> Array:
        """The one-sided p-value, corrected for ``scale``, shape (...)."""
        side = self.estimates.below if self.less != self.fails else self.estimates.above
        return np.minimum(1.0, self.scale * side(self.bound)[..., 0])

    @property
    def value(self) -> float:
        """The number, of a single repetition."""
        return self.shown(float(np.ravel(self.estimates.value)[0]))

    def interval(self, bounds: Bounds = (None, None)) -> Bounds:
        """Return the 95 % interval, of a single repetition, without what the number cannot be.

        It excludes the bound where p is at most 0.025. Its ends are None where the error is not known.
        """
        low, high = (float(np.ravel(end)[0]) for end in self.estimates.interval(1 - 2 * LEVEL / self.scale))
        if not np.isfinite([low, high]).all():
            return None, None
        return clipped((self.shown(low), self.shown(high)), bounds)

    @property
    def wanted(self) -> Range:
        """The range in which the claim expects the number."""
        end = self.shown(float(np.ravel(self.bound)[0]))
        return Range(f"< {end:.3g}", high=end) if self.less else Range(f"> {end:.3g}", low=end)


def deciding(holds: Sequence[Inequality], fails: Sequence[Inequality]) -> Inequality:
    """Return the inequality that the verdict rests on: the one whose p-value is that of the rule.

    A claim needs all of ``holds``, so the weakest speaks for it; one of ``fails`` is enough against it.
    """
    weakest, clearest = max(holds, key=lambda part: float(part.p)), min(fails, key=lambda part: float(part.p))
    return clearest if float(clearest.p) < float(weakest.p) else weakest


def inequalities(
    estimates: Estimates, claimed: str, by: float, name: str, shown: Callable[[float], float] = float
) -> tuple[tuple[Inequality, ...], tuple[Inequality, ...]]:
    """Return the inequalities that a claim about a number needs, and those of which any breaks it.

    Args:
        estimates: the number, P = 1.
        claimed: ``above`` or ``below`` by more than ``by``; ``same`` (within ± ``by``) or ``different`` (beyond it).
        by: the minimum difference.
        name: of the number.
        shown: see :class:`Inequality`.
    """

    def test(bound: float, less: bool, fails: bool = False) -> Inequality:
        return Inequality(name, estimates, bound, less, fails, shown=shown)

    if claimed in ("above", "below"):
        bound, less = (by, False) if claimed == "above" else (-by, True)
        return (test(bound, less),), (test(bound, less, True),)
    if claimed == "same":
        return (test(by, True), test(-by, False)), (test(by, True, True), test(-by, False, True))
    # "different" is two-sided: it needs one of two inequalities, and is broken only if both are
    bound, less = (by, False) if float(estimates.value[0]) >= 0 else (-by, True)
    closer = max((test(by, True), test(-by, False)), key=lambda inequality: float(inequality.p))
    return (test(bound, less),), (test(float(closer.bound), not closer.less, True),)


@dataclass(frozen=True)
class ShownProfile:
    """A profile as a reader sees it: what its points are called, and its numbers."""

    what: str
    labels: tuple[str, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Shown:
    """A number as a reader sees it.

    Args:
        statistic: what it is.
        wanted: where the claim wants it.
        value: the number.
        low: lower end of its 95 % interval; None where it is not known.
        high: upper end.
        p: its own p-value, two-sided; None where there is none.
    """

    statistic: str
    wanted: Range
    value: float | None
    low: float | None
    high: float | None
    p: float | None


@dataclass(frozen=True)
class Outcome:
    """One test of one claim.

    Args:
        holds: one-sided p-value that the claim is true; None where nothing could be tested.
        fails: that it is false.
        value: the number that decides.
        low: lower end of its 95 % interval.
        high: upper end.
        wanted: where the claim wants it.
        plain: the verdict where there are no p-values.
        why: why there are none.
        part: the inequality that decides, with its error; None where a number was compared as it stands.
        supported: what to show instead where the verdict is supported, if that is not the least sure part.
        models: over how many independent models an error was taken; 0 where it is one over texts.
        instead: what could be claimed instead, should this be inconclusive.
        seen: the profiles that were looked at, by model and corpus.
        each: what is found of each model by itself, of a claim over several.
        detail: keys of :class:`~reporter.store.schema.Verdict`'s detail.
    """

    holds: float | None
    fails: float | None
    value: float | None
    low: float | None = None
    high: float | None = None
    wanted: Range = field(default_factory=Range)
    plain: Word = "inconclusive"
    why: str = ""
    part: Inequality | None = None
    supported: Shown | None = None
    models: int = 0
    instead: str = ""
    seen: Mapping[tuple[str, str], ShownProfile] = field(default_factory=dict)
    each: Mapping[str, Outcome] = field(default_factory=dict)
    detail: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, needs: Sequence[Inequality], breaks: Sequence[Inequality], tested: bool, bounds: Bounds, **more: Any
    ) -> Outcome:
        """Return what a rule finds: all of ``needs`` must hold for the claim, one of ``breaks`` is enough against it.

        Args:
            needs: the inequalities that the claim needs.
            breaks: those that break it.
            tested: whether anything tells how sure they are.
            bounds: what their numbers cannot exceed.
            more: further fields, or others than those of the inequality that decides.
        """
        part = deciding(needs, breaks) if tested else needs[0]
        low, high = part.interval(bounds)
        fields = {"value": part.value, "low": low, "high": high, "wanted": part.wanted, "part": part}
        holds, fails = max(float(need.p) for need in needs), min(float(need.p) for need in breaks)
        return cls(**{"holds": holds if tested else None, "fails": fails if tested else None, **fields, **more})

    @property
    def tested(self) -> bool:
        """Whether there are p-values."""
        return self.holds is not None and self.fails is not None

    @property
    def p(self) -> float | None:
        """Twice the smaller of both p-values; None without any."""
        if self.holds is None or self.fails is None:
            return None
        return min(1.0, 2 * min(self.holds, self.fails))

    def word(self, p: float | None) -> Word:
        """Return the verdict at a two-sided p-value, corrected or not."""
        if p is None or self.holds is None or self.fails is None:
            return self.plain
        if p > 2 * LEVEL:
            return "inconclusive"
        return "supported" if self.holds <= self.fails else "refuted"

    def shown(self, word: Word) -> Shown:
        """Return the number to show beside a verdict."""
        if word == "supported" and self.supported is not None:
            return self.supported
        return Shown(str(self.detail.get("statistic", "")), self.wanted, self.value, self.low, self.high, self.p)

    def as_exact(self) -> Outcome:
        """Return the same for texts that are fixed, and models that speak of themselves: nothing is a sample.

        What is left of the error is rounding, so that the verdict has no p, and the number no interval.
        """
        word = self.word(self.p)
        shown = self.shown(word)
        why = FIXED if word != "inconclusive" else f"{FIXED}; they do not decide"
        unsure = {"ci_low": None, "ci_high": None, "p_holds": None, "p_fails": None}
        parts = [part | unsure for part in self.detail.get("parts", ())]
        plain = replace(self, holds=None, fails=None, value=shown.value, low=None, high=None, wanted=shown.wanted)
        plain = replace(plain, plain=word, why=why, part=None, supported=None)
        return plain.with_detail(statistic=shown.statistic, notes=[FIXED], **({"parts": parts} if parts else {}))

    def undecided(self, why: str) -> Outcome:
        """Return the same without a verdict: its numbers are shown, and nothing is tested."""
        each = {model: finding.undecided(why) for model, finding in self.each.items()}
        plain = replace(self, holds=None, fails=None, plain="inconclusive", why=why, supported=None, each=each)
        evidence = [
            row | ({"verdict": "inconclusive"} if "verdict" in row else {}) for row in self.detail.get("evidence", ())
        ]
        return plain.with_detail(**({"evidence": evidence} if evidence else {}))

    def evidence(self, model: str, corpus: str, **more: Any) -> dict[str, Any]:
        """Return a row of a claim's evidence: the number that decides for a model, and its verdict."""
        word = self.word(self.p)
        shown = self.shown(word)
        row = {"model": model, "corpus": corpus, "statistic": shown.statistic, "claimed": shown.wanted.text}
        return row | {"value": shown.value, "ci_low": shown.low, "ci_high": shown.high, **more, "verdict": word}

    def with_detail(self, **more: Any) -> Outcome:
        """Return the same with more to tell; notes are added to those that are there."""
        notes = [*self.detail.get("notes", ()), *more.pop("notes", ())]
        merged = self.detail | more | ({"notes": list(dict.fromkeys(notes))} if notes else {})
        return replace(self, detail=merged)


def every(findings: Sequence[Outcome]) -> Outcome:
    """Join findings that must all hold, such as those on several corpora; the one that decides speaks for all.

    The claim holds with the largest p-value (no correction is needed), and fails with the smallest times their number.
    Of those without a p-value one that is refuted decides, else one that is not decided; where all of these hold as
    they stand, the others decide.
    """
    plain = [finding for finding in findings if not finding.tested]
    for word in ("refuted", "inconclusive"):
        if decides := next((finding for finding in plain if finding.plain == word), None):
            return decides
    findings = [finding for finding in findings if finding.tested] or plain[:1]
    if len(findings) == 1:
        return findings[0]
    holds = max(finding.holds or 0.0 for finding in findings)
    fails = min(1.0, len(findings) * min(1.0 if f.fails is None else f.fails for f in findings))
    if fails < holds:
        decides = min(findings, key=lambda f: 1.0 if f.fails is None else f.fails)
        if decides.part is not None and decides.part.fails:  # chosen among so many, its interval is wider
            part = replace(decides.part, scale=decides.part.scale * len(findings))
            low, high = part.interval()
            decides = replace(decides, part=part)
            if decides.value == part.value:
                decides = replace(decides, low=low, high=high)
    else:
        decides = max(findings, key=lambda f: f.holds or 0.0)
    return replace(decides, holds=holds, fails=fails)


def joined_by_model(findings_by_model: Mapping[str, Sequence[Outcome]]) -> dict[str, Outcome]:
    """Return what is found of each model by itself, on all corpora together; nothing where there is but one model."""
    return (
        {model: every(findings) for model, findings in findings_by_model.items()} if len(findings_by_model) > 1 else {}
    )


def clipped(ends: Bounds, bounds: Bounds) -> Bounds:
    """Return the ends of an interval without what the number cannot be; None stays None."""
    least, most = (-math.inf if bounds[0] is None else bounds[0]), (math.inf if bounds[1] is None else bounds[1])
    low, high = (None if end is None else min(max(end, least), most) for end in ends)
    return low, high
