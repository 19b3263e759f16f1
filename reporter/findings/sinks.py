"""What the sinks alone make: a statistic that is another one without them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from reporter.claims.judging import NO_SINKS
from reporter.claims.points import Array, Estimates, span
from reporter.findings.question import Answer, Curve, Question
from reporter.findings.subjects import RANDOM, Subject
from reporter.findings.words import between

if TYPE_CHECKING:
    from reporter.claims.profiles import Profile
    from reporter.findings.subjects import Subjects

WITH = "words"
FEW = 0.05  # of the sinks that are first tokens: so many elsewhere are counted, more make another sentence
NEAR = 0.9  # of the largest difference: the layers that a sentence is about


def ask(subjects: Subjects) -> Iterator[Question]:
    """Ask of each profile of a model that has sinks whether it is another one without them."""
    if not {WITH, NO_SINKS} <= set(subjects.numbers.study.views):
        return
    for subject in subjects.each("layer", "step"):
        known = subjects.sinks.get((subject.model, subject.corpus))
        here, without = (subject.profile(view) for view in (WITH, NO_SINKS))
        if known and known["sinks"] and here is not None and without is not None and _fit(here, without):
            yield Question("sinks", partial(_answer, subject, here, without))


def _fit(a: Profile, b: Profile) -> bool:
    return a.errors is not None and b.errors is not None and a.labels == b.labels


def _answer(subject: Subject, here: Profile, without: Profile, level: float) -> Answer | None:
    """Tell where a profile is another one without sinks.

    Layers where both differ by more than the smallest difference that counts (Bonferroni over the layers); the sentence
    is about those around the largest that differ by nine tenths of it or more, and names the others of which it holds,
    too, so that nobody takes those for all. Both views are of nearly the same tokens, whose errors go together: taken
    as independent they are overstated.
    """
    size = len(here.values)
    gap, least = _minus(subject, here, without, np.eye(size)), subject.least(here.values, without.values)
    base = _of_baseline(subject, here)
    p = np.minimum(1.0, 2 * size * np.minimum(gap.above(least), gap.below(-least)))
    if base is not None:  # and by more than in the same model with random weights
        p = np.maximum(p, np.minimum(1.0, 2 * size * _beyond(gap, base)))
    top = int(np.abs(gap.value).argmax())
    alike = (p <= level) & (gap.value * gap.value[top] > 0)
    told = alike & (np.abs(gap.value) >= NEAR * abs(gap.value[top]))
    if not told[top]:
        return None
    first, last = top, top
    while first > 0 and told[first - 1]:
        first -= 1
    while last < size - 1 and told[last + 1]:
        last += 1
    inside = list(range(first, last + 1))
    mean = _minus(subject, here, without, span(inside, size)[None])
    (low,), (high,) = mean.interval()
    a, b, where = here.values[inside], without.values[inside], [here.labels[i] for i in inside]
    known = subject.study.sinks[subject.model, subject.corpus]
    title = subject.statistic.title
    at = f"in {subject.places(where)}{subject.on}"
    made = _made(title, a, b)
    says = f"In {subject.model}, {made} {at}: "
    says += f"{between(a.tolist())} with them, {between(b.tolist())} without."
    says += _first(subject, where[0], where[-1])
    others = [
        i
        for i in np.flatnonzero(alike).tolist()
        if i not in inside and _made(title, here.values[[i]], without.values[[i]]) == made
    ]
    if others:
        less = subject.places([here.labels[i] for i in others], whole=False)
        says += f" The same holds, to a lesser degree, in {less}."
    return Answer(
        says=says,
        full_name=subject.full_name,
        model=subject.model,
        corpus=subject.corpus,
        view=WITH,
        value=float(mean.value[0]),
        interval=(float(low), float(high)),
        p=float(p[inside].max()),
        effect=subject.effect(float(mean.value[0]), float(a.mean()), float(b.mean())),
        what=f"{title}, {subject.places(where, whole=False)}: with sinks minus without",
        test=f"each of these {subject.averaged} differs between the views '{WITH}' and '{NO_SINKS}' by more than "
        f"{least:.2g}, corrected for {size} {subject.averaged}",
        layers=(where[0], where[-1]),
        curves=(
            Curve("with sinks", here.x, here.values, number=float(a.mean())),
            Curve("without sinks", here.x, without.values, own=False, number=float(b.mean())),
        ),
        mark=(float(here.x[first]), float(here.x[last])),
        notes=(_who(known, subject), "without sinks, each text's first token is left out, too"),
        read=((subject.model,), (WITH, NO_SINKS), (subject.statistic.name,)),
        fact=f"sinks of {subject.model}",
    )


def _minus(subject: Subject, a: Profile, b: Profile, weights: Array) -> Estimates:
    here, there = (subject.points(profile).combine(weights) for profile in (a, b))
    return subject.sure(Estimates(here.value - there.value, np.hypot(here.error, there.error), here.df))


def _of_baseline(subject: Subject, like: Profile) -> Estimates | None:
    """Return with minus without sinks of the model with random weights, where that was measured."""
    a, b = (subject.profile(view, subject.baseline(RANDOM)) for view in (WITH, NO_SINKS))
    if a is None or b is None or not _fit(a, b) or a.labels != like.labels:
        return None
    return _minus(subject, a, b, np.eye(len(a.values)))


def _beyond(gap: Estimates, base: Estimates) -> Array:
    """Return one-sided p-values that one difference is further from 0 than another one."""
    further = Estimates(np.abs(gap.value) - np.abs(base.value), np.hypot(gap.error, base.error), gap.df)
    return further.above(0.0)


def _made(title: str, here: Array, without: Array) -> str:
    """Say what sinks do to numbers: what is mostly gone without them is due to them."""
    there, left = float(np.abs(here).mean()), float(np.abs(without).mean())
    if left <= there / 2:
        return f"most of the {title} is due to sinks"
    if there <= left / 2:
        return f"sinks hide most of the {title}"
    return f"sinks {'raise' if here.mean() > without.mean() else 'lower'} the {title}"


def _first(subject: Subject, first: int, last: int) -> str:
    """Say so where nearly every sink of the layers from ``first`` to ``last`` is the first token of its text."""
    known = subject.study.sinks_of(subject, first, last)
    if not known.texts or known.elsewhere > FEW * known.texts:
        return ""
    but = f"but at most {known.elsewhere:,} " * bool(known.elsewhere)
    return f" All {but}of the sinks there are the first tokens of their texts."


def _who(known: dict[str, int], subject: Subject) -> str:
    """Say how many tokens are sinks."""
    return f"{known['sinks']:,} of {known['tokens']:,} tokens are sinks at some layer{subject.on}"
