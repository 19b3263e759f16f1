"""Journeys: tokens of a text followed through the layers, and held against the vocabulary at each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from reporter.charts import SENTENCES, Chapter, Chart, choices, parts
from reporter.charts.styles import Styles, alt
from reporter.core.errors import ReporterError
from reporter.core.table import TOKEN, TOKEN_ID, Comparable, OfModel, Row, at_place, column, of_cell
from reporter.metrics._items import Point
from reporter.metrics.analysis import Context, analysis
from reporter.metrics.base import Statistic
from reporter.spec.offer import Section
from reporter.spec.part import AsTuple, Complaint, Part, Prose, failure

if TYPE_CHECKING:
    import pandas as pd

    from reporter.metrics._journey_steps import Close
    from reporter.models.load import LoadedModel
    from reporter.models.places import Place

# What is known of a token of a journey at each layer, and of the vocabulary near it: three tables.


Measure = Literal["cosine", "distance"]
WithPositions = Literal["without", "with"]
Norm = Literal["closing", "none"]


class OfToken(OfModel, metric="journeys"):
    """A row about a token of a journey."""

    journey = of_cell("name of the journey in the study", part="corpus")
    text: int = column("which of the journey's texts, 0 for the first", key=True)
    position: int = column("place of the token in its text as the model sees it, 0 for the first", key=True)
    token_id: int = column(TOKEN_ID)
    token: str = column(TOKEN)


_NORM = (
    "what a state went through before it was compared with the vocabulary: 'closing' (the norm that closes the model, "
    "as in the logit lens; the default for decoders) or 'none' (the residual stream as it is)"
)
_WITH = (
    "'without': the vocabulary's own vectors; 'with': the position vector of the token's own position is added to each"
)


class JourneyStep(OfToken, table="journeys"):
    """A token of a text at one layer: how far it is from its own vocabulary vector, and how many others are closer."""

    compared = (
        Comparable(
            ("cosine", "distance", "rank_cosine", "rank_distance", "norm"),
            "journey || ', text ' || text || ', position ' || position || ', ' || positions || ' positions'",
        ),
    )

    followed: bool = column("whether the study names it under 'follow'; true for all where it names none")
    special: bool = column("whether the tokenizer added it")
    place: Place = at_place()
    positions: WithPositions = column(_WITH, key=True)
    norm_before: Norm = column(_NORM)
    cosine: float | None = column(
        "cosine of its state, after `norm_before`, and its own vocabulary vector; NULL, as distance and ranks are, "
        "where they have another number of dimensions, and where one is zero"
    )
    distance: float | None = column("Euclidean distance of the two")
    rank_cosine: int | None = column("vocabulary vectors with a larger cosine than its own; 0 = still itself")
    rank_distance: int | None = column("vocabulary vectors that are nearer than its own")
    norm: float = column("norm of its state as it is, before any closing norm")
    step_length: float | None = column(
        "distance to its state at the next place, stored where the step begins, as motion.step_length is: embedding "
        "and blocks are one path, attention 1..L another; after block L comes 'final', which motion leaves out"
    )
    step_cosine: float | None = column("cosine of the two, stored in the same row; as motion.step_cosine")
    turnover_cosine: float | None = column(
        "share of its nearest 100 vocabulary tokens, by cosine, that were not among the nearest 100 at the place "
        "before; NULL in a vocabulary of at most 100"
    )
    turnover_distance: float | None = column("the same, nearest by distance")


class TokenPair(OfModel, table="journey_pairs", metric="journeys"):
    """Two followed tokens of a journey at one layer: how alike their states are, beside any two tokens of its texts."""

    compared = (
        Comparable(
            ("cosine", "distance"),
            "journey || ', ' || token_a || ' (text ' || text_a || ', position ' || position_a || ') and ' || "
            "token_b || ' (text ' || text_b || ', position ' || position_b || ')'",
        ),
    )

    journey = of_cell("name of the journey in the study", part="corpus")
    text_a: int = column("which of the journey's texts the first token stands in, 0 for the first", key=True)
    position_a: int = column("its place there as the model sees it, 0 for the first", key=True)
    token_a: str = column("it, as it reads")
    text_b: int = column("text of the second token", key=True)
    position_b: int = column("its place there", key=True)
    token_b: str = column("it")
    place: Place = at_place()
    cosine: float | None = column("cosine of their states; NULL where one is zero")
    distance: float = column("Euclidean distance of their states")
    mean_cosine: float | None = column(
        "mean cosine of any two different tokens of the journey's texts there, those left out that the tokenizer "
        "added: what two tokens have in common that are not alike; NULL for fewer than two that are not zero"
    )


class Neighbour(OfToken, table="neighbours"):
    """One of the vocabulary tokens nearest to a followed token at one layer."""

    place: Place = at_place()
    positions: WithPositions = column(_WITH, key=True)
    norm_before: Norm = column(_NORM)
    measure: Measure = column("'cosine' or 'distance': nearest by what", key=True)
    rank: int = column("1 = nearest", key=True, name="place")
    neighbour_id: int = column("id of the vocabulary token")
    neighbour: str | None = column("the vocabulary token as it reads; NULL for a row that no token has")
    cosine: float | None = column("cosine of the state, after `norm_before`, and its vector")
    distance: float = column("Euclidean distance of the two")


# The chart of followed tokens beside each other: when do two of them part?


CHAPTER = Chapter(SENTENCES, "followed", "Followed tokens", "When do two tokens part, or become alike?", 5)
ANY = "any two tokens"
DASHES = {"pair": [1, 0], ANY: [1, 3]}


def pairs(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the cosine of each two followed tokens by layer, and the mean of any two tokens of the texts."""
    y = alt.Y("value:Q", title=None, scale=alt.Scale(domainMax=1, zero=False))
    return parts.by_kind(frame, "pair", DASHES, y, parts.tooltips("pair", "kind", "layer", "value"))


