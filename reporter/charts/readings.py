"""What is said about a chart: for each state of the controls, the reach of the axis and a sentence for each panel.

The page's script only picks rows and looks these up, so that whatever is said about numbers is said, and tested, here.
Sentences are computed from the numbers that a panel draws, and name no winner.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reporter.charts.axes import (
    CLOSE,
    FIXED,
    LOG,
    Axis,
    Bounds,
    axis,
    fixed,
    least_of,
    logarithmic,
    of_view,
    offered,
    shared,
)
from reporter.charts.numbers import ROUNDING, digits_of, span, whole
from reporter.charts.scene import ATTENTION, PATH, WITHOUT, Scene
from reporter.places import places as named

if TYPE_CHECKING:
    import pandas as pd

MEAN = "mean"
"""The choice of layer in a training chart that averages over all layers; on the page it stands for NULL."""
VALUES = ["value", "ci_low", "ci_high"]
BASELINE = "baseline"
ROLES = {"encoder": "encoders", "decoder": "decoders"}
WIDE = 0.5
"""Depths further apart than this are no place."""
FEW = 4
"""As many models are named one by one."""
BOTH = 2
"""As many models of one role, such as a base and what was tuned from it."""


@dataclass(frozen=True)
class Shown:
    """One state of a chart.

    Args:
        readings: a sentence for each panel, by its value.
        axis: reach of the value axis, the same for all panels; None where the chart chooses it.
        axes: its reach by each choice of the reader (:mod:`reporter.charts.axes`); ``axis`` is that of the first one.
    """

    readings: dict[str, str]
    axis: Axis | None = None
    axes: Mapping[str, Axis] = field(default_factory=dict)


@dataclass(frozen=True)
class Course:
    """One line over depth (or over training steps): where it starts, ends and is highest and lowest."""

    model: str
    role: str
    start: float
    first: float
    end: float
    last: float
    top_at: float
    top: float
    bottom_at: float
    bottom: float
    top_layer: int | None = None
    bottom_layer: int | None = None
    step: bool = False
    """Whether the numbers are of steps from one layer to the next."""

    @property
    def flat(self) -> bool:
        """Whether it is one number from end to end, but for rounding."""
        return self.top - self.bottom <= ROUNDING * max(abs(self.top), abs(self.bottom))

    @property
    def below(self) -> bool:
        """Whether it lies further below 0 than above it, so that its lowest point is its extreme."""
        return -self.bottom > self.top


@dataclass(frozen=True)
class Point:
    """One number of a whole model."""

    model: str
    role: str
    value: float


def over_moments(
    frame: pd.DataFrame,
    scene: Scene,
    name: str,
    bounds: Bounds,
    noise: str = "floor",
    panel: str = "corpus",
    step: bool = False,
) -> dict[str, Shown]:
    """Return a profile's state for each ``site|view|moment|baselines``; a dot plot's has no site.

    Args:
        frame: the rows.
        scene: what all charts share.
        name: the statistic.
        bounds: the range that it can take.
        noise: what its chance level is called.
        panel: the column that has a panel for each of its values.
        step: whether it is a number of steps from one layer to the next.
    """
    lines = _lines(frame, name, scene, panel, step)
    sites = scene.sites if "site" in frame else [PATH]
    choices = offered(frame, name, bounds, scene)
    least = least_of(frame, name, scene)
    states = {}
    for choice in scene.baselines:
        kept = {key: [line for line in own if choice != WITHOUT or line.role != BASELINE] for key, own in lines.items()}
        values, floors = _numbers([line for own in kept.values() for line in own])
        reach = {FIXED: fixed(values, floors, bounds), LOG: logarithmic(values, floors, least)}
        for site in sites:
            for view in scene.views:
                for number, moment in enumerate(scene.moments):
                    own = [line for pair in moment.shown.items() for line in kept.get((site, view, *pair), [])]
                    state = _state(own, bounds)
                    assert state.axis is not None
                    axes: dict[str, Axis] = {**reach, CLOSE: of_view(state.axis)}
                    axes = {one: replace(of, note=of.note.replace("floor", noise)) for one, of in axes.items()}
                    key = [site] if "site" in frame else []
                    states["|".join([*key, view, str(number), choice])] = Shown(
                        state.readings, axes[choices[0]], {choice: axes[choice] for choice in choices}
                    )
    return states


def over_layers(frame: pd.DataFrame, scene: Scene, bounds: Bounds) -> dict[str, Shown]:
    """Return a training chart's state for each ``view|layer|baselines``; ``mean`` is the average over layers."""
    layers = frame["layer"].astype("string").fillna(MEAN)
    roles = roles_of(scene)
    lines: dict[tuple[str, str], dict[tuple[str, str, str], list[tuple[float, float]]]] = {}
    columns = (frame[name].tolist() for name in ("view", "corpus", "role", "model", "step", "value"))
    for layer, view, corpus, role, model, step, value in zip(layers.tolist(), *columns, strict=True):
        line = lines.setdefault((view, layer), {}).setdefault((corpus, roles.get(model, str(role)), model), [])
        line.append((step, value))
    states = {}
    every: dict[tuple[str, str], list[float]] = {}  # of all views
    for (_, layer), own in lines.items():
        for (_, role, _), points in own.items():
            for choice in scene.baselines:
                if choice != WITHOUT or role != BASELINE:
                    every.setdefault((layer, choice), []).extend(value for _, value in points)
    for (view, layer), own in lines.items():
        for choice in scene.baselines:
            kept = {key: points for key, points in own.items() if choice != WITHOUT or key[1] != BASELINE}
            found: dict[str, list[Course]] = {}
            for (corpus, role, model), points in kept.items():
                if role != BASELINE and (
                    summary := course(model, role, [x for x, _ in points], [y for _, y in points])
                ):
                    found.setdefault(corpus, []).append(summary)
            reach = axis([value for points in kept.values() for _, value in points], (), bounds)
            readings = {corpus: read_training(courses) for corpus, courses in found.items()}
            states[f"{view}|{layer}|{choice}"] = Shown(
                readings, shared(reach, axis(every.get((layer, choice), ()), (), bounds))
            )
    return states


