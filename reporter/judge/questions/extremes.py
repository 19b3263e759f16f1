"""Peaks, dips, baselines and chance: where one model's profile is extreme, and what it does not exceed.

A profile over depth may have a second peak. The test looks for one on the token set that numbers are read on, and on
the set with sinks, since the tokens that make a peak may be sinks.

A trained network's numbers lie far from those of isotropic noise, which says nothing. So a chance level is named only
if a number does not differ from it, in a model of which another number does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from reporter.core.numbers import apart, short
from reporter.core.places import capital, ranges
from reporter.judge.estimates import Array, Estimates
from reporter.judge.points import Points, around, span
from reporter.judge.profiles import Profile
from reporter.judge.questions.subjects import (
    MATERIAL,
    ONE_DRAW,
    RANDOM,
    SHUFFLED,
    UNKNOWN,
    Observation,
    Subject,
    Subjects,
    Test,
    curve,
)

FEWEST = 4
"""The fewest points of a profile with a shape."""
FEWEST_OF_TWO_PEAKS = 5
BASELINES = {RANDOM: "with random weights", SHUFFLED: "on shuffled words"}


@dataclass(frozen=True)
class Extreme:
    """The largest of some points.

    Args:
        at: the largest point.
        among: the points that do not differ significantly from it, in order.
        p: p-value of the least certain of the others, corrected for its comparisons.
        end: the higher end.
        height: the largest point minus that end.
        weights: of the height.
    """

    at: int
    among: tuple[int, ...]
    p: float
    end: int
    height: Estimates
    weights: Array


def extreme(points: Points, least: float, level: float) -> Extreme | None:
    """Return the largest point with the set of points that do not differ from it; None for no inner peak.

    A point differs if another one is shown to be higher by more than ``least`` (one-sided, Bonferroni over the
    others), so that the truly highest point is in the set with probability 1 − ``level`` or more. A peak is a set
    without both ends and of at most a third of the points.
    """
    size = len(points.x)
    over = points.differences()
    p = np.minimum(1.0, (size - 1) * over.above(least)).reshape(size, size)  # [i, j]: i is higher than j
    ruled_out = p.min(axis=0)
    index = int(points.mean.argmax())
    among = tuple(int(j) for j in np.union1d(np.flatnonzero(ruled_out > level), index))
    if among[0] == 0 or among[-1] == size - 1 or len(among) > (size + 2) // 3:
        return None
    end = 0 if points.mean[0] >= points.mean[-1] else size - 1
    weights = (np.eye(size)[index] - np.eye(size)[end])[None]
    lower = np.delete(ruled_out, among)
    return Extreme(index, among, float(lower.max()), end, points.combine(weights), weights)


@dataclass(frozen=True)
class TwoPeaks:
    """Two peaks of a profile with a dip between them.

    Args:
        high: the top of the higher peak.
        low: the top of the other peak.
        dip: the lowest point between them.
        among: points of the lower peak that do not differ significantly from its top, in order.
        lower: whether its top is shown to be lower than that of the other peak.
        p: p-value of the least certain inequality, corrected.
        depth: the lower top minus the dip.
        weights: of the depth.
    """

    high: int
    low: int
    dip: int
    among: tuple[int, ...]
    lower: bool
    p: float
    depth: Estimates
    weights: Array


def two_peaks(subject: Subject, points: Points, least: float, level: float) -> TwoPeaks | None:
    """Return two peaks, each inside the profile; None if there are no two.

    Five points in order, low, high, low, high, low: both high points are shown to be higher by more than ``least`` than
    the low points next to them (one-sided, Bonferroni over all ordered pairs of points, so that every statement about
    pairs holds at once with probability 1 − ``level`` or more).
    """
    size = len(points.x)
    over = points.differences()
    higher = np.minimum(1.0, size * (size - 1) * over.above(least)).reshape(size, size)  # [i, j]: i is higher than j
    earlier = np.tri(size, k=-1, dtype=bool)  # [i, j]: j comes before i
    rise, fall = (np.where(side, higher, 1.0).min(axis=1) for side in (earlier, earlier.T))
    # [i, d]: i is the top of a peak before, or after, the dip d
    before = np.where(earlier.T, np.maximum(rise[:, None], higher), 1.0)
    after = np.where(earlier, np.maximum(fall[:, None], higher), 1.0)
    if not (dips := np.flatnonzero(np.maximum(before.min(axis=0), after.min(axis=0)) <= level).tolist()):
        return None
    mean = points.mean
    tops = {d: [int(np.where(side[:, d] <= level, mean, -np.inf).argmax()) for side in (before, after)] for d in dips}
    dip = max(dips, key=lambda d: min(mean[tops[d]]) - mean[d])
    first, second = tops[dip]
    low, high = (first, second) if mean[first] < mean[second] else (second, first)
    alike = higher[low] > level
    alike[[low, dip]] = True, False
    weights = (np.eye(size)[low] - np.eye(size)[dip])[None]
    p = float(max(before[first, dip], after[second, dip]))
    depth = points.combine(weights)
    return TwoPeaks(high, low, dip, around(low, alike), bool(higher[high, low] <= level), p, depth, weights)


def ask_extremes(subjects: Subjects) -> Iterator[Test]:
    """Yield tests of where each profile over depth is highest and lowest, and whether it has two peaks."""
    for subject in subjects.each("layer", "step"):
        if (profile := subject.tested(fewest=FEWEST)) is not None:
            for sign in (1, -1):
                yield partial(_extreme_finding, subject, profile, sign)
        for view in dict.fromkeys((subject.view, subjects.numbers.study.views[0])):
            if subject.tested(view, fewest=FEWEST_OF_TWO_PEAKS) is not None:
                yield partial(_second_peak, subject, view)


def signed(profile: Profile, sign: int) -> Profile:
    """Return a profile, upside down for a sign of −1."""
    return replace(profile, numbers=profile.numbers.times(np.full(len(profile.x), float(sign))))


def _extreme_finding(subject: Subject, profile: Profile, sign: int, level: float) -> Observation | None:
    points, least = subject.points(signed(profile, sign)), subject.least(profile.values)
    peak = extreme(points, least, level)
    if peak is None:
        return None
    p, against, note = peak.p, "", UNKNOWN
    base, comparisons = subject.tested(baseline=RANDOM, like=profile), len(profile.values) - 1
    if base is not None:
        more = peak.height.minus(subject.points(signed(base, sign)).combine(peak.weights), paired=True)
        p = max(p, min(1.0, comparisons * float(more.above(least)[0])))
        note = ONE_DRAW
        against = f"; and by more than with random weights, corrected for {comparisons} {subject.averaged}"
    value, ends = float(profile.values[peak.at]), (profile.values[0], profile.values[-1])
    layers = [profile.labels[i] for i in peak.among]
    second = _peaks(subject, subject.view, level) if sign > 0 else None
    if second is not None and second.high != peak.at:
        second = None
    if second is not None and not second.lower:  # it does not differ from the highest one
        says = f"{subject.named} {_two_peaks_sentence(subject, profile, second)}."
    else:
        verb = "peaks" if sign > 0 else "is lowest"
        nearer = peak.end == 0
        top, near, far = subject.beside(peak.height.times(np.array([sign])), value, ends[not nearer], ends[nearer])
        first, last = (near, far) if nearer else (far, near)
        says = f"{subject.named} {verb} at {subject.places([profile.labels[peak.at]])}{subject.on}: {top}, against "
        says += f"{first} at {subject.end(profile.labels[0])} and {last} at {subject.end(profile.labels[-1])}."
        says += _ties_sentence(subject, profile, peak.at, peak.among)
        says += "" if second is None else f" {_second_sentence(subject, profile, second)}"
    return subject.observe(
        peak.height,
        (value, float(profile.values[peak.end])),
        sign=sign,
        says=says,
        p=p,
        what=f"{subject.statistic.title}: {'peak' if sign > 0 else 'minimum'} "
        f"({subject.places([profile.labels[peak.at]], whole=False)}) minus the {'higher' if sign > 0 else 'lower'} end "
        f"({subject.end(profile.labels[peak.end])})",
        test=_peak_test(subject, layers, sign, least, comparisons) + against,
        layers=(layers[0], layers[-1]),
        curves=(curve(subject.model, profile.x, profile.values, number=value), *_untrained_curve(subject)),
        mark=(float(profile.x[peak.among[0]]), float(profile.x[peak.among[-1]])),
        notes=(*profile.notes, note),
        read=((subject.model, subject.baseline(RANDOM)), (subject.view,), (subject.statistic.name,)),
    )


def _peak_test(subject: Subject, layers: list[int], sign: int, least: float, comparisons: int) -> str:
    """Say what shows that one of some layers is the highest, or the lowest."""
    corrected = f"({comparisons} comparisons{' each' * (len(layers) > 1)}, corrected)"
    if len(layers) == 1:
        verb = "exceeds" if sign > 0 else "lies below"
        unit = subject.averaged.removesuffix("s")
        here = subject.places(layers, whole=False)
        return f"{here} {verb} every other {unit} by more than {short(least, 2)} {corrected}"
    others = f"all {subject.averaged} but {ranges([label + subject.step for label in layers])}"
    return f"{others} lie {'below' if sign > 0 else 'above'} another one by more than {short(least, 2)} {corrected}"


def _ties_sentence(subject: Subject, profile: Profile, index: int, among: tuple[int, ...]) -> str:
    layers = [profile.labels[i] for i in among if i != index]
    if not layers:
        return ""
    verb = "do" if len(layers) > 1 else "does"
    return f" {capital(subject.places(layers, whole=False))} {verb} not differ significantly from it."


def _second_sentence(subject: Subject, profile: Profile, pair: TwoPeaks) -> str:
    low, lowest = (float(profile.values[i]) for i in (pair.low, pair.dip))
    top, bottom = subject.beside(pair.depth, low, lowest)
    peak, dip = (subject.places([profile.labels[i]], whole=False) for i in (pair.low, pair.dip))
    says = f"A second, smaller peak is at {peak}: {top}, with {bottom} at {dip} between them."
    return says + _ties_sentence(subject, profile, pair.low, pair.among)


def _two_peaks_sentence(subject: Subject, profile: Profile, pair: TwoPeaks) -> str:
    first, last = sorted((pair.high, pair.low))
    values = apart([float(profile.values[i]) for i in (first, last, pair.dip)])
    peaks = f"{subject.places([profile.labels[first], profile.labels[last]])}{subject.on}"
    dip = subject.places([profile.labels[pair.dip]], whole=False)
    says = f"peaks at {peaks}: {values[0]} and {values[1]}, which do not differ significantly"
    return f"{says}, with {values[2]} at {dip} between them"


def _peaks(subject: Subject, view: str, level: float) -> TwoPeaks | None:
    """Return two peaks of a profile with a dip of a material effect that random weights do not have."""
    if (profile := subject.tested(view, fewest=FEWEST_OF_TWO_PEAKS)) is None:
        return None
    least = subject.least(profile.values)
    pair = two_peaks(subject, subject.points(profile), least, level)
    if pair is None:
        return None
    base, p = subject.tested(view, RANDOM, profile), pair.p
    if base is not None:
        more, size = pair.depth.minus(subject.points(base).combine(pair.weights), paired=True), len(profile.values)
        p = max(p, min(1.0, size * (size - 1) * float(more.above(least)[0])))
    ends = (float(profile.values[i]) for i in (pair.low, pair.dip))
    if p > level or subject.effect(float(pair.depth.value[0]), *ends) < MATERIAL:
        return None
    return replace(pair, p=p)


def _second_peak(subject: Subject, view: str, level: float) -> Observation | None:
    """Return a second, lower peak, unless a sentence is about the highest one, or about both without sinks."""
    pair, profile = _peaks(subject, view, level), subject.profile(view)
    if pair is None or profile is None or not pair.lower:  # of equal peaks neither is a second one
        return None
    if view != subject.view and _peaks(subject, subject.view, level) is not None:
        return None
    least, size = subject.least(profile.values), len(profile.values)
    if view == subject.view and extreme(subject.points(profile), least, level) is not None:
        return None
    untrained = _untrained_curve(subject, view)
    peak, dip = (subject.places([profile.labels[i]], whole=False) for i in (pair.low, pair.dip))
    including = "" if view == subject.view else " (sinks included)"
    first, last = sorted((pair.low, pair.high))
    says = f"{subject.named} peaks twice over the {subject.averaged}{subject.on}{including}: "
    *values, bottom = apart([float(profile.values[i]) for i in (first, last, pair.dip)])
    says += " and ".join(
        f"{value} at {subject.places([profile.labels[i]], whole=i == last)}"
        for i, value in zip((first, last), values, strict=True)
    )
    says += f", with a minimum of {bottom} at {dip}."
    says += _ties_sentence(subject, profile, pair.low, pair.among)
    return subject.observe(
        pair.depth,
        [float(profile.values[i]) for i in (pair.low, pair.dip)],
        says=says,
        view=view,
        p=pair.p,
        what=f"{subject.statistic.title}, {peak} minus {dip}, the lowest between the two peaks",
        test=f"both peaks are higher by more than {short(least, 2)} than a point between them, and than a point on "
        f"their outer side, corrected for all {size * (size - 1)} pairs of {subject.averaged}"
        + "; the dip is deeper than with random weights"
        * bool(untrained),
        layers=(profile.labels[pair.among[0]], profile.labels[pair.among[-1]]),
        curves=(curve(subject.model, profile.x, profile.values), *untrained),
        mark=(float(profile.x[pair.among[0]]), float(profile.x[pair.among[-1]])),
        notes=(*profile.notes, ONE_DRAW if untrained else UNKNOWN),
        read=((subject.model, subject.baseline(RANDOM)), (view,), (subject.statistic.name,)),
        fact=f"sinks of {subject.model}" if view != subject.view else "",
    )


def _untrained_curve(subject: Subject, view: str = "") -> tuple[dict[str, Any], ...]:
    base = subject.profile(view or subject.view, subject.baseline(RANDOM))
    return () if base is None else (curve("random weights", base.x, base.values, own=False),)


def ask_references(subjects: Subjects) -> Iterator[Test]:
    """Yield tests of whether each mean over layers differs from random weights, and from shuffled words."""
    for subject in subjects.each("layer", "step"):
        profile = subject.tested()
        for name in BASELINES:
            base = profile and subject.tested(baseline=name, like=profile)
            if profile is not None and base is not None:
                yield partial(_reference_finding, subject, profile, base, name)


def ask_chance(subjects: Subjects) -> Iterator[Test]:
    """Yield tests of whether each mean over layers is no other than by chance."""
    cases: dict[tuple[str, str], list[tuple[Subject, Profile, Profile]]] = {}
    for subject in subjects.each("layer", "step"):
        profile, chance = subject.tested(), subject.profile(subject.view, full_name=f"{subject.full_name}_floor")
        if profile is not None and chance is not None and chance.labels == profile.labels:
            cases.setdefault((subject.model, subject.corpus), []).append((subject, profile, chance))
    for group in cases.values():
        for case in group:
            yield partial(_chance, case, [other for other in group if other is not case])


def _reference_finding(
    subject: Subject, profile: Profile, base: Profile, name: str, level: float
) -> Observation | None:
    gap, value, least = _difference(subject, profile, base), float(profile.values.mean()), subject.least(profile.values)
    p = min(1.0, 2 * float(min(gap.above(least)[0], gap.below(-least)[0])))
    if p > level:
        return None
    what = " depends on word order: it" if name == SHUFFLED else ""
    here, there = subject.beside(gap, value, float(base.values.mean()))
    return subject.observe(
        gap,
        (value, value - float(gap.value[0])),
        says=f"{subject.named}{what} averages {here} over {subject.averaged}{subject.on}, against "
        f"{there} {BASELINES[name]}.",
        p=p,
        what=f"{subject.statistic.title}, mean over {subject.averaged}, minus the mean {BASELINES[name]}",
        test=f"the mean over {subject.averaged} differs from that {BASELINES[name]} by more than {short(least, 2)}",
        curves=(
            curve(subject.model, profile.x, profile.values, number=value),
            curve(BASELINES[name], base.x, base.values, own=False, number=float(base.values.mean())),
        ),
        notes=(*profile.notes, *([ONE_DRAW] if name == RANDOM else [])),
        read=((subject.model, subject.baseline(name)), (subject.view,), (subject.statistic.name,)),
    )


def _chance(
    case: tuple[Subject, Profile, Profile], other_cases: Sequence[tuple[Subject, Profile, Profile]], level: float
) -> Observation | None:
    """Report a mean over layers that is shown to lie within the minimum difference from chance (two tests).

    Nothing is reported of states that are noise in all that is known of them.
    """
    subject, profile, chance = case
    gap, least = _difference(subject, profile, chance), subject.least(profile.values)
    p = float(max(gap.below(least)[0], gap.above(-least)[0]))
    if p > level or not any(_differs(*other, level) for other in other_cases):
        return None
    noise, name = subject.statistic.noise, subject.statistic.name
    here, there = subject.beside(gap, float(profile.values.mean()), float(chance.values.mean()))
    return subject.observe(
        gap,
        (),
        says=f"{subject.named} does not differ from chance{subject.on}: it averages {here} over {subject.averaged}, "
        f"against {there} for {noise}.",
        p=p,
        effect=MATERIAL,
        what=f"{subject.statistic.title}, mean over {subject.averaged}, minus {noise}",
        test=f"the mean over {subject.averaged} lies within {short(least, 2)} of that for {noise}, by two one-sided "
        "tests",
        curves=(curve(subject.model, profile.x, profile.values), curve(noise, chance.x, chance.values, own=False)),
        notes=profile.notes,
        read=((subject.model,), (subject.view,), (name, f"{name}_floor")),
        weak=True,
    )


def _differs(subject: Subject, profile: Profile, chance: Profile, level: float) -> bool:
    gap, least = _difference(subject, profile, chance), subject.least(profile.values)
    return 2 * float(min(gap.above(least)[0], gap.below(-least)[0])) <= level


def _difference(subject: Subject, profile: Profile, other: Profile) -> Estimates:
    size = len(profile.values)
    mean = subject.points(profile).combine(span(range(size), size)[None])
    chance = other.mean if other.known else Estimates(other.mean.value, np.zeros(1))
    return mean.minus(chance)
