"""A tiny plot of one number: our interval, the paper's number and the range in which the claim holds, on one axis."""

from __future__ import annotations

import re
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
        bound: what it is compared with, in words; see :func:`ranges`.
    """
    value, low, high, paper = (None if is_null(row[name]) else float(row[name]) for name in _NUMBERS)
    if value is None:
        return None
    interval = None if low is None or high is None else (low, high)
    holds = ranges(bound)
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


def ranges(bound: str) -> tuple[tuple[float, float], ...]:
    """Return the ranges in which a claim holds, as its evidence says them.

    ``0.5 ± 0.1``, ``within ± 0.1``, ``beyond ± 0.1``, ``> 0.5``, ``< 0.5``, ``> 0.4 and < 0.6``. Anything else has no
    range that could be drawn.
    """
    text = bound.replace("−", "-")
    if found := re.fullmatch(rf"(?:within|({_NUMBER}))? ?± ?({_NUMBER})", text):
        middle, reach = float(found[1] or 0), float(found[2])
        return ((middle - reach, middle + reach),)
    if found := re.fullmatch(rf"(?:> ({_NUMBER}))?(?: and )?(?:< ({_NUMBER}))?", text):
        low, high = found.groups()
        ends = (-inf if low is None else float(low), inf if high is None else float(high))
        return (ends,) if low or high else ()
    if found := re.fullmatch(rf"beyond ± ({_NUMBER})", text):
        return ((-inf, -float(found[1])), (float(found[1]), inf))
    return ()


_NUMBER = r"-?[0-9.]+(?:e[-+]?[0-9]+)?"
_NUMBERS = ("value", "ci_low", "ci_high", "paper")


def _anchor(x: float) -> str:
    return "start" if x < WIDTH * 0.15 else "end" if x > WIDTH * 0.85 else "middle"