PAIRED = Chart(
    "sentences.followed",
    "Two followed tokens by layer",
    f"""
WITH own AS (
  SELECT model, checkpoint, journey, layer, depth, cosine, mean_cosine,
    token_a || ' (text ' || (text_a + 1) || ', position ' || position_a || ') and ' || token_b
      || ' (text ' || (text_b + 1) || ', position ' || position_b || ')' AS pair
  FROM journey_pairs WHERE study = $study AND site IN ('embedding', 'block')
)
SELECT model, checkpoint, journey, pair, 'pair' AS kind, layer, depth, cosine AS value FROM own
UNION ALL
SELECT DISTINCT model, checkpoint, journey, '{ANY}', '{ANY}', layer, depth, mean_cosine FROM own
ORDER BY model, checkpoint, journey, kind, pair, layer
""",
    pairs,
    lead="Cosine of the states of two tokens that the study follows. Dotted: the mean of any two tokens of its texts; "
    "two tokens are alike where they lie above it.",
    mind="A text or two: no interval. In a narrow cone any two tokens have a high cosine, so read a pair beside the "
    "dotted line, not beside 1.",
    columns=("cosine", "mean_cosine"),
    chapter=CHAPTER,
    picks=lambda frame, scene: [choices(frame, "journey", "Journey")],
    key="pair",
    half=True,
)


class JourneySpec(Part):
    """One or several texts, and which of their tokens to follow.

    Several texts share one plane: that is how to look at a word with two meanings.
    """

    text: Prose | None = Field(None, description="The text.")
    texts: Annotated[tuple[Prose, ...], AsTuple] = Field((), description="Several texts, to be seen side by side.")
    follow: Annotated[tuple[Prose, ...], AsTuple] = Field(
        (),
        description="Words or tokens of the texts to list the nearest vocabulary tokens of, and to compare with each "
        "other; all if left out, and then none is compared.",
    )
    top: int = Field(15, ge=1, le=100, description="How many nearest vocabulary tokens are listed at each layer.")
    positions: bool = Field(
        False,
        description="Look also among vocabulary vectors to which the position's own vector is added; these are "
        "compared with states as they are.",
    )
    norm: Literal["auto", "closing", "none"] = Field(
        "auto",
        description="What a state passes before it is compared with the vocabulary. `closing`: the norm that closes "
        "the model, as in the logit lens. `none`: nothing, the residual stream as it is. `auto`: `closing` for a "
        "decoder that has such a norm, `none` for an encoder. The vocabulary's vectors are those of the input "
        "embedding, also where a model predicts tokens with another matrix.",
    )

    @model_validator(mode="after")
    def _one_text_or_several(self) -> JourneySpec:
        if self.text is not None and self.texts:
            raise failure(Complaint("'text' and 'texts' exclude each other; keep one of them", ("texts",), "key"))
        if self.text is None and not self.texts:
            raise failure(Complaint("needs 'text', or 'texts' for several", (), "parent"))
        return self

    @property
    def all_texts(self) -> tuple[str, ...]:
        """The texts, also where there is one."""
        return self.texts if self.text is None else (self.text,)


