"""Intervals over texts, of bootstrap replicates or of the delta method: how they are made and described."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from reporter.geometry.arrays import Floats, Ints
from reporter.geometry.intervals import FEWEST_TEXTS, Scale, error_over_texts, interval, percentile_interval
from reporter.metrics.base import INFLUENCES, Difference, Value

if TYPE_CHECKING:
    from reporter.observables.observed import Observed, Place
    from reporter.observables.per_token import PerToken
    from reporter.observables.token_sample import Selection

BOOTSTRAP = (
    "95 % percentile interval of 1000 bootstrap replicates over texts (Poisson weights); "
    f"none for fewer than {FEWEST_TEXTS} texts"
)

HALF_SAMPLED = (
    "95 %, value ± 2.0 standard deviations over 63 balanced half-samples of the texts, each with its own split into "
    f"frequent and rare types; none for fewer than {FEWEST_TEXTS} texts; over 200 subsets of 100 of 2,000 texts it "
    "covers 92 to 99 %"
)


class Replicated(Protocol):
    """A mean with its bootstrap replicates over texts."""

    @property
    def value(self) -> float:
        """The mean."""

    @property
    def n(self) -> int:
        """How many observations have the quantity; 0 if none."""

    @property
    def replicates(self) -> NDArray[np.float64]:
        """The mean under each set of text weights, shape (R,)."""


def mean_with_interval(statistic: str, place: Place | None, mean: Replicated, texts: int, reason: str) -> Value:
    """Return a mean with its bootstrap interval, or, where nothing has the quantity, NULL with the reason."""
    if not mean.n:
        return Value(statistic, place, None, 0, reason=reason)
    ends = percentile_interval(mean.replicates, texts)
    return Value(statistic, place, mean.value, mean.n, *ends, spread=mean.replicates)


def change_of_mean(
    statistic: str, place: Place | None, mine: Replicated, theirs: Replicated, texts: int, reason: str
) -> Difference:
    """Return one side's mean minus that of the other on the same corpus, with the interval of paired replicates.

    Replicates of one corpus draw the same texts in every model, so that what both have in common falls out.

    Args:
        statistic: of which both are.
        place: where; None for a number of the whole model.
        mine: the mean of the first side.
        theirs: of the second.
        texts: distinct texts.
        reason: why one of them has none.
    """
    n = min(mine.n, theirs.n)
    if not n:
        return Difference(statistic, place, None, 0, reason=reason)
    ends = percentile_interval(mine.replicates - theirs.replicates, texts)
    return Difference(statistic, place, mine.value - theirs.value, texts, *ends)


def changes_along(
    a: Observed, b: Observed, ends: Mapping[str, int], kind: type[PerToken], reason: str
) -> Iterator[Difference]:
    """Yield means of a model minus those of its base at the places of the path that both have, by number.

    Args:
        a: the model.
        b: its base.
        ends: at how many places from the embedding on each statistic is defined in both.
        kind: the observable that has a mean of each statistic at each place.
        reason: why there is none.
    """
    for statistic, end in ends.items():
        for place in a.path[:end]:
            mine, theirs = (side.get(kind).average(statistic, place, side.view) for side in (a, b))
            yield change_of_mean(statistic, place, mine, theirs, min(a.texts, b.texts), reason)


@dataclass(frozen=True, eq=False)
class Influenced:
    """A number with the influences of sampled tokens on it.

    Args:
        value: the number; None where there is none.
        n: tokens that it was computed from.
        influence: φ of each sampled token, shape (m,).
        sample: the tokens.
    """

    value: float | None
    n: int
    influence: Floats
    sample: Selection


NOT_IN_BOTH = "one of the two models has no such number here"

Numbered = Callable[["Observed", "Place"], Influenced | None]
"""A number at a place; None where it is not defined in such a model."""


def changes_by_influence(a: Observed, b: Observed, numbers: Mapping[str, Numbered]) -> Iterator[Difference]:
    """Yield numbers of a model minus those of its base at the places of the path that both have.

    By the delta method over paired texts: to first order each number is a mean of influences, so their difference is
    one of differences, and what a text does to both falls out. A token that one side alone has in its view or its
    sample counts there.

    Args:
        a: the model.
        b: its base.
        numbers: by statistic.
    """
    for place in a.path[: min(a.layers, b.layers) + 1]:
        for statistic, number in numbers.items():
            mine, theirs = number(a, place), number(b, place)
            if mine is not None and theirs is not None:
                yield _change_by_influence(statistic, place, mine, theirs, min(a.texts, b.texts))


def _change_by_influence(statistic: str, place: Place, mine: Influenced, theirs: Influenced, texts: int) -> Difference:
    if mine.value is None or theirs.value is None:
        return Difference(statistic, place, None, 0, reason=NOT_IN_BOTH)
    keys = np.union1d(mine.sample.keys, theirs.sample.keys)
    influence, of_text = np.zeros(len(keys)), np.zeros(len(keys), dtype=np.int64)
    for side, sign in ((mine, 1.0), (theirs, -1.0)):
        at = np.searchsorted(keys, side.sample.keys)
        influence[at] += sign * mine.n / side.n * side.influence
        of_text[at] = texts_of(side.sample)
    found = mine.value - theirs.value
    error = error_over_texts(influence, of_text, mine.n, texts)
    return Difference(statistic, place, found, texts, *interval(found, error, "plain", (-np.inf, np.inf)))


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
    from reporter.observables.token_sample import Tokens

    return seen.once(("influences", strata), lambda: seen.get(Tokens).select(strata, INFLUENCES))


def dealt(texts: Ints, groups: int) -> Ints:
    """Return the group of each state, 0…``groups`` − 1: texts in their order of appearance, dealt in turn, shape (n,).

    Of fewer texts than make an interval the states are dealt to two groups: there is none then.

    Args:
        texts: of each state of a sample in random order, shape (n,).
        groups: how many.
    """
    _, first, which = np.unique(texts, return_index=True, return_inverse=True)
    if len(first) < FEWEST_TEXTS:
        return np.arange(len(texts)) % 2
    turn = np.empty(len(first), dtype=np.int64)
    turn[np.argsort(first)] = np.arange(len(first)) % groups
    found: Ints = turn[which]
    return found


def texts_of(sample: Selection) -> Ints:
    """Return which text each sampled token belongs to, shape (m,)."""
    from reporter.observables.token_sample import TEXT

    return sample.facts[:, TEXT]
