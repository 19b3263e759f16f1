"""Values that a definition fixes: a similarity to the last state of 1 at the last layer says nothing of the model.

:attr:`Statistic.fixed` declares where such values can occur. Whether one occurs depends on the model: the states of a
token type are equal at layer 0 unless positions are added there. :func:`settled` therefore compares the number with the
declared value. A number that equals it up to rounding becomes exactly that value, has no interval and is marked in the
column ``by_definition``. Every mean over layers and every claim reads this mark. A metric whose number can reach the
declared value by measurement, as a rank can be 0, decides itself and sets ``Value.by_definition`` to False.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reporter.metrics.base import Statistic, Value

ROUNDING = 1e-6
"""Difference from the declared value that rounding in float32 explains, for numbers without a unit."""

PATH = ("embedding", "block")


def settled(statistic: Statistic, number: Value, layers: int) -> Value:
    """Return a number, settled and marked where its value is fixed by definition.

    Args:
        statistic: what is known of it.
        number: as the metric yields it.
        layers: blocks of the model.
    """
    if number.by_definition is not None or number.place is None or number.value is None:
        return number
    if number.place.site not in PATH:
        return number
    last = layers - 1 if statistic.per == "step" else layers
    at = {"first": 0, "last": last}
    for end, value in statistic.fixed:
        # A number without an upper bound may be small in the units of the states: only the value itself counts.
        tolerance = 0.0 if statistic.bounds == (0, None) else ROUNDING
        if number.place.layer == at[end] and abs(number.value - value) <= tolerance:
            reason = f"the definition fixes it at {value:g} here"
            return replace(number, value=value, ci_low=None, ci_high=None, reason=reason, by_definition=True)
    return number
