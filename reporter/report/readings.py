"""Plain sentences about what a panel shows, computed from the numbers that it draws. They name no winner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reporter.report.numbers import span, whole

ROLES = {"encoder": "encoders", "decoder": "decoders"}
FEW = 4
"""As many models are named one by one."""


@dataclass(frozen=True)
class Course:
    """One line over depth (or over training steps): where it starts, ends and is highest."""

    model: str
    role: str
    start: float
    first: float
    end: float
    last: float
    top_at: float
    top: float


@dataclass(frozen=True)
class Point:
    """One number of a whole model."""

    model: str
    role: str
    value: float


def course(model: str, role: str, places: Sequence[float], values: Sequence[float]) -> Course | None:
    """Summarise a line; None where it has no values. NaN is passed over.

    Args:
        model: name of the model.
        role: its role.
        places: relative depth (or step) of each value, rising.
        values: the values, NaN where there is none.
    """
    seen = [(place, value) for place, value in zip(places, values, strict=True) if value == value]
    if not seen:
        return None
    return Course(model, role, *seen[0], *seen[-1], *max(seen, key=lambda pair: pair[1]))


def read_courses(courses: Sequence[Course]) -> str:
    """Say where lines start, end and peak, one clause for each role.

    ``bert 0.12 → 0.31, peak 0.35 at depth 0.25 · 3 decoders 0.05–0.1 → …``; the peak's value is left out
    where it is that of an end.
    """
    clauses = []
    for name, group in _by_role(courses):
        first, last = span([c.first for c in group]), span([c.last for c in group])
        top, where = span([c.top for c in group]), span([c.top_at for c in group])
        peak = "peak" if top in (first, last) else f"peak {top}"
        clauses.append(f"{name} {first} → {last}, {peak} at depth {where}")
    return " · ".join(clauses)


def read_points(points: Sequence[Point]) -> str:
    """Say the value of each role: ``bert 0.083 · 3 decoders 0.05–0.19``."""
    return " · ".join(f"{name} {span([p.value for p in group])}" for name, group in _by_role(points))


def read_training(courses: Sequence[Course]) -> str:
    """Say how values moved between a model's first and last step: ``gpt2 0.05 → 0.41 (steps 0 to 600)``.

    More models than four are read by role.
    """
    groups = _by_role(courses)
    if len(courses) <= FEW:
        groups = [(line.model, [line]) for _, group in groups for line in group]
    return " · ".join(
        f"{name} {span([c.first for c in group])} → {span([c.last for c in group])} "
        f"(steps {whole(min(c.start for c in group))} to {whole(max(c.end for c in group))})"
        for name, group in groups
    )


def _by_role(items: Sequence[Course] | Sequence[Point]) -> list[tuple[str, list]]:  # type: ignore[type-arg]
    groups: dict[str, list[Course | Point]] = {}
    for item in items:
        groups.setdefault(item.role, []).append(item)
    order = sorted(groups, key=lambda role: (role != "encoder", role != "decoder", role))
    return [
        (
            groups[role][0].model if len(groups[role]) == 1 else f"{len(groups[role])} {ROLES.get(role, 'models')}",
            groups[role],
        )
        for role in order
    ]