def over_comparisons(frame: pd.DataFrame, scene: Scene) -> dict[str, Shown]:
    """Return the state of a chart of differences for each ``view|moment|statistic|baselines``."""
    roles = roles_of(scene)
    place = ["view", "statistic", "model", "checkpoint", "model_b", "checkpoint_b"]
    groups: dict[tuple[str, ...], list[dict[Hashable, Any]]] = {}
    for row in frame.to_dict("records"):
        groups.setdefault(tuple(str(row[name]) for name in place), []).append(row)
    states: dict[str, list[_Line]] = {}
    names = dict.fromkeys(str(name) for name in frame["statistic"].unique())
    for view in scene.views:
        for number in range(len(scene.moments)):
            states.update({f"{view}|{number}|{name}|{choice}": [] for name in names for choice in scene.baselines})
    for (view, name, model, checkpoint, base, checkpoint_b), rows in groups.items():
        by_panel: dict[str, _Line] = {}
        for row in rows:
            panel = str(row["comparison"])
            line = by_panel.setdefault(panel, _Line(model, roles.get(model, "other"), panel, False, False))
            line.add(row.get("depth", math.nan), [row[name] for name in VALUES], row.get("layer", math.nan))
        for number, moment in enumerate(scene.moments):
            if (moment.shown.get(model), moment.shown.get(base)) != (checkpoint, checkpoint_b):
                continue
            for choice in scene.baselines:
                if choice != WITHOUT or roles.get(model) != BASELINE:
                    states.get(f"{view}|{number}|{name}|{choice}", []).extend(by_panel.values())
    every: dict[tuple[str, ...], list[_Line]] = {}  # of all views and moments
    for key, lines in states.items():
        every.setdefault(tuple(key.split("|")[2:]), []).extend(lines)
    reaches = {key: _state(lines, zero=True).axis for key, lines in every.items()}
    found = {}
    for key, lines in states.items():
        state, reach = _state(lines, zero=True), reaches[tuple(key.split("|")[2:])]
        assert state.axis is not None and reach is not None
        found[key] = replace(state, axis=shared(state.axis, reach))
    return found


