"""Which tokens of a corpus the delta method takes influences of, and how its intervals are described."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from reporter.geometry.arrays import Ints
from reporter.geometry.intervals import FEWEST_TEXTS, Scale
from reporter.metrics.base import INFLUENCES

if TYPE_CHECKING:
    from reporter.observables.observed import Observed
    from reporter.observables.token_sample import Selection, TokenSample

DELTA = (
    f"95 %, delta method over texts: influences of up to {INFLUENCES} sampled tokens, summed by distinct text, "
    f"Student's t {{scale}}; covered {{covered}} where measured; none for fewer than {FEWEST_TEXTS} texts"
)
ON_SCALE: Mapping[Scale, str] = {
    "plain": "on its own scale",
    "log": "on the log scale",
    "logit": "on the logit scale",
    "fisher": "on the scale of Fisher's z",
}


def described(scale: Scale, covered: str) -> str:
    """Return what ``interval=`` of a statistic says.

    Args:
        scale: of the interval.
        covered: least and most of the statistic in ``tests/intervals/README.md``.
    """
    return DELTA.format(scale=ON_SCALE[scale], covered=covered)


def sampled(seen: Observed, strata: tuple[int, ...] | None = None) -> Selection:
    """Return the tokens whose influences are taken: the same ones for every number of a view, or of some strata."""
    if strata is None:
        return seen.token_sample(INFLUENCES)
    tokens = cast("TokenSample", seen.observables["tokens"])
    return seen.once(("influences", strata), lambda: tokens.select(strata, INFLUENCES))


def texts_of(sample: Selection) -> Ints:
    """Return which text each sampled token belongs to, shape (m,)."""
    from reporter.observables.token_sample import TEXT

    return sample.facts[:, TEXT]
