"""How far a value axis reaches, and what becomes of a floor that lies far off it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from reporter.report.numbers import short

Bounds = tuple[float | None, float | None]


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