def roles_of(scene: Scene) -> Mapping[str, str]:
    """The role by which each model is read: a null baseline is neither encoder nor decoder."""
    return {style.model: BASELINE if style.baseline else style.role for style in scene.styles.models}


class _Line:
    """What one model shows in one panel: its values over depth, or its single number."""

    def __init__(self, model: str, role: str, panel: str, is_floor: bool, is_final: bool, step: bool = False) -> None:
        self.model, self.role, self.panel, self.step = model, role, panel, step
        self.is_floor, self.is_final = is_floor, is_final
        self.depths: list[float] = []
        self.values: list[float] = []
        self.numbers: list[float] = []
        self.layers: list[float] = []

    def add(self, depth: float, values: Sequence[float], layer: float = math.nan) -> None:
        self.depths.append(depth)
        self.layers.append(layer)
        self.values.append(values[0])
        self.numbers += values

    def summary(self) -> Course | Point | None:
        if any(depth == depth for depth in self.depths):
            return course(self.model, self.role, self.depths, self.values, self.layers, self.step)
        seen = [value for value in self.values if value == value]
        return Point(self.model, self.role, seen[0]) if seen else None


def _state(lines: Iterable[_Line], bounds: Bounds = (None, None), zero: bool = False) -> Shown:
    """Return axis and sentences of some lines.

    Sentences are about the models of the study: null baselines are left out, and so is the state after the closing
    norm, which is no part of a course over depth.
    """
    found: dict[str, list[Course | Point]] = {}
    lines = list(lines)
    for line in lines:
        if not line.is_floor and not line.is_final and line.role != BASELINE and (summary := line.summary()):
            found.setdefault(line.panel, []).append(summary)
    values, floors = _numbers(lines)
    if zero and values:
        values.append(0.0)
    return Shown({panel: _read(items) for panel, items in found.items()}, axis(values, floors, bounds))


def _numbers(lines: Iterable[_Line]) -> tuple[list[float], list[float]]:
    """Return what must be seen, and the floors."""
    values: list[float] = []
    floors: list[float] = []
    for line in lines:
        if not line.is_floor:
            values += line.numbers
        elif not line.is_final:
            floors += line.numbers
    return values, floors


def _lines(
    frame: pd.DataFrame, statistic: str, scene: Scene, panel: str, step: bool
) -> dict[tuple[str, str, str, str], list[_Line]]:
    """Gather rows into lines, by site, view, model and checkpoint. Loops: pandas' groups would take seconds."""
    names = ["view", "model", "checkpoint", panel, "statistic", "role"]
    depths = frame["depth"].tolist() if "depth" in frame else [math.nan] * len(frame)
    layers = frame["layer"].tolist() if "layer" in frame else [math.nan] * len(frame)
    sites = frame["site"].tolist() if "site" in frame else [""] * len(frame)
    keys = zip(*(frame[name].tolist() for name in names), sites, depths, layers, strict=True)
    numbers = zip(*(frame[name].tolist() for name in VALUES), strict=True)
    roles = roles_of(scene)
    lines: dict[tuple[Any, ...], _Line] = {}
    for (view, model, checkpoint, shown_in, name, role, site, depth, layer), values in zip(keys, numbers, strict=True):
        where = ATTENTION if site == ATTENTION else PATH
        key = (where, view, model, checkpoint, shown_in, name, site == "final")
        if key not in lines:
            its = roles.get(model, str(role))
            lines[key] = _Line(model, its, shown_in, name != statistic, site == "final", step)
        lines[key].add(depth, values, layer)
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


