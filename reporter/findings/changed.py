"""What changed in a model against its base: its states, its loss, and its headline numbers.

From which layer on states differ is the answer to "What changed against the base?" (:mod:`reporter.answers.changed`).
Both sides are measured on the same texts, so a difference beyond rounding, or beyond what bf16 products do, is no
matter of chance. A difference beyond another seed is one, so it is tested again here, corrected for all layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.claims.numbers import PATH, Missing
from reporter.claims.points import Estimates
from reporter.claims.profiles import Profile, Profiles
from reporter.findings.question import Answer, Curve, Question
from reporter.findings.subjects import MATERIAL, Subject
from reporter.findings.words import capital, number
from reporter.geometry.intervals import standard_error
from reporter.places import place

if TYPE_CHECKING:
    from reporter.findings.subjects import Subjects

DISTANCE, LOSS = "change.distance", "loss.lm"
SEED = f"{DISTANCE}_seed"
SEEDED = "the same model from another seed"
NOT_MOVED = {
    "rounding": "no token's state moved by more than rounding",
    "precision": "no layer lies farther from it than products in bf16 may take it",
}


def ask_states(subjects: Subjects) -> Iterator[Question]:
    """Ask of each model with a base whether its states differ from the base's."""
    for row in subjects.changed.get("change_answers", ()):
        if (subject := _subject(subjects, DISTANCE, row)) is not None:
            yield Question("base", partial(_states, subject, row))


def ask_loss(subjects: Subjects) -> Iterator[Question]:
    """Ask of each model with a base whether its loss differs from the base's."""
    for row in subjects.changed.get("change_answers", ()):
        subject = _subject(subjects, LOSS, row)
        if subject is not None and row["loss"] and row["loss_low"] is not None:
            yield Question("base-loss", partial(_loss, subject, row))


def ask_numbers(subjects: Subjects) -> Iterator[Question]:
    """Ask of each headline statistic of layers whether it differs from the base's, at any layer."""
    for full_name, statistic in subjects.statistics.items():
        if statistic.per not in ("layer", "step") or full_name in subjects.against_base:
            continue
        for model, base in subjects.with_base.items():
            for corpus in subjects.corpora:
                subject = Subject(subjects, full_name, statistic, model, corpus)
                own, before = (subject.profile(subject.view, name) for name in (model, base))
                if own is not None and before is not None and own.labels == before.labels:
                    yield Question("base-numbers", partial(_number, subject, own, before))


def _subject(subjects: Subjects, full_name: str, row: Mapping[str, Any]) -> Subject | None:
    statistic = subjects.statistics.get(full_name)
    known = statistic is not None and row["model"] in subjects.with_base and row["corpus"] in subjects.corpora
    return Subject(subjects, full_name, statistic, row["model"], row["corpus"]) if known and statistic else None


def _states(subject: Subject, row: Mapping[str, Any], level: float) -> Answer | None:
    model, base, view, noise = subject.model, row["base"], row["view"], row["noise"]
    own, seeded = subject.profile(view), noise == "seed"
    seeds = subject.profile(view, full_name=SEED) if seeded else None
    p, first = 0.0, row["first_layer"]
    test = f"states are compared token by token on the same texts, where chance makes no difference beyond {noise}"
    if seeded:
        test = f"each layer's distance from the base compared with that from {SEEDED}, corrected for all layers"
    if row["changed"] and seeded:
        found = _beyond_seed(subject, own, seeds, level)
        if found is None:
            return None
        first, p = found
        says = f"{model} lies farther from its base {base} than from {SEEDED}{subject.on}, "
    elif row["changed"]:
        says = f"{model} differs{' only slightly' * row['small']} from its base {base}{subject.on}, "
    elif seeded:
        says = f"{model} lies no farther from its base {base} than from {SEEDED}{subject.on}."
    else:
        says = f"{model} does not differ from its base {base}{subject.on}: {NOT_MOVED[noise]}."
    if row["changed"]:
        says += f"from {place(first)} on: at the last layer, states lie {number(row['last_distance'])} lengths of the "
        says += "base's state away from it."
    value = float(row["last_distance"])
    ends = [value if row[name] is None else float(row[name]) for name in ("last_low", "last_high")]
    curves = [] if own is None else [Curve(subject.model, own.x, own.values)]
    curves += [] if seeds is None else [Curve("another seed", seeds.x, seeds.values, own=False)]
    at = own.labels.index(first) if own is not None and first in own.labels else None
    return Answer(
        says=says,
        full_name=DISTANCE,
        model=subject.model,
        corpus=subject.corpus,
        view=view,
        value=value,
        interval=(ends[0], ends[1]),
        p=p,
        effect=max(MATERIAL, min(1.0, value)),
        what=f"{subject.statistic.title}, in lengths of that state, at the last layer",
        test=test,
        layers=None if first is None else (first, row["layers"]),
        curves=tuple(curves),
        mark=None if own is None or at is None else (float(own.x[at]), float(own.x[-1])),
        notes=() if own is None else own.notes,
        read=((subject.model,), (view,), ("distance", "distance_seed")),
        fact=f"{subject.model} {row['changed']}",
    )


