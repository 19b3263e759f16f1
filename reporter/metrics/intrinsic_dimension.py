"""How many directions the states vary in locally: the two-nearest-neighbours estimate (Facco et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from reporter.metrics import _floors
from reporter.metrics._intervals import OVER_BATCHES, mean_of_batches
from reporter.metrics._neighbours import nearest_distances
from reporter.metrics._sources import DENTI, FACCO, SHAPE_OF_LEARNING
from reporter.metrics.base import Options, SampleOptions, Statistic, Value
from reporter.metrics.registry import metric

if TYPE_CHECKING:
    from reporter.observables.observed import Observed, Place
    from reporter.observables.token_sample import Selection

Floats = NDArray[np.float64]

_RELATIVE = (
    "Dimension is relative: an isotropic Gaussian of true dimension 50 reads about 33 at 4096 tokens. Compare "
    "with the floor and with other models at the same n, not with the width."
)
_DISTINCT = (
    "states are drawn without duplicates, a duplicate being decided by what the model saw: the same prefix of "
    "token ids (decoder), the same text and position (encoder), at layer 0 the same token id (and position where "
    "position vectors are added)"
)

STATISTICS = (
    Statistic(
        "twonn",
        "intrinsic dimension (TwoNN)",
        "with μ_i = r2/r1 the ratio of the distances of state i to its second and first nearest neighbour, the ⌊0.9·N⌋ "
        f"smallest μ sorted ascending, F_i = i/N: slope through the origin of −log(1 − F) on log μ; {_DISTINCT}; "
        "float64, centred",
        (FACCO, SHAPE_OF_LEARNING),
        interval=OVER_BATCHES,
        floor=True,
        bounds=(0, None),
        headline=True,
        trap=_RELATIVE,
    ),
    Statistic(
        "twonn_ml",
        "intrinsic dimension (TwoNN, maximum likelihood)",
        "(N − 1) / Σ log μ over all N states, mean over batches",
        (DENTI,),
        interval="95 %, from Σ log μ ~ Gamma(N, 1/d), over the states of all batches; it takes the ratios as "
        "independent, and since mutual neighbours share r1 it covers about 87 % in simulation",
        floor=True,
        bounds=(0, None),
        trap=_RELATIVE + " No μ is discarded, so outliers pull it down.",
    ),
    Statistic(
        "duplicates",
        "share of duplicates",
        "1 − (distinct states) / (tokens) in the sample, " + _DISTINCT.partition(", ")[2],
        (FACCO,),
        bounds=(0, 1),
        trap="Above one half the dimension is not computed.",
    ),
)

_FEWEST = 10  # distinct states below which a slope means nothing


class DimensionOptions(SampleOptions):
    """How many distinct states are drawn."""


@metric(
    name="intrinsic_dimension",
    title="Intrinsic dimension",
    summary="How many coordinates it takes to describe the states in the neighbourhood of a state.",
    statistics=STATISTICS,
    needs=("moments", "contexts"),
    options=DimensionOptions,
    cost="a bounded sample; sample² distances for each layer, batch and view",
)
def intrinsic_dimension(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield both estimates, their floors and the share of duplicates at every layer.

    Args:
        seen: observables of one checkpoint on one corpus under one view.
        options: sample and batches.
    """
    options = cast(DimensionOptions, options)
    sample = seen.context_sample(options.sample_size())
    for place in seen.places:
        kept, duplicates = _distinct(sample, place)
        tokens = int(sample.facts[:, 0].sum())
        if not len(kept):
            reason = "no token"
        elif duplicates > 0.5:
            reason = f"{duplicates:.0%} of the sampled tokens are duplicates"
        elif len(kept) < _FEWEST:
            reason = f"fewer than {_FEWEST} distinct states"
        else:
            reason = ""
        if reason:
            yield Value("twonn", place, None, len(kept), reason=reason)
            yield Value("twonn_ml", place, None, len(kept), reason=reason)
        else:
            yield from _estimates(seen, sample, kept, place, options)
        if tokens:
            yield Value("duplicates", place, duplicates, tokens)
        else:
            yield Value("duplicates", place, None, 0, reason=reason)