STATISTICS = (
    Statistic(
        "vocabulary",
        "vocabulary vectors",
        "rows of the input embedding that each state is compared with, as they are stored (Gemma and T5-like models "
        "multiply them before the first block); NULL where they have another number of dimensions than the states. "
        "The states of a decoder pass its closing norm first, unless the journey says `norm: none`",
        ("avery2023paths",),
        per="model",
        charted=False,
    ),
    Statistic(
        "vocabulary_with_positions",
        "vocabulary vectors with positions",
        "the same where a token's own position vector is added to each of them; NULL where the model adds none",
        ("avery2023paths",),
        per="model",
        charted=False,
    ),
)


@analysis(
    title="Journeys",
    summary="Tokens of a text on their way through the layers: how long each stays the token that it was, what it is "
    "near to instead, and where it goes.",
    statistics=STATISTICS,
    question="prediction",
    cost="a product of each token's state at each layer with the vocabulary; twice that and V·d sums for each position "
    "where positions are added",
    tables=(JourneyStep, Neighbour, TokenPair, Point),
    charts=(PAIRED,),
    version=3,  # states of decoders pass the closing norm; tokens are decoded
    section=Section(JourneySpec, "Tokens to follow through the layers, by a short name.", ("journey", "journeys")),
)
def journeys(item: JourneySpec, context: Context) -> Iterator[Row]:
    """Yield the steps of each token, what a followed one is near to, how alike two are, and the way of all."""
    from reporter.metrics._items import encode
    from reporter.metrics._journey_steps import Journey, TokenText, between, followed, paths, steps
    from reporter.metrics._static_vectors import classify, static_vectors
    from reporter.models.places import Layout

    vectors = static_vectors(context.model)
    shown, raw_tokens = vectors.shown, vectors.strings
    bare = [token.text for token in classify(raw_tokens, vectors.special)]
    layout = Layout.of(context.model.anatomy, ("final", "attention"))
    raw = item.all_texts
    texts = sorted(encode(raw, replace(context, layout=layout)), key=lambda text: text.index)
    written = []
    for text in texts:
        spellings = (tuple(form[i] or "" for i in text.ids.tolist()) for form in (shown, raw_tokens, bare))
        written.append(TokenText(raw[text.index], text.ids, text.special, *spellings))
    chosen = followed(item.follow, written, context.model.tokenizer)
    journeys = [Journey(text, form.tokens, marked) for text, form, marked in zip(texts, written, chosen, strict=True)]
    yield from steps(journeys, vectors, layout, item.top, item.positions, _closing(item, context.model), context.tell)
    if item.follow:  # else every token is followed
        yield from between(journeys, layout.places)
    yield from paths(texts, {journey.text.index: journey.tokens for journey in journeys}, layout.path)


def _closing(item: JourneySpec, model: LoadedModel) -> Close | None:
    """Return what states pass before they are compared with the vocabulary; None where that is nothing.

    Raises:
        ReporterError: the item asks for the closing norm, and it cannot be applied to the states of all layers.
    """
    if item.norm == "none" or (item.norm == "auto" and (model.anatomy.role != "decoder" or model.closing.problem)):
        return None
    if model.closing.last == "block":
        if item.norm == "closing":
            raise ReporterError("norm: closing: the model has no closing norm; write `norm: none`, or leave it out")
        return None
    if model.closing.problem:
        raise ReporterError(f"norm: closing: {model.closing.problem}; write `norm: none`, or leave it out")

    import torch

    modules = [*(module for module, _ in model.closing.modules), model.module]
    weight = next(weight for module in modules for weight in module.parameters())

    def close(states: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return model.close(states.to(weight.device, weight.dtype)).float().cpu()

    return close
