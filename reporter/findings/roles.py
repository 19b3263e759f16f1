"""Where encoders and decoders differ.

From three independent models of each role on (relatives count as one), the test is over models and speaks of the roles.
With fewer, the sentence describes the models of the study and says so: two models differ in everything, and no interval
over texts says which of it is the role. Then every encoder has to lie on the same side of every decoder. Nothing that
measures different things in both is compared, such as their losses (``Statistic.within_role``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from reporter.claims.kinds.differ import Group, difference
from reporter.claims.kinship import Kinship
from reporter.claims.points import FEWEST_MODELS, Estimates
from reporter.findings.question import Answer, Curve, Question
from reporter.findings.subjects import RANDOM, UNKNOWN, Subject
from reporter.findings.words import capital, number

if TYPE_CHECKING:
    from reporter.findings.subjects import Subjects

ROLES = ("encoder", "decoder")
Side = Mapping[str, Sequence[Subject]]
"""Models, each with its subjects: a statistic on one corpus after another."""


def ask(subjects: Subjects) -> Iterator[Question]:
    """Ask of each statistic's mean over layers and corpora whether it differs between the roles."""
    for full_name, models in by_statistic(subjects):
        sides = [{m: of for m, of in models.items() if subjects.numbers.role_of(m) == role} for role in ROLES]
        groups = [group for side in sides if (group := group_of(subjects, side)) is not None and group.known]
        if subjects.statistics[full_name].within_role or len(groups) < len(ROLES):
            continue
        several = min(len(group.values) for group in groups) >= FEWEST_MODELS
        if several or all(group.errors is not None for group in groups):
            yield Question("roles", partial(_answer, subjects, sides, groups, several))


def by_statistic(subjects: Subjects) -> Iterator[tuple[str, Side]]:
    """Yield each statistic of layers or blocks with the models that have it on all of its corpora."""
    found: dict[str, dict[str, list[Subject]]] = {}
    for subject in subjects.each("layer", "step"):
        found.setdefault(subject.full_name, {}).setdefault(subject.model, []).append(subject)
    for full_name, models in found.items():
        corpora = max(len(of) for of in models.values())
        yield full_name, {model: of for model, of in models.items() if len(of) == corpora}


def group_of(subjects: Subjects, side: Side, baseline: str = "") -> Group | None:
    """Return one number for each independent model; None where a model has none."""
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


def gaps_of(subject: Subject, a: Group, b: Group, corpora: Sequence[str]) -> Estimates:
    """Return how far each model of one group lies above each of the other, with errors over texts alone."""
    assert a.errors is not None and b.errors is not None
    value = (a.values[:, None] - b.values).ravel()
    return subject.sure(Estimates(value, np.hypot(a.errors[:, None], b.errors).ravel(), np.inf), *corpora)


def typical(sides: Sequence[Side], above: bool) -> float:
    """Return how large the difference of two sides is in a typical layer: the effect of their medians over layers.

    A mean over layers may differ for a single layer: then it is no more than this. 0 where the medians differ the other
    way round.

    Args:
        sides: the two sides.
        above: whether the first one has the larger mean.
    """
    medians = []
    for side in sides:
        profiles = [subject.profile(subject.view) for of in side.values() for subject in of]
        medians.append(float(np.mean([np.median(profile.values) for profile in profiles if profile is not None])))
    gap = medians[0] - medians[1]
    one = next(iter(sides[0].values()))[0]
    return one.effect(gap, *medians) if (gap > 0) == above else 0.0


def curves_of(sides: Sequence[Side]) -> tuple[Curve, ...]:
    """Return the profile of each model on its first corpus, with its number where that is all there is."""
    return tuple(
        Curve(model, profile.x, profile.values, number=float(profile.values.mean()) if len(of) == 1 else None)
        for side in sides
        for model, of in side.items()
        for profile in [of[0].profile(of[0].view)]
        if profile is not None
    )


def left_out(sides: Sequence[Side]) -> list[str]:
    """Return the notes of the profiles that means over layers are taken of: which layers do not count, and why."""
    profiles = [subject.profile(subject.view) for side in sides for of in side.values() for subject in of]
    return [note for profile in profiles if profile is not None for note in profile.notes]


