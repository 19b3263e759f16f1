"""Captions of charts: the sentence under each panel as the page opens, and how far the value axis reaches.

A reader who goes from one token set to another compares two drawings, so an axis does not move unless it says so. Where
one model's numbers are many times another's, a linear axis would draw the smaller ones as a flat line: there the axis
is logarithmic at first. The reach of each part that a reader can choose is stored (``reaches_of``), and an axis holds
those of what is shown (``hull``; ``hullOf`` in ``templates/rows.js``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reporter.charts.layout import ATTENTION, MEAN, Pick, Scene
from reporter.core.numbers import ROUNDING, counted, digits_of, is_null, short, span, whole
from reporter.core.places import places as named
from reporter.geometry.arrays import Bools, Floats

if TYPE_CHECKING:
    import pandas as pd

Bounds = tuple[float | None, float | None]
FIXED, CLOSE, LOG = "fixed", "close", "log"
"""The choices of a chart's axis."""
CHOICES = {FIXED: "the same for every token set", CLOSE: "fitted to this token set", LOG: "logarithmic"}
FLAT = 25.0
"""A model whose largest value is as many times smaller than the axis is a flat line on it."""
WIDE = 10.0
"""A logarithmic axis is offered where the largest value is as many times the smallest."""
TINY = 1e-6
"""What is as many times smaller than a model's largest value is zero but for rounding, and gets no decades."""
APART = 0.5
"""Depths further apart than this share no place."""
FEW = 4
"""Up to as many models are named one by one."""
BOTH = 2
"""Up to as many models of one role, such as a base and what was tuned from it, are named one by one."""
WHO_AND_WHERE = ("model", "checkpoint", "model_a", "checkpoint_a", "model_b", "checkpoint_b", "view", "site")
"""Columns by which the controls of a page choose rows."""
SEVERAL_NOTES = "some chance levels are off this axis"
ROLES = {"encoder": "encoders", "decoder": "decoders"}


@dataclass(frozen=True)
class Axis:
    """The reach of a value axis before rounding to ticks, with a note such as where the chance level lies."""

    low: float
    high: float
    note: str = ""


@dataclass(frozen=True)
class AxisLimits:
    """The inputs that decide the ends of a chart's value axis.

    Args:
        bounds: the range that the number can take.
        zero: whether 0 is always on the axis.
        by: the selector of which each choice has an axis of its own.
        noise: what the chance level is called.
    """

    bounds: Bounds = (None, None)
    zero: bool = False
    by: str = ""
    noise: str = "chance level"


def axes_of(frame: pd.DataFrame, reach: AxisLimits, scene: Scene) -> dict[str, dict[str, Axis]]:
    """Return the axes that all token sets share: linear and logarithmic, for each choice of ``reach.by``."""
    groups = frame.groupby(frame[reach.by].astype("string").fillna(MEAN), sort=False) if reach.by else [("", frame)]
    axes_by_choice = {}
    for key, rows in groups:
        values, chance = numbers_of(rows, reach)
        linear = axis(values, chance, reach.bounds, shared=not reach.by)
        log = logarithmic(values, chance, least_of(rows, scene))
        axes_by_choice[str(key)] = {FIXED: _named(linear, reach), LOG: _named(log, reach)}
    return axes_by_choice


def reaches_of(frame: pd.DataFrame, reach: AxisLimits, scene: Scene, picks: Sequence[Pick]) -> pd.DataFrame:
    """Return the axis of each part of a chart that a reader can choose, such as a model under a token set.

    Its rows are chosen as those of the chart are. They have ``low``, ``high`` and ``note`` of the linear axis, and
    ``log_low`` and ``log_high`` of the logarithmic one.
    """
    import pandas as pd

    names = [*WHO_AND_WHERE, *(name for pick in picks for name in pick.name.split("|"))]
    columns = {name: _keys(frame[name].tolist()) for name in dict.fromkeys(names) if name in frame}
    if "site" in columns:
        columns["site"] = [site if site == ATTENTION else "block" for site in columns["site"]]
    place: dict[tuple[str, ...], int] = {}
    part_of = np.array([place.setdefault(part, len(place)) for part in zip(*columns.values(), strict=True)], int)
    parts = list(place)
    is_chance, least = _is_chance(frame, reach), least_of(frame, scene)
    ends: dict[str, list[list[float]]] = {name: [[] for _ in parts] for name in ("values", "chance")}
    for name in ("value", "ci_low", "ci_high"):
        numbers = _floats(frame, name) if name in frame else np.full(len(frame), math.nan)
        chance = is_chance & ~_after_norm(frame) & (name == "value")
        for kind, rows in (("values", ~is_chance), ("chance", chance)):
            for part, number in zip(part_of[rows].tolist(), numbers[rows].tolist(), strict=True):
                if math.isfinite(number):
                    ends[kind][part].append(number)
    reaches = []
    for part, values, null in zip(parts, ends["values"], ends["chance"], strict=True):
        if values:
            linear = _named(axis([*values, *([0.0] if reach.zero else [])], null, reach.bounds), reach)
            log = logarithmic(values, null, least)
            reaches.append((*part, linear.low, linear.high, linear.note, log.low, log.high))
    return pd.DataFrame(reaches, columns=[*columns, "low", "high", "note", "log_low", "log_high"])


