"""The logit lens: what a model would predict if it stopped at a layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from reporter.geometry.arrays import Floats
from reporter.metrics._intervals import WHOLE_LAYERS, layer_with_interval, mean_or_reason
from reporter.metrics.base import ROUNDING, Cosine, OptionalOptions, Options, Share, Size, Statistic, Value, metric

if TYPE_CHECKING:
    from reporter.forward.observed import Observed, Place

NEAR = 1.0
"""Divergence in nats below which a layer counts as near the output: it multiplies the perplexity by less than e."""

_lens = partial(Size, unit="nats", method="bootstrap", smallest=0.02, within_role=True)
_agreement = partial(
    Share, of_tokens=True, sources=("hu2025effective",), method="bootstrap", fixed=(("last", 1.0),), within_role=True
)

LENS = (
    _lens(
        "entropy",
        "entropy of the lens",
        "Mean over a uniform sample of tokens of −Σ p_l log p_l, with p_l = softmax(head(norm(h_l))). The "
        "language-model head is applied to the state at layer l after the model's own final norm, where it has one.",
        ("nostalgebraist2020logit",),
        trap="Early layers do not use the basis of the head. A confident prediction there may be meaningless.",
    ),
    _lens(
        "kl",
        "distance of the lens from the output",
        "Mean over a uniform sample of tokens of KL(p_L ‖ p_l), with p_L the model's own prediction and p_l as in "
        "lens.entropy.",
        ("nostalgebraist2020logit", "belrose2023eliciting"),
        plainly="Divergence between a prediction from this layer and the model's own (0: equal).",
        trap="The head was trained for the last layer only; a tuned lens would read earlier layers better.",
        fixed=(("last", 0.0),),
    ),
    _lens(
        "loss",
        "loss of the lens",
        "Mean over a uniform sample of tokens of −log p_l(next token), with p_l as in lens.entropy. Decoders only. A "
        "uniform guess has the logarithm of the vocabulary's size. Tokens before one that the tokenizer added, and "
        "the last token of a text or window, are left out.",
        ("kuribayashi2025human", "nostalgebraist2020logit"),
        plainly="How badly the model would predict the next token if it stopped here.",
        trap="A token's category is that of the token that is read. In loss.lm it is that of the predicted token.",
    ),
    _agreement(
        "top1",
        "agreement of the lens with the output",
        "Share of a uniform sample of tokens whose most likely token under p_l is the most likely one under p_L, with "
        "p_L and p_l as in lens.kl. Chance level: 1 in the size of the vocabulary.",
        trap="Frequent tokens raise it: a layer that always predicts the most frequent token agrees often.",
    ),
    _agreement(
        "top5",
        "overlap of the lens with the output",
        "Mean over a uniform sample of tokens of the share of the five most likely tokens under p_L that are among the "
        "five most likely under p_l. p_L and p_l are as in lens.kl.",
        trap="Order does not count, nor how likely the five tokens are.",
    ),
    Size(
        "depth",
        "effective depth by the lens",
        f"The first layer l with K_m < {NEAR:g} nat for every layer m ≥ l. K_l is the number lens.kl at layer l: the "
        "loss that a prediction from layer l adds if the model's own prediction is true.",
        ("hu2025effective",),
        per="model",
        unit="layers",
        method="bootstrap",
        interval=WHOLE_LAYERS,
        smallest=1.0,
        trap="The threshold is a convention. L means that no layer before the last is near, as K_L is 0 by definition.",
        published="The authors' threshold is a tenth of the largest divergence, which the embedding mostly sets, and "
        "later layers may be above it again. Their code compares KL(p_l ‖ p_L) on tokens of prompts.",
        within_role=True,
    ),
    Share(
        "exit",
        "depth after which the top prediction stays",
        "Mean over a uniform sample of tokens of l/L. l is the first layer from which the most likely token under p_l "
        "is that under p_L, up to the last layer.",
        ("lioubashevski2025beyond",),
        per="model",
        method="bootstrap",
        of_tokens=True,
        trap="A prediction that changes late and back counts as late. Early exit saves less, as it cannot know the "
        "output.",
        published="The layer is called the saturation event of the top-1 token. The authors count tokens of one rank; "
        "here layers are averaged.",
        within_role=True,
    ),
)
OF_LAYERS = ("entropy", "kl", "loss", "top1", "top5")


class LensOptions(OptionalOptions):
    """The number of tokens."""

    sample: int = Field(default=2048, ge=16, description="about how many tokens of the corpus are read")


@metric(
    title="Logit lens",
    summary="What the model would predict if it stopped at a layer: how confident it would be, and how far from its "
    "output.",
    statistics=LENS,
    question="prediction",
    needs=("lens",),
    options=LensOptions,
    version=7,
    cost="a product with the vocabulary per sampled token and layer",
    against_base=OF_LAYERS,
)
def lens(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield what the head reads at every layer, and how deep the model works by it."""
    reason = seen.head_problem or "no token was read"
    for place in seen.path:
        for statistic in OF_LAYERS:
            average = seen.average("lens", statistic, place)
            why = _NO_NEXT if statistic == "loss" and not seen.head_problem else reason
            yield mean_or_reason(statistic, place, average, why)
    divergences = [seen.average("lens", "kl", place) for place in seen.path]
    yield layer_with_interval("depth", divergences, _stays_near, seen.texts, reason, reason)
    yield mean_or_reason("exit", None, seen.average("lens", "exit", seen.path[-1]), reason)


