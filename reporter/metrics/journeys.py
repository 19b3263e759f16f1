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
from reporter.study.offer import Section
from reporter.study.part import AsTuple, Part, Prose, wrong

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
    """A row about a token of a trajectory."""

    journey = of_cell("name of the trajectory in the study", part="corpus")
    text: int = column("number of the text among the trajectory's texts, from 1", key=True)
    position: int = column("position of the token in its text as the model sees it, from 0", key=True)
    token_id: int = column(TOKEN_ID)
    token: str = column(TOKEN)


_NORM = (
    "norm applied to a state before its comparison with the vocabulary: 'closing' (the final norm, as in the logit "
    "lens; the default for decoders) or 'none'"
)
_WITH = "'without': the vectors of the vocabulary; 'with': plus the position vector of the token's position"


class JourneyStep(OfToken, table="journeys"):
    """A token of a text at one layer: its distance from its own vocabulary vector, and how many vectors are nearer."""

    compared = (
        Comparable(
            ("cosine", "distance", "rank_cosine", "rank_distance", "norm"),
            "journey || ', text ' || text || ', position ' || position || ', ' || positions || ' positions'",
        ),
    )

    followed: bool = column("whether the study names the token under 'follow'; true for all if it names none")
    special: bool = column("whether the tokenizer added the token")
    place: Place = at_place()
    positions: WithPositions = column(_WITH, key=True)
    norm_before: Norm = column(_NORM)
    cosine: float | None = column(
        "cosine of the state, after `norm_before`, and the token's vocabulary vector; cosine, distance and ranks are "
        "NULL if dimensions differ or one is zero"
    )
    distance: float | None = column("Euclidean distance of the state and the token's own vocabulary vector")
    rank_cosine: int | None = column("vocabulary vectors with a larger cosine than the token's own; 0 = still itself")
    rank_distance: int | None = column("vocabulary vectors that are nearer than the token's own")
    norm: float = column("norm of the state, before any final norm")
    step_length: float | None = column(
        "distance to the state at the next layer, stored at the start of the step; embedding and blocks are one path, "
        "attention 1..L another; 'final' comes after block L"
    )
    step_cosine: float | None = column("cosine of these two states, in the same row, as motion.step_cosine")
    turnover_cosine: float | None = column(
        "share of the 100 nearest vocabulary tokens, by cosine, that were not among the 100 nearest at the previous "
        "layer; NULL in a vocabulary of at most 100"
    )
    turnover_distance: float | None = column("the same share, for the nearest by distance")


class TokenPair(OfModel, table="journey_pairs", metric="journeys"):
    """Two tokens of a trajectory at one layer: the similarity of their states, and of any two tokens."""

    compared = (
        Comparable(
            ("cosine", "distance"),
            "journey || ', ' || token_a || ' (text ' || text_a || ', position ' || position_a || ') and ' || "
            "token_b || ' (text ' || text_b || ', position ' || position_b || ')'",
        ),
    )

    journey = of_cell("name of the trajectory in the study", part="corpus")
    text_a: int = column("number of the first token's text among the trajectory's texts, from 1", key=True)
    position_a: int = column("position of the first token in its text as the model sees it, from 0", key=True)
    token_a: str = column("the first token")
    text_b: int = column("number of the second token's text", key=True)
    position_b: int = column("position of the second token", key=True)
    token_b: str = column("the second token")
    place: Place = at_place()
    cosine: float | None = column("cosine of both states; NULL where one of them is zero")
    distance: float = column("Euclidean distance of both states")
    mean_cosine: float | None = column(
        "mean cosine of two different tokens of the trajectory's texts at this layer, without added tokens; NULL for "
        "fewer than two nonzero states"
    )


class Neighbour(OfToken, table="neighbours"):
    """One of the vocabulary tokens nearest to a followed token at one layer."""

    place: Place = at_place()
    positions: WithPositions = column(_WITH, key=True)
    norm_before: Norm = column(_NORM)
    measure: Measure = column("measure by which it is near: 'cosine' or 'distance'", key=True)
    rank: int = column("1 = nearest", key=True, name="place")
    neighbour_id: int = column("id of the vocabulary token")
    neighbour: str | None = column("the vocabulary token; NULL for a row of the embedding without a token")
    cosine: float | None = column("cosine of the state, after `norm_before`, and the vector of the vocabulary token")
    distance: float = column("Euclidean distance of the state and the vector of the vocabulary token")


# The chart of followed tokens: at which layers do two of them diverge?


