"""How the states of tokens approach their state at the last layer (Lee 2024)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from reporter.core.sources import LEE
from reporter.geometry import noise
from reporter.geometry.arrays import Floats
from reporter.geometry.intervals import half_sample_interval, percentile_interval
from reporter.metrics._intervals import BOOTSTRAP, HALF_SAMPLED, per_doubling
from reporter.metrics.base import Between, Difference, Options, Statistic, Value, metric
from reporter.spec.corpora import ALIKE

if TYPE_CHECKING:
    from reporter.forward.means import TextAverage
    from reporter.forward.observed import Observed, Place

# Every number about the approach of token states to their last state, with its bootstrap replicates.


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
        subtracted = other.replicates if paired else np.roll(other.replicates, 1)
        return replace(self, value=self.value - other.value, replicates=self.replicates - subtracted)

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
    """Compute similarity, gain, bound, violations, frequent against rare, and the features of the bound."""
    from reporter.forward.paths import FrequencySplit, TextMeans, TextSums

    numbers, last, path = Approach(), seen.layers, seen.path
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
        numbers.add("similarity", place, similarity[layer], draws[layer], averages[layer].n, why)
    for layer, place in enumerate(path[:last]):
        numbers.add("gradient", place, gradient[layer], gradient_draws[layer], averages[layer].n, why)
        numbers.add("bound", place, bound[layer], bound_draws[layer], averages[layer].n, why)
        away = seen.get(TextSums).average(f"violation{suffix}", place, seen.view)
        numbers.add("violations", place, away.value, away.replicates, away.n, why)
    for place in path:
        often = seen.get(FrequencySplit).average(f"cosine{suffix}_frequent", place, seen.view)
        rarely = seen.get(FrequencySplit).average(f"cosine{suffix}_rare", place, seen.view)
        for name, average in (("similarity_frequent", often), ("similarity_rare", rarely)):
            numbers.add(name, place, average.value, average.replicates, average.n, "no such token", halved=True)
        gap, halves = rarely.value - often.value, rarely.replicates - often.replicates
        numbers.add("frequency_gap", place, gap, halves, min(often.n, rarely.n), "no token of one kind", halved=True)
    gain, gain_draws = similarity[last] - similarity[0], draws[last] - draws[0]
    numbers.add("rate", None, gain / last, gain_draws / last, n, why)
    steps = last - 1
    short = why if steps else "a model of one block divides by zero"
    published = gain / steps if steps else np.nan
    numbers.add("rate_published", None, published, gain_draws / max(steps, 1), n, short)
    numbers.add("area", None, bound.mean(), bound_draws.mean(axis=0), n, why)
    numbers.add("start", None, bound[0], bound_draws[0], n, why)
    decay = float(_decay(bound)) if steps else np.nan
    numbers.add(
        "decay", None, decay, _decay(bound_draws) if steps else gain_draws, n, why if steps else "a single point"
    )
    return numbers


def _least_from_here(gradient: Floats) -> Floats:
    return np.minimum.accumulate(gradient[::-1], axis=0)[::-1]


def _decay(bound: Floats) -> Floats:
    depth = np.arange(len(bound)) / len(bound)
    depth -= depth.mean()
    return np.asarray(-np.tensordot(depth, bound, axes=1) / (depth @ depth)) + 0.0  # no −0


_mean = partial(Statistic, sources=(LEE,), interval=BOOTSTRAP)
_step = partial(Statistic, sources=(LEE,), interval=BOOTSTRAP, per="step", smallest=0.001)
_model = partial(Statistic, sources=(LEE,), interval=BOOTSTRAP, per="model", smallest=0.001)
_halved = partial(Statistic, sources=(LEE,), interval=HALF_SAMPLED)

STATISTICS = (
    _mean(
        "similarity",
        "similarity to the last block",
        "S(l) = mean over tokens of cos(h_l, h_L), l = 0…L, with h_l the token's state after block l (h_0 enters the "
        "first block) and h_L the output of the last block before any closing norm (`target: block`), or the state "
        "after it (`target: final`; the same where the model has none); `mean: text` takes the mean of text means",
        floor=True,
        bounds=(-1, 1),
        plainly="How nearly a token's state points where it points after the last block; 1 there.",
        trap="S(L) is 1 by definition. In a decoder the first token's giant norm rules the average direction: compare "
        "the view 'no-sinks'.",
        fixed=(("last", 1.0),),
    ),
    _step(
        "gradient",
        "gain in similarity",
        "ΔS(l) = S(l+1) − S(l), stored at layer l = 0…L−1",
        trap="Negative where tokens move away from their final state.",
    ),
    _step(
        "bound",
        "lower bound of the gain",
        "f(l) = min over j ≥ l of ΔS(j), l = 0…L−1",
        trap="A minimum is biased downwards by noise. The paper prints a bound for DistilBERT (0.1547) above that "
        "model's own last step (0.1157), which the definition excludes.",
    ),
    _model(
        "rate",
        "gain per layer",
        "mean of ΔS over all L steps = (S(L) − S(0)) / L",
        trap="Depends on both ends alone. A deeper model has a smaller rate for the same way gone.",
        published="The paper's printed rates divide by L − 1, not by the L steps: rate_published.",
    ),
    _model(
        "rate_published",
        "gain per layer as published",
        "(S(L) − S(0)) / (L − 1)",
        trap="The paper's printed 0.0826 and 0.1855 divide L steps by L − 1; kept for comparison only.",
    ),
    _mean(
        "violations",
        "tokens that move away",
        "share of tokens with cos(h_l, h_L) > cos(h_{l+1}, h_L), stored at layer l = 0…L−1",
        per="step",
        bounds=(0, 1),
        trap="The paper assumes that there are none (assumption 1) and derives monotone convergence from it.",
        fixed=(("last", 0.0),),
    ),
    _halved(
        "similarity_frequent",
        "similarity of frequent tokens",
        "S(l) over tokens whose type occurs in the corpus more often than the median type (over the types "
        "of own tokens; a token that the tokenizer added counts for its type, but not for the median)",
        bounds=(-1, 1),
        grows=per_doubling("+1 to +2 %", "1.2 to 1.9", "since a type must occur more often to be a frequent one"),
        fixed=(("last", 1.0),),
    ),
    _halved(
        "similarity_rare",
        "similarity of rare tokens",
        "S(l) over all other tokens",
        bounds=(-1, 1),
        grows=per_doubling("+1 %", "1.3 to 2.2", "since a type may occur more often and still be a rare one"),
        fixed=(("last", 1.0),),
    ),
    _halved(
        "frequency_gap",
        "rare minus frequent",
        "similarity_rare − similarity_frequent at layer l",
        trap="Frequent types are few and mostly function words: the gap may be one of grammar, not of frequency.",
        fixed=(("last", 0.0),),
        smallest=0.01,
    ),
    Statistic(
        "frequency_gap_p",
        "p of rare minus frequent",
        "two-sided p of a paired t-test over the texts that have tokens of both kinds: mean similarity of a text's "
        "rare tokens against that of its frequent ones",
        (LEE,),
        bounds=(0, 1),
        trap="With thousands of texts a gap far too small to matter has a tiny p. The test takes the split into "
        "frequent and rare types as given; the interval of frequency_gap does not.",
    ),
    _model("area", "area under the bound", "(1/L) Σ f(l) over l = 0…L−1"),
    _model(
        "start",
        "bound at the embedding",
        "f(0), the smallest gain of all",
        trap="Negative as soon as one layer takes tokens away from their final state.",
    ),
    _model(
        "decay",
        "decay of the bound",
        "minus the slope of the least-squares line through f(l) against l / L, l = 0…L−1",
        trap="The curve f never decreases with l by its definition, so this is never positive.",
    ),
)


ROUNDING = 1e-6  # differences of float32 cosines below it mean nothing


class ConvergenceOptions(Options):
    """What tokens converge to, and how they are averaged."""

    target: Literal["block", "final"] = Field(
        default="block",
        description="what tokens are compared with: the last block's output, or it after the norm",
    )
    mean: Literal["token", "text"] = Field(default="token", description="mean over tokens, or over the means of texts")


def compare(a: Observed, b: Observed, options: ConvergenceOptions) -> Iterator[Difference]:
    """Yield each statistic of one side minus that of the other, with an interval from the replicates of both.

    Replicates of the same corpus are paired: they drew the same texts.
    """
    first, second = approach(a, options.target, options.mean), approach(b, options.target, options.mean)
    texts = min(a.texts, b.texts)
    for statistic, place, x in first:
        if place is not None and a.layers != b.layers:
            if statistic == "similarity":
                yield Difference(statistic, place, None, texts, reason="the two models differ in depth")
            continue
        y = second.numbers[statistic, place]
        if reason := x.reason or y.reason:
            yield Difference(statistic, place, None, texts, reason=reason)
            continue
        if statistic in _GROWING and a.corpus != b.corpus and (why := _unequal(a, b)):
            yield Difference(statistic, place, None, texts, reason=why)
            continue
        difference = x.minus(y, paired=a.corpus == b.corpus)
        yield Difference(statistic, place, difference.value, texts, *difference.interval(texts))


_GROWING = {statistic.name for statistic in STATISTICS if statistic.grows}


def _unequal(a: Observed, b: Observed) -> str:
    (few, small), (many, large) = sorted((side.words, side.corpus) for side in (a, b))
    if many <= ALIKE * few:
        return ""
    return (
        f"it moves with the size of the corpus, and {large} has {many:,} words where {small} has {few:,}: give corpus "
        f"{large}, or one like it, the key `size_of: {small}`"
    )


@metric(
    title="Convergence to the final layer",
    summary="How similar a token's state at each layer is to its last state, how much each layer adds, how many tokens "
    "move the other way, and whether rare tokens differ from frequent ones.",
    statistics=STATISTICS,
    needs=("text_sums", "text_means", "frequency_split"),
    options=ConvergenceOptions,
    version=7,
    cost="a few products per token and layer",
    between=Between(compare, of=("corpora", "base")),
)
def convergence(seen: Observed, options: ConvergenceOptions) -> Iterator[Value]:
    """Yield S, ΔS, f, violations, frequent against rare, and the features of f."""
    from reporter.forward.paths import TextMeans

    final = options.target == "final" and seen.layout.final_width is not None
    measured = False if final else None  # the last block's state is no longer what all others are compared with
    for statistic, place, number in approach(seen, options.target, options.mean):
        if number.reason:
            yield Value(statistic, place, None, number.n, reason=number.reason)
            continue
        spread = None if number.halved else number.replicates
        low, high = number.interval(seen.texts)
        yield Value(statistic, place, number.value, number.n, low, high, by_definition=measured, spread=spread)
        if statistic == "similarity" and place is not None and place.layer < seen.layers:
            floor = noise.pair_cosine(number.n, seen.width(place), seen.seed)
            yield Value("similarity_floor", place, floor, number.n)
    gap = "frequency_gap_to_final" if final else "frequency_gap"
    for place in seen.path:
        yield paired_test(seen.get(TextMeans).average(gap, place, seen.view), place)


def paired_test(gap: TextAverage, place: Place) -> Value:
    """Return the two-sided p of a paired t-test that the mean over texts of a difference is zero.

    Texts that say the same are one observation: the error and the degrees of freedom are those of distinct texts.
    """
    from scipy.special import stdtr

    if gap.distinct < 2:
        return Value("frequency_gap_p", place, None, gap.n, reason="fewer than two texts have tokens of both kinds")
    variance = (gap.square - gap.value**2) * gap.distinct / (gap.distinct - 1)
    if not variance > max(1e-12 * gap.square, ROUNDING**2):
        return Value("frequency_gap_p", place, None, gap.n, reason="the difference is the same in every text")
    t = gap.value / (variance / gap.distinct) ** 0.5
    return Value("frequency_gap_p", place, float(2 * stdtr(gap.distinct - 1, -abs(t))), gap.n)
