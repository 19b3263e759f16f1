"""Peaks and dips: layers inside a model, or checkpoints within training, where a statistic is highest or lowest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from reporter.claims.points import Array, Estimates, Points
from reporter.findings.question import Answer, Curve, Question
from reporter.findings.subjects import ONE_DRAW, RANDOM, UNKNOWN, Subject
from reporter.findings.words import end, layers, number

if TYPE_CHECKING:
    from reporter.claims.profiles import Profile
    from reporter.findings.subjects import Subjects

FEWEST = 4
"""Points of a profile below which nothing is said of its shape."""


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


def ask(subjects: Subjects) -> Iterator[Question]:
    """Ask of each profile over depth where it is highest and where it is lowest."""
    for subject in subjects.each("layer", "step"):
        profile = subject.profile(subject.view)
        if profile is None or profile.errors is None or len(profile.values) < FEWEST:
            continue
        for sign in (1, -1):
            yield Question("extremes", partial(_answer, subject, profile, sign))


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
        against = f"; and by more than with random weights, corrected for {len(profile.values) - 1} layers"
    value, ends = profile.values[found.at], (profile.values[0], profile.values[-1])
    (low,), (high,) = found.height.interval()
    bottom, top = sorted((sign * float(low), sign * float(high)))
    where = [profile.labels[i] for i in found.among]
    depth, title = subject.study.depth(subject), subject.statistic.title
    verb = "peaks" if sign > 0 else "is lowest"
    says = f"{subject.named} {verb} at layer {profile.labels[found.at]} of {depth}{subject.on}: "
    says += f"{number(value)}, against {number(ends[0])} at {end(profile.labels[0], depth)} and {number(ends[1])} at "
    says += end(profile.labels[-1], depth)
    others = [at for at in where if at != profile.labels[found.at]]
    says += f". Layer{'s' * (len(others) > 1)} {layers(others)} cannot be told apart from it." if others else "."
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
        what=f"{title}, layer {profile.labels[found.at]} minus layer {profile.labels[found.end]}, the "
        f"{'higher' if sign > 0 else 'lower'} of both ends",
        test=f"every layer but {layers(where)} is {'lower' if sign > 0 else 'higher'} than another one by more than "
        f"{least:.2g}, corrected for {len(profile.values) - 1} comparisons each{against}",
        layers=(where[0], where[-1]),
        curves=(Curve(subject.model, profile.x, profile.values), *_curve(base)),
        mark=(float(profile.x[found.among[0]]), float(profile.x[found.among[-1]])),
        notes=(*profile.notes, note),
        read=((subject.model, subject.baseline(RANDOM)), (subject.view,), (subject.statistic.name,)),
    )


def _curve(base: Profile | None) -> tuple[Curve, ...]:
    return () if base is None else (Curve("random weights", base.x, base.values, own=False),)
