"""Shapes of a profile: for each, the statistic that is tested and the rules that support and refute it.

Every rule joins inequalities about weighted sums of the profile's points. A claim that needs all of them has the
largest of their p-values (an intersection-union test: no correction, no choice of the best); what needs one of several
has the smallest, times their number (Bonferroni). ``holds`` is the p-value of "the claim is true", ``fails`` that of
"it is false"; a verdict needs 0.025 on its side, which is a 95 % interval that excludes the bound, before the
correction for the number of claims (:mod:`reporter.claims.holm`).

The rules are calibrated in ``tests/claims/test_calibration.py`` on 14 simulated profiles of 13 points (flat, rising,
bells with and without an odd layer, sawteeth, U, M, plateau …), with noise that is independent, shared or wandering
from point to point, of one model (text error σ) and of six (σ from texts that they share, and as much again of their
own). In 800 repetitions at σ from 2 % to 30 % of the range, what is not so was supported in at most 0.3 % of them, and
what is so was refuted in at most 0.3 %: far below 5 %, because the errors are bounded from above
(:mod:`reporter.claims.points`). The price is power, which each rule states for independent noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reporter.claims.points import Array, Estimates, Points, span

FLAT = 0.10  # of the size of the mean
AGAINST = 0.10  # of the range
VALLEY = 0.25  # of the range
PEAK_WITHIN = 0.1  # of the depth


@dataclass(frozen=True)
class Inequality:
    """A number and what it must exceed (or, with ``less``, stay below).

    Args:
        name: what the number is.
        estimates: the number, P = 1.
        bound: what it is compared with.
        less: whether it must be less.
        scale: over how many such tests a failure is corrected.
    """

    name: str
    estimates: Estimates
    bound: float | Array = 0.0
    less: bool = False
    scale: float = 1.0

    @property
    def holds(self) -> Array:
        """The p-value of the inequality, shape (...)."""
        found = self.estimates.below(self.bound) if self.less else self.estimates.above(self.bound)
        return np.asarray(found[..., 0])

    @property
    def fails(self) -> Array:
        """The p-value of the opposite, corrected for ``scale``."""
        found = self.estimates.above(self.bound) if self.less else self.estimates.below(self.bound)
        return np.minimum(1.0, found[..., 0] * self.scale)


@dataclass(frozen=True)
class Ruling:
    """What a rule finds.

    Args:
        holds: p-value of the claim, shape (...).
        fails: p-value of its opposite, shape (...).
        parts: the inequalities that a reader should see; the first ones come first.
        definition: the rule in words.
        head: what to show as the value, where it is none of the parts: (name, value, low, high).
        remark: what else decided, in words; empty if nothing.
    """

    holds: Array
    fails: Array
    parts: tuple[Inequality, ...]
    definition: str
    head: tuple[str, float, float, float] | None = None
    remark: str = ""


def bell(points: Points, by: float = 0.0, tolerance: float | None = None) -> Ruling:
    """Test whether the middle third of the points lies above both outer thirds.

    The thirds are fixed beforehand, so no peak is chosen from the data. Supported: the mean of the middle third exceeds
    the mean of each outer third by more than ``by``, also when any one middle point is left out (no single layer makes
    a bell), and the profile shows no valley deeper than ``tolerance`` (running medians of three points). Refuted: it
    exceeds one of them by less than ``by``, or there is such a valley (Bonferroni over both and the valley, the valley
    over all pairs of points).

    Power at σ = 10 % of the range: a bell is supported in 100 % of the repetitions (six models: 100 %), a U refuted in
    100 % (99 %); a straight line in 70 % (3 %), at σ = 5 % in 100 % (100 %).
    """
    size = len(points.x)
    outer = size // 3
    first, middle, last = range(outer), list(range(outer, size - outer)), range(size - outer, size)
    ends = (("first", span(first, size)), ("last", span(last, size)))
    fewer = [[i for i in middle if i != out] for out in middle] if len(middle) > 1 else [middle]
    left_out = points.combine(np.array([span(part, size) - end for part in fewer for _, end in ends]))
    parts = tuple(
        Inequality(f"middle third minus {name} third", points.combine((span(middle, size) - end)[None]), by, scale=3)
        for name, end in ends
    )
    valley = Valley.of(points, tolerance)
    holds = np.where(valley.seen, 1.0, left_out.above(by).max(axis=-1))
    fails = np.minimum(np.minimum(parts[0].fails, parts[1].fails), np.minimum(1.0, 3 * valley.p))
    definition = (
        f"the middle third of the points lies above the first and the last third by more than {by:g}, whichever one "
        f"middle point is left out, with no valley deeper than {valley.shown} between two hills"
    )
    return Ruling(holds, fails, parts, definition, remark=valley.remark)


def rise_then_fall(points: Points, by: float = 0.0, tolerance: float | None = None) -> Ruling:
    """Test whether some point in between lies above both ends, wherever it is.

    In between, running medians of three points stand for the points, so that one odd point is no peak. Supported: one
    of the K − 2 inner points exceeds both ends by more than ``by`` (Bonferroni over the inner points), and the profile
    shows no valley deeper than ``tolerance``. Refuted: every inner point stays below one of the ends plus ``by``
    (Bonferroni over the two), or there is such a valley.

    Power at σ = 5 % of the range: a bell is supported in 100 % of the repetitions (six models: 98 %), at 10 % in 12 %
    (0 %); a U refuted in 100 % (0 %), at 2 % in 100 % (100 %).
    """
    size = len(points.x)
    smooth = points.smoothed()
    inner = np.eye(size)[1:-1]
    rise, fall = smooth.combine(inner - np.eye(size)[0]), smooth.combine(inner - np.eye(size)[-1])
    both = np.maximum(rise.above(by), fall.above(by))
    none = np.minimum(1.0, 2 * np.minimum(rise.below(by), fall.below(by))).max(axis=-1)
    valley = Valley.of(points, tolerance)
    holds = np.maximum(valley.absent, np.minimum(1.0, (size - 2) * both.min(axis=-1)))
    fails = np.minimum(1.0, 2 * np.minimum(none, valley.p))
    parts = tuple(
        Inequality(f"highest inner point minus {name}", _at(found, both.argmin(axis=-1)), by)
        for name, found in (("first point", rise), ("last point", fall))
    )
    definition = (
        f"an inner point (running median of three) lies above the first and the last by more than {by:g}, with no "
        f"valley deeper than {valley.shown} between two hills; corrected for {size - 2} inner points"
    )
    return Ruling(holds, fails, parts, definition, remark=valley.remark)


def increasing(points: Points, by: float = 0.0, tolerance: float | None = None, sign: int = 1) -> Ruling:
    """Test whether a profile rises and never falls (``sign`` −1: falls and never rises).

    Supported: the last third lies above the first by more than ``by``, and between no two points, earlier and later,
    does it fall by as much as ``tolerance`` (each pair is shown not to: an equivalence test, since a fall that noise
    may hide is no monotone profile). Refuted: the last third exceeds the first by less than ``by``, or between two
    points it falls by more than ``tolerance`` (Bonferroni over all pairs: one such fall is enough).

    Power at σ = 2 % of the range, with the tolerance of 10 %: a straight line is supported in 100 % of the repetitions
    (six models: 99 %), at 5 % in 1 % (0 %): "never falls" takes precise numbers, or a larger tolerance. At σ = 5 % a
    bell, a U, a sawtooth and a falling line are refuted in 100 % (100 %).
    """
    size = len(points.x)
    third = max(1, size // 3)
    points = Points(sign * points.values, points.errors, points.x, points.any_correlation)
    whole = points.combine((span(range(size - third, size), size) - span(range(third), size))[None])
    tol = AGAINST * points.spread if tolerance is None else np.full_like(points.spread, tolerance)
    earlier, later = np.triu_indices(size, 1)
    eye = np.eye(size)
    steps = points.combine(eye[later] - eye[earlier])
    pairs = len(earlier)
    worst = np.argmin(steps.value, axis=-1)
    way = ("rise", "fall") if sign > 0 else ("fall", "rise")
    rise = Inequality(f"{way[0]} from the first to the last third", whole, by, scale=2)
    fall = Estimates(-_at(steps, worst).value, _at(steps, worst).error, steps.df)
    parts = (rise, Inequality(f"largest {way[1]} from a point to a later one", fall, tol, less=True))
    holds = np.maximum(rise.holds, steps.above(-tol).max(axis=-1))
    fails = np.minimum(rise.fails, np.minimum(1.0, 2 * pairs * steps.below(-tol).min(axis=-1)))
    definition = (
        f"the {way[0]} from the first to the last third exceeds {by:g}, and no {way[1]} from a point to a later one is "
        f"larger than {_shown(tol)}; a larger one refutes it, corrected for {pairs} pairs"
    )
    return Ruling(holds, fails, parts, definition)


def flat(points: Points, tolerance: float | None = None) -> Ruling:
    """Test whether every point lies within ``tolerance`` of the mean over points.

    Supported: shown for every point, from above and from below (two one-sided tests each). Refuted: one point lies
    outside (Bonferroni over the points).

    Power at σ a sixth of the tolerance: a flat profile is supported in 99 % of the repetitions (six models: 82 %); a
    line that reaches 1.7 tolerances from its mean is refuted in 86 % (0 %), at σ a fifteenth in 100 % (100 %).
    """
    size = len(points.x)
    if tolerance is None:
        tol = FLAT * np.abs(points.mean.mean(axis=-1, keepdims=True))
    else:
        tol = np.full_like(points.spread, tolerance)
    off = points.combine(np.eye(size) - 1 / size)
    holds = np.maximum(off.below(tol), off.above(-tol)).max(axis=-1)
    far = Estimates(np.abs(off.value), off.error, off.df)
    fails = np.minimum(1.0, size * (far.above(tol) + far.above(-tol) * (off.error > 0)).min(axis=-1))
    furthest = _at(far, far.value.argmax(axis=-1))
    parts = (Inequality("largest distance of a point from the mean", furthest, tol, less=True),)
    definition = f"every point lies within {_shown(tol)} of the mean over the {size} points"
    return Ruling(holds, fails, parts, definition)


def peak_at(points: Points, at: float, within: float) -> Ruling:
    """Test whether the maximum lies in [at − within, at + within].

    Supported: some point inside exceeds every point outside (Bonferroni over the points inside). Refuted: some point
    outside exceeds every point inside (Bonferroni over those outside). The interval shown is that of the points which
    are not shown to lie below another one (Bonferroni over the points).

    Power at σ = 10 % of the range, within 0.2 of the middle: a bell is supported in 93 % of the repetitions (six
    models: 21 %, at 5 % in 100 %), a straight line refuted in 34 % (0 %), at 5 % in 99 % (43 %).

    Raises:
        ValueError: no point lies inside, or none outside.
    """
    inside = np.abs(points.x - at) <= within + 1e-9
    size = len(points.x)
    if not inside.any():
        raise ValueError(f"no point lies within {within:g} of {at:g}")
    if inside.all():
        raise ValueError(f"every point lies within {within:g} of {at:g}")
    p = points.differences().above(0.0).reshape(*points.mean.shape[:-1], size, size)  # [i, j]: v_i > v_j
    holds = np.minimum(1.0, inside.sum() * p[..., inside, :][..., ~inside].max(axis=-1).min(axis=-1))
    fails = np.minimum(1.0, (~inside).sum() * p[..., ~inside, :][..., inside].max(axis=-1).min(axis=-1))
    definition = f"the maximum lies between {at - within:g} and {at + within:g}"
    head = None
    if points.mean.ndim == 1:
        open_ = points.x[(size - 1) * p.min(axis=0) > 0.025]
        where = float(points.x[points.mean.argmax()])
        known = bool(np.isfinite(points.differences().error).all())
        head = ("place of the maximum", where, float(open_.min(initial=where)), float(open_.max(initial=where)))
        head = head if known else (*head[:2], float("nan"), float("nan"))
    return Ruling(holds, fails, (), definition, head)


@dataclass(frozen=True)
class Valley:
    """A valley between two hills, after running medians of three points.

    Args:
        depth: how far its bottom lies below the lower of the two hills in the measured profile, shape (...).
        tolerance: how deep it may be, shape (..., 1).
        p: p-value of "some valley is deeper", corrected for all ordered pairs of points, shape (...).
        absent: p-value of "none is": beside every point, all points of one side stay below it plus the tolerance
            (twice the smaller of both sides, the largest of all points).
    """

    depth: Array
    tolerance: Array
    p: Array
    absent: Array

    @classmethod
    def of(cls, points: Points, tolerance: float | None) -> Valley:
        """Look for the deepest valley."""
        smooth = points.smoothed()
        size, mean = len(points.x), smooth.mean
        tol = VALLEY * points.spread if tolerance is None else np.full_like(points.spread, tolerance)
        if size < 4:
            none = np.zeros(mean.shape[:-1])
            return cls(none, tol, none + 1, none)
        left = np.maximum.accumulate(mean, axis=-1)
        right = np.maximum.accumulate(mean[..., ::-1], axis=-1)[..., ::-1]
        depth = (np.minimum(left, right) - mean).max(axis=-1)
        over = smooth.differences()  # [i, j]: point i over point j
        p, q = (found.reshape(*mean.shape[:-1], size, size) for found in (over.above(tol), over.below(tol)))
        later = np.tri(size, k=-1, dtype=bool)  # i > j
        sides = (later.T, later)
        hills = np.maximum(*(np.where(side, p, 1.0).min(axis=-2) for side in sides))  # on both sides of j
        clear = np.minimum(*(np.where(side, q, 0.0).max(axis=-2) for side in sides))  # on one side of j
        return cls(
            depth, tol, np.minimum(1.0, size * (size - 1) * hills.min(axis=-1)), np.minimum(1.0, 2 * clear.max(axis=-1))
        )

    @property
    def seen(self) -> Array:
        """Whether the measured profile has one that is deeper."""
        return np.asarray(self.depth > self.tolerance[..., 0])

    @property
    def shown(self) -> str:
        """The tolerance as text."""
        return _shown(self.tolerance)

    @property
    def remark(self) -> str:
        """What to say of it where there is one, for a single profile."""
        if self.depth.ndim or not self.seen:
            return ""
        return f"the profile has a valley {float(self.depth):.3g} deep between two hills"


def _at(estimates: Estimates, index: NDArray[np.int64]) -> Estimates:
    """Pick one of P numbers in each repetition."""
    index = np.asarray(index)[..., None]
    return Estimates(
        np.take_along_axis(estimates.value, index, -1), np.take_along_axis(estimates.error, index, -1), estimates.df
    )


def _shown(bound: Array) -> str:
    return f"{float(bound.ravel()[0]):.3g}"


FEWEST: dict[str, int] = {"bell": 3, "rise-then-fall": 3, "increasing": 2, "decreasing": 2, "flat": 2, "peak-at": 2}


def rule(
    name: str,
    points: Points,
    *,
    by: float = 0.0,
    tolerance: float | None = None,
    at: float | None = None,
    within: float | None = None,
) -> Ruling:
    """Apply the rule of a shape.

    Raises:
        ValueError: there are too few points, or none where the peak should be.
    """
    if len(points.x) < FEWEST[name]:
        raise ValueError(f"'{name}' needs at least {FEWEST[name]} points, there are {len(points.x)}")
    if name == "bell":
        return bell(points, by, tolerance)
    if name == "rise-then-fall":
        return rise_then_fall(points, by, tolerance)
    if name == "flat":
        return flat(points, tolerance)
    if name == "peak-at":
        assert at is not None
        return peak_at(points, at, PEAK_WITHIN if within is None else within)
    return increasing(points, by, tolerance, sign=1 if name == "increasing" else -1)
