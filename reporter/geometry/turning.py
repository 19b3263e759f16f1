"""Where a short series of noisy numbers changes: half-way from first to last value, at a turn, and when it rests.

The numbers are measured at checkpoints, each with a standard error. Errors are taken as independent from one checkpoint
to the next, as the database has them; where they come from the same texts they go together, and differences are surer
than is said here. Findings know how layers go together and test the same questions with it (``findings/training.py``);
what is told from that is found by the same ``passage``. Every statement about several checkpoints holds for all of them
at once (Bonferroni).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reporter.geometry.arrays import Floats
from reporter.geometry.intervals import below, quantile

LEVEL = 0.05
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Change:
    """A change of a series.

    Args:
        at: the point that shows it best: the first one past the middle; the highest or the lowest.
        low: first point of the range in which it lies with 95 % confidence.
        high: last point of that range.
        size: how large it is: last minus first value; the turn's height above the nearer end (below it: negative).
        size_low: lower end of the 95 % interval of the size.
        size_high: upper end.
        p: probability of one so large, up or down, by noise alone.
    """

    at: int
    low: int
    high: int
    size: float
    size_low: float
    size_high: float
    p: float


def half_way(values: Floats, errors: Floats, least: float = 0.0) -> Change | None:
    """Return where a series passes the middle between its first and its last value.

    The range goes from the last point that is told to lie before the middle to the first one that is told to lie beyond
    it. None where the first and the last value are not told apart, or where a point told to lie beyond the middle comes
    before one told not to have reached it, so that there is no single passage.

    Args:
        values: by checkpoint, (n,) with n ≥ 3.
        errors: their standard errors, (n,).
        least: a change that is too small to matter.
    """
    n, change, error = len(values), float(values[-1] - values[0]), float(np.hypot(errors[0], errors[-1]))
    p = 2 * float(below(-(abs(change) - least) / max(error, _TINY)))
    if p > LEVEL:
        return None
    past = np.sign(change) * (values - (values[0] + values[-1]) / 2)
    spread = np.sqrt(errors**2 + (errors[0] ** 2 + errors[-1] ** 2) / 4)
    spread[[0, -1]] = error / 2  # half of their difference
    sure = quantile(1 - LEVEL / (2 * n)) * spread
    passed = passage(past < -sure, past > sure)
    if passed is None:
        return None
    low, high = passed
    at = low + 1 + int(np.argmax(past[low + 1 : high + 1] >= 0))
    return Change(at, low, high, change, *_interval(change, error), p)


def passage(before: NDArray[np.bool_], after: NDArray[np.bool_]) -> tuple[int, int] | None:
    """Return between which two points a series passes the middle; None where there is no single passage.

    Args:
        before: whether a point is told to lie before the middle, (n,).
        after: whether it is told to lie beyond it, (n,).
    """
    low = max([0, *np.flatnonzero(before).tolist()])
    high = min([len(after) - 1, *np.flatnonzero(after).tolist()])
    return (low, high) if low < high else None


def turn(values: Floats, errors: Floats, least: float = 0.0) -> Change | None:
    """Return where a series is highest or lowest between its ends, the clearer one of both; None where it is not.

    The range has every point that is not told apart from the extreme; neither end of the series is among them.

    Args:
        values: by checkpoint, (n,) with n ≥ 3.
        errors: their standard errors, (n,).
        least: a height that is too small to matter.
    """
    found = [one for sign in (1.0, -1.0) if (one := _peak(sign * values, errors, least, sign)) is not None]
    return min(found, key=lambda one: one.p, default=None)


def _peak(values: Floats, errors: Floats, least: float, sign: float) -> Change | None:
    n, at = len(values), int(np.argmax(values))
    end = 0 if values[0] >= values[-1] else n - 1
    if at in (0, n - 1):
        return None
    height, error = float(values[at] - values[end]), float(np.hypot(errors[at], errors[end]))
    p = min(1.0, 2 * (n - 2) * float(below(-(height - least) / max(error, _TINY))))
    apart = quantile(1 - LEVEL / (2 * (n - 1))) * np.hypot(errors, errors[at])
    among = np.flatnonzero(values[at] - values <= apart + least)
    if p > LEVEL or {0, n - 1} & set(among.tolist()):
        return None
    ends = sorted(sign * x for x in _interval(height, error))
    return Change(at, int(among[0]), int(among[-1]), sign * height, ends[0], ends[1], p)


def rests(values: Floats, errors: Floats, least: float = 0.0) -> int:
    """Return the first point from which on no value is told apart from the last one.

    Args:
        values: by checkpoint, (n,).
        errors: their standard errors, (n,).
        least: a difference that is too small to matter.
    """
    n = len(values)
    apart = quantile(1 - LEVEL / (2 * max(n - 1, 1))) * np.hypot(errors, errors[-1]) + least
    away = np.flatnonzero(np.abs(values - values[-1])[:-1] > apart[:-1])
    return int(away[-1]) + 1 if len(away) else 0


def _interval(value: float, error: float) -> tuple[float, float]:
    half = quantile(0.975) * error
    return value - half, value + half