def _distinct(sample: Selection, place: Place) -> tuple[NDArray[np.int64], float]:
    """Return which states of the sample to keep, still in random order, and the share of tokens that are duplicates."""
    kept = np.arange(len(sample))
    if place.layer == 0:
        kept = np.sort(np.unique(sample.facts[:, 1], return_index=True)[1])
    tokens = sample.facts[:, 0].sum()
    return kept, float(1 - len(kept) / tokens) if tokens else 0.0


def _estimates(
    seen: Observed, sample: Selection, kept: NDArray[np.int64], place: Place, options: DimensionOptions
) -> Iterator[Value]:
    def compute() -> list[Floats]:
        states = sample.states(place)[kept]
        return [log_ratios(states[batch]) for batch in options.split(len(kept))]

    batches = seen.once(("log ratios", seen.held, place, options), compute)
    n = sum(len(logs) for logs in batches)
    reason = ""
    if min(len(logs) for logs in batches) < _FEWEST:
        reason = f"fewer than {_FEWEST} distinct states"
    elif any(logs[int(0.9 * len(logs)) - 1] < 1e-9 for logs in batches):
        reason = "the first and the second neighbour are equally far"
    if reason:
        yield Value("twonn", place, None, n, reason=reason)
        yield Value("twonn_ml", place, None, n, reason=reason)
        return
    slopes = [twonn(logs) for logs in batches]
    mean, low, high = mean_of_batches(slopes)
    yield Value("twonn", place, mean, n, low, high)
    likely = float(np.mean([twonn_ml(logs) for logs in batches]))
    yield Value("twonn_ml", place, likely, n, *_gamma_interval(n, sum(logs.sum() for logs in batches)))
    size = len(batches[0])
    for name, floor in zip(("twonn_floor", "twonn_ml_floor"), _floor(size, seen.width(place), seen.seed), strict=True):
        yield Value(name, place, floor, size)


def log_ratios(x: NDArray[np.floating]) -> Floats:
    """Return log(r2/r1) of each distinct row, ascending, shape (N,).

    Rows that are equal although the model saw different things (an architecture that forgets) are dropped here, since
    r1 = 0 has no ratio.
    """
    distances = nearest_distances(x, 2) if len(x) > 2 else np.zeros((0, 2))
    if (distances[:, 0] == 0).any():
        x = np.unique(x, axis=0)
        distances = nearest_distances(x, 2) if len(x) > 2 else np.zeros((0, 2))
    return np.sort(np.log(distances[:, 1] / distances[:, 0]))


def twonn(logs: Floats) -> float:
    """Return the slope through the origin of −log(1 − F) on log μ over the ⌊0.9·N⌋ smallest μ.

    Args:
        logs: log μ, ascending, shape (N,).
    """
    n = len(logs)
    kept = logs[: int(0.9 * n)]
    empirical = -np.log1p(-np.arange(1, len(kept) + 1) / n)
    return float(kept @ empirical / (kept @ kept))


def twonn_ml(logs: Floats) -> float:
    """Return (N − 1) / Σ log μ."""
    return float((len(logs) - 1) / logs.sum())


def _gamma_interval(n: int, total: float) -> tuple[float, float]:
    from scipy.special import gammaincinv  # the quantiles of a Gamma, without the import of scipy.stats

    low, high = gammaincinv(n, [0.025, 0.975])
    return float(low / total), float(high / total)


@lru_cache(maxsize=256)
def _floor(n: int, d: int, seed: int) -> tuple[float, float]:
    logs = log_ratios(_floors.gaussian(n, d, seed))
    return twonn(logs), twonn_ml(logs)