def course(
    model: str,
    role: str,
    places: Sequence[float],
    values: Sequence[float],
    layers: Sequence[float] = (),
    step: bool = False,
) -> Course | None:
    """Summarise a line; None where it has no values. NaN is passed over.

    Args:
        model: name of the model.
        role: its role.
        places: relative depth (or step) of each value, rising.
        values: the values, NaN where there is none.
        layers: the layer of each, where places are depths; NaN where it has none.
        step: whether they are of steps from one layer to the next.
    """
    seen = [i for i, value in enumerate(values) if value == value]
    if not seen:
        return None
    top, bottom = max(seen, key=lambda i: values[i]), min(seen, key=lambda i: values[i])
    start, first, end, last, top_at, highest, bottom_at, lowest = (
        number for i in (seen[0], seen[-1], top, bottom) for number in (places[i], values[i])
    )
    of_top, of_bottom = (int(layers[i]) if len(layers) and layers[i] == layers[i] else None for i in (top, bottom))
    return Course(model, role, start, first, end, last, top_at, highest, bottom_at, lowest, of_top, of_bottom, step)


def read_courses(courses: Sequence[Course]) -> str:
    """Say where lines start, end and are highest, one clause for each role, or for each model of up to two.

    ``bert 0.12 → 0.31, peak 0.35 at layer 3 (depth 0.25) · 3 decoders 0.05–0.1 → …``; of lines below 0 it is their
    lowest point.
    """
    return " · ".join(f"{name} {_course(group)}" for name, group in _apart(_by_role(courses)))


def _course(group: Sequence[Course]) -> str:
    """Say how the lines of one role run; numbers beside each other have as many digits as tell them apart."""
    numbers = [number for c in group for number in (c.first, c.last, c.bottom if c.below else c.top)]
    digits, size = digits_of(numbers), max(map(abs, numbers))

    def told(values: Sequence[float]) -> str:
        return span(values, digits, size)

    first, last = told([c.first for c in group]), told([c.last for c in group])
    if all(c.flat for c in group):
        return f"{first} throughout"
    below = all(c.below for c in group)
    turn = told([c.bottom if below else c.top for c in group])
    where = [c.bottom_at if below else c.top_at for c in group]
    what = "lowest" if below else "peak"
    if turn in (first, last) and len(set(where)) == 1 and where[0] in (group[0].start, group[0].end):
        side = "start" if where[0] == group[0].start else "end"
        return f"{first} → {last}, {'lowest' if below else 'highest'} at the {side}"
    if max(where) - min(where) > WIDE:
        return f"{first} → {last}, {what} {turn} at no common depth"
    layers = sorted({layer for c in group if (layer := c.bottom_layer if below else c.top_layer) is not None})
    if not layers:
        return f"{first} → {last}, {what} {turn} at depth {span(where)}"
    reach = range(layers[0], layers[-1] + 1)
    return f"{first} → {last}, {what} {turn} at {named(reach, group[0].step)} (depth {span(where)})"


def read_points(points: Sequence[Point]) -> str:
    """Say the value of each role, or of each model of up to two: ``bert 0.083 · 3 decoders 0.05–0.19``."""
    return " · ".join(f"{name} {span([p.value for p in group])}" for name, group in _apart(_by_role(points)))


def read_training(courses: Sequence[Course]) -> str:
    """Say how values moved between a model's first and last step: ``gpt2 0.05 → 0.41 (steps 0 to 600)``.

    More models than four are read by role.
    """
    groups = _by_role(courses)
    if len(courses) <= FEW:
        groups = [(line.model, [line]) for _, group in groups for line in group]
    clauses = []
    for name, group in groups:
        ends = [number for c in group for number in (c.first, c.last)]
        told = [
            span(some, digits_of(ends), max(map(abs, ends)))
            for some in ([c.first for c in group], [c.last for c in group])
        ]
        steps = f"steps {whole(min(c.start for c in group))} to {whole(max(c.end for c in group))}"
        clauses.append(f"{name} {told[0]} → {told[1]} ({steps})")
    return " · ".join(clauses)


def _apart(groups: Sequence[tuple[str, list[Any]]]) -> Iterator[tuple[str, list[Any]]]:
    """Name the models of a role one by one where they are two: a range would not say which is which."""
    for name, group in groups:
        yield from [(one.model, [one]) for one in group] if len(group) <= BOTH else [(name, group)]


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