_NO_NEXT = "no sampled token has a next token that the model predicts; an encoder predicts hidden tokens"


def _stays_near(divergences: Floats) -> Floats:
    """Return the first layer from which each profile, a column of (layers, profiles), stays near the output."""
    far = divergences >= NEAR
    behind_last = np.where(far.any(axis=0), len(far) - far[::-1].argmax(axis=0), 0)
    return np.where(np.isnan(divergences).any(axis=0), np.nan, behind_last)


# How well a model predicts the corpus.


LOSS = (
    _lens(
        "lm",
        "language-model loss",
        "Mean of −log p(token) over tokens, in nats. A decoder predicts each token of a text from the tokens before "
        "it, except the first token and tokens that the tokenizer added. An encoder with a masked-language-model head "
        "reads each text once, with 15 % of its tokens masked at once, and predicts the masked tokens.",
        ("salazar2020masked",),
        per="model",
        smallest=0.01,
        plainly="How badly the model predicts tokens; lower is better.",
        trap="Losses with different tokenizers are not comparable, and an encoder's loss is never comparable with a "
        "decoder's.",
    ),
)


@metric(
    title="Language-model loss",
    summary="How well the model predicts the tokens of the corpus.",
    statistics=LOSS,
    question="prediction",
    needs=("losses",),
    version=4,  # parts of texts
    cost="a product with the vocabulary per predicted token; for an encoder a second forward pass",
    options=OptionalOptions,
    against_base=("lm",),
)
def loss(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield the mean loss."""
    average = seen.average("losses", "loss", seen.path[0])
    yield mean_or_reason("lm", None, average, seen.head_problem or "no token is predicted")


# How long words stay what they were: function words against content words.


_FUNCTION = "Function words are tokens that are whole words and among scikit-learn's English stop words."
_CONTENT = "Content words are tokens that are whole words of letters and not English stop words."
_WHOLE = (
    "A word that the tokenizer splits is neither, so a small vocabulary has frequent words only. Single letters other "
    "than 'a' and 'I' are neither, so a tokenizer without capitals has no 'i'."
)
_RAW = (
    "States are compared before the final norm. What a decoder would predict at a layer is another question: see "
    "`lens` and the analysis `journeys`."
)


def _rank(kind: str, words: str) -> Statistic:
    return Size(
        f"rank_{kind}",
        f"rank of {kind} words",
        f"Mean, over {kind} words in a uniform sample of tokens, of the number of rows w_j of the input embedding with "
        f"cos(h_l, w_j) > cos(h_l, w_t). t is the token itself. {words} {_WHOLE} {_RAW}",
        ("avery2023paths", "pedregosa2011scikit"),
        method="bootstrap",
        smallest=2.0,
        relative=True,  # ranks are near 0 in an encoder, and in the ten thousands in a decoder
        trap=f"A few large ranks dominate the mean. Only {kind} words that are a single token count.",
        plainly=f"Vocabulary entries nearer to a {kind} word's state than its own (0: none).",
        fixed=(("first", 0.0),),
        within_role=True,  # ranks among the rows of a vocabulary, and encoders have others than decoders
    )


def _cosine(kind: str, words: str) -> Statistic:
    return Cosine(
        f"cosine_{kind}",
        f"cosine of {kind} words and their vectors",
        f"Mean, over {kind} words in a uniform sample of tokens, of cos(h_l, w_t), with w_t the token's row of the "
        f"input embedding. {words} {_WHOLE}",
        ("avery2023paths", "pedregosa2011scikit"),
        method="bootstrap",
        fixed=(("first", 1.0),),
        trap=f"In most models all states share a direction, which is part of the cosine of {kind} words.",
    )


_WORDS = {"function": _FUNCTION, "content": _CONTENT}
WORDS = tuple(statistic(kind, words) for statistic in (_rank, _cosine) for kind, words in _WORDS.items())


class JourneyOptions(OptionalOptions):
    """The number of tokens."""

    sample: int = Field(
        default=2048,
        ge=16,
        description="about how many tokens of the corpus are read; the whole words among them count",
    )


@metric(
    title="Words against the vocabulary",
    summary="How many vocabulary entries are nearer to a word's state than the word itself: function words against "
    "content words.",
    statistics=WORDS,
    question="prediction",
    needs=("journey",),
    options=JourneyOptions,
    version=6,  # words with vowel signs, added words and bytes of SentencePiece
    cost="a product with the vocabulary per sampled word and layer",
    against_base=tuple(statistic.name for statistic in WORDS),
)
def journey(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield mean rank and mean cosine of both kinds of words at every place that is read."""
    for place in seen.places:
        for statistic in WORDS:
            kind = statistic.name.rpartition("_")[2]
            average = seen.average("journey", statistic.name, place)
            value = mean_or_reason(statistic.name, place, average, _why_no_rank(seen, place, kind))
            cosine = seen.average("journey", f"cosine_{kind}", place)
            if cosine.n and abs(cosine.value - 1) > ROUNDING:  # a word is nearest to itself, and yet elsewhere
                value = replace(value, by_definition=False)
            yield value


def _why_no_rank(seen: Observed, place: Place, kind: str) -> str:
    other = seen.average("journey", "other_width", place)
    if other.n:
        widths = f"its token vectors have {other.value:.0f} dimensions, its states {seen.width(place)}"
        return f"{widths}, so they cannot be compared"
    return f"no sampled token is a {kind} word with a state that is not zero"
