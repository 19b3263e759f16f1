"""Every number about the approach of token states to their last state, with its bootstrap replicates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from reporter.geometry.intervals import half_sample_interval, percentile_interval

if TYPE_CHECKING:
    from reporter.observables.observed import Observed, Place

Floats = NDArray[np.float64]
Key = tuple[str, "Place | None"]


@dataclass(frozen=True)
class Replicated:
    """A statistic at one place, or of the whole model.

    Args:
        value: NaN where it could not be computed; then ``reason`` says why.
        n: tokens (or texts) it rests on.
        replicates: the statistic under each set of text weights, shape (R,), or in each half-sample.
        reason: why there is no value.
        halved: whether the replicates are half-samples.
    """

    value: float
    n: int
    replicates: Floats
    reason: str = ""
    halved: bool = False

    def minus(self, other: Replicated, paired: bool) -> Replicated:
        """Return the difference with another model's or corpus' number; paired replicates drew the same texts."""
        # Weights hang on a text's place in its corpus; those of another corpus are drawn apart by shifting them.
        others = other.replicates if paired else np.roll(other.replicates, 1)
        return replace(self, value=self.value - other.value, replicates=self.replicates - others)

    def interval(self, texts: int) -> tuple[float, float] | tuple[None, None]:
        """Return the 95 % interval, given how many texts there are."""
        if self.halved:
            return half_sample_interval(self.value, self.replicates, texts)
        return percentile_interval(self.replicates, texts)


@dataclass
class Approach:
    """All numbers by statistic and place, in the order in which they are stored."""

    numbers: dict[Key, Replicated] = field(default_factory=dict)

    def add(
        self,
        statistic: str,
        place: Place | None,
        value: float,
        replicates: Floats,
        n: int,
        why: str,
        halved: bool = False,
    ) -> None:
        """Add a number; ``why`` is its reason if it is not finite."""
        finite = bool(np.isfinite(value))
        self.numbers[statistic, place] = Replicated(float(value), n, replicates, "" if finite else why, halved)

    def __iter__(self) -> Iterator[tuple[str, Place | None, Replicated]]:
        for (statistic, place), number in self.numbers.items():
            yield statistic, place, number


def approach(seen: Observed, target: Literal["block", "final"], mean: Literal["token", "text"]) -> Approach:
    """Compute similarity, gain, bound, violations, frequent against rare, and the features of the bound.

    Args:
        seen: observables of one checkpoint on one corpus under one view.
        target: what tokens are compared with.
        mean: over tokens or over the means of texts.
    """
    from reporter.observables.frequency_split import FrequencySplit
    from reporter.observables.text_means import TextMeans
    from reporter.observables.text_sums import TextSums

    found, last, path = Approach(), seen.layers, seen.path
    to_final = target == "final" and seen.layout.final_width is not None
    suffix = "_to_final" if to_final else ""
    why = "no token has two states that are not zero"
    if to_final and seen.layout.final_width != seen.layout.width:
        why = "the state after the last projection has another width than the blocks"
    quantity = "cosine_to_final" if to_final else "cosine_to_last"
    kept: TextSums | TextMeans = seen.get(TextSums) if mean == "token" else seen.get(TextMeans)
    averages = [kept.average(quantity, place, seen.view) for place in path]
    similarity = np.array([average.value for average in averages])
    draws = np.stack([average.replicates for average in averages])  # (L + 1, R)
    gradient, gradient_draws = np.diff(similarity), np.diff(draws, axis=0)
    bound, bound_draws = _least_from_here(gradient), _least_from_here(gradient_draws)
    n = averages[0].n
    for layer, place in enumerate(path):
        found.add("similarity", place, similarity[layer], draws[layer], averages[layer].n, why)
    for layer, place in enumerate(path[:last]):
        found.add("gradient", place, gradient[layer], gradient_draws[layer], averages[layer].n, why)
        found.add("bound", place, bound[layer], bound_draws[layer], averages[layer].n, why)
        away = seen.get(TextSums).average(f"violation{suffix}", place, seen.view)
        found.add("violations", place, away.value, away.replicates, away.n, why)
    for place in path:
        often = seen.get(FrequencySplit).average(f"cosine{suffix}_frequent", place, seen.view)
        rarely = seen.get(FrequencySplit).average(f"cosine{suffix}_rare", place, seen.view)
        for name, average in (("similarity_frequent", often), ("similarity_rare", rarely)):
            found.add(name, place, average.value, average.replicates, average.n, "no such token", halved=True)
        gap, halves = rarely.value - often.value, rarely.replicates - often.replicates
        found.add("frequency_gap", place, gap, halves, min(often.n, rarely.n), "no token of one kind", halved=True)
    gain, gain_draws = similarity[last] - similarity[0], draws[last] - draws[0]
    found.add("rate", None, gain / last, gain_draws / last, n, why)
    steps = last - 1
    short = why if steps else "a model of one block divides by zero"
    published = gain / steps if steps else np.nan
    found.add("rate_published", None, published, gain_draws / max(steps, 1), n, short)
    found.add("area", None, bound.mean(), bound_draws.mean(axis=0), n, why)
    found.add("start", None, bound[0], bound_draws[0], n, why)
    decay = float(_decay(bound)) if steps else np.nan
    found.add("decay", None, decay, _decay(bound_draws) if steps else gain_draws, n, why if steps else "a single point")
    return found


def _least_from_here(gradient: Floats) -> Floats:
    """Return min over j ≥ l of gradient[j] along the first axis."""
    return np.minimum.accumulate(gradient[::-1], axis=0)[::-1]


def _decay(bound: Floats) -> Floats:
    """Return minus the slope of the least-squares line through bound[l] against l / L, along the first axis."""
    depth = np.arange(len(bound)) / len(bound)
    depth -= depth.mean()
    return np.asarray(-np.tensordot(depth, bound, axes=1) / (depth @ depth))
