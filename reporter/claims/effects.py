"""The smallest effect that counts where a claim states none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reporter.claims.points import ROUNDING, Array

if TYPE_CHECKING:
    from reporter.claims.numbers import Numbers

SHARE = 0.01
"""Of the mean size of the numbers, for a statistic that says nothing of its smallest effect."""


def smallest_effect(numbers: Numbers, measure: str, stated: float | None, values: Array) -> tuple[float, str]:
    """Return the smallest effect that counts, never below rounding, and a note that says where it is from.

    Args:
        numbers: the study's numbers.
        measure: the statistic.
        stated: what the claim says (``at_least``); None where it says nothing.
        values: the numbers that are compared, of any shape.
    """
    size = float(np.abs(values).max(initial=0.0))
    known = numbers.statistic(measure)
    if stated is not None:
        found, note = stated, ""
    elif known is not None and known.smallest is not None:
        found = known.smallest
        note = f"effects of up to {found:g} count as none, the default for {measure}; 'at_least' changes it"
    else:
        found = SHARE * float(np.abs(values).mean()) if values.size else 0.0
        note = f"effects of up to {found:.3g}, 1 % of the numbers' mean size, count as none; 'at_least' changes it"
    return max(found, ROUNDING * size), note


def difference_bounds(numbers: Numbers, measure: str) -> tuple[float | None, float | None]:
    """Return what a difference of two numbers of a statistic cannot exceed."""
    known = numbers.statistic(measure)
    low, high = (None, None) if known is None else known.bounds
    return (None, None) if low is None or high is None else (low - high, high - low)
