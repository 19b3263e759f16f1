"""How numbers are written for people."""

from __future__ import annotations

import math
from typing import Any


def is_null(value: Any) -> bool:
    """Tell whether a value stands for NULL: None, NaN or one of pandas' own."""
    return value is None or repr(value) in {"<NA>", "NaT"} or bool(value != value)


def short(value: Any, digits: int = 3) -> str:
    """Write a number with three significant digits, or as many as asked for.

    ``0.0412``, ``12.3``, ``4,096``, ``1.2e-05``; NULL is ``–``.
    """
    if is_null(value):
        return "–"
    number = float(value)
    if not math.isfinite(number):
        return "∞" if number > 0 else "−∞"
    size = abs(number)
    if size == 0:
        return "0"
    text = f"{number:,.0f}" if size >= 99.5 else f"{number:.{digits}g}"
    return text.replace("-", "−", 1) if number < 0 else text


def span(values: list[float]) -> str:
    """Write what values lie between, with two significant digits: ``0.12`` or ``0.12–0.31``."""
    low, high = short(min(values), 2), short(max(values), 2)
    return low if low == high else f"{low}–{high}" if not high.startswith("−") else f"{low} to {high}"


def whole(value: Any) -> str:
    """Write a whole number with thousands separated; NULL is ``–``."""
    if is_null(value):
        return "–"
    return f"{int(value):,}"


def seconds(value: Any) -> str:
    """Write a duration: ``0.4 s``, ``12 s``, ``3 min 05 s``, ``2 h 10 min``."""
    if is_null(value):
        return "–"
    total = float(value)
    if total < 10:
        return f"{total:.1f} s"
    if total < 99.5:
        return f"{total:.0f} s"
    minutes, rest = divmod(round(total), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
