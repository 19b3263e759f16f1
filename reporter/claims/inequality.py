"""One inequality of a claim: a number, its error, what it must exceed, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reporter.claims.points import Array, Estimates

LEVEL = 0.025  # one-sided: a 95 % interval that excludes the bound


@dataclass(frozen=True)
class Range:
    """Where a claim wants a number.

    Args:
        text: in words and rounded, such as ``> 0.01``; empty where there is nothing to say.
        low: the lower end; None where it is open or not known.
        high: the upper end.
        outside: whether the number is to lie outside of both ends.
    """

    text: str = ""
    low: float | None = None
    high: float | None = None
    outside: bool = False

    @property
    def known(self) -> bool:
        """Whether it has an end."""
        return self.low is not None or self.high is not None


@dataclass(frozen=True)
class Inequality:
    """A number and what it must exceed (or, with ``less``, stay below) for the claim to hold.

    Args:
        name: what the number is.
        estimates: the number, P = 1.
        bound: what it is compared with.
        less: whether the claim wants it to be less.
        fails: whether it is tested that the claim is false, so that the number lies on the other side of the bound.
        scale: among how many such tests it was chosen; p and interval are corrected for them (Bonferroni).
        shown: from the scale that it is tested on to the one that people read.
    """

    name: str
    estimates: Estimates
    bound: float | Array = 0.0
    less: bool = False
    fails: bool = False
    scale: float = 1.0
    shown: Callable[[float], float] = float

    @property
    def p(self) -> Array:
        """The one-sided p-value, corrected for ``scale``, shape (...)."""
        side = self.estimates.below if self.less != self.fails else self.estimates.above
        return np.minimum(1.0, self.scale * side(self.bound)[..., 0])

    @property
    def value(self) -> float:
        """The number, of a single repetition."""
        return self.shown(float(np.ravel(self.estimates.value)[0]))

    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval, of a single repetition; it excludes the bound where p is at most 0.025."""
        low, high = (float(np.ravel(end)[0]) for end in self.estimates.interval(1 - 2 * LEVEL / self.scale))
        return (self.shown(low), self.shown(high)) if np.isfinite([low, high]).all() else None

    @property
    def wanted(self) -> Range:
        """Where the claim wants the number."""
        end = self.shown(float(np.ravel(self.bound)[0]))
        return Range(f"< {end:.3g}", high=end) if self.less else Range(f"> {end:.3g}", low=end)


def deciding(holds: tuple[Inequality, ...], fails: tuple[Inequality, ...]) -> Inequality:
    """Return the inequality that the verdict rests on: the one whose p-value is that of the rule.

    A claim needs all of ``holds``, so the weakest speaks for it; one of ``fails`` is enough against it.
    """
    weakest, clearest = max(holds, key=lambda part: float(part.p)), min(fails, key=lambda part: float(part.p))
    return clearest if float(clearest.p) < float(weakest.p) else weakest
