"""What is said about a chart: for each state of the controls, the reach of the axis and a sentence for each panel.

The page's script only picks rows and looks these up, so that whatever is said about numbers is said, and tested, here.
Sentences are computed from the numbers that a panel draws, and name no winner.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reporter.charts.numbers import short, span, whole
from reporter.charts.scene import ATTENTION, PATH, WITHOUT, Scene

if TYPE_CHECKING:
    import pandas as pd

Bounds = tuple[float | None, float | None]
MEAN = "mean"
"""The choice of layer in a training chart that averages over all layers; on the page it stands for NULL."""
VALUES = ["value", "ci_low", "ci_high"]
BASELINE = "baseline"
ROLES = {"encoder": "encoders", "decoder": "decoders"}
FEW = 4
"""As many models are named one by one."""


@dataclass(frozen=True)
class Axis:
    """The reach of a value axis.

    Args:
        low: lower end, before rounding to a tick.
        high: upper end.
        note: where the floor is, if it lies off the axis; else empty.
    """

    low: float
    high: float
    note: str = ""


@dataclass(frozen=True)
class Shown:
    """One state of a chart.

    Args:
        readings: a sentence for each panel, by its value.
        axis: reach of the value axis, the same for all panels; None where the chart chooses it.
    """

    readings: dict[str, str]
    axis: Axis | None = None


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


def axis(values: Iterable[float], floors: Iterable[float] = (), bounds: Bounds = (None, None)) -> Axis:
    """Choose the axis for some values.

    The axis of a bounded statistic starts at 0, unless its values huddle far from it, and ends at its upper
    bound where they come near. The floor is drawn as long as that does not squeeze the values to less than
    half of the height; otherwise ``note`` says where it is.

    Args:
        values: everything that must be seen: values and the ends of their intervals; NaN is passed over.
        floors: values of the null floor.
        bounds: the range that the statistic can take.
    """
    seen = [value for value in values if math.isfinite(value)]
    null = [value for value in floors if math.isfinite(value)]
    if not seen:
        return Axis(0.0, 1.0)
    low, high = min(seen), max(seen)
    if low == high:
        pad = abs(low) * 0.1 or 0.5
        low, high = low - pad, high + pad
    if bounds[0] is not None and 0 <= low <= 1.5 * (high - low):
        low = 0.0
    if bounds[1] is not None and bounds[1] - 0.25 * (high - low) <= high <= bounds[1]:
        high = bounds[1]
    if not null:
        return Axis(low, high)
    with_floor = min(low, *null), max(high, *null)
    if with_floor[1] - with_floor[0] <= 2 * (high - low):
        return Axis(*with_floor)
    where = "above" if max(null) > high else "below"
    ends = short(min(null)) if short(min(null)) == short(max(null)) else f"{short(min(null))} to {short(max(null))}"
    return Axis(low, high, f"floor {ends}, {where} this axis")


def over_moments(frame: pd.DataFrame, scene: Scene, name: str, bounds: Bounds) -> dict[str, Shown]:
    """Return a profile's state for each ``site|view|moment|baselines``; a dot plot's has no site."""
    lines = _lines(frame, name, scene)
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
                    states["|".join([*key, view, str(number), choice])] = _state(own, bounds)
    return states


def over_layers(frame: pd.DataFrame, scene: Scene, bounds: Bounds) -> dict[str, Shown]:
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
            reach = axis([value for points in kept.values() for _, value in points], (), bounds)
            readings = {corpus: read_training(courses) for corpus, courses in found.items()}
            states[f"{view}|{layer}|{choice}"] = Shown(readings, reach)
    return states


def over_comparisons(frame: pd.DataFrame, scene: Scene) -> dict[str, Shown]:
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
    return {key: _state(lines, zero=True) for key, lines in states.items()}


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


def _state(lines: Iterable[_Line], bounds: Bounds = (None, None), zero: bool = False) -> Shown:
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
    return Shown({panel: _read(items) for panel, items in found.items()}, axis(values, floors, bounds))


def _lines(frame: pd.DataFrame, statistic: str, scene: Scene) -> dict[tuple[str, str, str, str], list[_Line]]:
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
            lines[key] = _Line(model, its, corpus, name != statistic, site == "final")
        lines[key].add(depth, values)
    found: dict[tuple[str, str, str, str], list[_Line]] = {}
    for (where, view, model, checkpoint, *_), line in lines.items():
        found.setdefault((where, view, model, checkpoint), []).append(line)
    return found


def _read(items: Sequence[Course | Point]) -> str:
    courses = [item for item in items if isinstance(item, Course)]
    return read_courses(courses) if courses else read_points([i for i in items if isinstance(i, Point)])


def by_model(frame: pd.DataFrame, scene: Scene, read: Callable[[pd.DataFrame], str]) -> dict[str, Shown]:
    """Return what is said of each model, a state for each ``view|moment|corpus``.

    Args:
        frame: the rows.
        scene: what all charts share.
        read: says something of the rows of one model's checkpoint on one corpus under one view.
    """
    states: dict[str, Shown] = {}
    for (view, corpus, model, checkpoint), rows in groups(frame, ["view", "corpus", "model", "checkpoint"]):
        text = read(rows)
        for number, moment in enumerate(scene.moments):
            if moment.shown.get(model) == checkpoint:
                states.setdefault(f"{view}|{number}|{corpus}", Shown({})).readings[model] = text
    return states


def groups(frame: pd.DataFrame, columns: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Group rows by some columns; the key is a tuple also where there is one."""
    for key, rows in frame.groupby(list(columns), sort=False):
        yield tuple(key) if isinstance(key, tuple) else (key,), rows


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
