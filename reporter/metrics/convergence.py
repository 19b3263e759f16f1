"""Convergence of the states of tokens to their state at the last layer (Lee 2024)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from pydantic import Field

from reporter.geometry import noise
from reporter.geometry.arrays import Floats
from reporter.metrics._intervals import per_doubling
from reporter.metrics.base import (
    Between,
    Difference,
    Options,
    Share,
    Statistic,
    Value,
    interval_of_difference,
    metric,
)
from reporter.study.corpora import ALIKE

if TYPE_CHECKING:
    from reporter.forward.means import Average
    from reporter.forward.observed import Observed, Place

# Every number about the approach of token states to their last state, with its bootstrap replicates.


Key = tuple[str, "Place | None"]


class Replicated(NamedTuple):
    """A statistic at one place, or of the whole model.

    Args:
        value: NaN where it could not be computed.
        n: tokens (or texts) it rests on.
        replicates: the statistic under each set of text weights, shape (R,), or in each half-sample.
        why: the reason where there is no value.
    """

    value: float
    n: int
    replicates: Floats
    why: str

    @property
    def reason(self) -> str:
        """The reason why there is no value; empty where there is one."""
        return "" if np.isfinite(self.value) else self.why


def approach(seen: Observed, options: ConvergenceOptions) -> dict[Key, Replicated]:
    """Return similarity, gain, bound, violations, frequent against rare, and the features of the bound."""
    numbers: dict[Key, Replicated] = {}
    last, path = seen.layers, seen.path
    to_final = options.target == "final" and seen.layout.final_width is not None
    suffix = "_to_final" if to_final else ""
    why = "no token has two states that are not zero"
    if to_final and seen.layout.final_width != seen.layout.width:
        why = "the state after the last projection has another width than the blocks"
    quantity = "cosine_to_final" if to_final else "cosine_to_last"
    averages = [seen.average("text_sums" if options.mean == "token" else "text_means", quantity, p) for p in path]
    similarity = np.array([average.value for average in averages])
    draws = np.stack([average.replicates for average in averages])  # (L + 1, R)
    gradient, gradient_draws = np.diff(similarity), np.diff(draws, axis=0)
    bound, bound_draws = _least_from_here(gradient), _least_from_here(gradient_draws)
    n = averages[0].n
    for layer, place in enumerate(path):
        numbers["similarity", place] = Replicated(similarity[layer], averages[layer].n, draws[layer], why)
    for layer, place in enumerate(path[:last]):
        numbers["gradient", place] = Replicated(gradient[layer], averages[layer].n, gradient_draws[layer], why)
        numbers["bound", place] = Replicated(bound[layer], averages[layer].n, bound_draws[layer], why)
        away = seen.average("text_sums", f"violation{suffix}", place)
        numbers["violations", place] = Replicated(away.value, away.n, away.replicates, why)
    for place in path:
        often = seen.average("frequency_split", f"cosine{suffix}_frequent", place)
        rarely = seen.average("frequency_split", f"cosine{suffix}_rare", place)
        for name, average in (("similarity_frequent", often), ("similarity_rare", rarely)):
            numbers[name, place] = Replicated(average.value, average.n, average.replicates, "no such token")
        gap, halves = rarely.value - often.value, rarely.replicates - often.replicates
        numbers["frequency_gap", place] = Replicated(gap, min(often.n, rarely.n), halves, "no token of one kind")
    gain, gain_draws = similarity[last] - similarity[0], draws[last] - draws[0]
    steps = last - 1
    decay, decay_draws = np.nan, gain_draws
    if steps:
        decay, decay_draws = float(_decay(bound)), _decay(bound_draws)
    numbers["rate", None] = Replicated(gain / last, n, gain_draws / last, why)
    numbers["area", None] = Replicated(bound.mean(), n, bound_draws.mean(axis=0), why)
    numbers["start", None] = Replicated(bound[0], n, bound_draws[0], why)
    numbers["decay", None] = Replicated(decay, n, decay_draws, why if steps else "a single point")
    return numbers


def _least_from_here(gradient: Floats) -> Floats:
    return np.minimum.accumulate(gradient[::-1], axis=0)[::-1]


def _decay(bound: Floats) -> Floats:
    depth = np.arange(len(bound)) / len(bound)
    depth -= depth.mean()
    return np.asarray(-np.tensordot(depth, bound, axes=1) / (depth @ depth)) + 0.0  # no −0


_mean = partial(Statistic, sources=("lee2024fractal",), method="bootstrap")
_step = partial(Statistic, sources=("lee2024fractal",), method="bootstrap", per="step", smallest=0.001)
_model = partial(Statistic, sources=("lee2024fractal",), method="bootstrap", per="model", smallest=0.001)
_halved = partial(
    Statistic,
    sources=("lee2024fractal",),
    method="half-samples",
    interval="Each half has its own split into frequent and rare types.",
)
_similarity = partial(_halved, bounds=(-1, 1), fixed=(("last", 1.0),))

STATISTICS = (
    _mean(
        "similarity",
        "similarity to the last block",
        "S(l) = mean over tokens of cos(h_l, h_L), l = 0…L. h_l is the token's state after block l; h_0 enters the "
        "first block. h_L is the output of the last block before any final norm (`target: block`), or after it "
        "(`target: final`; the same if the model has none). `mean: text` averages the means of texts.",
        floor=True,
        bounds=(-1, 1),
        plainly="Cosine to the token's final state (1 at the last block).",
        trap="In a decoder the giant norm of the first token dominates the average direction; compare without sinks.",
        fixed=(("last", 1.0),),
    ),
    _step(
        "gradient",
        "gain in similarity",
        "ΔS(l) = S(l+1) − S(l), stored at layer l = 0…L−1, with S the similarity to the last block.",
        trap="Negative where tokens move away from their final state.",
    ),
    _step(
        "bound",
        "lower bound of the gain",
        "f(l) = min over j ≥ l of ΔS(j), l = 0…L−1, with ΔS the gain in similarity.",
        trap="Noise biases a minimum downwards.",
        published="The paper prints a bound for DistilBERT (0.1547) above the model's last step (0.1157). The "
        "definition excludes this.",
    ),
    _model(
        "rate",
        "gain per layer",
        "Mean of the gain in similarity over all L blocks: (S(L) − S(0)) / L.",
        trap="Depends only on both ends. For the same total gain a deeper model has a smaller rate.",
        published="The paper's printed rates, 0.0826 and 0.1855, divide by L − 1, although there are L steps.",
    ),
    _mean(
        "violations",
        "tokens that move away",
        "Share of tokens with cos(h_l, h_L) > cos(h_{l+1}, h_L), stored at layer l = 0…L−1.",
        per="step",
        bounds=(0, 1),
        of_tokens=True,
        trap="The paper assumes that no token moves away (assumption 1) and derives monotone convergence from this.",
        fixed=(("last", 0.0),),
    ),
    _similarity(
        "similarity_frequent",
        "similarity of frequent tokens",
        "S(l) over tokens whose type occurs in the corpus more often than the median type. The median is over the "
        "types of the texts' own tokens. A token that the tokenizer added counts for its type, but not for the median.",
        grows=per_doubling("Rises by 1 to 2 %", "1.2 to 1.9", "A type must occur more often to be a frequent one."),
    ),
    _similarity(
        "similarity_rare",
        "similarity of rare tokens",
        "S(l) over all tokens that similarity_frequent leaves out.",
        grows=per_doubling("Rises by 1 %", "1.3 to 2.2", "A type may occur more often and still be a rare one."),
    ),
    _halved(
        "frequency_gap",
        "rare minus frequent",
        "similarity_rare − similarity_frequent, at layer l.",
        trap="Frequent types are few and mostly function words, so grammar rather than frequency may cause the gap.",
        fixed=(("last", 0.0),),
        smallest=0.01,
    ),
    Share(
        "frequency_gap_p",
        "p of rare minus frequent",
        "Two-sided p of a paired t-test over the texts that have frequent and rare tokens. It compares the mean "
        "similarity of a text's rare tokens with the mean similarity of its frequent tokens.",
        ("lee2024fractal",),
        trap="With thousands of texts even a negligible gap has a tiny p. Takes the frequency split as given, unlike "
        "the interval of frequency_gap.",
    ),
    _model("area", "area under the bound", "(1/L) Σ f(l) over l = 0…L−1, with f the lower bound of the gain."),
    _model(
        "start",
        "bound at the embedding",
        "f(0), the smallest gain in similarity of all blocks.",
        trap="Negative as soon as one block moves tokens away from their final state.",
    ),
    _model(
        "decay",
        "decay of the bound",
        "Minus the slope of the least-squares line through f(l) against l / L, l = 0…L−1, with f the lower bound of "
        "the gain.",
        trap="By definition f never decreases with l, so the decay is never positive.",
    ),
)


ROUNDING = 1e-6  # differences of float32 cosines below it mean nothing


class ConvergenceOptions(Options):
    """The target of convergence, and the averaging of tokens."""

    target: Literal["block", "final"] = Field(
        default="block", description="what tokens are compared with: the last block's output before or after the norm"
    )
    mean: Literal["token", "text"] = Field(default="token", description="mean over tokens, or over means of texts")


def compare(a: Observed, b: Observed, options: ConvergenceOptions) -> Iterator[Difference]:
    """Yield each statistic of one side minus that of the other, with an interval from the replicates of both.

    Replicates of the same corpus are paired: they drew the same texts. The main statistic has parts of texts, so its
    interval is that of claims and of ``diff``.
    """
    first, second = approach(a, options), approach(b, options)
    texts, paired = min(a.texts, b.texts), a.corpus == b.corpus
    for (statistic, place), x in first.items():
        if place is not None and a.layers != b.layers:
            if statistic == "similarity":
                yield Difference(statistic, place, None, texts, reason="the two models differ in depth")
            continue
        y = second[statistic, place]
        reason = x.reason or y.reason or (_unequal(a, b) if statistic in _GROWING and not paired else "")
        if reason:
            yield Difference(statistic, place, None, texts, reason=reason)
            continue
        difference, declared = float(x.value - y.value), _DIFFERENCES[statistic]
        if declared.main:
            sides = (x.replicates, a.texts), (y.replicates, b.texts)
            ends = interval_of_difference(difference, *sides, a.seed, paired)
        else:
            # Weights hang on a text's place in its corpus; those of another corpus are drawn apart by shifting them.
            replicates = x.replicates - (y.replicates if paired else np.roll(y.replicates, 1))
            ends = declared.ends(difference, replicates, texts)
        yield Difference(statistic, place, difference, texts, *ends)


_GROWING = {statistic.name for statistic in STATISTICS if statistic.grows}
_DIFFERENCES = {statistic.name: replace(statistic, of_tokens=False) for statistic in STATISTICS}
"""A difference of two sides has the kind of interval that the number has; that of two shares is no share."""


def _unequal(a: Observed, b: Observed) -> str:
    (few, small), (many, large) = sorted((side.words, side.corpus) for side in (a, b))
    if many <= ALIKE * few:
        return ""
    return (
        f"it changes with the size of the corpus, and {large} has {many:,} words but {small} has {few:,}: add "
        f"`size_of: {small}` to corpus {large}, or to a copy of it"
    )


@metric(
    title="Convergence to the final layer",
    summary="How similar a token's state at each layer is to its final state, how much each block adds, and how many "
    "tokens move away. Whether rare tokens differ from frequent ones.",
    statistics=STATISTICS,
    question="similarity",
    needs=("text_sums", "text_means", "frequency_split"),
    options=ConvergenceOptions,
    version=11,
    cost="a few products per token and layer",
    between=Between(compare, of=("corpora", "base")),
)
def convergence(seen: Observed, options: ConvergenceOptions) -> Iterator[Value]:
    """Yield S, ΔS, f, violations, frequent against rare, and the features of f."""
    final = options.target == "final" and seen.layout.final_width is not None
    measured = False if final else None  # the last block's state is no longer what all others are compared with
    for (statistic, place), (value, n, replicates, why) in approach(seen, options).items():
        if not np.isfinite(value):
            yield Value(statistic, place, None, n, reason=why)
            continue
        floor = None
        if statistic == "similarity" and place is not None and place.layer < seen.layers:
            floor = noise.pair_cosine(n, seen.width(place), seen.seed)
        yield Value(statistic, place, float(value), n, by_definition=measured, spread=replicates, floor=floor)
    gap = "frequency_gap_to_final" if final else "frequency_gap"
    for place in seen.path:
        yield paired_test(seen.average("text_means", gap, place), place, seen.texts if seen.clustered else None)


def paired_test(gap: Average, place: Place, clusters: int | None = None) -> Value:
    """Return the two-sided p of a paired t-test that the mean over texts of a difference is zero.

    Texts that say the same are one observation: the error and the degrees of freedom are those of distinct texts. With
    clusters they are those of replicates over clusters.
    """
    from scipy.special import stdtr

    if gap.distinct < 2:
        return Value("frequency_gap_p", place, None, gap.n, reason="fewer than two texts have tokens of both kinds")
    variance = (gap.square - gap.value**2) * gap.distinct / (gap.distinct - 1)
    if not variance > max(1e-12 * gap.square, ROUNDING**2):
        return Value("frequency_gap_p", place, None, gap.n, reason="the difference is the same in every text")
    units, square = gap.distinct, variance / gap.distinct
    if clusters is not None:
        units = min(units, clusters)
        square = float(np.nanvar(gap.replicates)) * units / max(units - 1, 1)
    return Value("frequency_gap_p", place, float(2 * stdtr(units - 1, -abs(gap.value / square**0.5))), gap.n)
