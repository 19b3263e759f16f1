"""The logit lens: what a model would predict if it stopped at a layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pydantic import Field

from reporter.metrics._intervals import BOOTSTRAP, mean_with_interval
from reporter.metrics.base import ROUNDING, Cosine, OptionalOptions, Options, Size, Statistic, Value, metric

if TYPE_CHECKING:
    from reporter.forward.observed import Observed, Place

_lens = partial(Size, unit="nats", interval=BOOTSTRAP, smallest=0.01, within_role=True)

LENS = (
    _lens(
        "entropy",
        "entropy of the lens",
        "mean over a uniform sample of tokens of −Σ p_l log p_l, with p_l = softmax(head(norm(h_l))): the "
        "language-model head applied to the state at layer l after the model's own closing norm, where it has one",
        ("nostalgebraist2020logit",),
        trap="Early layers are not written in the head's basis: a confident lens may be confidently meaningless.",
    ),
    _lens(
        "kl",
        "distance of the lens from the output",
        "mean over the same tokens of KL(p_L ‖ p_l), with p_L what the model itself predicts",
        ("nostalgebraist2020logit", "belrose2023eliciting"),
        plainly="How far a prediction read off this layer is from the one that the model makes; 0 the same.",
        trap="A head was trained for the last layer alone; a tuned lens would read earlier layers better.",
        fixed=(("last", 0.0),),
    ),
)


class LensOptions(OptionalOptions):
    """The number of tokens."""

    sample: int = Field(default=2048, ge=16, description="about how many tokens of the corpus are read")


@metric(
    title="Logit lens",
    summary="What the model would predict if it stopped at a layer: how sure it would be, and how far from its output.",
    statistics=LENS,
    question="prediction",
    needs=("lens",),
    options=LensOptions,
    version=5,
    cost="a product with the vocabulary for each sampled token and layer",
    against_base=("entropy", "kl"),
)
def lens(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield entropy and divergence at every layer."""
    for place in seen.path:
        for statistic in ("entropy", "kl"):
            average = seen.average("lens", statistic, place)
            reason = seen.head_problem or "no token was read"
            yield mean_with_interval(statistic, place, average, seen.texts, reason)


# How well a model predicts the corpus.


LOSS = (
    _lens(
        "lm",
        "language-model loss",
        "mean of −log p(token) over tokens, in nats. A decoder predicts each token of a text from those before it; the "
        "first token and what the tokenizer adds are not counted. An encoder with a masked-language-model head sees "
        "each text once with 15 % of its tokens masked at once and predicts those",
        ("salazar2020masked",),
        per="model",
        plainly="How badly the model predicts tokens; lower is better.",
        trap="Depends on the tokenizer: a loss per token of one vocabulary does not compare with that of another, and "
        "an encoder's never with a decoder's.",
    ),
)


@metric(
    title="Language-model loss",
    summary="How well the model predicts the tokens of the corpus, to correlate with what its layers do.",
    statistics=LOSS,
    question="prediction",
    needs=("losses",),
    version=3,
    cost="a product with the vocabulary for each predicted token; for an encoder a second forward pass",
    options=OptionalOptions,
    against_base=("lm",),
)
def loss(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield the mean loss."""
    average = seen.average("losses", "loss", seen.path[0])
    yield mean_with_interval("lm", None, average, seen.texts, seen.head_problem or "no token is predicted")


# How long words stay what they were: function words against content words.


KINDS = ("function", "content")
_FUNCTION = "function words: tokens that are whole words and among scikit-learn's English stop words"
_CONTENT = "content words: tokens that are whole words of letters and no English stop words"
_WHOLE = (
    "A word that the tokenizer splits counts as neither, so a small vocabulary knows frequent words alone; nor does a "
    "single letter other than 'a' and 'I', so that a tokenizer without capitals has no 'i'"
)
_RAW = (
    "States are compared as they are, before the closing norm. What a decoder would predict at a layer is another "
    "question: see `lens` and the analysis `journeys`."
)


def _rank(kind: str, words: str) -> Statistic:
    return Size(
        f"rank_{kind}",
        f"rank of {kind} words",
        "mean over a uniform sample of tokens of the number of rows w_j of the input embedding with cos(h_l, w_j) > "
        f"cos(h_l, w_t), t the token itself, for {words}; 0 = still itself",
        ("avery2023paths", "pedregosa2011scikit"),
        interval=BOOTSTRAP,
        trap=f"A mean of ranks is ruled by the few largest. {_RAW} {_WHOLE}.",
        plainly=f"How many tokens of the vocabulary a {kind} word's state is nearer to than to its own; 0 none.",
        fixed=(("first", 0.0),),
        within_role=True,  # ranks among the rows of a vocabulary, and encoders have others than decoders
    )


def _cosine(kind: str, words: str) -> Statistic:
    return Cosine(
        f"cosine_{kind}",
        f"cosine of {kind} words and their vectors",
        f"mean over the same tokens of cos(h_l, w_t), for {words}",
        ("avery2023paths", "pedregosa2011scikit"),
        interval=BOOTSTRAP,
        fixed=(("first", 1.0),),
        trap=f"States share a direction in most models: beside it lies what any two have in common. {_WHOLE}.",
    )


WORDS = (
    _rank("function", _FUNCTION),
    _rank("content", _CONTENT),
    _cosine("function", _FUNCTION),
    _cosine("content", _CONTENT),
)


class JourneyOptions(OptionalOptions):
    """The number of tokens."""

    sample: int = Field(
        default=2048,
        ge=16,
        description="about how many tokens of the corpus are read; the whole words among them count",
    )


@metric(
    title="Words against the vocabulary",
    summary="How many other tokens are nearer to a word's state than the word itself: function words against content "
    "words.",
    statistics=WORDS,
    question="prediction",
    needs=("journey",),
    options=JourneyOptions,
    version=5,
    cost="a product with the vocabulary for each sampled word and layer",
    against_base=tuple(statistic.name for statistic in WORDS),
)
def journey(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield mean rank and mean cosine of both kinds of words at every place that is read."""
    for place in seen.places:
        for statistic in WORDS:
            kind = statistic.name.rpartition("_")[2]
            average = seen.average("journey", statistic.name, place)
            value = mean_with_interval(statistic.name, place, average, seen.texts, _why_no_rank(seen, place, kind))
            cosine = seen.average("journey", f"cosine_{kind}", place)
            if cosine.n and abs(cosine.value - 1) > ROUNDING:  # a word is nearest to itself, and yet elsewhere
                value = replace(value, by_definition=False)
            yield value


def _why_no_rank(seen: Observed, place: Place, kind: str) -> str:
    other = seen.average("journey", "other_width", place)
    if other.n:
        widths = f"its token vectors have {other.value:.0f} dimensions, its states {seen.width(place)}"
        return f"{widths}: they cannot be compared"
    return f"of the tokens that were read none is a {kind} word whose state has a direction"
