"""Peaks and dips: layers inside a model, or checkpoints within training, where a statistic is highest or lowest.

A profile over depth may have a second hill. One is looked for under the view that numbers are read under, and under
that with sinks, since the tokens that make a hill may be sinks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from reporter.claims.points import Array, Estimates, Points
from reporter.findings.question import Answer, Curve, Question
from reporter.findings.subjects import MATERIAL, ONE_DRAW, RANDOM, UNKNOWN, Subject
from reporter.findings.words import capital, number
from reporter.places import ranges

if TYPE_CHECKING:
    from reporter.claims.profiles import Profile
    from reporter.findings.subjects import Subjects

FEWEST = 4
"""Points of a profile below which nothing is said of its shape."""
FEWEST_OF_HILLS = 5
"""Points below which there are no two hills."""


@dataclass(frozen=True)
class Extreme:
    """Where the largest of some points is.

    Args:
        at: the largest.
        among: those that are not told apart from it, in order.
        p: of the least sure of the others, corrected for which it is compared with.
        end: the higher one of both ends.
        height: the largest minus that end.
        weights: what gives the height.
    """

    at: int
    among: tuple[int, ...]
    p: float
    end: int
    height: Estimates
    weights: Array


def extreme(subject: Subject, points: Points, least: float, level: float) -> Extreme | None:
    """Return where the largest point is, with the set of points not told apart from it; None for no inner peak.

    A point is told apart where another one is shown to be higher by more than ``least`` (one-sided, Bonferroni over the
    others), so that the truly highest is in the set with probability 1 − ``level`` or more. A peak is a set without
    both ends and of at most a third of the points.

    Args:
        subject: what the points are of.
        points: of one model, K of them.
        least: the smallest difference that counts.
        level: of the set.
    """
    size = len(points.x)
    over = subject.sure(points.differences())
    p = np.minimum(1.0, (size - 1) * over.above(least)).reshape(size, size)  # [i, j]: i is higher than j
    ruled_out = p.min(axis=0)
    at = int(points.mean.argmax())
    among = tuple(int(j) for j in np.union1d(np.flatnonzero(ruled_out > level), at))
    if among[0] == 0 or among[-1] == size - 1 or len(among) > (size + 2) // 3:
        return None
    end = 0 if points.mean[0] >= points.mean[-1] else size - 1
    weights = (np.eye(size)[at] - np.eye(size)[end])[None]
    others = np.delete(ruled_out, among)
    return Extreme(at, among, float(others.max()), end, subject.sure(points.combine(weights)), weights)


@dataclass(frozen=True)
class Hills:
    """Two hills of a profile with a dip between them.

    Args:
        high: the top of the higher one.
        low: the top of the other one.
        dip: the lowest point between them.
        among: points of the lower hill that are not told apart from its top, in order.
        lower: whether its top is shown to be lower than that of the other.
        p: of the least sure inequality, corrected.
        depth: the lower top minus the dip.
        weights: what gives the depth.
    """

    high: int
    low: int
    dip: int
    among: tuple[int, ...]
    lower: bool
    p: float
    depth: Estimates
    weights: Array


def hills(subject: Subject, points: Points, least: float, level: float) -> Hills | None:
    """Return two hills, each inside the profile; None where there are no two.

    Five points in order, low, high, low, high, low: both high ones are shown to be higher by more than ``least`` than
    the low ones beside them (one-sided, Bonferroni over all ordered pairs of points, so that whichever five are taken,
    and whatever else is said of pairs, holds with probability 1 − ``level`` or more).

    Args:
        subject: what the points are of.
        points: of one model, K of them.
        least: the smallest difference that counts.
        level: of everything that is said.
    """
    size = len(points.x)
    over = subject.sure(points.differences())
    higher = np.minimum(1.0, size * (size - 1) * over.above(least)).reshape(size, size)  # [i, j]: i is higher than j
    earlier = np.tri(size, k=-1, dtype=bool)  # [i, j]: j comes before i
    rise, fall = (np.where(side, higher, 1.0).min(axis=1) for side in (earlier, earlier.T))
    # [i, d]: i is the top of a hill before, or after, the dip d
    before = np.where(earlier.T, np.maximum(rise[:, None], higher), 1.0)
    after = np.where(earlier, np.maximum(fall[:, None], higher), 1.0)
    if not (dips := np.flatnonzero(np.maximum(before.min(axis=0), after.min(axis=0)) <= level).tolist()):
        return None
    mean = points.mean
    tops = {d: [int(np.where(side[:, d] <= level, mean, -np.inf).argmax()) for side in (before, after)] for d in dips}
    dip = max(dips, key=lambda d: min(mean[tops[d]]) - mean[d])
    first, second = tops[dip]
    low, high = (first, second) if mean[first] < mean[second] else (second, first)
    start = end = low
    while start - 1 != dip and start > 0 and higher[low, start - 1] > level:
        start -= 1
    while end + 1 != dip and end + 1 < size and higher[low, end + 1] > level:
        end += 1
    weights = (np.eye(size)[low] - np.eye(size)[dip])[None]
    p = float(max(before[first, dip], after[second, dip]))
    depth = subject.sure(points.combine(weights))
    return Hills(high, low, dip, tuple(range(start, end + 1)), bool(higher[high, low] <= level), p, depth, weights)


def ask(subjects: Subjects) -> Iterator[Question]:
    """Ask of each profile over depth where it is highest and where it is lowest, and whether it has two hills."""
    for subject in subjects.each("layer", "step"):
        profile = subject.profile(subject.view)
        if profile is not None and profile.errors is not None and len(profile.values) >= FEWEST:
            for sign in (1, -1):
                yield Question("extremes", partial(_answer, subject, profile, sign))
        for view in dict.fromkeys((subject.view, subjects.numbers.study.views[0])):
            profile = subject.profile(view)
            if profile is not None and profile.errors is not None and len(profile.values) >= FEWEST_OF_HILLS:
                yield Question("extremes", partial(_second, subject, view))


def signed(profile: Profile, sign: int) -> Profile:
    """Return a profile, upside down for a sign of −1."""
    return replace(profile, values=sign * profile.values)


def _answer(subject: Subject, profile: Profile, sign: int, level: float) -> Answer | None:
    points, least = subject.points(signed(profile, sign)), subject.least(profile.values)
    found = extreme(subject, points, least, level)
    if found is None:
        return None
    p, against, note = found.p, "", UNKNOWN
    base = subject.profile(subject.view, subject.baseline(RANDOM))
    if base is not None and base.errors is not None and base.labels == profile.labels:
        there = subject.sure(subject.points(signed(base, sign)).combine(found.weights))
        more = Estimates(found.height.value - there.value, np.hypot(found.height.error, there.error), there.df)
        p = max(p, min(1.0, (len(profile.values) - 1) * float(more.above(least)[0])))
        note = ONE_DRAW
        against = f"; and by more than with random weights, corrected for {len(profile.values) - 1} {subject.averaged}"
    value, ends = float(profile.values[found.at]), (profile.values[0], profile.values[-1])
    (low,), (high,) = found.height.interval()
    bottom, top = sorted((sign * float(low), sign * float(high)))
    where = [profile.labels[i] for i in found.among]
    title = subject.statistic.title
    verb = "peaks" if sign > 0 else "is lowest"
    second = _hills(subject, subject.view, level) if sign > 0 else None
    if second is not None and second.high != found.at:
        second = None
    if second is not None and not second.lower:  # it does not differ from the highest one
        says = f"{subject.named} {_both(subject, profile, second)}."
    else:
        says = f"{subject.named} {verb} at {subject.places([profile.labels[found.at]])}{subject.on}: {number(value)}, "
        says += " and ".join(
            f"{'against ' * (i == 0)}{number(ends[i])} at {subject.end(profile.labels[i])}" for i in (0, -1)
        )
        says += "." + _alike(subject, profile, found.at, found.among)
        says += "" if second is None else f" {_named(subject, profile, second)}"
    return Answer(
        says=says,
        full_name=subject.full_name,
        model=subject.model,
        corpus=subject.corpus,
        view=subject.view,
        value=sign * float(found.height.value[0]),
        interval=(bottom, top),
        p=p,
        effect=subject.effect(float(found.height.value[0]), float(value), float(profile.values[found.end])),
        what=f"{title}, {subject.places([profile.labels[found.at]], whole=False)} minus "
        f"{subject.end(profile.labels[found.end])}, the {'higher' if sign > 0 else 'lower'} of both ends",
        test=f"all {subject.averaged} but {ranges([label + subject.step for label in where])} are "
        f"{'lower' if sign > 0 else 'higher'} than another one by more than "
        f"{least:.2g}, corrected for {len(profile.values) - 1} comparisons each{against}",
        layers=(where[0], where[-1]),
        curves=(Curve(subject.model, profile.x, profile.values, number=value), *_curve(base)),
        mark=(float(profile.x[found.among[0]]), float(profile.x[found.among[-1]])),
        notes=(*profile.notes, note),
        read=((subject.model, subject.baseline(RANDOM)), (subject.view,), (subject.statistic.name,)),
    )


def _alike(subject: Subject, profile: Profile, at: int, among: tuple[int, ...]) -> str:
    """Say which layers do not differ from one; nothing where there is no other."""
    others = [profile.labels[i] for i in among if i != at]
    if not others:
        return ""
    verb = "do" if len(others) > 1 else "does"
    return f" {capital(subject.places(others, whole=False))} {verb} not differ significantly from it."


def _named(subject: Subject, profile: Profile, found: Hills) -> str:
    """Say where a second, lower hill is."""
    value = [number(profile.values[i]) for i in (found.low, found.dip)]
    at, dip = (subject.places([profile.labels[i]], whole=False) for i in (found.low, found.dip))
    says = f"A second, smaller peak is at {at}: {value[0]}, with {value[1]} at {dip} between them."
    return says + _alike(subject, profile, found.low, found.among)


def _both(subject: Subject, profile: Profile, found: Hills) -> str:
    """Say where two hills are of which neither is higher."""
    first, last = sorted((found.high, found.low))
    values = [number(profile.values[i]) for i in (first, last, found.dip)]
    at = f"{subject.places([profile.labels[first], profile.labels[last]])}{subject.on}"
    dip = subject.places([profile.labels[found.dip]], whole=False)
    says = f"peaks at {at}: {values[0]} and {values[1]}, which do not differ significantly"
    return f"{says}, with {values[2]} at {dip} between them"


def _hills(subject: Subject, view: str, level: float) -> Hills | None:
    """Return two hills of a profile with a dip that is worth a sentence, and that random weights have not."""
    profile = subject.profile(view)
    if profile is None or profile.errors is None or len(profile.values) < FEWEST_OF_HILLS:
        return None
    least = subject.least(profile.values)
    found = hills(subject, subject.points(profile), least, level)
    if found is None:
        return None
    base, p = subject.profile(view, subject.baseline(RANDOM)), found.p
    if base is not None and base.errors is not None and base.labels == profile.labels:
        there, size = subject.sure(subject.points(base).combine(found.weights)), len(profile.values)
        more = Estimates(found.depth.value - there.value, np.hypot(found.depth.error, there.error), there.df)
        p = max(p, min(1.0, size * (size - 1) * float(more.above(least)[0])))
    ends = (float(profile.values[i]) for i in (found.low, found.dip))
    if p > level or subject.effect(float(found.depth.value[0]), *ends) < MATERIAL:
        return None
    return replace(found, p=p)


def _second(subject: Subject, view: str, level: float) -> Answer | None:
    """Return a second, lower hill, unless there is a sentence about the highest one, or about both without sinks."""
    found, profile = _hills(subject, view, level), subject.profile(view)
    if found is None or profile is None or not found.lower:  # of equal hills that are no peak neither is a second one
        return None
    if view != subject.view and _hills(subject, subject.view, level) is not None:
        return None
    least = subject.least(profile.values)
    if view == subject.view and extreme(subject, subject.points(profile), least, level) is not None:
        return None
    base = subject.profile(view, subject.baseline(RANDOM))
    (low,), (high,) = found.depth.interval()
    value, dip = float(profile.values[found.low]), float(profile.values[found.dip])
    title = subject.statistic.title
    at, between = (subject.places([profile.labels[i]], whole=False) for i in (found.low, found.dip))
    including = "" if view == subject.view else ", sinks included"
    says = f"{subject.named} has two peaks over the {subject.averaged}{subject.on}{including}. "
    says += f"The higher one reaches {number(profile.values[found.high])} at "
    says += f"{subject.places([profile.labels[found.high]])}. {_named(subject, profile, found)}"
    return Answer(
        says=says,
        full_name=subject.full_name,
        model=subject.model,
        corpus=subject.corpus,
        view=view,
        value=float(found.depth.value[0]),
        interval=(float(low), float(high)),
        p=found.p,
        effect=subject.effect(float(found.depth.value[0]), value, dip),
        what=f"{title}, {at} minus {between}, the lowest between the two peaks",
        test=f"both peaks are higher by more than {least:.2g} than a point between them, and than a point on their "
        f"outer side, corrected for all {len(profile.values) * (len(profile.values) - 1)} pairs of {subject.averaged}"
        + ("; and the dip is deeper than with random weights" if base is not None else ""),
        layers=(profile.labels[found.among[0]], profile.labels[found.among[-1]]),
        curves=(Curve(subject.model, profile.x, profile.values), *_curve(base)),
        mark=(float(profile.x[found.among[0]]), float(profile.x[found.among[-1]])),
        notes=(*profile.notes, UNKNOWN if base is None else ONE_DRAW),
        read=((subject.model, subject.baseline(RANDOM)), (view,), (subject.statistic.name,)),
        fact=f"peaks of {subject.model} {view}" if view != subject.view else "",
    )


def _curve(base: Profile | None) -> tuple[Curve, ...]:
    return () if base is None else (Curve("random weights", base.x, base.values, own=False),)
