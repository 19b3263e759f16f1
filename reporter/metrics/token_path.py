"""How straight the path from token to token is within a layer (Hosseini & Fedorenko 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from math import pi
from typing import TYPE_CHECKING

from reporter.geometry import noise
from reporter.geometry.intervals import percentile_interval
from reporter.metrics._intervals import BOOTSTRAP, change_of_mean, mean_with_interval
from reporter.metrics._sources import HOSSEINI
from reporter.metrics.base import Between, Difference, Options, Statistic, Value
from reporter.metrics.registry import metric

if TYPE_CHECKING:
    from reporter.observables.observed import Observed

_TRIPLES = (
    4096  # that the floor is drawn from, whatever the corpus holds: it is a mean that does not hang on their number
)

_NO_TRIPLE = "no text has three neighbouring tokens that differ from each other here"

STATISTICS = (
    Statistic(
        "curvature",
        "turning angle from token to token",
        "mean over texts of the mean over a text of the angle between x_t − x_{t−1} and x_{t+1} − x_t, x_t the state "
        "of token t at one layer; a token is read where it and both its neighbours belong to the view, so that what a "
        "view leaves out cuts the path and is not stepped over, and where neither step is zero",
        (HOSSEINI,),
        unit="radians",
        interval=BOOTSTRAP,
        floor=True,
        bounds=(0, pi),
        smallest=0.01,
        headline=True,
        plainly="How sharply the path from token to token turns within a text.",
        trap="Independent tokens read 2π/3 ≈ 2.09 (120°), not π/2: consecutive steps share a state. Over tokens, "
        "within a layer; motion.curvature is over layers, of one token. A decoder's sink, far from all others, makes "
        "steps there and back: look at no-sinks, too.",
        published="The authors give degrees, and mostly the change from layer to layer. The code of Skean et al. has "
        "two other numbers under this name: first the angle between the states of neighbouring tokens (not their "
        "differences), later that between their differences, of the absolute cosine, which is never beyond π/2.",
    ),
    Statistic(
        "straightening",
        "how much straighter the path is than at layer 0",
        "token_path.curvature at layer 0 minus the same at this place",
        (HOSSEINI,),
        unit="radians",
        interval=BOOTSTRAP + "; both layers under the same weights",
        bounds=(-pi, pi),
        fixed=(("first", 0.0),),
        smallest=0.01,
        trap="Layer 0 is what enters the first block: token vectors, to which some models have added positions or a "
        "norm. Where it knows no position, a token that is repeated at once makes no step there and is left out.",
        published="The authors subtract the other way round: a fall is a straightening there.",
    ),
)


def compare(a: Observed, b: Observed, options: Options) -> Iterator[Difference]:
    """Yield the curvature of a model minus that of its base, layer by layer, with intervals from paired replicates.

    Args:
        a: the model.
        b: its base.
        options: none.
    """
    from reporter.observables.token_path import TokenPath

    for place in a.path[: min(a.layers, b.layers) + 1]:
        mine, theirs = (side.get(TokenPath).average("curvature", place, side.view) for side in (a, b))
        texts = min(mine.distinct, theirs.distinct)
        yield change_of_mean("curvature", place, mine, theirs, texts, _NO_TRIPLE)


@metric(
    name="token_path",
    title="Path from token to token",
    summary="How much the states of a text turn from one token to the next, within each layer, and whether the layers "
    "straighten that path.",
    statistics=STATISTICS,
    needs=("token_path",),
    version=3,
    cost="a few products per token and layer",
    between=Between(compare, of=("base",)),
    tables=(Difference,),
)
def token_path(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield the mean angle at each place, and how far it is below that of layer 0.

    Args:
        seen: observables of one checkpoint on one corpus under one view.
        options: none.
    """
    from reporter.observables.token_path import TokenPath

    kept = seen.get(TokenPath)
    first = kept.average("curvature", seen.path[0], seen.view)
    for place in seen.places:
        average = kept.average("curvature", place, seen.view)
        yield mean_with_interval("curvature", place, average, average.distinct, _NO_TRIPLE)
        if average.n:
            floor = noise.step_angle(_TRIPLES, seen.width(place), seen.seed)
            yield Value("curvature_floor", place, floor, average.n)
        if not average.n or not first.n:
            reason = (
                _NO_TRIPLE
                if first.n
                else "no text has three neighbouring tokens that differ from each other at layer 0"
            )
            yield Value("straightening", place, None, 0, reason=reason)
            continue
        both = first.replicates - average.replicates
        n, texts = min(first.n, average.n), min(first.distinct, average.distinct)
        yield Value("straightening", place, first.value - average.value, n, *percentile_interval(both, texts))
