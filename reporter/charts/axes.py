"""How far a value axis reaches: the same in every view, fitted to one view, or logarithmic.

A reader who goes from one view to another compares two drawings, so an axis does not move unless it says so. Where one
model's numbers are many times another's, a linear axis would draw the smaller ones as a flat line: there the axis is
logarithmic at first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reporter.charts.layout import Pick
from reporter.charts.numbers import short
from reporter.charts.scene import Scene

if TYPE_CHECKING:
    import pandas as pd

Bounds = tuple[float | None, float | None]
FIXED, CLOSE, LOG = "fixed", "close", "log"
"""The choices of a chart's axis."""
CHOICES = {FIXED: "the same in every view", CLOSE: "fitted to this view", LOG: "logarithmic"}
FLAT = 25.0
"""A model whose largest value is as many times smaller than the axis is a flat line on it."""
WIDE = 10.0
"""A logarithmic axis is offered where the largest value is as many times the smallest."""
TINY = 1e-6
"""What is as many times smaller than a model's largest value is zero but for rounding, and gets no decades."""


@dataclass(frozen=True)
class Axis:
    """The reach of a value axis.

    Args:
        low: lower end, before rounding to a tick.
        high: upper end.
        note: what must be said of it: where the floor is, if it lies off the axis; where the axis begins; else empty.
    """

    low: float
    high: float
    note: str = ""


def axis(values: Iterable[float], floors: Iterable[float] = (), bounds: Bounds = (None, None)) -> Axis:
    """Fit an axis to some values.

    The axis of a bounded statistic starts at 0, unless its values huddle far from it, and ends at its upper
    bound where they come near. The floor is drawn as long as that does not squeeze the values to less than
    half of the height; otherwise ``note`` says where it is.

    Args:
        values: everything that must be seen: values and the ends of their intervals; NaN is passed over.
        floors: values of the null floor.
        bounds: the range that the statistic can take.
    """
    return _reach(values, floors, bounds, huddle=1.5, squeeze=2)


def fixed(values: Iterable[float], floors: Iterable[float] = (), bounds: Bounds = (None, None)) -> Axis:
    """Choose the axis that all views share.

    That of a statistic with two bounds begins at 0, so that 0.98 looks like what it is; the floor is drawn as long as
    a quarter of the height is left to the values.

    Args:
        values: those of all views.
        floors: values of the null floor.
        bounds: the range that the statistic can take.
    """
    return _reach(values, floors, bounds, huddle=math.inf if None not in bounds else 1.5, squeeze=4)


def _reach(values: Iterable[float], floors: Iterable[float], bounds: Bounds, huddle: float, squeeze: float) -> Axis:
    seen = [value for value in values if math.isfinite(value)]
    null = [value for value in floors if math.isfinite(value)]
    if not seen:
        return Axis(0.0, 1.0)
    low, high = min(seen), max(seen)
    if low == high:
        pad = abs(low) * 0.1 or 0.5
        low, high = low - pad, high + pad
    if bounds[0] is not None and low >= 0 and (huddle == math.inf or low <= huddle * (high - low)):
        low = 0.0
    if bounds[1] is not None and bounds[1] - 0.25 * (high - low) <= high <= bounds[1]:
        high = bounds[1]
    if not null:
        return Axis(low, high)
    with_floor = min(low, *null), max(high, *null)
    if with_floor[1] - with_floor[0] <= squeeze * (high - low):
        return Axis(*with_floor)
    where = "above" if max(null) > high else "below"
    return Axis(low, high, f"floor {_ends(null)}, {where} this axis")


def _ends(null: list[float]) -> str:
    low, high = short(min(null)), short(max(null))
    return low if low == high else f"{low} to {high}"


def shared(own: Axis, every: Axis) -> Axis:
    """Return the axis of all views, or that of one view, which says so, where it would be a flat line on the other.

    Args:
        own: of one view.
        every: of all views.
    """
    if (own.high - own.low) * FLAT < every.high - every.low:
        return of_view(own)
    return every


def of_view(own: Axis) -> Axis:
    """Return an axis with the note that it is fitted to one view."""
    return replace(own, note=" · ".join(note for note in ("of this view", own.note) if note))


def logarithmic(values: Iterable[float], floors: Iterable[float] = (), least: float = 0.0) -> Axis:
    """Choose a logarithmic axis, with the floor on it.

    Args:
        values: those of all views.
        floors: values of the null floor.
        least: what is not larger is drawn at the lower edge, and does not count.
    """
    seen = [value for value in values if least < value < math.inf]
    null = [value for value in floors if least < value < math.inf]
    if not seen:
        return Axis(0.1, 1.0)
    low, high = min(seen), max(seen)
    if low == high:
        low, high = low / 2, high * 2
    notes = []
    if null and (min(null) < low / 1e3 or max(null) > high * 1e3):
        notes.append(f"floor {_ends(null)}, {'above' if max(null) > high else 'below'} this axis")
        null = []
    return Axis(min([low, *null]), max([high, *null]), " · ".join(["logarithmic", *notes]))


def least_of(frame: pd.DataFrame, name: str, scene: Scene) -> float:
    """Return the value below which numbers of a statistic are zero but for rounding.

    Args:
        frame: rows of models, of the statistic and of others.
        name: the statistic.
        scene: which models are null baselines; they do not count.
    """
    tops = _own(frame, name, scene).groupby("model")["value"].max()
    return float(tops.min()) * TINY if len(tops) else 0.0


def offered(frame: pd.DataFrame, name: str, bounds: Bounds, scene: Scene) -> tuple[str, ...]:
    """Return the axes that a statistic's chart can have, the one first with which it is drawn at first.

    Args:
        frame: its rows.
        name: the statistic.
        bounds: the range that it can take.
        scene: which models are null baselines; they do not count.
    """
    own = _own(frame, name, scene)
    values = own["value"]
    if values.empty:
        return (FIXED,)
    order = [FIXED, CLOSE]
    top = float(values.max())
    if bool((values > 0).all()) and top / max(float(values.min()), top * TINY) >= WIDE:
        tops = [float(rows.max()) for key in ("model", "view") for _, rows in own.groupby(key)["value"]]
        flat = None in bounds and min(tops) * FLAT < top
        return (LOG, *order) if flat else (*order, LOG)
    spans = [float(rows.max() - rows.min()) for _, rows in own.groupby("view")["value"]]
    if None in bounds and 0 < min(spans) * FLAT < max(spans):
        order.reverse()  # no logarithm can help what is below 0
    return tuple(order)


def _own(frame: pd.DataFrame, name: str, scene: Scene) -> pd.DataFrame:
    kept = (frame["statistic"] == name) & ~frame["model"].isin(scene.styles.baselines)
    return frame.loc[kept & frame["value"].notna(), ["model", "view", "value"]]


def which_axis(frame: pd.DataFrame, scene: Scene, name: str, bounds: Bounds) -> list[Pick]:
    """Which axis."""
    return [Pick("axis", "Axis", {choice: CHOICES[choice] for choice in offered(frame, name, bounds, scene)})]
