"""What the stored interval of a number says about its error."""

from __future__ import annotations

Z = 1.959964  # 97.5 % of the standard normal distribution


def standard_error(value: float, low: float | None, high: float | None) -> float | None:
    """Return the standard error that belongs to a 95 % interval, from its longer side; None where there is none."""
    if low is None or high is None:
        return None
    return max(high - value, value - low, 0.0) / Z
