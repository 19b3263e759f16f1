"""Where a model's numbers differ between two corpora."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from reporter.claims.common import at_equal_size
from reporter.claims.numbers import Missing
from reporter.claims.points import Estimates, span
from reporter.findings.question import Answer, Curve, Question
from reporter.findings.roles import typical
from reporter.findings.subjects import ONE_DRAW, RANDOM, UNKNOWN, Subject
from reporter.findings.words import number

if TYPE_CHECKING:
    from reporter.claims.profiles import Profile
    from reporter.findings.subjects import Subjects


def ask(subjects: Subjects) -> Iterator[Question]:
    """Ask of each statistic's mean over layers whether it differs between two corpora, for each model.

    Statistics that move with the size of a corpus are compared on corpora of like size only.
    """
    found: dict[tuple[str, str], list[Subject]] = {}
    for subject in subjects.each("layer", "step"):
        found.setdefault((subject.full_name, subject.model), []).append(subject)
    for (full_name, _), of in found.items():
        for pair in combinations(of, 2):
            try:
                notes = at_equal_size(subjects.numbers, full_name, *([subject.corpus] for subject in pair))
            except Missing:
                continue
            if (profiles := _profiles(pair)) is not None:
                yield Question("corpora", partial(_answer, pair, profiles, notes))


def _profiles(pair: tuple[Subject, Subject], baseline: str = "") -> tuple[Profile, Profile] | None:
    """Return the profile on each corpus; None unless both have the same layers, and errors."""
    a, b = (one.profile(one.view, one.baseline(baseline) if baseline else "") for one in pair)
    if a is None or b is None or a.labels != b.labels or a.errors is None or b.errors is None:
        return None
    return a, b


def _mean(subject: Subject, profile: Profile, corpora: list[str]) -> Estimates:
    size = len(profile.values)
    return subject.sure(subject.points(profile).combine(span(range(size), size)[None]), *corpora)


def _gap(pair: tuple[Subject, Subject], profiles: tuple[Profile, Profile]) -> Estimates:
    """Return the mean over layers on the first corpus minus that on the second; their texts are independent."""
    corpora = [subject.corpus for subject in pair]
    a, b = (_mean(subject, profile, corpora) for subject, profile in zip(pair, profiles, strict=True))
    return Estimates(a.value - b.value, np.hypot(a.error, b.error), a.df)


def _answer(
    pair: tuple[Subject, Subject], profiles: tuple[Profile, Profile], notes: list[str], level: float
) -> Answer | None:
    subject, other = pair
    least = subject.least(*(profile.values for profile in profiles))
    gap = _gap(pair, profiles)
    above = bool(gap.value[0] > 0)
    p = 2 * float((gap.above(least) if above else gap.below(-least))[0])
    if (base := _profiles(pair, RANDOM)) is not None:
        there = _gap(pair, base)
        more = Estimates(gap.value - there.value, np.hypot(gap.error, there.error), gap.df)
        p = max(p, 2 * float((more.above(least) if above else more.below(-least))[0]))
        note = ONE_DRAW
    else:
        note = UNKNOWN
    if p > level:
        return None
    (low,), (high,) = gap.interval()
    means = [float(profile.values.mean()) for profile in profiles]
    names = [one.corpus for one in pair]
    return Answer(
        says=f"{subject.named} is {number(means[0])} on {names[0]} and {number(means[1])} on {names[1]}, on average "
        f"over {subject.averaged}.",
        full_name=subject.full_name,
        model=subject.model,
        corpus=None,
        view=subject.view,
        value=float(gap.value[0]),
        interval=(float(low), float(high)),
        p=min(1.0, p),
        effect=min(subject.effect(float(gap.value[0]), *means), typical([{one.corpus: [one]} for one in pair], above)),
        what=f"{subject.statistic.title}, mean over {subject.averaged}: {names[0]} minus {names[1]}",
        test=f"the means on both corpora differ by more than {least:.2g}, by intervals over texts",
        curves=tuple(
            Curve(one.corpus, profile.x, profile.values, own=one is subject, number=mean)
            for one, profile, mean in zip(pair, profiles, means, strict=True)
        ),
        notes=(*profiles[0].notes, *notes, note),
        read=((subject.model,), (subject.view,), (subject.statistic.name,)),
        fact=f"{subject.full_name} on {names[0]} {'above' if above else 'below'} {other.corpus}",
    )
