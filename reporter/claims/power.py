"""What it would have taken to decide a claim that is inconclusive.

With standard error e and critical value z_α of the test (one-sided, corrected for the number of claims and for the
choice among inequalities), a number that lies (z_α + z_0.8) e beyond its bound is shown to in 80 % of studies like this
one. The error from texts falls with the square root of their number, that from models with the square root of theirs.
"""

from __future__ import annotations

from math import ceil, isfinite
from typing import TYPE_CHECKING

import numpy as np

from reporter.claims.inequality import LEVEL
from reporter.claims.points import FEWEST_MODELS

if TYPE_CHECKING:
    from reporter.claims.finding import Finding
    from reporter.claims.inequality import Inequality

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
    reach = _reach(part, tested) * error
    value, bound = float(np.ravel(part.estimates.value)[0]), float(np.ravel(part.bound)[0])
    sentences = [_least(part, bound, reach)]
    more = (reach / abs(value - bound)) ** 2 if value != bound else float("inf")
    number = f"the number stays where it is ({part.name} at {part.value:.3g})"
    if more > MOST:
        sentences.append(f"where {number}, no realistic number of texts or models decides")
    elif more > 1:
        sentences.append(f"if {number}, it takes about {_what(finding, error, more)}")
    return "; ".join(sentence for sentence in sentences if sentence)


def _reach(part: Inequality, tested: int) -> float:
    """Return how many standard errors beyond its bound a number must lie to be shown with 80 % power."""
    level = 2 * LEVEL / (2 * max(1, tested)) / part.scale
    return part.estimates.quantile(1 - level) + part.estimates.quantile(POWER)


def _least(part: Inequality, bound: float, reach: float) -> str:
    wants_less = part.less != part.fails
    edge = part.shown(bound - reach if wants_less else bound + reach)
    allowance = abs(bound) if (bound > 0) == wants_less else 0.0
    if not part.fails and allowance and reach > allowance:
        # Even a profile without any fall, or any distance, lies no further than this from the bound.
        return (
            f"this claim can hardly be supported with these texts and models: that {part.name} is {part.wanted} takes "
            f"an error of about {allowance / reach:.2g} times the one there is, or a larger tolerance"
        )
    return f"with this error, {part.name} {'<' if wants_less else '>'} {edge:.3g} would have been shown with 80 % power"


def _what(finding: Finding, error: float, more: float) -> str:
    assert finding.part is not None
    texts = finding.part.estimates.texts
    from_texts = texts is not None and float(np.ravel(texts)[0]) ** 2 >= error**2 / 2
    if finding.models >= FEWEST_MODELS and not from_texts:
        return f"{ceil(finding.models * more)} independent models"
    return f"{more:.2g} times as many texts" if more < 10 else f"{ceil(more)} times as many texts"