def _answer(
    subjects: Subjects, sides: Sequence[Side], groups: Sequence[Group], several: bool, level: float
) -> Answer | None:
    """Tell whether the means of both roles differ: Welch's interval over models, text errors added (as claims have).

    With few models of a role the interval is over texts, and every pair of an encoder and a decoder has to differ.
    """
    one = next(iter(sides[0].values()))[0]
    corpora = [subject.corpus for subject in next(iter(sides[0].values()))]
    statistic = one.statistic
    gap, g = difference(*groups)
    gap = gap if several else one.sure(gap, *corpora)
    least = one.least(*(group.values for group in groups))
    above = bool(gap.value[0] > 0)
    pairs = gap if several else gaps_of(one, groups[0], groups[1], corpora)
    p = 2 * float((pairs.above(least) if above else pairs.below(-least)).max())
    base = [group for side in sides if (group := group_of(subjects, side, RANDOM)) and group.known]
    if len(base) == len(ROLES):
        there, _ = difference(*base)
        more = Estimates(gap.value - there.value, np.hypot(gap.error, there.error), min(gap.df, there.df))
        p = max(p, 2 * float((more.above(least) if above else more.below(-least))[0]))
    if p > level:
        return None
    (low,), (high,) = gap.interval()
    means = [group.mean for group in groups]
    models = [model for side in sides for model in side]
    notes = [] if len(base) == len(ROLES) else [UNKNOWN]
    if several:
        told = " and ".join(
            f"{number(m)} for {len(group.values)} {role}s" for m, group, role in zip(means, groups, ROLES, strict=True)
        )
        says = f"Encoders and decoders differ in the {statistic.title}: {told}, on average over {one.averaged}."
        test = f"Welch's t over independent models; the means differ by more than {least:.2g}"
        notes = [*(() if g is None else (f"Hedges' g over models is {number(g)}",)), *notes]
    else:
        says = (
            f"{capital(one.title)} is {_told(sides[0], means[0], ROLES[0])} and {_told(sides[1], means[1], ROLES[1])}, "
        )
        says += f"on average over {one.averaged}. {_scope(groups)}"
        test = f"each encoder differs from each decoder by more than {least:.2g}, by an interval over texts"
        notes = [*_first_tokens(subjects, models, one.view), *notes]
    return Answer(
        says=says,
        full_name=one.full_name,
        model=None,
        corpus=corpora[0] if len(subjects.corpora) > 1 and len(corpora) == 1 else None,
        view=one.view,
        value=float(gap.value[0]),
        interval=(float(low), float(high)),
        p=min(1.0, p),
        effect=min(one.effect(float(gap.value[0]), *means), typical(sides, above)),
        what=f"{statistic.title}, mean over {one.averaged} and corpora: encoders minus decoders",
        test=test,
        curves=curves_of(sides),
        notes=(*left_out(sides), *notes),
        read=(models, (one.view,), (statistic.name,)),
    )


def _told(side: Side, mean: float, role: str) -> str:
    """Give the number of a role that has few models."""
    return f"{number(mean)} in {f'the {role} {next(iter(side))}' if len(side) == 1 else f'{len(side)} {role}s'}"


def _scope(groups: Sequence[Group]) -> str:
    """Say of what a comparison of few models speaks."""
    sizes = [len(group.values) for group in groups]
    few = "One of each" if sizes == [1, 1] else "Few models"
    return f"{few}: this says nothing about encoders and decoders in general."


def _first_tokens(subjects: Subjects, models: Sequence[str], view: str) -> list[str]:
    """Warn where models begin their texts differently and the view counts these tokens."""
    first = subjects.numbers.first_tokens(models)
    if view == "no-sinks" or len(set(first.values())) < 2:
        return []
    told = ", ".join(f"{model} with {'a word' if token == 'word' else token}" for model, token in first.items())
    return [f"the models begin their texts differently ({told}), and the view '{view}' counts these tokens"]
