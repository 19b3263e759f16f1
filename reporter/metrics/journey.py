"""How long words stay what they were: function words against content words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from reporter.metrics._intervals import BOOTSTRAP, NOT_IN_BOTH, changes_along, mean_with_interval
from reporter.metrics._sources import EXPLORER, PEDREGOSA
from reporter.metrics.base import Between, Difference, Options, Statistic, Value
from reporter.metrics.by_definition import ROUNDING
from reporter.metrics.registry import metric

if TYPE_CHECKING:
    from reporter.observables.journey import Journey
    from reporter.observables.observed import Observed, Place

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
    return Statistic(
        f"rank_{kind}",
        f"rank of {kind} words",
        "mean over a uniform sample of tokens of the number of rows w_j of the input embedding with cos(h_l, w_j) > "
        f"cos(h_l, w_t), t the token itself, for {words}; 0 = still itself",
        (EXPLORER, PEDREGOSA),
        interval=BOOTSTRAP,
        bounds=(0, None),
        trap=f"A mean of ranks is ruled by the few largest. {_RAW} {_WHOLE}.",
        headline=True,
        plainly=f"How many tokens of the vocabulary a {kind} word's state is nearer to than to its own; 0 none.",
        fixed=(("first", 0.0),),
        within_role=True,  # ranks among the rows of a vocabulary, and encoders have others than decoders
    )


def _cosine(kind: str, words: str) -> Statistic:
    return Statistic(
        f"cosine_{kind}",
        f"cosine of {kind} words and their vectors",
        f"mean over the same tokens of cos(h_l, w_t), for {words}",
        (EXPLORER, PEDREGOSA),
        interval=BOOTSTRAP,
        bounds=(-1, 1),
        fixed=(("first", 1.0),),
        smallest=0.01,
        trap=f"States share a direction in most models: beside it lies what any two have in common. {_WHOLE}.",
    )


STATISTICS = (
    _rank("function", _FUNCTION),
    _rank("content", _CONTENT),
    _cosine("function", _FUNCTION),
    _cosine("content", _CONTENT),
)


class JourneyOptions(Options):
    """How many tokens are read."""

    optional: ClassVar[bool] = True
    sample: int = Field(
        default=2048,
        ge=16,
        description="about how many tokens of the corpus are read; the whole words among them count",
    )

    def sample_size(self) -> int:
        """Return the tokens read."""
        return self.sample


def compare(a: Observed, b: Observed, options: Options) -> Iterator[Difference]:
    """Yield each number of a model minus that of its base, layer by layer, with intervals from paired replicates.

    Args:
        a: the model.
        b: its base.
        options: the sample.
    """
    from reporter.observables.journey import Journey

    ends = dict.fromkeys((statistic.name for statistic in STATISTICS), min(a.layers, b.layers) + 1)
    yield from changes_along(a, b, ends, Journey, NOT_IN_BOTH)


@metric(
    name="journey",
    title="Words against the vocabulary",
    summary="How many other tokens are nearer to a word's state than the word itself: function words against content "
    "words.",
    statistics=STATISTICS,
    needs=("journey",),
    options=JourneyOptions,
    version=4,
    cost="a product with the vocabulary for each sampled word and layer",
    between=Between(compare, of=("base",)),
    tables=(Difference,),
)
def journey(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield mean rank and mean cosine of both kinds of words at every place that is read.

    Args:
        seen: observables of one checkpoint on one corpus under one view.
        options: the sample.
    """
    from reporter.observables.journey import Journey

    kept = seen.get(Journey)
    for place in seen.places:
        for statistic in STATISTICS:
            kind = statistic.name.rpartition("_")[2]
            average = kept.average(statistic.name, place, seen.view)
            value = mean_with_interval(statistic.name, place, average, seen.texts, _reason(kept, seen, place, kind))
            cosine = kept.average(f"cosine_{kind}", place, seen.view)
            if cosine.n and abs(cosine.value - 1) > ROUNDING:  # a word is nearest to itself, and yet elsewhere
                value = replace(value, by_definition=False)
            yield value


def _reason(kept: Journey, seen: Observed, place: Place, kind: str) -> str:
    """Say why there is no number, should there be none."""
    other = kept.average("other_width", place, seen.view)
    if other.n:
        return (
            f"its token vectors have {other.value:.0f} dimensions, its states {seen.width(place)}: they cannot be "
            "compared"
        )
    return f"of the tokens that were read none is a {kind} word whose state has a direction"
