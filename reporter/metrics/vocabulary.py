"""Static embeddings: the token, position and token-type vectors of a model, from its weights alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from reporter.charts import Chapter, Chart, Page, Pick, choices, parts, variants
from reporter.charts.curves import counts, explained, heights
from reporter.charts.layout import Scene
from reporter.charts.styles import INK, Styles, alt
from reporter.core.numbers import whole
from reporter.core.table import TOKEN, TOKEN_ID, WEIGHTS, Comparable, OfModel, Row, column
from reporter.metrics._items import Explained, HistogramBin, Point
from reporter.metrics.analysis import Context, analysis
from reporter.study.offer import Reference, Section
from reporter.study.part import AsTuple, Name, Part

if TYPE_CHECKING:
    import pandas as pd

# The charts of static embeddings. Nothing on their page rests on more than 5,000 rows of a model.


VOCABULARY = Page("weights", "Weights", "What the weights hold before a model reads any text.")
DISTRIBUTIONS_CHAPTER = Chapter(
    VOCABULARY, "distributions", "Norms and pairs", "How long are the vectors, and how similar?"
)
PICTURE_CHAPTER = Chapter(VOCABULARY, "picture", "Projections", "Vectors in two or three dimensions.")
ENDS_CHAPTER = Chapter(VOCABULARY, "ends", "Extremes", "The most and least similar pairs, and the extreme tokens.")
POSITIONS_CHAPTER = Chapter(VOCABULARY, "positions", "Positions", "Position vectors, which are added to token vectors.")
_distribution = partial(Chart, chapter=DISTRIBUTIONS_CHAPTER, half=True, key="part")
_positions = partial(Chart, chapter=POSITIONS_CHAPTER, half=True)


def heat(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the cosine of each two positions."""
    every = list(range(0, int(frame["position_a"].max()) + 1, 16))
    axis = alt.Axis(values=every, grid=False, ticks=True, domain=False, labelAngle=0)
    scale = alt.Scale(paddingInner=0, paddingOuter=0)
    return (
        alt.Chart()
        .mark_rect()
        .encode(
            x=alt.X("position_b:O", title="position", axis=axis, scale=scale),
            y=alt.Y("position_a:O", title="position", axis=axis, scale=scale),
            color=parts.cosine_colour(),
            tooltip=parts.tooltips("position_a", "position_b", "cosine"),
        )
        .properties(width="container", height=400)
    )