CHAPTER = Chapter(SENTENCES, "followed", "Followed tokens", "At which layers do two tokens diverge or converge?", 5)
ANY, OWN = "any two tokens", "vocabulary vector"
DASHES = {"pair": [1, 0], OWN: [6, 3], ANY: [1, 3]}


def pairs(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the cosine of each two followed tokens by layer, and the mean of any two tokens of the texts."""
    lines = parts.NamedLines.of(frame, "pair", "value", list(dict.fromkeys(frame["pair"])), 1.0)
    y = alt.Y("value:Q", title="cosine", scale=alt.Scale(domain=list(lines.reach), nice=True))
    return parts.by_kind(lines, frame, DASHES, y, parts.tooltips("pair", "kind", "layer", "value"))


PAIRED = Chart(
    "sentences.followed",
    "Similarity of two followed tokens by layer",
    f"""
WITH own AS (
  SELECT model, checkpoint, journey, layer, depth, cosine, mean_cosine,
    token_a || ' (text ' || text_a || ', position ' || position_a || ') and ' || token_b
      || ' (text ' || text_b || ', position ' || position_b || ')' AS pair
  FROM journey_pairs WHERE study = $study AND site IN ('embedding', 'block')
)
SELECT model, checkpoint, journey, pair, 'pair' AS kind, layer, depth, cosine AS value FROM own
UNION ALL
SELECT DISTINCT model, checkpoint, journey, '{ANY}', '{ANY}', layer, depth, mean_cosine FROM own
ORDER BY model, checkpoint, journey, kind, pair, layer
""",
    pairs,
    lead="Cosine of the states of two tokens. Dotted: mean of any two tokens.",
    mind="No interval, since there are one or two texts. In a narrow cone all cosines are high: compare with the "
    "dotted line, not with 1.",
    columns=("cosine", "mean_cosine"),
    chapter=CHAPTER,
    picks=lambda frame, scene: [choices(frame, "journey", "Trajectory")],
    key="pair",
    half=True,
)


ASKED = Chart(
    "journeys.asked",
    "Cosine of the study's words by layer",
    f"""
WITH asked AS (FROM journey_answers WHERE study = $study AND asked),
own AS (
  SELECT p.model, p.checkpoint, p.journey, layer, depth, cosine, mean_cosine,
    p.token_a || ' (text ' || text_a || ') and ' || p.token_b || ' (text ' || text_b || ')' AS pair
  FROM journey_pairs p
  SEMI JOIN asked a ON (a.model, a.journey, a.text, a.position) = (p.model, p.journey, p.text_a, p.position_a)
  SEMI JOIN asked b ON (b.model, b.journey, b.text, b.position) = (p.model, p.journey, p.text_b, p.position_b)
  WHERE p.study = $study AND site IN ('embedding', 'block')
)
SELECT model, checkpoint, journey, pair, 'pair' AS kind, layer, depth, cosine AS value FROM own
UNION ALL
SELECT model, checkpoint, journey, token || ' (text ' || text || ') and its {OWN}', '{OWN}', layer, depth, cosine
FROM journeys SEMI JOIN asked USING (model, journey, text, position)
WHERE study = $study AND positions = 'without' AND site IN ('embedding', 'block') AND cosine IS NOT NULL
UNION ALL
SELECT DISTINCT model, checkpoint, journey, '{ANY}', '{ANY}', layer, depth, mean_cosine FROM own
ORDER BY model, checkpoint, journey, list_position(['pair', '{OWN}', '{ANY}'], kind), pair, layer
""",
    pairs,
    facet="model",
    lead="Solid: two words. Dashed: a word and its vector. Dotted: any two tokens.",
    mind="Single tokens, so no interval. Read two words beside any two tokens, not beside 1.",
    definition="Cosine of the states of two tokens at a layer, and of a state and the token's vocabulary vector.",
    picks=lambda frame, scene: [choices(frame, "journey", "Trajectory")],
    key="pair",
)


class JourneySpec(Part):
    """One or several texts, and which of their tokens to follow.

    Several texts share one plane, for example to follow a word with two meanings.
    """

    text: Prose | None = Field(None, description="The text.")
    texts: Annotated[tuple[Prose, ...], AsTuple] = Field((), description="Several texts, shown side by side.")
    follow: Annotated[tuple[Prose, ...], AsTuple] = Field(
        (),
        description="Words or tokens of the texts to follow: their nearest vocabulary tokens are listed, and they are "
        "compared with each other. If left out, all tokens are followed, and tokens that two texts share are compared. "
        "Answers begin with the token that the trajectory is named after.",
    )
    top: int = Field(15, ge=1, le=100, description="How many nearest vocabulary tokens are listed at each layer.")
    positions: bool = Field(
        False,
        description="Also compare with vocabulary vectors plus the vector of the token's position. States have no norm "
        "applied in this comparison.",
    )
    norm: Literal["auto", "closing", "none"] = Field(
        "auto",
        description="Norm applied to a state before the comparison with the vocabulary. `closing`: the model's final "
        "norm, as in the logit lens. `none`: no norm, the residual stream itself. `auto`: `closing` for a decoder with "
        "such a norm, `none` for an encoder. The vocabulary vectors are rows of the input embedding, even if a model "
        "predicts tokens with another matrix.",
    )

    @model_validator(mode="after")
    def _one_text_or_several(self) -> JourneySpec:
        if self.text is not None and self.texts:
            raise wrong("'text' and 'texts' exclude each other; keep only one key", "texts", anchor="key")
        if self.text is None and not self.texts:
            raise wrong("has no text; add 'text', or 'texts' for several texts", anchor="parent")
        return self

    @property
    def all_texts(self) -> tuple[str, ...]:
        """The texts, also where there is one."""
        return self.texts if self.text is None else (self.text,)


STATISTICS = (
    Statistic(
        "vocabulary",
        "vocabulary vectors",
        "Number of rows of the input embedding with which each state is compared. The rows are taken as stored; Gemma "
        "and T5-like models scale them before the first block. NULL where rows and states differ in dimensions. The "
        "states of a decoder pass its final norm first, unless the study sets `norm: none`.",
        ("avery2023paths",),
        per="model",
        charted=False,
    ),
    Statistic(
        "vocabulary_with_positions",
        "vocabulary vectors with positions",
        "Number of these rows, with the vector of the token's position added to each. NULL where the model adds no "
        "position vectors.",
        ("avery2023paths",),
        per="model",
        charted=False,
    ),
)


@analysis(
    title="Token trajectories",
    summary="Tokens of a text through the layers: how long each stays nearest to its own vocabulary vector, and which "
    "vectors are nearer later.",
    statistics=STATISTICS,
    question="similarity",
    cost="a product with the vocabulary per token and layer; where positions are added, twice as much and V·d sums per "
    "position",
    tables=(JourneyStep, Neighbour, TokenPair, Point),
    charts=(PAIRED, ASKED),
    version=4,  # texts are numbered from 1; a token that two texts share is compared without `follow`, too
    section=Section(
        JourneySpec,
        "Tokens to follow through the layers, by a short name.",
        ("token trajectory", "token trajectories"),
        example="{mouse: {text: The mouse ran., follow: [mouse]}}",
    ),
)
def journeys(item: JourneySpec, context: Context) -> Iterator[Row]:
    """Yield the steps of each token, what a followed one is near to, how alike two are, and the way of all."""
    from reporter.metrics._items import encode
    from reporter.metrics._journey_steps import TextJourney, TokenText, between, followed, paths, steps
    from reporter.metrics._static_vectors import classify, static_vectors
    from reporter.models.places import Layout

    vectors = static_vectors(context.model)
    shown, raw_tokens = vectors.shown, vectors.strings
    bare = [token.text for token in classify(raw_tokens, vectors.special, vectors.added)]
    layout = Layout.of(context.model.anatomy, ("final", "attention"))
    raw = item.all_texts
    texts = sorted(encode(raw, replace(context, layout=layout)), key=lambda text: text.index)
    written = []
    for text in texts:
        spellings = (tuple(form[i] or "" for i in text.ids.tolist()) for form in (shown, raw_tokens, bare))
        written.append(TokenText(raw[text.index], text.ids, text.special, *spellings))
    chosen = followed(item.follow, written, context.model.tokenizer)
    journeys = [
        TextJourney(text, form.tokens, marked) for text, form, marked in zip(texts, written, chosen, strict=True)
    ]
    yield from steps(journeys, vectors, layout, item.top, item.positions, _closing(item, context.model), context.tell)
    yield from between(journeys, layout.places, named=bool(item.follow))
    yield from paths(texts, {journey.text.index: journey.tokens for journey in journeys}, layout.path)


def _closing(item: JourneySpec, model: LoadedModel) -> Close | None:
    """Return what states pass before they are compared with the vocabulary; None where that is nothing.

    Raises:
        ReporterError: the item asks for the final norm, and it cannot be applied to the states of all layers.
    """
    if item.norm == "none" or (item.norm == "auto" and (model.anatomy.role != "decoder" or model.closing.problem)):
        return None
    if model.closing.last == "block":
        if item.norm == "closing":
            raise ReporterError("norm: closing: the model has no final norm; write `norm: none`, or leave it out")
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
