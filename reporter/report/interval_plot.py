"""A tiny plot of one number: our interval, the paper's number and the range in which the claim holds, on one axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from reporter.charts.numbers import is_null, short

WIDTH = 300
_MARGIN = 12


@dataclass(frozen=True)
class Tick:
    """A labelled place on the axis; ``anchor`` as in SVG, so that no label leaves the picture."""

    x: float
    label: str
    anchor: str


@dataclass(frozen=True)
class IntervalPlot:
    """Coordinates for an SVG of width ``WIDTH``, and the same in words.

    Args:
        value: where our number is.
        interval: where its interval begins and ends; None where it has none.
        paper: where the paper's number is; None where it gives none.
        bands: where the ranges begin and end in which the claim holds; none where they are not known.
        ticks: the bounds, or else the ends of what is shown.
        sentence: everything in words.
    """

    value: float
    interval: tuple[float, float] | None
    paper: float | None
    bands: tuple[tuple[float, float], ...]
    ticks: tuple[Tick, ...]
    sentence: str


def interval_plot(row: Mapping[str, Any], bound: str) -> IntervalPlot | None:
    """Lay out the number of a claim; None where there is no number, or nothing to see it against.

    Args:
        row: a row of the table ``claims``.
        bound: what it is compared with, in words.
    """
    value, low, high, paper = (None if is_null(row[name]) else float(row[name]) for name in _NUMBERS)
    if value is None:
        return None
    interval = None if low is None or high is None else (low, high)
    holds = _ranges(row)
    bounds = sorted({end for pair in holds for end in pair if isfinite(end)})
    marks = [number for number in (value, low, high, paper, *bounds) if number is not None]
    if min(marks) == max(marks):
        return None
    room = (max(marks) - min(marks)) * 0.06
    start, scale = min(marks) - room, (WIDTH - 2 * _MARGIN) / (max(marks) - min(marks) + 2 * room)

    def x(number: float) -> float:
        place = _MARGIN + (number - start) * scale if isfinite(number) else WIDTH * (number > 0)
        return round(place, 1)

    parts = [f"ours {short(value)}"]
    if interval:
        parts.append(f"interval {short(interval[0])} to {short(interval[1])}")
    if paper is not None:
        parts.append(f"paper {short(paper)}")
    if bound:
        parts.append(f"holds if {bound}")
    return IntervalPlot(
        value=x(value),
        interval=None if interval is None else (x(interval[0]), x(interval[1])),
        paper=None if paper is None else x(paper),
        bands=tuple((x(begin), x(end)) for begin, end in holds),
        ticks=tuple(Tick(x(end), short(end), _anchor(x(end))) for end in bounds or (min(marks), max(marks))),
        sentence="; ".join(parts),
    )


def _ranges(row: Mapping[str, Any]) -> tuple[tuple[float, float], ...]:
    """Return the ranges in which a claim holds: none where they are not known, two where it holds outside of one."""
    low, high = (None if is_null(row[name]) else float(row[name]) for name in ("holds_low", "holds_high"))
    ends = (-inf if low is None else low, inf if high is None else high)
    if low is None and high is None:
        return ()
    return ((-inf, ends[0]), (ends[1], inf)) if row["holds_outside"] else (ends,)


_NUMBERS = ("value", "ci_low", "ci_high", "paper")


def _anchor(x: float) -> str:
    return "start" if x < WIDTH * 0.15 else "end" if x > WIDTH * 0.85 else "middle"
