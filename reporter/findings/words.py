"""How findings are put into words."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10

from reporter.charts.numbers import short

NOTHING = 0.002
"""Of a number, what is too small beside it to be written out."""


def number(value: float, beside: float = 0.0) -> str:
    """Write a number with two significant digits, three from 0.95 on: 0.10, 0.997, 121.

    Args:
        value: the number.
        beside: one that it is compared with; beside a much larger one it reads ``≈ 0``.
    """
    size = abs(value)
    if 0 < size < NOTHING * abs(beside):
        return "≈ 0"
    if size == 0 or size >= 99.5:
        return f"{value:,.0f}".replace("-", "−", 1)
    digits = 3 if size >= 0.95 else 2
    decimals = max(0, digits - 1 - floor(log10(size)))
    while decimals < 4 and size < 1 <= float(f"{size:.{decimals}f}"):
        decimals += 1  # 0.9996 is not 1
    if decimals >= 5:
        return short(value, digits)
    text = f"{size:.{decimals}f}"
    return f"−{text}" if value < 0 else text


def between(values: Sequence[float]) -> str:
    """Write what numbers lie between, both ends with the digits of the larger: ``0.07–0.10``; one where they agree."""
    low, high = float(min(values)), float(max(values))
    decimals = max(0, len(number(max(abs(low), abs(high))).partition(".")[2]))
    while decimals < 5 and any(abs(end) < 1 <= float(f"{abs(end):.{decimals}f}") for end in (low, high)):
        decimals += 1  # 0.9996 is not 1
    ends = [f"{end:,.{decimals}f}".replace("-", "−", 1) for end in (low, high)]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}" if "−" in "".join(ends) else "–".join(ends)


def capital(text: str) -> str:
    """Return a text that begins a sentence."""
    return text[:1].upper() + text[1:]
