"""What a page can show of a figure: for each state of the controls, the axis and a sentence for each corpus.

The page's script only picks rows and looks these up, so that whatever is said about numbers is said, and
tested, here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reporter.metrics.base import Statistic
from reporter.report.axes import Axis, axis
from reporter.report.moments import Moment
from reporter.report.readings import Course, Point, course, read_courses, read_points, read_training

if TYPE_CHECKING:
    import pandas as pd

MEAN = "mean"
"""The choice of layer in a training chart that averages over all layers."""
VALUES = ["value", "ci_low", "ci_high"]


@dataclass(frozen=True)
class Shown:
    """One state of a figure.

    Args:
        axis: reach of the value axis, the same for all corpora.
        readings: a sentence for each corpus.
    """

    axis: Axis
    readings: dict[str, str]


def over_moments(
    frame: pd.DataFrame, statistic: Statistic, views: Sequence[str], moments: Sequence[Moment]
) -> dict[str, Shown]:
    """Return a profile's or dot plot's state for each ``view|number of the moment``."""
    lines = _lines(frame, statistic)
    states = {}
    for view in views:
        for number, moment in enumerate(moments):
            keys = [(view, model, checkpoint) for model, checkpoint in moment.shown.items()]
            shown = [line for key in keys for line in lines.get(key, [])]
            reach = axis(
                [value for line in shown if not line.is_floor for value in line.numbers],
                [value for line in shown if line.is_floor for value in line.numbers],
                statistic.bounds,
            )
            found: dict[str, list[Course | Point]] = {}
            for line in shown:
                if not line.is_floor and (summary := line.summary()):
                    found.setdefault(line.corpus, []).append(summary)
            states[f"{view}|{number}"] = Shown(reach, {corpus: _read(items) for corpus, items in found.items()})
    return states


def over_layers(frame: pd.DataFrame, statistic: Statistic, views: Sequence[str]) -> dict[str, Shown]:
    """Return a training chart's state for each ``view|layer``; ``mean`` is the average over layers."""
    layers = frame["layer"].astype("string").fillna(MEAN)
    lines: dict[str, dict[tuple[str, str, str], list[tuple[float, float]]]] = {}
    columns = (frame[name] for name in ("view", "corpus", "role", "model", "step", "value"))
    for layer, view, corpus, role, model, step, value in zip(layers, *columns, strict=True):
        line = lines.setdefault(f"{view}|{layer}", {}).setdefault((corpus, str(role), model), [])
        line.append((step, value))
    states = {}
    for state, own in lines.items():
        if state.partition("|")[0] not in views:
            continue
        found: dict[str, list[Course]] = {}
        for (corpus, role, model), points in own.items():
            if summary := course(model, role, *zip(*points, strict=True)):
                found.setdefault(corpus, []).append(summary)
        reach = axis([value for points in own.values() for _, value in points], (), statistic.bounds)
        states[state] = Shown(reach, {corpus: read_training(courses) for corpus, courses in found.items()})
    return states


@dataclass
class _Line:
    """What one model shows on one corpus: its values over depth, or its single number."""

    model: str
    role: str
    corpus: str
    is_floor: bool
    depths: list[float]
    values: list[float]
    numbers: list[float]

    def summary(self) -> Course | Point | None:
        if any(depth == depth for depth in self.depths):
            return course(self.model, self.role, self.depths, self.values)
        seen = [value for value in self.values if value == value]
        return Point(self.model, self.role, seen[0]) if seen else None


def _lines(frame: pd.DataFrame, statistic: Statistic) -> dict[tuple[str, str, str], list[_Line]]:
    """Gather rows into lines, by view, model and checkpoint. Loops: pandas' groups would take seconds."""
    names = ["view", "model", "checkpoint", "corpus", "statistic", "role", *VALUES]
    depths = list(frame["depth"]) if "depth" in frame else [math.nan] * len(frame)
    lines: dict[tuple[str, ...], _Line] = {}
    for row, depth in zip(zip(*(list(frame[name]) for name in names), strict=True), depths, strict=True):
        view, model, checkpoint, corpus, name, role, value, low, high = row
        key = (view, model, checkpoint, corpus, name)
        if key not in lines:
            lines[key] = _Line(model, str(role), corpus, name != statistic.name, [], [], [])
        line = lines[key]
        line.depths.append(depth)
        line.values.append(value)
        line.numbers += [value, low, high]
    found: dict[tuple[str, str, str], list[_Line]] = {}
    for (view, model, checkpoint, _, _), line in lines.items():
        found.setdefault((view, model, checkpoint), []).append(line)
    return found


def _read(items: Sequence[Course | Point]) -> str:
    courses = [item for item in items if isinstance(item, Course)]
    return read_courses(courses) if courses else read_points([i for i in items if isinstance(i, Point)])