def offsets(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the mean cosine of two positions by how far apart they are, and one standard deviation around it."""
    x = alt.X("distance:Q", title="positions apart", scale=alt.Scale(nice=False))
    low, high = min(0.0, float(frame["low"].min())), max(0.0, float(frame["high"].max()))
    y = alt.Y("cosine:Q", title="cosine", scale=alt.Scale(domain=[max(-1.0, low), min(1.0, high)]))
    chart = alt.Chart()
    band = chart.mark_area(opacity=0.2, color=INK).encode(x=x, y=alt.Y("low:Q", title="cosine"), y2=alt.Y2("high:Q"))
    line = chart.mark_line(color=INK, strokeWidth=1.8).encode(x=x, y=y)
    points = chart.mark_point(size=70, filled=True, opacity=0, color=INK)
    points = points.encode(x=x, y=y, tooltip=parts.tooltips("distance", "cosine", "sd", "n"))
    return alt.layer(parts.zero(), band, line, points, data=frame).properties(width="container", height=240)


def by_position(column: str) -> Any:
    """Return what draws a column of ``positions`` over the position."""

    def draw(frame: pd.DataFrame, styles: Styles) -> Any:
        x = alt.X("position:Q", title="position", scale=alt.Scale(nice=False))
        y = alt.Y(f"{column}:Q", title=column.replace("_", " "), scale=alt.Scale(zero=False))
        chart = alt.Chart()
        line = chart.mark_line(color=INK, strokeWidth=1.2).encode(x=x, y=y)
        points = chart.mark_point(size=40, filled=True, opacity=0, color=INK)
        points = points.encode(x=x, y=y, tooltip=parts.tooltips("position", "norm", "step_length", "mean_cosine"))
        return alt.layer(line, points, data=frame).properties(width="container", height=240)

    return draw


def _components(rows: pd.DataFrame, scene: Scene) -> str:
    clauses = []
    for part, shares in rows.groupby("part", sort=False):
        reached = [shares.loc[shares["share"] >= share, "components"].min() for share in (0.5, 0.9)]
        half, most = (whole(count) if count == count else f"more than {len(shares)}" for count in reached)
        clauses.append(f"{part}: half in {half}, 90 % in {most}")
    return " · ".join(clauses)


def _extremes(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    names = {
        "token|mean_cosine": "cosine to the mean",
        "token|mean_distance": "distance from the mean",
        "token|norm": "norm",
        "token–token|cosine": "pairs by cosine",
        "token–token|distance": "pairs by distance",
        "token–token|dot": "pairs by dot product",
    }
    keys = dict.fromkeys(f"{what}|{measure}" for what, measure in zip(frame["what"], frame["measure"], strict=True))
    order = [name for name in ("token–token|cosine", *names) if name in keys]
    measure = Pick("what|measure", "Measure", {name: names.get(name, name) for name in dict.fromkeys([*order, *keys])})
    among = choices(frame, "among", "Among", ("text", "all"))
    labels = {"text": "text: no special tokens, bytes, unused rows", "all": "all rows"}
    return [measure, Pick("among", "Among", {name: labels.get(name, name) for name in among.choices})]


def _pictures(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    names = {"pca": "PCA", "tsne": "t-SNE"}
    projections = list(dict.fromkeys(frame["projection"]))
    labels = {}
    for name in sorted(projections, key=lambda name: (" of " in name, list(names).index(name.split()[0]))):
        method, _, kind = name.partition(" of ")
        labels[name] = f"{names.get(method, method)} of {kind + ' vectors' if kind else 'all kinds together'}"
    return [Pick("projection", "Picture", labels)]


# The shapes are compared, not the numbers of pairs, which differ by factors of millions: height is 1 at the peak.
HISTOGRAMS = _distribution(
    "static.histograms",
    "Distributions",
    """
SELECT model, checkpoint, measure, part, low, high, count,
  count / max(count) OVER (PARTITION BY model, checkpoint, measure, part) AS height,
  CAST(sum(count) OVER (PARTITION BY model, checkpoint, measure, part) AS BIGINT) AS n
FROM histograms
WHERE study = $study AND analysis = 'vocabulary'
ORDER BY model, checkpoint, measure, part, low
""",
    {"height": heights, "count": counts},
    lead="Norms by kind of vector; cosine, distance and dot product by kind of pair.",
    columns=("measure", "part", "count"),
    picks=lambda frame, scene: [
        choices(frame, "measure", "Measure", ("norm", "cosine", "distance", "dot")),
        variants(height="shape (peak = 1)", count="count (logarithmic)"),
    ],
)

EXPLAINED = _distribution(
    "static.explained",
    "Explained variance",
    """
SELECT model, checkpoint, part, components, share, n FROM explained_variance
WHERE study = $study AND analysis = 'vocabulary'
ORDER BY model, checkpoint, part, components
""",
    explained,
    say=_components,
    lead="How many directions the vectors use. Dashed: 50 % and 90 %.",
    columns=("part", "components", "share", "n"),
)

POINTS = Chart(
    "static.points",
    "Tokens, positions and token types",
    """
SELECT p.model, p.checkpoint, p.projection, p.part AS kind, p.point, p.label, p.x, p.y, p.z, v.class,
  CASE v.subword WHEN true THEN 'part of a word' WHEN false THEN 'a word, or the beginning of one' END AS subword,
  coalesce(v.norm, q.norm) AS norm
FROM projections AS p
LEFT JOIN vocabulary AS v ON p.part = 'token' AND (v.study, v.model, v.checkpoint, v.token_id)
  = (p.study, p.model, p.checkpoint, p.point)
LEFT JOIN positions AS q ON p.part = 'position' AND (q.study, q.model, q.checkpoint, q.position)
  = (p.study, p.model, p.checkpoint, p.point)
WHERE p.study = $study AND p.analysis = 'vocabulary'
QUALIFY row_number() OVER (PARTITION BY p.model, p.checkpoint, p.projection, p.part ORDER BY hash(p.point)) <= 2000
ORDER BY p.model, p.checkpoint, p.projection LIKE '% of %', p.projection, p.part, p.point
""",
    "points",
    lead="One point per vector. Hover or use arrow keys to read; search to mark.",
    columns=("projection", "part", "label", "x", "y", "z"),
    chapter=PICTURE_CHAPTER,
    picks=_pictures,
    options={
        "colour": ["class", "kind", "subword", "norm"],
        "ramps": ["norm"],
        "of": "kind",
        "tell": ["kind", "point", "class", "subword", "norm"],
        "search": True,
        "height": 520,
        "instead": {"column": "projection", "values": {name: f"{name} of token" for name in ("pca", "tsne")}},
    },
    mind="At most 2,000 random vectors of a kind are drawn. In t-SNE only neighbourhoods are meaningful, not "
    "distances or sizes of clusters.",
)

EXTREMES = Chart(
    "static.extremes",
    "Extreme tokens and pairs",
    """
SELECT model, checkpoint, among, what, measure, end_of_scale, rank, token_id, token, other_id, other, value, certain
FROM vocabulary_extremes
WHERE study = $study AND what <> 'token–position' AND rank <= 100
ORDER BY model, checkpoint, what, measure, among DESC, end_of_scale IN ('most', 'largest') DESC, rank
""",
    "table",
    lead="Exact: over all tokens and all pairs of the vocabulary.",
    columns=("among", "measure", "end_of_scale", "value", "certain"),
    chapter=ENDS_CHAPTER,
    picks=_extremes,
    options={
        "split": "end_of_scale",
        "columns": [
            ["rank", "rank", "whole"],
            ["token", "Token", "token"],
            ["other", "and", "token"],
            ["value", "value", "number"],
        ],
        "ids": {"token": "token_id", "other": "other_id"},
        "valueName": "measure",
        "names": {"most": "most alike", "least": "least alike", "smallest": "smallest", "largest": "largest"},
    },
)

OUTLIERS = Chart(
    "static.outliers",
    "Tokens along the direction of a position",
    """
SELECT model, checkpoint, rank, token_id, token, other_id AS position, value AS cosine
FROM vocabulary_extremes
WHERE study = $study AND what = 'token–position'
ORDER BY model, checkpoint, rank
""",
    "table",
    lead="Token and position vectors with the largest |cosine|.",
    mind="Both vectors are added before the first block, so such a token looks like its position. A negative cosine "
    "means opposite directions.",
    columns=("what", "value"),
    chapter=ENDS_CHAPTER,
    options={
        "columns": [
            ["rank", "rank", "whole"],
            ["token", "Token", "token"],
            ["position", "Position", "whole"],
            ["cosine", "Cosine", "number"],
        ],
        "ids": {"token": "token_id"},
    },
)

POSITION_ROWS = """
SELECT model, checkpoint, position, norm, step_length, mean_cosine, mean_distance, pc1, pc2, pc3,
  'position ' || position AS label
FROM positions
WHERE study = $study
QUALIFY (row_number() OVER (PARTITION BY model, checkpoint ORDER BY position) - 1)
  % CAST(ceil(count(*) OVER (PARTITION BY model, checkpoint) / 2048) AS BIGINT) = 0
ORDER BY model, checkpoint, position
"""

PATH = Chart(
    "static.path",
    "The path of the positions",
    POSITION_ROWS,
    "points",
    lead="Position vectors on principal components, in order. In 3-D, drag or use arrows.",
    columns=("pc1", "pc2", "pc3"),
    chapter=POSITIONS_CHAPTER,
    picks=lambda frame, scene: [
        Pick("axes", "View", {"xy": "PC1 and PC2", "xz": "PC1 and PC3", "yz": "PC2 and PC3", "xyz": "3-D"})
    ],
    options={
        "x": "pc1",
        "y": "pc2",
        "z": "pc3",
        "colour": ["position", "norm"],
        "ramps": ["position", "norm"],
        "tell": ["norm", "step_length"],
        "joined": True,
        "height": 420,
        "axisNames": ["PC1", "PC2", "PC3"],
    },
)

HEAT = _positions(
    "static.position-cosines",
    "Cosine of each two positions",
    """
SELECT model, checkpoint, position_a, position_b, cosine
FROM position_cosines
WHERE study = $study
ORDER BY model, checkpoint, position_a, position_b
""",
    heat,
    lead="The first 96 positions. Stripes parallel to the diagonal indicate a period.",
    columns=("cosine",),
    legend="cosine",
    kind="square",
)

OFFSETS = _positions(
    "static.position-offsets",
    "Cosine by distance",
    """
SELECT model, checkpoint, distance, cosine, cosine - sd AS low, cosine + sd AS high, sd, n
FROM position_offsets
WHERE study = $study
QUALIFY (row_number() OVER (PARTITION BY model, checkpoint ORDER BY distance) - 1)
  % CAST(ceil(count(*) OVER (PARTITION BY model, checkpoint) / 2048) AS BIGINT) = 0
ORDER BY model, checkpoint, distance
""",
    offsets,
    lead="Mean cosine of two positions by their distance, ± one standard deviation.",
    columns=("cosine", "sd", "n"),
)

BY_POSITION = Chart(
    "static.position-norms",
    "Position vectors by position",
    POSITION_ROWS,
    {name: by_position(name) for name in ("norm", "step_length", "mean_cosine")},
    lead="Norm, step length or cosine to the mean of each position vector.",
    columns=("norm", "step_length", "mean_cosine"),
    chapter=POSITIONS_CHAPTER,
    picks=lambda frame, scene: [variants(norm="norm", step_length="step length", mean_cosine="cosine to the mean")],
)


class OfWeights(OfModel, corpus=WEIGHTS, metric="vocabulary"):
    """A row about the weights."""


class VocabularyToken(OfWeights, table="vocabulary"):
    """A token's static embedding: a row of the input embedding."""

    token_id: int = column(TOKEN_ID, key=True)
    token: str | None = column(f"{TOKEN}; NULL for a row of the embedding without a token")
    kind: str = column("class of the token: word, number, punctuation, bytes, special, …", name="class")
    subword: bool | None = column("whether the tokenizer marks it as a part of a word; NULL where nothing is marked")
    norm: float = column("norm of its vector")
    mean_cosine: float | None = column("cosine to the mean of all vectors; NULL for a zero vector")
    mean_distance: float = column("distance to the mean of all vectors")
    repeated: bool = column("whether another row is exactly equal")
    pc1: float | None = column("coordinate on the first principal component")
    pc2: float | None = column("coordinate on the second principal component")
    pc3: float | None = column("coordinate on the third principal component")


class VocabularyExtreme(OfWeights, table="vocabulary_extremes"):
    """One of the tokens, or pairs of vectors, at the ends of a measure over the whole vocabulary."""

    among: str = column("'all' tokens, or 'text': without special tokens, bytes and unused rows", key=True)
    what: str = column("'token', 'token–token' or 'token–position'", key=True)
    measure: str = column("'norm', 'mean_cosine', 'mean_distance', 'cosine', 'distance' or 'dot'", key=True)
    end_of_scale: str = column("'smallest', 'largest', 'most' similar, 'least' similar, or 'outlier'", key=True)
    rank: int = column("1 = most extreme", key=True)
    token_id: int = column("id of the token, or of the first token of the pair")
    token: str | None = column("the token")
    other_id: int | None = column("id of the second token, or the position; NULL for a single token")
    other: str | None = column("the second token, or the position as text")
    value: float = column("the measure")
    certain: bool | None = column("whether no rounding in float32 can have left out another one that belongs here")


class VocabularyFact(OfWeights, table="vocabulary_facts"):
    """A fact about a model's static vectors, such as how the model encodes positions, or the period of their path."""

    compared = (Comparable(("value",), "NULL", "fact"),)

    fact: str = column("name of the fact", key=True)
    value: float | None = column("the fact as a number; NULL where it is not a number")
    said: str | None = column("the fact in words; NULL where the number is enough")


class PositionVector(OfWeights, table="positions"):
    """A position's static vector, where a model adds one to each token."""

    position: int = column("0 for the first token", key=True)
    norm: float = column("norm of its vector")
    step_length: float | None = column("distance to the vector of the previous position; NULL for the first")
    mean_cosine: float | None = column("cosine to the mean position vector; NULL for a zero vector")
    mean_distance: float = column("distance to the mean position vector")
    pc1: float | None = column("coordinate on the first principal component")
    pc2: float | None = column("coordinate on the second principal component")
    pc3: float | None = column("coordinate on the third principal component")


class PositionCosine(OfWeights, table="position_cosines"):
    """The cosine of the static vectors of two of the first 96 positions."""

    position_a: int = column("first position", key=True)
    position_b: int = column("second position", key=True)
    cosine: float | None = column("cosine of both vectors; NULL for a zero vector")


class PositionOffset(OfWeights, table="position_offsets"):
    """The mean cosine of the static vectors of two positions, by the distance of the positions."""

    distance: int = column("distance of the positions", key=True)
    cosine: float = column("mean cosine")
    sd: float = column("standard deviation of these cosines")
    n: int = column("number of pairs of positions", "BIGINT")


TABLES = (VocabularyToken, VocabularyExtreme, VocabularyFact, PositionVector, PositionCosine, PositionOffset)


class VocabularyOptions(Part):
    """The number of vectors to list and to draw."""

    extremes: int = Field(20, ge=0, le=200, description="Tokens and pairs listed at each end of each measure.")
    outlier_threshold: float = Field(
        0.2, gt=0, lt=1, description="|cosine| of a token and a position above which both are listed."
    )
    points: int = Field(2000, ge=10, le=20000, description="Tokens in a picture, drawn at random.")
    maps: Annotated[tuple[Literal["tsne"], ...], AsTuple] = Field(
        ("tsne",), description="Projections in addition to principal components: 'tsne', or none."
    )


class ModelsSpec(Part):
    """The models."""

    models: Literal["all"] | Annotated[tuple[Name, ...], AsTuple] = Field(
        "all", description="Models of this study, or 'all'; the last checkpoint of each is used."
    )


class VocabularySpec(ModelsSpec, VocabularyOptions):
    """The models, and the number of their vectors to list and to draw."""


def _as_mapping(value: Any) -> Any:
    return {"models": value} if value == "all" or isinstance(value, list | tuple) else value


Models = Annotated[
    ModelsSpec, BeforeValidator(_as_mapping, json_schema_input_type=Literal["all"] | list[str] | ModelsSpec)
]
Vocabulary = Annotated[
    VocabularySpec, BeforeValidator(_as_mapping, json_schema_input_type=Literal["all"] | list[str] | VocabularySpec)
]
"""``all``, a list of models, or a mapping with more to say."""


@analysis(
    title="Static embeddings",
    summary="Token, position and token-type vectors before any text is read: their norms, which are similar, and the "
    "path of the positions.",
    statistics=(),
    cost="V² / 2 products of d numbers for a vocabulary of V tokens; no forward pass",
    tables=(*TABLES, Point, HistogramBin, Explained),
    charts=(HISTOGRAMS, EXPLAINED, POINTS, EXTREMES, OUTLIERS, PATH, HEAT, OFFSETS, BY_POSITION),
    version=6,  # classes of added tokens and of single bytes
    section=Section(
        Vocabulary,
        "Models whose token, position and type vectors are analysed: a list, or 'all'.",
        references=(Reference("models", "models", several=True),),
        together=WEIGHTS,
        by_name=False,
        example="all",
    ),
    resolve=lambda spec, folder: VocabularyOptions.model_validate(spec.model_dump(exclude={"models"})),
    last_only=True,
)
def vocabulary(item: VocabularyOptions, context: Context) -> Iterator[Row]:
    """Yield what is known of the token, position and type vectors of a model."""
    from reporter.metrics._static_numbers import analyse
    from reporter.metrics._static_vectors import static_vectors

    yield from analyse(static_vectors(context.model), item, context.seed, context.tell)
