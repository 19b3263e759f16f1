"""Where training turns: checkpoints at which a statistic is highest or lowest, and between which it changes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.claims.numbers import Missing
from reporter.claims.points import Points
from reporter.claims.profiles import Profiles
from reporter.findings.extremes import FEWEST, extreme, signed
from reporter.findings.question import Answer, Curve, Question
from reporter.findings.subjects import Subject
from reporter.findings.words import number
from reporter.geometry.turning import passage

if TYPE_CHECKING:
    from reporter.claims.profiles import Profile
    from reporter.findings.subjects import Subjects


def ask(subjects: Subjects) -> Iterator[Question]:
    """Ask of each statistic of a model with checkpoints where it turns, and between which two it passes half-way."""
    for subject in subjects.each("layer", "step", "model", copies=True):
        try:
            profile = Profiles(subjects.numbers, subject.full_name, subject.view).over_training(
                subject.model, subject.corpus
            )
        except Missing:
            continue
        if profile.errors is None or len(profile.values) < FEWEST:
            continue
        for sign in (1, -1):
            yield Question("training", partial(_turn, subject, profile, sign))
        yield Question("training", partial(_half_way, subject, profile))


def half_way(subject: Subject, points: Points, least: float, level: float) -> tuple[int, int, float] | None:
    """Return between which two points a series passes the middle of its first and its last value, and the p-value.

    The last value differs from the first by more than ``least``; each point is told to lie on one side of the middle at
    ``level`` over their number, or is not. None where they do not differ, or where a point beyond the middle comes
    before one that has not reached it, so that there is no single passage.
    """
    size = len(points.x)
    eye = np.eye(size)
    whole = subject.sure(points.combine((eye[-1] - eye[0])[None]))
    p = 2 * float(min(whole.above(least)[0], whole.below(-least)[0]))
    if p > level:
        return None
    side = np.sign(whole.value[0])
    off = subject.sure(points.combine(side * (eye - (eye[0] + eye[-1]) / 2)))
    passed = passage(*(size * some <= level for some in (off.below(0.0), off.above(0.0))))
    return None if passed is None else (*passed, p)


def _half_way(subject: Subject, profile: Profile, level: float) -> Answer | None:
    points, least = subject.points(profile, steps=True), subject.least(profile.values)
    found = half_way(subject, points, least, level)
    if found is None or found[1] - found[0] > (len(profile.values) + 2) // 3:
        return None
    start, stop, p = found
    change = subject.sure(points.combine((np.eye(len(points.x))[-1] - np.eye(len(points.x))[0])[None]))
    (low,), (high,) = change.interval()
    ends = (float(profile.values[0]), float(profile.values[-1]))
    a, b = (f"{profile.labels[i]:,}" for i in (start, stop))
    title, mean = subject.statistic.title, _mean(subject)
    says = f"{subject.named} {'rises' if ends[1] > ends[0] else 'falls'} during training{subject.on}, from "
    says += f"{number(ends[0])} to {number(ends[1])}{mean}; it passes the half-way mark between steps {a} and {b}."
    return _answer(
        subject,
        profile,
        (start, stop),
        says=says,
        p=p,
        value=float(change.value[0]),
        interval=(float(low), float(high)),
        effect=subject.effect(float(change.value[0]), *ends),
        what=f"{title}{mean}: last checkpoint minus first",
        test=f"the last checkpoint differs from the first by more than {least:.2g}; those before step {a} and after "
        f"step {b} are told to lie on their side of the middle, corrected for {len(profile.values)} checkpoints",
    )


def _turn(subject: Subject, profile: Profile, sign: int, level: float) -> Answer | None:
    least = subject.least(profile.values)
    found = extreme(subject, subject.points(signed(profile, sign), steps=True), least, level)
    if found is None:
        return None
    (low,), (high,) = found.height.interval()
    bottom, top = sorted((sign * float(low), sign * float(high)))
    steps = [f"{profile.labels[i]:,}" for i in (found.at, found.among[0], found.among[-1])]
    value, first, last = (float(profile.values[i]) for i in (found.at, 0, -1))
    title, mean = subject.statistic.title, _mean(subject)
    turn = ("rises", "falls") if sign > 0 else ("falls", "rises")
    says = f"{subject.named} {turn[0]} until step {steps[0]} of training and then {turn[1]}{subject.on}: "
    says += f"{number(first)}, {number(value)}, {number(last)}{mean}"
    says += f". Steps {steps[1]} to {steps[2]} do not differ significantly." if len(found.among) > 1 else "."
    return _answer(
        subject,
        profile,
        (found.among[0], found.among[-1]),
        says=says,
        p=found.p,
        value=sign * float(found.height.value[0]),
        interval=(bottom, top),
        effect=subject.effect(float(found.height.value[0]), value, first, last),
        what=f"{title}{mean}: step {steps[0]} minus the {'higher' if sign > 0 else 'lower'} of the first and the last",
        test=f"every checkpoint outside of these steps is {'lower' if sign > 0 else 'higher'} than another one by more "
        f"than {least:.2g}, corrected for {len(profile.values) - 1} comparisons each",
    )


def _mean(subject: Subject) -> str:
    """Say over what a number is a mean."""
    return "" if subject.statistic.per == "model" else f", mean over {subject.averaged}"


def _answer(subject: Subject, profile: Profile, at: tuple[int, int], **told: Any) -> Answer:
    """Return an answer about a model's training; on the picture checkpoints stand at equal distances."""
    x = np.linspace(0, 1, len(profile.values))
    return Answer(
        full_name=subject.full_name,
        model=subject.model,
        corpus=subject.corpus,
        view=subject.view,
        training=True,
        curves=(Curve(subject.model, x, profile.values),),
        mark=(float(x[at[0]]), float(x[at[1]])),
        notes=(*profile.notes, "the interval is over texts: it speaks of this run, not of another seed"),
        read=((subject.model,), (subject.view,), (subject.statistic.name,)),
        **told,
    )
