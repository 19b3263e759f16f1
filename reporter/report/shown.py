"""What a page can show of a figure: for each state of the controls, the axis and a sentence for each panel.

The page's script only picks rows and looks these up, so that whatever is said about numbers is said, and
tested, here.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reporter.metrics.base import Statistic
from reporter.report.axes import Axis, axis
from reporter.report.layout import MEAN
from reporter.report.readings import Course, Point, course, read_courses, read_points, read_training
from reporter.report.scene import ATTENTION, PATH, WITHOUT, Scene

if TYPE_CHECKING:
    import pandas as pd

VALUES = ["value", "ci_low", "ci_high"]
BASELINE = "baseline"


@dataclass(frozen=True)
class Shown:
    """One state of a figure.

    Args:
        readings: a sentence for each panel, by its value.
        axis: reach of the value axis, the same for all panels; None where the chart chooses it.
    """

    readings: dict[str, str]
    axis: Axis | None = None


def over_moments(frame: pd.DataFrame, statistic: Statistic, scene: Scene) -> dict[str, Shown]:
    """Return a profile's state for each ``site|view|moment|baselines``; a dot plot's has no site."""
    lines = _lines(frame, statistic, scene)
    sites = scene.sites if "site" in frame else [PATH]
    states = {}
    for site in sites:
        for view in scene.views:
            for number, moment in enumerate(scene.moments):
                keys = [(site, view, *pair) for pair in moment.shown.items()]
                found = [line for key in keys for line in lines.get(key, [])]
                for choice in scene.baselines:
                    own = [line for line in found if choice != WITHOUT or line.role != BASELINE]
                    key = [site] if "site" in frame else []
                    states["|".join([*key, view, str(number), choice])] = _state(own, statistic)
    return states


def over_layers(frame: pd.DataFrame, statistic: Statistic, scene: Scene) -> dict[str, Shown]:
    """Return a training chart's state for each ``view|layer|baselines``; ``mean`` is the average over layers."""
    layers = frame["layer"].astype("string").fillna(MEAN)
    roles = roles_of(scene)
    lines: dict[tuple[str, str], dict[tuple[str, str, str], list[tuple[float, float]]]] = {}
    columns = (frame[name] for name in ("view", "corpus", "role", "model", "step", "value"))
    for layer, view, corpus, role, model, step, value in zip(layers, *columns, strict=True):
        line = lines.setdefault((view, layer), {}).setdefault((corpus, roles.get(model, str(role)), model), [])
        line.append((step, value))
    states = {}
    for (view, layer), own in lines.items():
        for choice in scene.baselines:
            kept = {key: points for key, points in own.items() if choice != WITHOUT or key[1] != BASELINE}
            found: dict[str, list[Course]] = {}
            for (corpus, role, model), points in kept.items():
                if role != BASELINE and (summary := course(model, role, *zip(*points, strict=True))):
                    found.setdefault(corpus, []).append(summary)
            reach = axis([value for points in kept.values() for _, value in points], (), statistic.bounds)
            readings = {corpus: read_training(courses) for corpus, courses in found.items()}
            states[f"{view}|{layer}|{choice}"] = Shown(readings, reach)
    return states


def over_comparisons(frame: pd.DataFrame, statistic: Statistic, scene: Scene) -> dict[str, Shown]:
    """Return the state of a chart of differences for each ``view|moment|statistic|baselines``."""
    roles = roles_of(scene)
    place = ["view", "statistic", "model", "checkpoint", "model_b", "checkpoint_b"]
    groups: dict[tuple[str, ...], list[dict[Hashable, Any]]] = {}
    for row in frame.to_dict("records"):
        groups.setdefault(tuple(str(row[name]) for name in place), []).append(row)
    states: dict[str, list[_Line]] = {}
    names = dict.fromkeys(str(name) for name in frame["statistic"])
    for view in scene.views:
        for number in range(len(scene.moments)):
            states.update({f"{view}|{number}|{name}|{choice}": [] for name in names for choice in scene.baselines})
    for (view, name, model, checkpoint, base, checkpoint_b), rows in groups.items():
        by_panel: dict[str, _Line] = {}
        for row in rows:
            panel = str(row["comparison"])
            line = by_panel.setdefault(panel, _Line(model, roles.get(model, "other"), panel, False, False))
            line.add(row.get("depth", math.nan), [row[name] for name in VALUES])
        for number, moment in enumerate(scene.moments):
            if (moment.shown.get(model), moment.shown.get(base)) != (checkpoint, checkpoint_b):
                continue
            for choice in scene.baselines:
                if choice != WITHOUT or roles.get(model) != BASELINE:
                    states.get(f"{view}|{number}|{name}|{choice}", []).extend(by_panel.values())
    return {key: _state(lines, statistic, zero=True) for key, lines in states.items()}


