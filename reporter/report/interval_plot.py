"""A tiny plot of one number: our interval, the paper's number and the range in which the claim holds, on one axis."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reporter.report.numbers import is_null, short

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
        band: where the range begins and ends in which the claim holds; None where it is not known.
        ticks: the ends of the axis, or the bounds.
        target: the range in words, such as ``above 0.5``; empty where it is not known.
        sentence: everything in words.
    """

    value: float
    interval: tuple[float, float] | None
    paper: float | None
    band: tuple[float, float] | None
    ticks: tuple[Tick, ...]
    target: str
    sentence: str


def interval_plot(row: Mapping[str, Any], detail: Mapping[str, Any]) -> IntervalPlot | None:
    """Lay out the number of a claim; None where there is no number, or nothing to see it against.

    Args:
        row: a row of the table ``claims``.
        detail: its evidence; ``bound`` is read where it is a plain ``x ± y``, ``> x``, ``< x`` or ``x to y``.
    """
    value, low, high, paper = (None if is_null(row[name]) else float(row[name]) for name in _NUMBERS)
    least, most = _holds(detail)
    if value is None:
        return None
    interval = None if low is None or high is None else (low, high)
    marks = [number for number in (value, low, high, paper, least, most) if number is not None]
    if min(marks) == max(marks):
        return None
    room = (max(marks) - min(marks)) * 0.06
    start, scale = min(marks) - room, (WIDTH - 2 * _MARGIN) / (max(marks) - min(marks) + 2 * room)

    def x(number: float) -> float:
        return round(_MARGIN + (number - start) * scale, 1)

    has_band = least is not None or most is not None
    band = (0.0 if least is None else x(least), float(WIDTH) if most is None else x(most)) if has_band else None
    ends = sorted({number for number in (least, most) if number is not None}) or [min(marks), max(marks)]
    target = _target(least, most)
    parts = [f"ours {short(value)}"]
    if interval:
        parts.append(f"interval {short(interval[0])} to {short(interval[1])}")
    if paper is not None:
        parts.append(f"paper {short(paper)}")
    if target:
        parts.append(f"holds {target}")
    return IntervalPlot(
        value=x(value),
        interval=None if interval is None else (x(interval[0]), x(interval[1])),
        paper=None if paper is None else x(paper),
        band=band,
        ticks=tuple(Tick(x(end), short(end), _anchor(x(end))) for end in ends),
        target=target,
        sentence="; ".join(parts),
    )


_NUMBER = r"-?[0-9.]+(?:e[-+]?[0-9]+)?"
_NUMBERS = ("value", "ci_low", "ci_high", "paper")


def _holds(detail: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The range in which the claim holds; None for an end that is open or not known."""
    text = str(detail.get("bound") or "").replace("−", "-").replace(",", "")
    if found := re.fullmatch(rf"({_NUMBER}) ?± ?({_NUMBER})", text):
        return float(found[1]) - float(found[2]), float(found[1]) + float(found[2])
    if found := re.fullmatch(rf"(?:between )?({_NUMBER}) (?:to|and|…|–) ({_NUMBER})", text):
        return float(found[1]), float(found[2])
    if found := re.fullmatch(rf"([<>≤≥]) ?({_NUMBER})", text):
        return (float(found[2]), None) if found[1] in ">≥" else (None, float(found[2]))
    return None, None


def _target(least: float | None, most: float | None) -> str:
    if least is not None and most is not None:
        return f"from {short(least)} to {short(most)}"
    return f"above {short(least)}" if least is not None else f"below {short(most)}" if most is not None else ""


def _anchor(x: float) -> str:
    return "start" if x < WIDTH * 0.15 else "end" if x > WIDTH * 0.85 else "middle"