def _keys(values: Sequence[Any]) -> list[str]:
    """Return values as selectors name them."""
    texts = {value: MEAN if is_null(value) else str(value) for value in dict.fromkeys(values)}
    return [texts[value] for value in values]


def hull(reaches: pd.DataFrame, every: Axis, log: bool = False, close: bool = False) -> Axis:
    """Return the axis that holds those of the chosen parts; ``every`` is that of all, which keeps its zero.

    Args:
        reaches: rows of :func:`reaches_of`.
        every: the axis that all token sets share.
        log: whether it is logarithmic.
        close: whether it is fitted to one token set.
    """
    if reaches.empty:
        return every
    if log:
        return Axis(reaches["log_low"].min(), reaches["log_high"].max(), every.note)
    low, high = float(reaches["low"].min()), float(reaches["high"].max())
    notes = [note for note in dict.fromkeys(reaches["note"]) if note]
    note = " · ".join((["of this token set"] if close else []) + (notes if len(notes) < BOTH else [SEVERAL_NOTES]))
    return Axis(min(low, 0.0) if every.low == 0 and not close else low, high, note)


def _named(axis: Axis, reach: AxisLimits) -> Axis:
    return replace(axis, note=axis.note.replace("chance level", reach.noise))


def numbers_of(frame: pd.DataFrame, reach: AxisLimits) -> tuple[list[float], list[float]]:
    """Return the numbers of a chart with the ends of their intervals, and the values of its chance level."""
    is_chance = _is_chance(frame, reach)
    numbers = {name: _floats(frame, name) for name in ("value", "ci_low", "ci_high") if name in frame}
    values = np.concatenate([column[~is_chance] for column in numbers.values()]).tolist()
    chance = numbers["value"][is_chance & ~_after_norm(frame)]
    return [*values, *([0.0] if reach.zero and values else [])], chance[~np.isnan(chance)].tolist()


def _is_chance(frame: pd.DataFrame, reach: AxisLimits) -> Bools:
    if "statistic" in frame and "kind" not in frame and reach.by == "statistic":
        return np.zeros(len(frame), bool)
    return chance_rows(frame)


def chance_rows(frame: pd.DataFrame) -> Bools:
    """Return which rows of a frame are a chance level."""
    if "kind" in frame:
        return np.array([kind == "floor" for kind in frame["kind"].tolist()], bool)
    if "statistic" not in frame:
        return np.zeros(len(frame), bool)
    statistics = frame["statistic"].tolist()
    names = set(statistics)
    floors = {name for name in names if name.removesuffix("_floor") in names - {name}}
    return np.array([name in floors for name in statistics], bool)


def _after_norm(frame: pd.DataFrame) -> Bools:
    """Return which rows are of the state after the final norm."""
    sites = frame["site"].tolist() if "site" in frame else [""] * len(frame)
    return np.array([site == "final" for site in sites], bool)


def _floats(frame: pd.DataFrame, name: str) -> Floats:
    return frame[name].to_numpy(float, na_value=math.nan)


