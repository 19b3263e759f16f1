"""What training made, what word order makes, and what does not exceed chance.

A trained network's numbers lie far from those of isotropic noise, which says nothing. So a chance level is named only
where a number does not differ from it, in a model of which another number does.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from reporter.claims.points import Estimates, span
from reporter.findings.question import Answer, Curve, Question
from reporter.findings.subjects import MATERIAL, ONE_DRAW, RANDOM, SHUFFLED, Subject
from reporter.findings.words import number

if TYPE_CHECKING:
    from reporter.claims.profiles import Profile
    from reporter.findings.subjects import Subjects

SAID = {RANDOM: "with random weights", SHUFFLED: "on shuffled words"}


def ask(subjects: Subjects) -> Iterator[Question]:
    """Ask of each statistic's mean over layers whether it differs from random weights, and from shuffled words."""
    for subject in subjects.each("layer", "step"):
        own = subject.profile(subject.view)
        if own is None or own.errors is None:
            continue
        for name in SAID:
            there = subject.profile(subject.view, subject.baseline(name))
            if there is not None and there.errors is not None and there.labels == own.labels:
                yield Question("references", partial(_answer, subject, own, there, name))


def ask_chance(subjects: Subjects) -> Iterator[Question]:
    """Ask of each statistic's mean over layers whether it is no other than by chance."""
    found: dict[tuple[str, str], list[tuple[Subject, Profile, Profile]]] = {}
    for subject in subjects.each("layer", "step"):
        own = subject.profile(subject.view)
        chance = subject.profile(subject.view, full_name=f"{subject.full_name}_floor")
        if own is not None and own.errors is not None and chance is not None and chance.labels == own.labels:
            found.setdefault((subject.model, subject.corpus), []).append((subject, own, chance))
    for of in found.values():
        for one in of:
            yield Question("chance", partial(_chance, one, [other for other in of if other is not one]))


def _answer(subject: Subject, own: Profile, there: Profile, name: str, level: float) -> Answer | None:
    """Tell whether the mean over layers differs from that of a baseline by more than the smallest difference."""
    gap, value = _minus(subject, own, there), float(own.values.mean())
    least = subject.least(own.values)
    p = min(1.0, 2 * float(min(gap.above(least)[0], gap.below(-least)[0])))
    if p > level:
        return None
    (low,), (high,) = gap.interval()
    what = " depends on word order: it" if name == SHUFFLED else ""
    return Answer(
        says=f"{subject.named}{what} averages {number(value)} over {subject.averaged}{subject.on}, against "
        f"{number(float(there.values.mean()), value)} {SAID[name]}.",
        full_name=subject.full_name,
        model=subject.model,
        corpus=subject.corpus,
        view=subject.view,
        value=float(gap.value[0]),
        interval=(float(low), float(high)),
        p=p,
        effect=subject.effect(float(gap.value[0]), value, value - float(gap.value[0])),
        what=f"{subject.statistic.title}, mean over {subject.averaged}, minus {SAID[name]}",
        test=f"the mean over {subject.averaged} differs from that {SAID[name]} by more than {least:.2g}",
        curves=(
            Curve(subject.model, own.x, own.values, number=value),
            Curve(SAID[name], there.x, there.values, own=False, number=float(there.values.mean())),
        ),
        notes=(*own.notes, *([ONE_DRAW] if name == RANDOM else [])),
        read=((subject.model, subject.baseline(name)), (subject.view,), (subject.statistic.name,)),
    )


def _chance(
    one: tuple[Subject, Profile, Profile], others: list[tuple[Subject, Profile, Profile]], level: float
) -> Answer | None:
    """Tell whether the mean over layers is shown to lie within the smallest difference from chance (two tests).

    Of states that are noise in all that is known of them nothing is said.
    """
    subject, own, chance = one
    gap, least = _minus(subject, own, chance), subject.least(own.values)
    p = float(max(gap.below(least)[0], gap.above(-least)[0]))
    if p > level or not any(_differs(*other, level) for other in others):
        return None
    (low,), (high,) = gap.interval()
    value, noise = float(own.values.mean()), subject.statistic.noise
    return Answer(
        says=f"{subject.named} does not differ from chance{subject.on}: it averages {number(value)} over "
        f"{subject.averaged}, against {number(float(chance.values.mean()))} for {noise}.",
        full_name=subject.full_name,
        model=subject.model,
        corpus=subject.corpus,
        view=subject.view,
        value=float(gap.value[0]),
        interval=(float(low), float(high)),
        p=p,
        effect=MATERIAL,
        what=f"{subject.statistic.title}, mean over {subject.averaged}, minus {noise}",
        test=f"the mean over {subject.averaged} lies within {least:.2g} of that for {noise}, by two one-sided tests",
        curves=(Curve(subject.model, own.x, own.values), Curve(noise, chance.x, chance.values, own=False)),
        notes=own.notes,
        read=(
            (subject.model,),
            (subject.view,),
            (subject.statistic.name, f"{subject.statistic.name}_floor"),
        ),
        weak=True,
    )


def _differs(subject: Subject, own: Profile, chance: Profile, level: float) -> bool:
    gap, least = _minus(subject, own, chance), subject.least(own.values)
    return 2 * float(min(gap.above(least)[0], gap.below(-least)[0])) <= level


def _minus(subject: Subject, own: Profile, there: Profile) -> Estimates:
    """Return the mean over layers minus that of a reference; a chance level without an interval is exact."""
    size = len(own.values)
    mean = subject.points(own).combine(span(range(size), size)[None])
    error = 0.0 if there.errors is None else float(there.errors.mean())
    value = float(there.values @ span(range(size), size))
    return subject.sure(Estimates(mean.value - value, np.hypot(mean.error, error), mean.df))
