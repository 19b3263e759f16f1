"""Few activations, dimensions and tokens that outweigh all others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from reporter.metrics._sources import KOVALEVA, QUEIPO, SUN, TIMKEY
from reporter.metrics.base import Options, Statistic, Value
from reporter.metrics.registry import metric

if TYPE_CHECKING:
    from reporter.observables.activations import Activations
    from reporter.observables.moments import Moments
    from reporter.observables.observed import LayerMoments, Observed, Place

Floats = NDArray[np.float64]

STATISTICS = (
    Statistic(
        "massive",
        "tokens with a massive activation",
        "share of the view's tokens with some |x_j| > 100 and > 1000 times the median |x| over all entries of all "
        "tokens of the same text at the same place",
        (SUN,),
        bounds=(0, 1),
        smallest=0.001,
        trap="The first threshold is absolute: a model whose states are small has none by definition.",
    ),
    Statistic(
        "largest",
        "largest activation",
        "max |x_j| over tokens and dimensions",
        (SUN,),
        bounds=(0, None),
        trap="A maximum grows with the corpus, and one token decides it.",
    ),
    Statistic(
        "largest_ratio",
        "largest activation over the typical one",
        "max |x_j| over the root mean square of x_j, over tokens and dimensions",
        (SUN,),
        bounds=(1, None),
        trap="A maximum grows with the corpus: isotropic Gaussian states read about √(2·log(n·d)).",
    ),
    Statistic(
        "dimensions",
        "outlier dimensions",
        "number of dimensions j with |μ_j − m| > 3 s, μ the mean state, m and s the mean and standard deviation of the "
        "d numbers μ_j: the three-deviations rule of the source, on mean activations in place of weights",
        (KOVALEVA,),
        bounds=(0, None),
        trap="Where no dimension stands out, 0.27 % of the dimensions exceed three deviations by chance; and no more "
        "than a ninth of them ever can.",
    ),
    Statistic(
        "top3_cosine_share",
        "share of the mean cosine from three dimensions",
        "the three largest c_j over Σ c_j, with c_j = ((Σu)_j² − Σu_j²)/(n(n − 1)), u = x/‖x‖, the part of dimension j "
        "in the mean cosine over all pairs of different tokens; exact, no pairs are sampled",
        (TIMKEY,),
        bounds=(0, None),
        headline=True,
        trap="Some c_j may be negative, so three dimensions can hold more than all. Without a mean cosine that differs "
        "from zero there is nothing to share.",
    ),
    Statistic(
        "sink_share",
        "share of sinks",
        "share of sinks among the view's tokens that the tokenizer did not add; a sink stands at position 0 of a "
        "decoder's input or has, at some block, more than 8 times the median norm of its text; 0 where the view leaves "
        "sinks out",
        (QUEIPO,),
        per="model",
        bounds=(0, 1),
        smallest=0.001,
    ),
)

_CHANCE = 4.0  # standard deviations of the mean cosine of isotropic states that a mean cosine must exceed


@metric(
    name="outliers",
    title="Outliers",
    summary="Whether single activations, dimensions or tokens are so large that they decide the other numbers.",
    statistics=STATISTICS,
    needs=("moments", "activations"),
    cost="a few passes over the states of each layer",
)
def outliers(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield massive activations, outlier dimensions and their share of the cosine at every place; the share of sinks.

    Args:
        seen: observables of one checkpoint on one corpus under one view.
        options: none.
    """
    kept = cast("Activations", seen.observables["activations"])
    strata = list(seen.strata)
    for place in seen.places:
        at, moments = kept.layout.index[place], seen.moments(place)
        if moments.n == 0:
            for statistic in STATISTICS[:-1]:
                yield Value(statistic.name, place, None, 0, reason="no token")
            continue
        largest = float(kept.largest[at, strata].max())
        yield Value("massive", place, float(kept.massive[at, strata].sum()) / moments.n, moments.n)
        yield Value("largest", place, largest, moments.n)
        yield _ratio(largest, moments, place)
        yield _dimensions(moments, place)
        yield _top3_share(moments, kept.unit_squares[at][strata].sum(dim=0).numpy(), place)
    yield _sinks(seen)


def _ratio(largest: float, moments: LayerMoments, place: Place) -> Value:
    square = float(np.mean(np.square(moments.mean) + moments.squares / moments.n))
    if square == 0:
        return Value("largest_ratio", place, None, moments.n, reason="all states are zero")
    return Value("largest_ratio", place, max(1.0, largest / square**0.5), moments.n)


def _dimensions(moments: LayerMoments, place: Place) -> Value:
    mean, n = moments.mean, moments.n
    spread = float(mean.std())
    if spread <= 1e-6 * float(np.abs(mean).max()):
        return Value("dimensions", place, None, n, reason="all dimensions have the same mean")
    return Value("dimensions", place, float((np.abs(mean - mean.mean()) > 3 * spread).sum()), n)


def _top3_share(moments: LayerMoments, unit_squares: Floats, place: Place) -> Value:
    n, name = moments.units, "top3_cosine_share"
    if n < 2:
        return Value(name, place, None, n, reason="fewer than two states that are not zero")
    parts = (np.square(moments.unit_sum) - unit_squares) / (n * (n - 1))
    total = float(parts.sum())
    # The mean cosine of n isotropic states has the standard deviation √(2/d)/√(n(n − 1)).
    if total <= _CHANCE * np.sqrt(2 / len(parts) / (n * (n - 1))):
        return Value(name, place, None, n, reason="the mean cosine is not above that of isotropic states")
    return Value(name, place, float(np.sort(parts)[-3:].sum() / total), n)


def _sinks(seen: Observed) -> Value:
    from reporter.observables.observed import VIEWS

    count = cast("Moments", seen.observables["moments"]).count[0]
    tokens, ordinary = (
        sum(int(count[stratum]) for stratum in seen.strata if stratum in VIEWS[view]) for view in ("words", "no-sinks")
    )
    if not tokens:
        return Value("sink_share", None, None, 0, reason="no token that the tokenizer did not add")
    return Value("sink_share", None, 1 - ordinary / tokens, tokens)
