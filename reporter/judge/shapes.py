"""Shapes of a profile: for each, the statistic that is tested and the rules that support and refute it.

Every rule joins inequalities about weighted sums of the profile's points. A claim that needs all of them has the
largest of their p-values (an intersection-union test: no correction, no choice of the best); what needs one of several
has the smallest, times their number (Bonferroni). ``holds`` is the p-value of "the claim is true", ``fails`` that of
"it is false"; a verdict needs 0.025 on its side, which is a 95 % interval that excludes the bound, before the
correction for the number of claims (:mod:`reporter.judge.judging`).

No rule looks at the range of a profile to say what is small: one extreme point would set it. ``at_least`` is the
smallest effect that counts, in the statistic's unit; rounding (a millionth of the numbers' size) never counts.

The rules are calibrated in the tests on simulated profiles of known shape, with noise that is independent, shared or
wandering from point to point, of one to twelve models: ``python tests/oracles/claim_calibration.py`` prints the table,
which ``tests/judge/claims/README.md`` keeps. What is not so is supported far less often than in 5 % of the cases,
because the errors are bounded from above (:mod:`reporter.judge.estimates`); the price is power.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from reporter.judge.estimates import Array, Estimates
from reporter.judge.outcomes import LEVEL, Inequality, Range
from reporter.judge.points import Points, span

FLAT = 0.10  # of the size of the mean
VALLEY = 0.25  # of the peak's height
PEAK_WITHIN = 0.1  # of the depth


@dataclass(frozen=True)
class Ruling:
    """The result of a rule.

    Args:
        needs: the inequalities that must all hold for the claim to be true.
        breaks: those of which one is enough to make it false.
        definition: the rule in words.
        head: what to show as the value, where it is none of the numbers that are compared: its name, the value, its
            interval (None where it is not known) and the range in which the claim holds.
        positive: the one of ``needs`` to show of a supported claim, which it says and the others only do not
            contradict: how high a peak is rather than that no valley cuts it. None: the least sure one.
    """

    needs: tuple[Inequality, ...]
    breaks: tuple[Inequality, ...]
    definition: str
    head: tuple[str, float, tuple[float, float] | None, Range] | None = None
    positive: Inequality | None = None

    @property
    def holds(self) -> Array:
        """The p-value of the claim, shape (...)."""
        return np.asarray(np.max([part.p for part in self.needs], axis=0))

    @property
    def fails(self) -> Array:
        """The p-value of its opposite, shape (...)."""
        return np.asarray(np.min([part.p for part in self.breaks], axis=0))


def bell(points: Points, at_least: float = 0.0, tolerance: float | None = None) -> Ruling:
    """Test whether the middle third of the points lies above both outer thirds.

    The thirds are fixed beforehand, so no peak is chosen from the data. Supported: the mean of the middle third exceeds
    the mean of each outer third by more than ``at_least``, also when any one middle point is left out (no single layer
    makes a bell), and no valley is deeper than ``tolerance`` (see :func:`valleys`). Refuted: it exceeds one of them by
    less, or there is such a valley (Bonferroni over both and the valley, the valley over all pairs of points).
    """
    size, least = len(points.x), points.least(at_least)
    outer = size // 3
    first, middle, last = range(outer), list(range(outer, size - outer)), range(size - outer, size)
    ends = (("first", span(first, size)), ("last", span(last, size)))
    out = middle if len(middle) > 1 else [-1]
    weights = [span([i for i in middle if i != away], size) - end for away in out for _, end in ends]
    names = [
        f"middle third{f' without {points.what} {points.place(away)}' if away >= 0 else ''} minus {name} third"
        for away in out
        for name, _ in ends
    ]
    fewer = points.combine(np.array(weights))
    needs = (_chosen(fewer, _margin(fewer, least).argmin(axis=-1), names.__getitem__, least),)
    breaks = tuple(
        Inequality(
            f"middle third minus {name} third",
            points.combine((span(middle, size) - end)[None]),
            least,
            fails=True,
            scale=3,
        )
        for name, end in ends
    )
    allowed, absent, present = valleys(points, least, tolerance, tests=3)
    definition = (
        f"the middle third of the points lies above the first and the last third by more than {_text(least)}, "
        f"also without any one middle point, with no valley deeper than {_text(allowed)} between two peaks"
    )
    return Ruling((*needs, *absent), (*breaks, *present), definition, positive=needs[0])


def rise_then_fall(points: Points, at_least: float = 0.0, tolerance: float | None = None) -> Ruling:
    """Test whether some point in between lies above both ends, wherever it is.

    In between, running medians of three points stand for the points, so that one odd point is no peak. Supported: one
    of the K − 2 inner points exceeds both ends by more than ``at_least`` (Bonferroni over the inner points), and no
    valley is deeper than ``tolerance``. Refuted: every inner point stays below one of the ends plus ``at_least``
    (Bonferroni over the two), or there is such a valley.
    """
    size, smooth, least = len(points.x), points.smoothed(), points.least(at_least)
    inner = np.eye(size)[1:-1]
    gaps = smooth.combine(np.concatenate([inner - np.eye(size)[0], inner - np.eye(size)[-1]]))
    up, down = (p.reshape(*p.shape[:-1], 2, size - 2) for p in (gaps.above(least), gaps.below(least)))

    def name(index: int) -> str:
        end = ("first", "last")[index // (size - 2)]
        return f"{points.what} {points.place(1 + index % (size - 2))} minus the {end} point"

    peak = up.max(axis=-2).argmin(axis=-1)
    worse = np.take_along_axis(up, peak[..., None, None], -1)[..., 0].argmax(axis=-1)
    highest = _chosen(gaps, worse * (size - 2) + peak, name, least, scale=size - 2)
    low = down.min(axis=-2).argmax(axis=-1)
    lower = np.take_along_axis(down, low[..., None, None], -1)[..., 0].argmin(axis=-1)
    none = _chosen(gaps, lower * (size - 2) + low, name, least, fails=True, scale=4)
    allowed, absent, present = valleys(points, least, tolerance, tests=2)
    definition = (
        f"an inner point (running median of three) lies above the first and the last by more than {_text(least)}, with "
        f"no valley deeper than {_text(allowed)} between two peaks; corrected for {size - 2} inner points"
    )
    return Ruling((highest, *absent), (none, *present), definition, positive=highest)


def monotone(points: Points, at_least: float = 0.0, tolerance: float | None = None, sign: int = 1) -> Ruling:
    """Test whether a profile rises and never falls (``sign`` −1: falls and never rises).

    Supported: the last third lies above the first by more than ``at_least``, and between no two points, earlier and
    later, does it fall by as much as ``tolerance`` (``at_least`` if left out): each pair is shown not to, since a fall
    that noise may hide is no monotone profile. Refuted: the last third exceeds the first by less than ``at_least``, or
    between two points it falls by more than ``tolerance`` (Bonferroni over all pairs: one such fall is enough). So the
    largest fall decides, wherever it is, and not the way from end to end.
    """
    size, least = len(points.x), points.least(at_least)
    third = max(1, size // 3)
    ends = sign * (span(range(size - third, size), size) - span(range(third), size))[None]
    allowed = least if tolerance is None else points.least(tolerance)
    earlier, later = np.triu_indices(size, 1)
    eye = np.eye(size)
    steps = points.combine(eye[later] - eye[earlier])
    pairs, up = len(earlier), sign > 0
    # Of all changes the one furthest against the trend, in standard errors, decides on both sides.
    furthest = (sign * _margin(steps, -sign * allowed)).argmin(axis=-1)
    way = ("rise", "fall") if up else ("fall", "rise")

    def name(index: int) -> str:
        change = sign * float(steps.value[index])
        kind = f"largest {way[1]}" if change < 0 else f"smallest {way[0]}"
        return f"{kind}, {points.what} {points.place(int(earlier[index]))} → {points.place(int(later[index]))}"

    bound = -allowed if up else allowed
    worst = _chosen(steps, furthest, name, bound, less=not up)
    breach = _chosen(steps, furthest, name, bound, less=not up, fails=True, scale=2 * pairs)
    whole = points.combine(ends * sign)
    trend, no_trend = (
        Inequality(
            "last third minus first third", whole, sign * least, less=not up, fails=fails, scale=2 if fails else 1
        )
        for fails in (False, True)
    )
    definition = (
        f"the {way[0]} from the first to the last third exceeds {_text(least)}, and no {way[1]} from a point to a "
        f"later one is larger than {_text(allowed)}; a larger one refutes it, corrected for {pairs} pairs"
    )
    return Ruling((worst, trend), (breach, no_trend), definition)


def flat(points: Points, at_least: float = 0.0, tolerance: float | None = None) -> Ruling:
    """Test whether every point lies within ``tolerance`` of the mean over points.

    Left out, it is a tenth of the mean's size (flat is said relative to how high the profile lies, not to how far it
    ranges), and ``at_least`` where that is more. Supported: shown for every point, from above and from below (two
    one-sided tests each). Refuted: one point lies outside (Bonferroni over the points and both sides).
    """
    size = len(points.x)
    height = np.abs(points.mean.mean(axis=-1, keepdims=True))
    allowed = points.least(tolerance) if tolerance is not None else np.maximum(FLAT * height, points.least(at_least))
    signed = points.combine(np.concatenate([np.eye(size), -np.eye(size)]) - np.repeat([[1], [-1]], size, axis=0) / size)

    def name(index: int) -> str:
        side = "above" if index < size else "below"
        return f"distance of {points.what} {points.place(index % size)} {side} the mean"

    furthest = _chosen(signed, signed.below(allowed).argmax(axis=-1), name, allowed, less=True)
    outside = signed.above(allowed).argmin(axis=-1)
    breach = _chosen(signed, outside, name, allowed, less=True, fails=True, scale=2 * size)
    return Ruling(
        (furthest,), (breach,), f"every point lies within {_text(allowed)} of the mean over the {size} points"
    )


def peak_at(points: Points, at: float, within: float, at_least: float = 0.0) -> Ruling:
    """Test whether the maximum lies in [at − within, at + within].

    A point is ruled out as the maximum where another one is shown to lie higher by more than ``at_least`` (Bonferroni
    over the K − 1 others). Supported: all points outside are ruled out. Refuted: all points inside are. The number
    shown is the place of the maximum, its interval that of the points which are not ruled out, so that the interval
    decides. Where a point in between is ruled out there is no such interval, and the difference that decides is shown.

    Raises:
        ValueError: no point lies inside, or none outside.
    """
    inside = np.abs(points.x - at) <= within + 1e-9
    size, least = len(points.x), points.least(at_least)
    if not inside.any():
        raise ValueError(f"no point lies within {within:g} of {at:g}; raise `within`")
    if inside.all():
        raise ValueError(f"every point lies within {within:g} of {at:g}; lower `within`")
    over = points.differences()  # [i, j]: point i over point j
    p = over.above(least).reshape(*points.mean.shape[:-1], size, size)
    best, ruled_out = p.argmin(axis=-2), p.min(axis=-2)

    def weakest(candidates: NDArray[np.bool_], fails: bool) -> Inequality:
        j = np.where(candidates, ruled_out, -1.0).argmax(axis=-1)
        i = np.take_along_axis(best, j[..., None], -1)[..., 0]

        def name(index: int) -> str:
            return f"{points.what} {points.place(index // size)} minus {points.what} {points.place(index % size)}"

        # A point inside speaks against the claim once it is ruled out, so the side that is tested is the same.
        picked = over.at(i * size + j)
        label = name(int(i * size + j)) if np.ndim(j) == 0 else ""
        return Inequality(label, picked, least, less=fails, fails=fails, scale=size - 1)

    definition = f"the maximum lies between {at - within:g} and {at + within:g}: each point outside is lower than "
    definition += f"another point by more than {_text(least)}"
    needs, breaks = weakest(~inside, False), weakest(inside, True)
    head = None
    if points.mean.ndim == 1:
        where = float(points.x[points.mean.argmax()])
        left = np.union1d(np.flatnonzero((size - 1) * ruled_out > LEVEL), points.mean.argmax())
        ends = (float(points.x[left[0]]), float(points.x[left[-1]]))
        certain = bool(np.isfinite(over.error).all())
        if left[-1] - left[0] + 1 == len(left):
            claimed = Range(f"> {at - within:g} and < {at + within:g}", at - within, at + within)
            head = ("position of the maximum", where, ends if certain else None, claimed)
        else:
            definition += f"; the highest point is {points.what} {points.place(int(points.mean.argmax()))}"
    return Ruling((needs,), (breaks,), definition, head)


def valleys(
    points: Points, least: Array, tolerance: float | None, tests: int
) -> tuple[Array, tuple[Inequality, ...], tuple[Inequality, ...]]:
    """Test for valleys between two peaks, after running medians of three points.

    A valley at a point is as deep as the point lies below the lower of the two peaks beside it. One that is a quarter
    as deep as the peak is high (its top over the higher end of the profile) makes two peaks of one.

    Args:
        points: the points.
        least: the smallest effect.
        tolerance: how deep a valley may be; by default a quarter of the peak's height.
        tests: for how many tests one that there is a valley is corrected, besides all ordered pairs of points.

    Returns:
        The tolerance, shape (..., 1), the test that there is no valley, and the test that there is one.
    """
    size, smooth = len(points.x), points.smoothed()
    mean, over = smooth.mean, smooth.differences()  # v_i − v_j for every pair, P = K²
    height = mean.max(axis=-1, keepdims=True) - np.maximum(mean[..., :1], mean[..., -1:])
    allowed = np.maximum(least, VALLEY * height) if tolerance is None else points.least(tolerance)
    if size < 4:
        return allowed, (), ()

    def name(index: int) -> str:
        bottom, top = (points.place(place) for place in (index % size, index // size))
        return f"depth of the valley at {points.what} {bottom}, below {top}"

    def test(p: Array, sign: int, scale: float) -> tuple[Inequality, ...]:
        later = np.tri(size, k=-1, dtype=bool)  # [i, j]: i > j
        # An outermost point has a side with no points, which is clear.
        pairs = sign * p.reshape(*p.shape[:-1], size, size)
        before, after = (np.where(side, pairs, -2.0) for side in (later.T, later))
        sides = np.stack([before.max(axis=-2), after.max(axis=-2)], axis=-2)  # (..., 2, K)
        rows = np.stack([before.argmax(axis=-2), after.argmax(axis=-2)], axis=-2)
        index = sides.min(axis=-2).argmax(axis=-1)
        side = np.take_along_axis(sides, index[..., None, None], -1)[..., 0].argmin(axis=-1)
        row = np.take_along_axis(np.take_along_axis(rows, index[..., None, None], -1)[..., 0], side[..., None], -1)[
            ..., 0
        ]
        return (_chosen(over, row * size + index, name, allowed, less=True, fails=sign < 0, scale=scale),)

    # None: beside every point, all points of one side stay below it plus the tolerance; twice the smaller p of both
    # sides, the largest of all points.
    same = (smooth.values[..., :, None] == smooth.values[..., None, :]).all(axis=-3)  # pairs of one number
    absent = np.where(same.reshape(*same.shape[:-2], -1), 0.0, over.below(allowed))
    return allowed, test(absent, 1, 2), test(over.above(allowed), -1, tests * size * (size - 1))


def _chosen(
    estimates: Estimates,
    index: NDArray[np.int64],
    name: Callable[[int], str],
    bound: Array,
    *,
    less: bool = False,
    fails: bool = False,
    scale: float = 1.0,
) -> Inequality:
    called = name(int(index)) if np.ndim(index) == 0 else ""
    return Inequality(called, estimates.at(index), bound, less, fails, scale)


def _margin(estimates: Estimates, bound: Array) -> Array:
    finite = np.isfinite(estimates.error)
    error = np.where(finite, np.maximum(estimates.error, np.finfo(np.float64).tiny), 1.0)
    return np.asarray(np.where(finite, (estimates.value - bound) / error, 0.0))


def _text(bound: Array) -> str:
    return f"{float(bound.ravel()[0]):.3g}"


FEWEST: dict[str, int] = {"bell": 3, "rise-then-fall": 3, "increasing": 2, "decreasing": 2, "flat": 2, "peak-at": 2}


def rule(
    name: str,
    points: Points,
    *,
    at_least: float = 0.0,
    tolerance: float | None = None,
    at: float | None = None,
    within: float | None = None,
) -> Ruling:
    """Apply the rule of a shape.

    Raises:
        ValueError: there are too few points, or none where the peak should be.
    """
    if len(points.x) < FEWEST[name]:
        raise ValueError(f"'{name}' needs at least {FEWEST[name]} points, got {len(points.x)}")
    if name == "peak-at":
        assert at is not None
        return peak_at(points, at, PEAK_WITHIN if within is None else within, at_least)
    rules = {"bell": bell, "rise-then-fall": rise_then_fall, "flat": flat, "increasing": monotone}
    return rules.get(name, partial(monotone, sign=-1))(points, at_least, tolerance)