def _beyond_seed(
    subject: Subject, own: Profile | None, seeds: Profile | None, level: float
) -> tuple[int, float] | None:
    """Return the first layer that lies farther from the base than from another seed, and its p-value."""
    if own is None or seeds is None or own.errors is None or seeds.errors is None:
        return None
    shared = [label for label in own.labels if label in seeds.labels]
    a, b = (np.array([profile.labels.index(label) for label in shared]) for profile in (own, seeds))
    gap = Estimates(own.values[a] - seeds.values[b], np.hypot(own.errors[a], seeds.errors[b]), np.inf)
    p = np.minimum(1.0, len(shared) * subject.sure(gap).above(0.0))
    at = np.flatnonzero(p <= level)
    return (shared[int(at[0])], float(p[at[0]])) if len(at) else None


def _loss(subject: Subject, row: Mapping[str, Any], level: float) -> Answer | None:
    value, low, high = (float(row[name]) for name in ("loss", "loss_low", "loss_high"))
    error = standard_error(value, low, high)
    if error is None:
        return None
    least = subject.statistic.smallest or 0.0
    gap = subject.sure(Estimates(np.array([value]), np.array([error]), np.inf))
    p = 2 * float((gap.above(least) if value > 0 else gap.below(-least))[0])
    try:
        own, before = (
            Profiles(subject.study.numbers, LOSS, row["view"]).last(model, subject.corpus)[0]
            for model in (subject.model, row["base"])
        )
    except Missing:
        return None
    if p > level:
        return None
    says = f"The loss of {subject.model} is {'higher' if value > 0 else 'lower'} than that of its base {row['base']}"
    return Answer(
        says=f"{says}{subject.on}: {number(own)} against {number(before)} nats.",
        full_name=LOSS,
        model=subject.model,
        corpus=subject.corpus,
        view=row["view"],
        value=value,
        interval=(low, high),
        p=p,
        effect=max(MATERIAL, min(1.0, abs(value))),
        what=f"{subject.statistic.title} in nats, minus that of {row['base']}",
        test=f"the loss differs from the base's by more than {least:.2g}, paired over texts",
        read=((subject.model, row["base"]), (row["view"],), ("lm",)),
        fact=f"{subject.model} {value > 0}",
    )


def _number(subject: Subject, own: Profile, before: Profile, level: float) -> Answer | None:
    """Tell at which layer a number is furthest from the base's, of those where it differs, corrected for all layers."""
    base, size = before.model, len(own.values)
    paired = {
        row.layer: row
        for row in subject.study.numbers.against_base(subject.full_name, subject.view)
        if (row.model, row.corpus) == (subject.model, subject.corpus) and row.site in PATH and row.low is not None
    }
    if all(label in paired for label in own.labels):
        rows = [paired[label] for label in own.labels]
        gaps = np.array([row.value for row in rows], dtype=float)
        known = [standard_error(float(row.value or 0.0), row.low, row.high) for row in rows]
        errors, how = np.array([np.inf if error is None else error for error in known]), "paired over texts"
    elif own.errors is not None and before.errors is not None:
        gaps, errors, how = own.values - before.values, np.hypot(own.errors, before.errors), "over texts, not paired"
    else:
        return None
    least = subject.least(own.values, before.values)
    estimates = subject.sure(Estimates(gaps, errors, np.inf))
    p = np.minimum(1.0, 2 * size * np.minimum(estimates.above(least), estimates.below(-least)))
    top = int(np.where(p <= level, np.abs(gaps), -1.0).argmax())
    if p[top] > level:
        return None
    alike = [own.labels[i] for i in range(size) if p[i] <= level and gaps[i] * gaps[top] > 0]
    low, high = (float(end[top]) for end in estimates.interval())
    values = [float(profile.values[top]) for profile in (own, before)]
    says = f"{capital(subject.title)} is {'higher' if gaps[top] > 0 else 'lower'} in {subject.model} than in its base "
    says += f"{base}{subject.on}, "
    says += f"most at {subject.places([own.labels[top]])}" if len(alike) > 1 else f"at {subject.places(alike)}"
    return Answer(
        says=f"{says}: {number(values[0])} against {number(values[1])}.",
        full_name=subject.full_name,
        model=subject.model,
        corpus=subject.corpus,
        view=subject.view,
        value=float(gaps[top]),
        interval=(low, high),
        p=float(p[top]),
        effect=subject.effect(float(gaps[top]), *values),
        what=f"{subject.statistic.title}, {subject.places([own.labels[top]], whole=False)}: minus that of {base}",
        test=f"the number differs from the base's by more than {least:.2g}, {how}, corrected for {size} "
        f"{subject.averaged}; it holds in {subject.places(alike, whole=False)}",
        layers=(min(alike), max(alike)),
        curves=(
            Curve(subject.model, own.x, own.values, number=values[0]),
            Curve(base, before.x, before.values, own=False, number=values[1]),
        ),
        mark=(float(own.x[top]), float(own.x[top])),
        notes=own.notes,
        read=((subject.model, base), (subject.view,), (subject.statistic.name,)),
        fact=f"{subject.full_name} {subject.model} {gaps[top] > 0}",
    )
