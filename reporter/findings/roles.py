"""Where encoders and decoders differ.

Three independent models of each role or more, with relatives counted as one; two models differ in everything, and no
interval over texts says which of it is the role. Nothing that measures different things in both is compared, such as
their losses (``Statistic.within_role``).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from reporter.claims.kinds.differ import Group, difference
from reporter.claims.kinship import Kinship
from reporter.claims.points import FEWEST_MODELS, Estimates
from reporter.findings.question import Answer, Curve, Question
from reporter.findings.subjects import RANDOM, UNKNOWN, Subject
from reporter.findings.words import number

if TYPE_CHECKING:
    from reporter.findings.subjects import Subjects
    from reporter.metrics.base import Statistic

ROLES = ("encoder", "decoder")


def ask(subjects: Subjects) -> Iterator[Question]:
    """Ask of each statistic's mean over layers and corpora whether it differs between the roles."""
    found: dict[str, dict[str, list[Subject]]] = {}
    for subject in subjects.each("layer", "step"):
        found.setdefault(subject.full_name, {}).setdefault(subject.model, []).append(subject)
    for full_name, models in found.items():
        statistic = subjects.statistics[full_name]
        corpora = max((len(of) for of in models.values()), default=0)
        whole = {model: of for model, of in models.items() if len(of) == corpora}
        sides = [{m: of for m, of in whole.items() if subjects.numbers.role_of(m) == role} for role in ROLES]
        found_of = [_group(subjects, side) for side in sides]
        groups = [group for group in found_of if group and group.known and len(group.values) >= FEWEST_MODELS]
        if statistic.within_role or len(groups) < len(ROLES):
            continue
        yield Question("roles", partial(_answer, subjects, full_name, sides, groups))


def _group(subjects: Subjects, side: dict[str, list[Subject]], baseline: str = "") -> Group | None:
    """Return one number for each independent model of a role; None where one has none."""
    values, errors = {}, {}
    for model, of in side.items():
        profiles = [subject.profile(subject.view, f"{model} ({baseline})" if baseline else "") for subject in of]
        known = [profile for profile in profiles if profile is not None]
        if len(known) < len(profiles):
            return None
        values[model] = float(np.mean([profile.values.mean() for profile in known]))
        own = [float(profile.errors.mean()) for profile in known if profile.errors is not None]
        if len(own) == len(known):
            errors[model] = float(np.hypot.reduce(own)) / len(own)
    if not values:
        return None
    units = Kinship.of(subjects.numbers, list(values)).units
    joined = np.array([np.mean([values[model] for model in unit]) for unit in units])
    texts = np.array([np.mean([errors[m] for m in unit]) for unit in units]) if len(errors) == len(values) else None
    return Group(tuple(" + ".join(unit) for unit in units), joined, texts)


def _answer(
    subjects: Subjects, full_name: str, sides: list[dict[str, list[Subject]]], groups: list[Group], level: float
) -> Answer | None:
    """Tell whether the means of both roles differ: Welch's interval over models, text errors added (as claims have)."""
    statistic: Statistic = subjects.statistics[full_name]
    one = next(iter(sides[0].values()))[0]
    gap, g = difference(*groups)
    least = one.least(*(group.values for group in groups))
    p = 2 * float(min(gap.above(least)[0], gap.below(-least)[0]))
    base = [group for side in sides if (group := _group(subjects, side, RANDOM)) and group.known]
    if len(base) == len(ROLES):
        there, _ = difference(*base)
        more = Estimates(gap.value - there.value, np.hypot(gap.error, there.error), min(gap.df, there.df))
        p = max(p, 2 * float((more.above(least) if gap.value[0] > 0 else more.below(-least))[0]))
    notes = () if len(base) == len(ROLES) else (UNKNOWN,)
    if p > level:
        return None
    (low,), (high,) = gap.interval()
    means = [group.mean for group in groups]
    told = [f"{number(m)} for {len(group.values)} {role}s" for m, group, role in zip(means, groups, ROLES, strict=True)]
    models = [model for side in sides for model in side]
    return Answer(
        says=f"Encoders and decoders differ in the {statistic.title}: {' and '.join(told)}, on average over layers.",
        full_name=full_name,
        model=None,
        corpus=None,
        view=one.view,
        value=float(gap.value[0]),
        interval=(float(low), float(high)),
        p=min(1.0, p),
        effect=one.effect(float(gap.value[0]), *means),
        what=f"{statistic.title}, mean over layers and corpora: encoders minus decoders",
        test=f"Welch's t over independent models; the means differ by more than {least:.2g}",
        curves=tuple(
            Curve(model, profile.x, profile.values, own=model in sides[0])
            for side in sides
            for model, of in side.items()
            for profile in [of[0].profile(of[0].view)]
            if profile is not None
        ),
        notes=(*(() if g is None else (f"Hedges' g over models is {number(g)}",)), *notes),
        read=(models, (one.view,), (statistic.name,)),
    )