def axis(
    values: Iterable[float], chance: Iterable[float] = (), bounds: Bounds = (None, None), shared: bool = False
) -> Axis:
    """Fit an axis to values and the ends of their intervals; NaN is passed over.

    The axis of a bounded statistic starts at 0, unless its values huddle far from it, and ends at its upper bound where
    they come near. The chance level is drawn as long as half of the height is left to the values; otherwise the note
    says where it is. An axis that all token sets share begins at 0 if the statistic has two bounds, so that 0.98 looks
    like what it is, and the chance level is drawn as long as a quarter of the height is left.
    """
    huddle, squeeze = math.inf if shared and None not in bounds else 1.5, 4 if shared else 2
    numbers = [value for value in values if math.isfinite(value)]
    null = [value for value in chance if math.isfinite(value)]
    if not numbers:
        return Axis(0.0, 1.0)
    low, high = min(numbers), max(numbers)
    if low == high:
        pad = abs(low) * 0.1 or 0.5
        low, high = low - pad, high + pad
    if bounds[0] is not None and low >= 0 and (huddle == math.inf or low <= huddle * (high - low)):
        low = 0.0
    if bounds[1] is not None and bounds[1] - 0.25 * (high - low) <= high <= bounds[1]:
        high = bounds[1]
    if not null:
        return Axis(low, high)
    both = min(low, *null), max(high, *null)
    if both[1] - both[0] <= squeeze * (high - low):
        return Axis(*both)
    return Axis(low, high, _beyond(null, high))


def _beyond(null: Sequence[float], high: float) -> str:
    ends = " to ".join(dict.fromkeys((short(min(null)), short(max(null)))))
    return f"chance level {ends}, {'above' if max(null) > high else 'below'} this axis"


def logarithmic(values: Iterable[float], chance: Iterable[float] = (), least: float = 0.0) -> Axis:
    """Return a logarithmic axis with the chance level on it; what is not above ``least`` is drawn at the lower edge."""
    numbers = [value for value in values if least < value < math.inf]
    null = [value for value in chance if least < value < math.inf]
    if not numbers:
        return Axis(0.1, 1.0)
    low, high = min(numbers), max(numbers)
    if low == high:
        low, high = low / 2, high * 2
    notes = ["logarithmic"]
    if null and (min(null) < low / 1e3 or max(null) > high * 1e3):
        notes.append(_beyond(null, high))
        null = []
    return Axis(min([low, *null]), max([high, *null]), " · ".join(notes))


def least_of(frame: pd.DataFrame, scene: Scene) -> float:
    """Return the value below which the numbers of a statistic are zero but for rounding."""
    return min((max(values) for values in _own_values(frame, "model", scene)), default=0.0) * TINY


def offered(frame: pd.DataFrame, bounds: Bounds, scene: Scene) -> tuple[str, ...]:
    """Return the axes that a statistic's chart can have, the one first with which it is drawn at first."""
    by_model = _own_values(frame, "model", scene)
    if not by_model:
        return (FIXED,)
    order, by_view = [FIXED, CLOSE], _own_values(frame, "view", scene)
    top, low = max(map(max, by_model)), min(map(min, by_model))
    if low > 0 and top / max(low, top * TINY) >= WIDE:
        groups = [*by_model, *by_view]
        # one of them is a flat line beside another, or but for few of its own numbers
        beside = min(map(max, groups)) * FLAT < top
        spiked = any(median(group) * FLAT < max(group) for group in groups)
        flat = None in bounds and (beside or spiked)
        return (LOG, *order) if flat else (*order, LOG)
    spans = [max(group) - min(group) for group in by_view]
    if None in bounds and 0 < min(spans) * FLAT < max(spans):
        order.reverse()  # no logarithm can help what is below 0
    return tuple(order)


def _own_values(frame: pd.DataFrame, by: str, scene: Scene) -> list[list[float]]:
    """Return the numbers of the study's own models in groups, without null baselines and chance levels."""
    groups: dict[str, list[float]] = {}
    if "model" not in frame:
        return []
    columns = frame["model"], frame[by], _floats(frame, "value"), chance_rows(frame)
    for model, key, value, is_chance in zip(*(column.tolist() for column in columns), strict=True):
        if not (is_chance or math.isnan(value) or model in scene.styles.baselines or is_null(key)):
            groups.setdefault(key, []).append(value)
    return list(groups.values())


def which_axis(frame: pd.DataFrame, scene: Scene, bounds: Bounds) -> list[Pick]:
    """Return the selector of a chart's axis."""
    return [Pick("axis", "Axis", {choice: CHOICES[choice] for choice in offered(frame, bounds, scene)})]


