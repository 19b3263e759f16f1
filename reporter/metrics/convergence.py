"""How the states of tokens approach their state at the last block (Lee 2024)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reporter.metrics import _floors
from reporter.metrics._intervals import BOOTSTRAP, percentile_interval
from reporter.metrics._sources import LEE
from reporter.metrics.base import Options, Statistic, Value
from reporter.metrics.registry import metric

if TYPE_CHECKING:
    from reporter.observables.observed import Observed, Place

STATISTICS = (
    Statistic(
        "similarity",
        "similarity to the last block",
        "S(l) = mean over tokens of cos(h_l, h_L), l = 0…L, with h_l the token's state after block l (h_0 enters the "
        "first block) and h_L the output of the last block, before any closing norm",
        (LEE,),
        interval=BOOTSTRAP,
        floor=True,
        bounds=(-1, 1),
        headline=True,
        trap="S(L) is 1 by definition. In a decoder the first token's giant norm rules the average direction: compare "
        "the view 'no-sinks'.",
    ),
    Statistic(
        "gradient",
        "gain in similarity",
        "ΔS(l) = S(l+1) − S(l), stored at layer l = 0…L−1",
        (LEE,),
        per="step",
        interval=BOOTSTRAP,
        trap="Negative where tokens move away from their final state.",
    ),
    Statistic(
        "bound",
        "lower bound of the gain",
        "f(l) = min over j ≥ l of ΔS(j), l = 0…L−1",
        (LEE,),
        per="step",
        interval=BOOTSTRAP,
        trap="A minimum is biased downwards by noise. The paper prints a bound for DistilBERT (0.1547) above that "
        "model's own last step (0.1157), which the definition excludes.",
    ),
    Statistic(
        "rate",
        "gain per layer",
        "mean of ΔS over all L steps = (S(L) − S(0)) / L",
        (LEE,),
        per="model",
        interval=BOOTSTRAP,
        trap="Depends on both ends alone. A deeper model has a smaller rate for the same way gone.",
    ),
    Statistic(
        "rate_published",
        "gain per layer as published",
        "(S(L) − S(0)) / (L − 1)",
        (LEE,),
        per="model",
        interval=BOOTSTRAP,
        trap="The paper's printed 0.0826 and 0.1855 divide L steps by L − 1; kept for comparison only.",
    ),
    Statistic(
        "violations",
        "tokens that move away",
        "share of tokens with cos(h_l, h_L) > cos(h_{l+1}, h_L), stored at layer l = 0…L−1",
        (LEE,),
        per="step",
        interval=BOOTSTRAP,
        bounds=(0, 1),
        trap="The paper assumes that there are none (assumption 1) and derives monotone convergence from it.",
    ),
)


@metric(
    name="convergence",
    title="Convergence to the final layer",
    summary="How similar a token's state at each layer is to its state after the last block, how much each layer adds, "
    "and how many tokens move the other way.",
    statistics=STATISTICS,
    needs=("text_sums",),
    cost="a few products per token and layer",
)
def convergence(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield S, ΔS, f, the rates and the violations.

    Args:
        seen: observables of one checkpoint on one corpus under one view.
        options: none.
    """
    last = seen.layers
    averages = [seen.average("cosine_to_last", place) for place in seen.path]
    similarity = np.array([average.value for average in averages])
    similarity_draws = np.stack([average.replicates for average in averages])  # (L + 1, R)
    gradient, gradient_draws = np.diff(similarity), np.diff(similarity_draws, axis=0)
    bound, bound_draws = _least_from_here(gradient), _least_from_here(gradient_draws)

    def value(statistic: str, place: Place | None, number: float, draws: NDArray[np.float64], n: int) -> Value:
        if not np.isfinite(number):
            return Value(statistic, place, None, n, reason="no token has two states that are not zero")
        low, high = percentile_interval(draws, seen.texts)
        return Value(statistic, place, float(number), n, low, high)

    for place, average in zip(seen.path, averages, strict=True):
        yield value("similarity", place, average.value, average.replicates, average.n)
        if place.layer < last and average.n:
            floor = _floors.pair_cosine(average.n, seen.width(place), seen.seed)
            yield Value("similarity_floor", place, floor, average.n)
    for layer, place in enumerate(seen.path[:last]):
        n = averages[layer].n
        yield value("gradient", place, gradient[layer], gradient_draws[layer], n)
        yield value("bound", place, bound[layer], bound_draws[layer], n)
        away = seen.average("violation", place)
        yield value("violations", place, away.value, away.replicates, away.n)
    gain, gain_draws = similarity[last] - similarity[0], similarity_draws[last] - similarity_draws[0]
    yield value("rate", None, gain / last, gain_draws / last, averages[0].n)
    if last > 1:
        yield value("rate_published", None, gain / (last - 1), gain_draws / (last - 1), averages[0].n)
    else:
        yield Value("rate_published", None, None, averages[0].n, reason="a model of one block divides by zero")


def _least_from_here(gradient: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return min over j ≥ l of gradient[j] along the first axis."""
    return np.minimum.accumulate(gradient[::-1], axis=0)[::-1]
