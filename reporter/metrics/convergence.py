"""How the states of tokens approach their state at the last layer (Lee 2024)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from reporter.geometry import noise
from reporter.metrics._approach import approach
from reporter.metrics._growth import per_doubling
from reporter.metrics._intervals import BOOTSTRAP, HALF_SAMPLED
from reporter.metrics._sources import LEE
from reporter.metrics.base import Between, Difference, Options, Statistic, Value
from reporter.metrics.registry import metric

if TYPE_CHECKING:
    from reporter.observables.observed import Observed, Place
    from reporter.observables.per_text import TextAverage

STATISTICS = (
    Statistic(
        "similarity",
        "similarity to the last block",
        "S(l) = mean over tokens of cos(h_l, h_L), l = 0…L, with h_l the token's state after block l (h_0 enters the "
        "first block) and h_L the output of the last block before any closing norm (`target: block`), or the state "
        "after it (`target: final`; the same where the model has none); `mean: text` takes the mean of text means",
        (LEE,),
        interval=BOOTSTRAP,
        floor=True,
        bounds=(-1, 1),
        smallest=0.01,
        headline=True,
        plainly="How nearly a token's state points where it points after the last block; 1 there.",
        trap="S(L) is 1 by definition. In a decoder the first token's giant norm rules the average direction: compare "
        "the view 'no-sinks'.",
        fixed=(("last", 1.0),),
    ),
    Statistic(
        "gradient",
        "gain in similarity",
        "ΔS(l) = S(l+1) − S(l), stored at layer l = 0…L−1",
        (LEE,),
        per="step",
        interval=BOOTSTRAP,
        trap="Negative where tokens move away from their final state.",
        smallest=0.001,
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
        smallest=0.001,
    ),
    Statistic(
        "rate",
        "gain per layer",
        "mean of ΔS over all L steps = (S(L) − S(0)) / L",
        (LEE,),
        per="model",
        interval=BOOTSTRAP,
        trap="Depends on both ends alone. A deeper model has a smaller rate for the same way gone.",
        smallest=0.001,
        published="The paper's printed rates divide by L − 1, not by the L steps: rate_published.",
    ),
    Statistic(
        "rate_published",
        "gain per layer as published",
        "(S(L) − S(0)) / (L − 1)",
        (LEE,),
        per="model",
        interval=BOOTSTRAP,
        trap="The paper's printed 0.0826 and 0.1855 divide L steps by L − 1; kept for comparison only.",
        smallest=0.001,
    ),
    Statistic(
        "violations",
        "tokens that move away",
        "share of tokens with cos(h_l, h_L) > cos(h_{l+1}, h_L), stored at layer l = 0…L−1",
        (LEE,),
        per="step",
        interval=BOOTSTRAP,
        bounds=(0, 1),
        smallest=0.01,
        trap="The paper assumes that there are none (assumption 1) and derives monotone convergence from it.",
        fixed=(("last", 0.0),),
    ),
    Statistic(
        "similarity_frequent",
        "similarity of frequent tokens",
        "S(l) over tokens whose type occurs in the corpus more often than the median type (over the types "
        "of own tokens; a token that the tokenizer added counts for its type, but not for the median)",
        (LEE,),
        interval=HALF_SAMPLED,
        bounds=(-1, 1),
        grows=per_doubling("+1 to +2 %", "1.2 to 1.9", "since a type must occur more often to be a frequent one"),
        smallest=0.01,
        fixed=(("last", 1.0),),
    ),
    Statistic(
        "similarity_rare",
        "similarity of rare tokens",
        "S(l) over all other tokens",
        (LEE,),
        interval=HALF_SAMPLED,
        bounds=(-1, 1),
        grows=per_doubling("+1 %", "1.3 to 2.2", "since a type may occur more often and still be a rare one"),
        smallest=0.01,
        fixed=(("last", 1.0),),
    ),
    Statistic(
        "frequency_gap",
        "rare minus frequent",
        "similarity_rare − similarity_frequent at layer l",
        (LEE,),
        interval=HALF_SAMPLED,
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
        smallest=0.01,
        trap="With thousands of texts a gap far too small to matter has a tiny p. The test takes the split into "
        "frequent and rare types as given; the interval of frequency_gap does not.",
    ),
    Statistic(
        "area",
        "area under the bound",
        "(1/L) Σ f(l) over l = 0…L−1",
        (LEE,),
        per="model",
        interval=BOOTSTRAP,
        smallest=0.001,
    ),
    Statistic(
        "start",
        "bound at the embedding",
        "f(0), the smallest gain of all",
        (LEE,),
        per="model",
        interval=BOOTSTRAP,
        trap="Negative as soon as one layer takes tokens away from their final state.",
        smallest=0.001,
    ),
    Statistic(
        "decay",
        "decay of the bound",
        "minus the slope of the least-squares line through f(l) against l / L, l = 0…L−1",
        (LEE,),
        per="model",
        interval=BOOTSTRAP,
        trap="The curve f never decreases with l by its definition, so this is never positive.",
        smallest=0.001,
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

    Args:
        a: one side.
        b: the other.
        options: target and mean.
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
_ALIKE = 1.25  # times the words of the other corpus, as for claims


def _unequal(a: Observed, b: Observed) -> str:
    """Return why a statistic that moves with the size of the corpus is not compared, or nothing."""
    (few, small), (many, large) = sorted((side.words, side.corpus) for side in (a, b))
    if many <= _ALIKE * few:
        return ""
    return (
        f"it moves with the size of the corpus, and {large} has {many:,} words where {small} has {few:,}: give corpus "
        f"{large}, or one like it, the key `size_of: {small}`"
    )


@metric(
    name="convergence",
    title="Convergence to the final layer",
    summary="How similar a token's state at each layer is to its last state, how much each layer adds, how many tokens "
    "move the other way, and whether rare tokens differ from frequent ones.",
    statistics=STATISTICS,
    needs=("text_sums", "text_means", "frequency_split"),
    options=ConvergenceOptions,
    version=6,
    cost="a few products per token and layer",
    between=Between(compare, of=("corpora", "base")),
    tables=(Difference,),
)
def convergence(seen: Observed, options: ConvergenceOptions) -> Iterator[Value]:
    """Yield S, ΔS, f, violations, frequent against rare, and the features of f.

    Args:
        seen: observables of one checkpoint on one corpus under one view.
        options: target and mean.
    """
    from reporter.observables.text_means import TextMeans

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