def roles_of(scene: Scene) -> Mapping[str, str]:
    """The role by which each model is read: a null baseline is neither encoder nor decoder."""
    return {style.model: BASELINE if style.baseline else style.role for style in scene.styles.models}


class _Line:
    """What one model shows in one panel: its values over depth, or its single number."""

    def __init__(self, model: str, role: str, panel: str, is_floor: bool, is_final: bool) -> None:
        self.model, self.role, self.panel = model, role, panel
        self.is_floor, self.is_final = is_floor, is_final
        self.depths: list[float] = []
        self.values: list[float] = []
        self.numbers: list[float] = []

    def add(self, depth: float, values: Sequence[float]) -> None:
        self.depths.append(depth)
        self.values.append(values[0])
        self.numbers += values

    def summary(self) -> Course | Point | None:
        if any(depth == depth for depth in self.depths):
            return course(self.model, self.role, self.depths, self.values)
        seen = [value for value in self.values if value == value]
        return Point(self.model, self.role, seen[0]) if seen else None


def _state(lines: Iterable[_Line], statistic: Statistic, zero: bool = False) -> Shown:
    """Return axis and sentences of some lines.

    Sentences are about the models of the study: null baselines are left out, and so is the state after the closing
    norm, which is no part of a course over depth.
    """
    found: dict[str, list[Course | Point]] = {}
    values, floors = [0.0] if zero else [], []
    for line in lines:
        if line.is_floor:
            floors += [] if line.is_final else line.numbers
            continue
        values += line.numbers
        if not line.is_final and line.role != BASELINE and (summary := line.summary()):
            found.setdefault(line.panel, []).append(summary)
    if values == [0.0]:
        values = []
    bounds = (None, None) if zero else statistic.bounds
    return Shown({panel: _read(items) for panel, items in found.items()}, axis(values, floors, bounds))


def _lines(frame: pd.DataFrame, statistic: Statistic, scene: Scene) -> dict[tuple[str, str, str, str], list[_Line]]:
    """Gather rows into lines, by site, view, model and checkpoint. Loops: pandas' groups would take seconds."""
    names = ["view", "model", "checkpoint", "corpus", "statistic", "role"]
    depths = list(frame["depth"]) if "depth" in frame else [math.nan] * len(frame)
    sites = list(frame["site"]) if "site" in frame else [""] * len(frame)
    keys = zip(*(list(frame[name]) for name in names), sites, depths, strict=True)
    numbers = zip(*(list(frame[name]) for name in VALUES), strict=True)
    roles = roles_of(scene)
    lines: dict[tuple[Any, ...], _Line] = {}
    for (view, model, checkpoint, corpus, name, role, site, depth), values in zip(keys, numbers, strict=True):
        where = ATTENTION if site == ATTENTION else PATH
        key = (where, view, model, checkpoint, corpus, name, site == "final")
        if key not in lines:
            its = roles.get(model, str(role))
            lines[key] = _Line(model, its, corpus, name != statistic.name, site == "final")
        lines[key].add(depth, values)
    found: dict[tuple[str, str, str, str], list[_Line]] = {}
    for (where, view, model, checkpoint, *_), line in lines.items():
        found.setdefault((where, view, model, checkpoint), []).append(line)
    return found


def _read(items: Sequence[Course | Point]) -> str:
    courses = [item for item in items if isinstance(item, Course)]
    return read_courses(courses) if courses else read_points([i for i in items if isinstance(i, Point)])
