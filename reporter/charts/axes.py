"""How far the value axis of a chart reaches.

A reader who goes from one token set to another compares two drawings, so an axis does not move unless it says so. Where
one model's numbers are many times another's, a linear axis would draw the smaller ones as a flat line: there the axis
is logarithmic at first. The reach of each part that a reader can choose is stored (``reaches_of``), and an axis holds
those of what is shown (``hull``; ``hullOf`` in ``templates/rows.js``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.charts.layout import ATTENTION, MEAN, Pick, Scene
from reporter.core.numbers import is_null, short
from reporter.geometry.arrays import Bools, Floats

if TYPE_CHECKING:
    import pandas as pd

Bounds = tuple[float | None, float | None]
FIXED, CLOSE, LOG = "fixed", "close", "log"
"""The choices of a chart's axis."""
CHOICES = {FIXED: "the same for every token set", CLOSE: "fitted to this token set", LOG: "logarithmic"}
FLAT = 25.0
"""A model whose largest value is as many times smaller than the axis is a flat line on it."""
BOTH = 2
"""Up to as many models of one role, such as a base and what was tuned from it, are named one by one."""
WIDE = 10.0
"""A logarithmic axis is offered where the largest value is as many times the smallest."""
TINY = 1e-6
"""What is as many times smaller than a model's largest value is zero but for rounding, and gets no decades."""
WHO_AND_WHERE = ("model", "checkpoint", "model_a", "checkpoint_a", "model_b", "checkpoint_b", "view", "site")
"""Columns by which the controls of a page choose rows."""
SEVERAL_NOTES = "some chance levels are off this axis"


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
        chance = is_chance & ~is_after_norm(frame) & (name == "value")
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
    chance = numbers["value"][is_chance & ~is_after_norm(frame)]
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


def is_after_norm(frame: pd.DataFrame) -> Bools:
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
    # an interval may reach where no value can be
    low = min(numbers) if bounds[0] is None else max(min(numbers), bounds[0])
    high = max(numbers) if bounds[1] is None else min(max(numbers), bounds[1])
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
