"""What a page can show of a figure: for each view and moment (or layer), the axis and a sentence for each corpus.

The page's script only picks rows and looks these up, so that whatever is said about numbers is said, and tested, here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    own = frame[frame["statistic"] == statistic.name]
    floors = frame[frame["statistic"] != statistic.name]
    keys = ["view", "model", "checkpoint"]
    values = {key: _numbers(part[VALUES]) for key, part in own.groupby(keys)}
    nulls = {key: _numbers(part[["value"]]) for key, part in floors.groupby(keys)}
    summary = _points if "depth" not in frame or not frame["depth"].notna().any() else _courses
    summaries = {key: summary(part) for key, part in own.groupby(keys)}

    states = {}
    for view in views:
        for number, moment in enumerate(moments):
            shown = [(view, model, checkpoint) for model, checkpoint in moment.shown.items()]
            reach = axis(
                [v for key in shown for v in values.get(key, [])],
                [v for key in shown for v in nulls.get(key, [])],
                statistic.bounds,
            )
            found: dict[str, list[Course | Point]] = {}
            for key in shown:
                for corpus, item in summaries.get(key, {}).items():
                    found.setdefault(corpus, []).append(item)
            states[f"{view}|{number}"] = Shown(reach, {corpus: _read(items) for corpus, items in found.items()})
    return states


def over_layers(frame: pd.DataFrame, statistic: Statistic, views: Sequence[str]) -> dict[str, Shown]:
    """Return a training chart's state for each ``view|layer``; layer is ``mean`` for the average over layers."""
    layers = frame["layer"].map(lambda layer: MEAN if layer != layer else str(int(layer)))
    states = {}
    for (view, layer), part in frame.groupby([frame["view"], layers]):
        if view not in views:
            continue
        readings = {}
        for corpus, rows in part.groupby("corpus"):
            lines = [
                line
                for (role, model), own in rows.groupby(["role", "model"], dropna=False)
                if (line := course(str(model), str(role), list(own["step"]), list(own["value"])))
            ]
            readings[str(corpus)] = read_training(int(rows["step"].max()), lines) if lines else ""
        states[f"{view}|{layer}"] = Shown(axis(_numbers(part[["value"]]), (), statistic.bounds), readings)
    return states


def _numbers(part: pd.DataFrame) -> list[float]:
    return [float(value) for column in part for value in part[column].dropna()]


def _courses(part: pd.DataFrame) -> Mapping[str, Course | Point]:
    found: dict[str, Course | Point] = {}
    for corpus, rows in part.groupby("corpus"):
        first = rows.iloc[0]
        line = course(
            str(first["model"]),
            str(first["role"]),
            [float(depth) for depth in rows["depth"]],
            [float(value) for value in rows["value"]],
        )
        if line:
            found[str(corpus)] = line
    return found


def _points(part: pd.DataFrame) -> Mapping[str, Course | Point]:
    rows = part[part["value"].notna()]
    columns = zip(rows["corpus"], rows["model"], rows["role"], rows["value"], strict=True)
    return {str(corpus): Point(str(model), str(role), float(value)) for corpus, model, role, value in columns}


def _read(items: Sequence[Course | Point]) -> str:
    courses = [item for item in items if isinstance(item, Course)]
    return read_courses(courses) if courses else read_points([i for i in items if isinstance(i, Point)])
