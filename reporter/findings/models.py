"""Where models of the same role differ, as far as texts tell: nothing is concluded about other models."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from reporter.findings.question import Answer, Question
from reporter.findings.roles import ROLES, Side, by_statistic, curves_of, gaps_of, group_of, left_out, typical
from reporter.findings.words import capital, number

if TYPE_CHECKING:
    from reporter.findings.subjects import Subjects

ONLY = "the interval is over texts: it speaks of these models, not of others like them"


def ask(subjects: Subjects) -> Iterator[Question]:
    """Ask of each statistic's mean over layers and corpora whether two models differ, where all have the same role."""
    if all(any(subjects.numbers.role_of(model) == role for model in subjects.models) for role in ROLES):
        return  # then the roles are what is compared
    for full_name, models in by_statistic(subjects):
        if len(models) > 1 and not subjects.statistics[full_name].within_role:
            yield Question("models", partial(_answer, subjects, models))


def _answer(subjects: Subjects, models: Side, level: float) -> Answer | None:
    """Tell which two models are furthest apart, of those that differ: corrected for all pairs of models."""
    one = next(iter(models.values()))[0]
    corpora = [subject.corpus for subject in next(iter(models.values()))]
    groups = [group for model, of in models.items() if (group := group_of(subjects, {model: of})) is not None]
    if len(groups) < len(models) or any(group.errors is None for group in groups):
        return None
    least = one.least(*(group.values for group in groups))
    order = sorted(groups, key=lambda group: group.mean)
    low, high = order[0], order[-1]
    gap = gaps_of(one, high, low, corpora)
    pairs = len(groups) * (len(groups) - 1) // 2
    p = min(1.0, 2 * pairs * float(gap.above(least)[0]))
    if p > level:
        return None
    (bottom,), (top,) = gap.interval()
    ends = (high.models[0], low.models[0])
    means, over = [low.mean, high.mean], f"on average over {one.averaged}"
    if len(groups) == 2:
        told = " and ".join(f"{number(group.mean)} in {group.models[0]}" for group in groups)
        says = f"{capital(one.title)} is {told}, {over}."
    else:
        says = f"{capital(one.title)} ranges from {number(low.mean)} in {low.models[0]} to {number(high.mean)} in "
        says += f"{high.models[0]} over {len(groups)} models, {over}."
    return Answer(
        says=says,
        full_name=one.full_name,
        model=None,
        corpus=corpora[0] if len(subjects.corpora) > 1 and len(corpora) == 1 else None,
        view=one.view,
        value=float(gap.value[0]),
        interval=(float(bottom), float(top)),
        p=p,
        effect=min(one.effect(float(gap.value[0]), *means), typical([{m: models[m]} for m in ends], above=True)),
        what=f"{one.statistic.title}, mean over {one.averaged} and corpora: {high.models[0]} minus {low.models[0]}",
        test=f"both models differ by more than {least:.2g}, by an interval over texts"
        + f", corrected for {pairs} pairs of models" * (pairs > 1),
        curves=curves_of([models]),
        notes=(*left_out([models]), ONLY),
        read=(list(models), (one.view,), (one.statistic.name,)),
    )
