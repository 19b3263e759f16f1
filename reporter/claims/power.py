"""What it would have taken to decide a claim that is inconclusive.

With standard error e and critical value c of the test (one-sided, corrected for the number of claims and for the choice
among inequalities), a number that lies δe beyond its bound is shown to in 80 % of studies like this one: δ = c + z_0.8
for a known error; where the error is taken over a few models, δ is the noncentrality at which Student's t exceeds c in
80 % of cases. The error from texts falls with the square root of their number, that from models with the square root of
theirs, and more models also bring c down.
"""

from __future__ import annotations

from math import ceil, isfinite, isinf
from typing import TYPE_CHECKING

import numpy as np

from reporter.claims.finding import LEVEL
from reporter.claims.points import FEWEST_MODELS
from reporter.geometry.intervals import quantile

if TYPE_CHECKING:
    from reporter.claims.finding import Finding, Inequality

POWER = 0.8
MOST = 1000
"""More times as many texts or models than that is no advice."""


def power(finding: Finding, tested: int) -> str:
    """Say what would be needed to decide, in one or two sentences; empty where nothing can be said.

    Args:
        finding: an inconclusive finding.
        tested: how many claims are corrected for.
    """
    part = finding.part
    if not finding.tested or part is None or not isfinite(error := float(np.ravel(part.estimates.error)[0])):
        return ""
    reach = _reach(part, tested, part.estimates.df) * error
    value, bound = float(np.ravel(part.estimates.value)[0]), float(np.ravel(part.bound)[0])
    gap = abs(value - bound)
    more = (reach / gap) ** 2 if gap else float("inf")
    told = _least(part, bound, reach)
    if more > MOST:
        told += f"; if it is {part.value:.3g} as measured, no realistic number of texts or models decides"
    elif more > 1:
        told += (
            f"; if it is {part.value:.3g} as measured, deciding takes about {_what(finding, tested, gap / error, more)}"
        )
    return told


def _reach(part: Inequality, tested: int, df: float) -> float:
    """Return how many standard errors beyond its bound a number must lie to be shown with 80 % power."""
    from scipy.special import nctdtrinc

    level = 2 * LEVEL / (2 * max(1, tested)) / part.scale
    if isinf(df):
        return quantile(1 - level) + quantile(POWER)
    return float(nctdtrinc(df, 1 - POWER, quantile(1 - level, df)))


def _least(part: Inequality, bound: float, reach: float) -> str:
    wants_less = part.less != part.fails
    edge = part.shown(bound - reach if wants_less else bound + reach)
    allowance = abs(bound) if (bound > 0) == wants_less else 0.0
    if not part.fails and allowance and reach > allowance:
        # Even a profile without any fall, or any distance, lies no further than this from the bound.
        return (
            f"this claim can hardly be supported with these texts and models: to show that {part.name} is "
            f"{part.wanted.text}, the error must be about {allowance / reach:.2g} times what it is, or the tolerance "
            "larger"
        )
    return (
        f"with this error, a study like this decides in 80 % of cases if {part.name} is really "
        f"{'<' if wants_less else '>'} {edge:.3g}"
    )


def _what(finding: Finding, tested: int, gap: float, more: float) -> str:
    """Return how many texts or models it takes; ``gap`` is how many standard errors the number lies from its bound."""
    assert finding.part is not None
    estimates, now = finding.part.estimates, finding.models
    texts = None if estimates.texts is None else float(np.ravel(estimates.texts)[0])
    from_texts = texts is not None and texts**2 >= float(np.ravel(estimates.error)[0]) ** 2 / 2
    if now >= FEWEST_MODELS and not from_texts:
        for models in range(now + 1, MOST * now):
            df = estimates.df * (models - 1) / (now - 1)
            if _reach(finding.part, tested, df) <= gap * (models / now) ** 0.5:
                break
        return f"{models} independent models"
    return f"{more:.2g} times as many texts" if more < 10 else f"{ceil(more)} times as many texts"
