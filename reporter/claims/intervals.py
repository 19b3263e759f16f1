"""What the stored interval of a number says about its error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Z = 1.959964  # 97.5 % of the standard normal distribution


def spread_of(row: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the 95 % interval of a stored number, or two None.

    Args:
        row: ``value``, ``ci_low`` and ``ci_high``.
    """
    value, low, high = row["value"], row["ci_low"], row["ci_high"]
    if value is None or low is None or high is None:
        return None, None
    return float(low), float(high)


def standard_error(value: float, low: float | None, high: float | None) -> float | None:
    """Return the standard error that belongs to a 95 % interval, from its longer side; None where there is none."""
    if low is None or high is None:
        return None
    return max(high - value, value - low, 0.0) / Z
