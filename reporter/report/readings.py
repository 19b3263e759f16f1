"""Plain sentences about what a panel shows, computed from the numbers that it draws. They name no winner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reporter.report.numbers import short, span


@dataclass(frozen=True)
class Course:
    """One line over depth: where it starts, ends and is highest."""

    model: str
    role: str
    first: float
    last: float
    top: float
    top_depth: float


@dataclass(frozen=True)
class Point:
    """One number of a whole model."""

    model: str
    role: str
    value: float


def course(model: str, role: str, depths: Sequence[float], values: Sequence[float]) -> Course | None:
    """Summarise a line; None where it has no values. NaN is passed over.

    Args:
        model: name of the model.
        role: its role.
        depths: relative depth of each value, rising.
        values: the values, NaN where there is none.
    """
    seen = [(depth, value) for depth, value in zip(depths, values, strict=True) if value == value]
    if not seen:
        return None
    top_depth, top = max(seen, key=lambda pair: pair[1])
    return Course(model, role, seen[0][1], seen[-1][1], top, top_depth)


def read_courses(courses: Sequence[Course]) -> str:
    """Say where lines start, end and are highest, one clause for each role.

    ``bert 0.12 → 0.31, highest 0.35 at depth 0.25 · 3 decoders 0.05–0.1 → …``
    """
    clauses = []
    for name, group in _by_role(courses):
        ends = f"{span([c.first for c in group])} → {span([c.last for c in group])}"
        top, where = span([c.top for c in group]), span([c.top_depth for c in group])
        clauses.append(f"{name} {ends}, highest {top} at depth {where}")
    return " · ".join(clauses)


def read_points(points: Sequence[Point]) -> str:
    """Say the value of each role: ``bert 0.083 · 3 decoders 0.05–0.19``."""
    return " · ".join(f"{name} {span([p.value for p in group])}" for name, group in _by_role(points))


def read_training(step: int, courses: Sequence[Course]) -> str:
    """Say how values moved between the first and the last step: ``gpt2 0.05 → 0.41 by step 600``."""
    return " · ".join(f"{c.model} {short(c.first)} → {short(c.last)}" for c in courses) + f" by step {step:,}"


def _by_role(items: Sequence[Course] | Sequence[Point]) -> list[tuple[str, list]]:  # type: ignore[type-arg]
    groups: dict[str, list[Course | Point]] = {}
    for item in items:
        groups.setdefault(item.role, []).append(item)
    order = sorted(groups, key=lambda role: (role != "encoder", role != "decoder", role))
    return [
        (groups[role][0].model if len(groups[role]) == 1 else f"{len(groups[role])} {role}s", groups[role])
        for role in order
    ]
