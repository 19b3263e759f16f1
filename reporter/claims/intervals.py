"""What the stored interval of a number says about its error.

Most statistics store a 95 % interval. Those that are means over batches of tokens store the mean ± the standard
deviation of a batch; the 95 % interval of that mean is t · sd/√B wide on each side, B batches, Student's t with B − 1
degrees of freedom. B is not stored; it is worked out from the metric's options and the number of states, and taken as 2
where that fails, which overstates the error.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

FEWEST_BATCHES = 2
Z = 1.959964  # 97.5 % of the standard normal distribution


@cache
def over_batches() -> frozenset[str]:
    """Return the names of the statistics whose interval is the standard deviation of a batch."""
    from reporter.metrics._intervals import OVER_BATCHES
    from reporter.metrics.registry import catalogue

    return frozenset(
        f"{metric.name}.{statistic.name}"
        for metric in catalogue().values()
        for statistic in metric.statistics
        if statistic.interval == OVER_BATCHES
    )


def spread_of(measure: str, row: Mapping[str, Any], options: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the 95 % interval of a stored number, or two None.

    Args:
        measure: the statistic, as metric.statistic.
        row: ``value``, ``ci_low``, ``ci_high`` and ``n``.
        options: the metric's options.
    """
    value, low, high = row["value"], row["ci_low"], row["ci_high"]
    if value is None or low is None or high is None:
        return None, None
    if measure not in over_batches():
        return float(low), float(high)
    from scipy.special import stdtrit

    batches = _batches(row["n"], options)
    factor = float(stdtrit(batches - 1, 0.975)) / batches**0.5
    return value - factor * (value - low), value + factor * (high - value)


def _batches(n: float | None, options: Mapping[str, Any]) -> int:
    sample, most = options.get("sample"), options.get("batches")
    if not (sample and most and n):
        return FEWEST_BATCHES
    return max(FEWEST_BATCHES, min(int(most), int(n) // int(sample)))


def standard_error(value: float, low: float | None, high: float | None) -> float | None:
    """Return the standard error that belongs to a 95 % interval, from its longer side; None where there is none."""
    if low is None or high is None:
        return None
    return max(high - value, value - low, 0.0) / Z