# Sentences: computed from the numbers that a panel draws; they name no winner.


class CaptionLine(NamedTuple):
    """The numbers of one model over depth, or over training steps, in order; NaN is left out.

    Args:
        model: its name.
        role: its role.
        places: relative depths, or training steps.
        values: the numbers.
        layers: the layers that they are stored at.
        blocks: how many blocks the model has; 0 where that is not known.
        undetermined: at how many further places a number is not determined.
    """

    model: str
    role: str
    places: list[float]
    values: list[float]
    layers: list[int | None]
    blocks: int = 0
    undetermined: int = 0

    @property
    def is_below(self) -> bool:
        """Whether it lies further below 0 than above it, so that its lowest point is its extreme."""
        return -min(self.values) > max(self.values)

    @property
    def extreme(self) -> int:
        """The index of its maximum, or of its minimum if it lies below 0."""
        pick = min if self.is_below else max
        return pick(range(len(self.values)), key=self.values.__getitem__)

    @property
    def is_flat(self) -> bool:
        """Whether it is one number from end to end, but for rounding."""
        low, high = min(self.values), max(self.values)
        return high - low <= ROUNDING * max(abs(low), abs(high))

    def place(self, index: int, step: bool, alone: bool = True) -> str:
        """Return what a place is called: ``embedding``, ``last block``, ``layer 5 of 6``, ``depth 0.4``.

        Args:
            index: which of its places.
            step: whether its numbers are of steps from layer to layer, and so of blocks.
            alone: whether the layer is named where it is no end; other models have other layers at a depth.
        """
        layer = self.layers[index]
        if layer is not None and not step and layer == 0:
            return "embedding"
        if layer is not None and self.blocks and layer + step == self.blocks:
            return "last block"
        if layer is not None and step and layer == 0:
            return "first block"
        if layer is None or not alone:
            return f"depth {short(self.places[index], 2)}"
        return named([layer], step, self.blocks or None)


def of_statistic(rows: pd.DataFrame, scene: Scene, step: bool = False) -> str:
    """Say where the lines of a panel start, end and are highest, or its single numbers, by role.

    ``bert: 0.12 (embedding) to 0.31 (last block), maximum 0.35 at layer 3 of 12 · 3 decoders: …``; of lines below 0 it
    is the minimum. Null baselines are left out, and so is the state after the final norm, which is no part of a course.
    """
    left_out = _after_norm(rows)
    if "statistic" in rows:  # a panel of one statistic may show its chance level by itself
        left_out |= chance_rows(rows) & (rows["statistic"].nunique() > 1)
    rows = rows[~left_out] if left_out.any() else rows
    if "depth" in rows and rows["depth"].notna().any():
        groups = _split_small_groups(_by_role(lines_of(rows, scene, "depth")))
        return " · ".join(f"{name}: {_course(lines, step)}" for name, lines in groups)
    groups = _split_small_groups(_by_role(lines_of(rows, scene, "")))
    return " · ".join(f"{name}: {span([line.values[0] for line in lines])}" for name, lines in groups)


def of_training(rows: pd.DataFrame, scene: Scene) -> str:
    """Say how values moved between a model's first and last step: ``gpt2: 0.05 (step 0) to 0.41 (step 600)``."""
    lines = lines_of(rows, scene, "step")
    groups = _by_role(lines)
    if len(lines) <= FEW:
        groups = [(line.model, [line]) for _, group in groups for line in group]
    clauses = []
    for name, group in groups:
        starts, ends = [line.values[0] for line in group], [line.values[-1] for line in group]
        digits, size = digits_of([*starts, *ends]), max(map(abs, [*starts, *ends]))
        first, last = min(line.places[0] for line in group), max(line.places[-1] for line in group)
        clauses.append(
            f"{name}: {span(starts, digits, size)} (step\xa0{whole(first)}) to {span(ends, digits, size)} "
            f"(step\xa0{whole(last)})"
        )
    return " · ".join(clauses)


