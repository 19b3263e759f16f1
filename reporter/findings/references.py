"""What stands out from what chance, random weights and shuffled words give."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from reporter.claims.points import Estimates, span
from reporter.findings.question import Answer, Curve, Question
from reporter.findings.subjects import ONE_DRAW, RANDOM, SHUFFLED, UNKNOWN, Subject
from reporter.findings.words import number

if TYPE_CHECKING:
    from reporter.claims.profiles import Profile
    from reporter.findings.subjects import Subjects

FLOOR = "the floor"
SAID = {RANDOM: "with random weights", SHUFFLED: "on shuffled words"}


def ask(subjects: Subjects) -> Iterator[Question]:
    """Ask of each statistic's mean over layers whether it differs from its floor and the random model, and from
    shuffled texts.
    """  # noqa: D205
    for subject in subjects.each("layer", "step"):
        own = subject.profile(subject.view)
        if own is None or own.errors is None:
            continue
        chance = {FLOOR: _of(subject, own, full_name=f"{subject.full_name}_floor"), RANDOM: _of(subject, own, RANDOM)}
        order = {SHUFFLED: _of(subject, own, SHUFFLED)}
        for references in (chance, order):
            there = {name: profile for name, profile in references.items() if profile is not None}
            if there:
                yield Question("references", partial(_answer, subject, own, there))


def _of(subject: Subject, like: Profile, baseline: str = "", full_name: str = "") -> Profile | None:
    """Return the profile of a reference where it has the same layers; a floor without an interval is exact."""
    found = subject.profile(subject.view, subject.baseline(baseline) if baseline else "", full_name)
    if found is None or found.labels != like.labels or (baseline and found.errors is None):
        return None
    return found


def _answer(subject: Subject, own: Profile, references: dict[str, Profile], level: float) -> Answer | None:
    """Tell whether the mean over layers differs from that of every reference, to the same side.

    It must differ from each by more than the smallest difference that counts; as sure as the least sure of them.
    """
    size = len(own.values)
    mean = subject.points(own).combine(span(range(size), size)[None])
    gaps = {name: _minus(subject, mean, profile) for name, profile in references.items()}
    least = subject.least(own.values)
    above, below = (
        max(float(side) for gap in gaps.values() for side in np.ravel(gap.above(least) if up else gap.below(-least)))
        for up in (True, False)
    )
    p = min(1.0, 2 * min(above, below))
    if p > level:
        return None
    name, gap = min(gaps.items(), key=lambda item: abs(float(item[1].value[0])))
    (low,), (high,) = gap.interval()
    value = float(mean.value[0])
    said = SAID | {FLOOR: f"for {subject.statistic.noise}"}
    told = " and ".join(
        f"{number(float(profile.values.mean()), value)} {said[ref]}" for ref, profile in references.items()
    )
    title = subject.statistic.title
    what = " depends on word order: it" if SHUFFLED in references else ""
    return Answer(
        says=f"{subject.named}{what} averages {number(value)} over layers{subject.on}, against {told}.",
        full_name=subject.full_name,
        model=subject.model,
        corpus=subject.corpus,
        view=subject.view,
        value=float(gap.value[0]),
        interval=(float(low), float(high)),
        p=p,
        effect=subject.effect(float(gap.value[0]), value, value - float(gap.value[0])),
        what=f"{title}, mean over layers, minus {subject.statistic.noise if name == FLOOR else said[name]}",
        test=f"the mean over layers differs from that {' and from that '.join(said[ref] for ref in references)} by "
        f"more than {least:.2g}",
        curves=(
            Curve(subject.model, own.x, own.values),
            *(
                Curve(subject.statistic.noise if ref == FLOOR else said[ref], profile.x, profile.values, own=False)
                for ref, profile in references.items()
            ),
        ),
        notes=_notes(references),
        read=(
            (subject.model, *(subject.baseline(ref) for ref in references if ref != FLOOR)),
            (subject.view,),
            (subject.statistic.name, f"{subject.statistic.name}_floor"),
        ),
        weak=set(references) == {FLOOR},  # any network stands out from isotropic noise
    )


def _minus(subject: Subject, mean: Estimates, profile: Profile) -> Estimates:
    size = len(profile.values)
    error = 0.0 if profile.errors is None else float(profile.errors.mean())
    there = float(profile.values @ span(range(size), size))
    return subject.sure(Estimates(mean.value - there, np.hypot(mean.error, error), mean.df))


def _notes(references: dict[str, Profile]) -> tuple[str, ...]:
    if RANDOM in references:
        return (ONE_DRAW,)
    if FLOOR in references:
        return (UNKNOWN,)
    return ()