def lines_of(rows: pd.DataFrame, scene: Scene, along: str) -> list[CaptionLine]:
    """Return the line of each model of the study itself that has numbers."""
    roles = {style.model: style.role for style in scene.styles.own}
    names = [name for name in ("value", "layer", "role", "undetermined", along) if name in rows]
    columns = {name: rows[name].tolist() for name in names}
    of_model: dict[str, list[int]] = {}
    for row, (model, value) in enumerate(zip(rows["model"].tolist(), columns["value"], strict=True)):
        if not (is_null(value) or is_null(model) or model in scene.styles.baselines):
            of_model.setdefault(model, []).append(row)
    lines = []
    for model, every in of_model.items():
        line = [row for row in every if not ("undetermined" in columns and columns["undetermined"][row])]
        layers: list[int | None] = [None] * len(line)
        if "layer" in columns:
            layers = [None if is_null(layer := columns["layer"][row]) else int(layer) for row in line]
        places = [columns[along][row] if along else 0.0 for row in line]
        role = roles.get(model, str(columns["role"][line[0]]) if "role" in columns and line else "other")
        blocks = max(
            (round(layer / depth) for layer, depth in zip(layers, places, strict=True) if along == "depth" and layer),
            default=0,
        )
        values = [columns["value"][row] for row in line]
        lines.append(CaptionLine(model, role, places, values, layers, blocks, undetermined=len(every) - len(line)))
    return lines


def _course(lines: Sequence[CaptionLine], step: bool) -> str:
    """Say how the lines of one role run, and at how many places they have no number that counts."""
    unknown = sum(line.undetermined for line in lines)
    said = [f"not determined at {counted(unknown, 'block' if step else 'layer')} (open marks)"] if unknown else []
    lines = [line for line in lines if line.values]
    if lines:
        said = [_ends(lines, step), *said]
    return ", ".join(said)


def _ends(lines: Sequence[CaptionLine], step: bool) -> str:
    """Say where lines start, end and have their maximum; numbers beside each other have as many digits as differ."""
    extremes = [line.values[line.extreme] for line in lines]
    starts, ends = [line.values[0] for line in lines], [line.values[-1] for line in lines]
    every = [*starts, *ends, *extremes]
    digits = digits_of(every) if len(lines) == 1 else 2
    size = max(map(abs, every))
    first, last, turn = (span(numbers, digits, size) for numbers in (starts, ends, extremes))
    if all(line.is_flat for line in lines):
        return f"{first} throughout"
    alone = len(lines) == 1
    kind = (
        ("minimum" if alone else "minima") if all(line.is_below for line in lines) else "maximum" if alone else "maxima"
    )
    start, end = (_shared([line.place(at, step, alone) for line in lines], at, step) for at in (0, -1))
    is_first = all(line.values[0] == line.values[line.extreme] for line in lines)
    is_last = not is_first and all(line.extreme == len(line.values) - 1 for line in lines)
    at_start, at_end = (f"{place}{f', {kind}' * here}" for place, here in ((start, is_first), (end, is_last)))
    said = f"{first} ({at_start}) to {last} ({at_end})"
    if is_first or is_last:
        return said
    where = [line.places[line.extreme] for line in lines]
    if max(where) - min(where) > APART:
        return f"{said}, {kind} {turn} at different depths"
    at = lines[0].place(lines[0].extreme, step) if alone else f"depth {span(where, 2)}"
    return f"{said}, {kind} {turn} at {at if at.startswith(('layer', 'block', 'depth')) else f'the {at}'}"


def _shared(names: Sequence[str], end: int, step: bool) -> str:
    """Return the name of the first (0) or last (−1) place of several lines; where it differs, what all of them have."""
    if len(set(names)) == 1:
        return names[0]
    return f"{'last' if end else 'first'} {'block' if step else 'layer'}"


def _split_small_groups(groups: Sequence[tuple[str, list[CaptionLine]]]) -> Iterator[tuple[str, list[CaptionLine]]]:
    for name, group in groups:
        yield from [(line.model, [line]) for line in group] if len(group) <= BOTH else [(name, group)]


def _by_role(lines: Sequence[CaptionLine]) -> list[tuple[str, list[CaptionLine]]]:
    groups: dict[str, list[CaptionLine]] = {}
    for line in lines:
        groups.setdefault(line.role, []).append(line)
    order = sorted(groups, key=lambda role: (role != "encoder", role != "decoder", role))
    names = {role: f"{len(lines)} {ROLES.get(role, 'models')}" for role, lines in groups.items()}
    return [(groups[role][0].model if len(groups[role]) == 1 else names[role], groups[role]) for role in order]
