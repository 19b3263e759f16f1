"""Static embeddings: the token, position and token-type vectors of a model, from its weights alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from reporter.core.table import TOKEN, TOKEN_ID, WEIGHTS, Comparable, OfModel, Row, column
from reporter.metrics._items import Explained, HistogramBin, Point
from reporter.metrics._vocabulary_charts import CHARTS
from reporter.metrics.analysis import Context, analysis
from reporter.spec.offer import Reference, Section
from reporter.spec.part import AsTuple, Name, Part

Map = Literal["tsne", "umap"]


class OfWeights(OfModel, corpus=WEIGHTS, metric="vocabulary"):
    """What the weights alone say."""


class VocabularyToken(OfWeights, table="vocabulary"):
    """A token's static embedding: a row of the input embedding."""

    token_id: int = column(TOKEN_ID, key=True)
    token: str | None = column(f"{TOKEN}; NULL for a row that no token has")
    kind: str = column("what it is: a word, a number, punctuation, bytes, special, …", name="class")
    subword: bool | None = column("whether it is written as a part of a word; NULL where that is not marked")
    norm: float = column("norm of its vector")
    mean_cosine: float | None = column("cosine to the mean of all vectors; NULL for a zero vector")
    mean_distance: float = column("distance to that mean")
    repeated: bool = column("whether another row is exactly equal")
    pc1: float | None = column("coordinate on the first principal component")
    pc2: float | None = column("on the second")
    pc3: float | None = column("on the third")


class VocabularyExtreme(OfWeights, table="vocabulary_extremes"):
    """One of the tokens, or pairs of vectors, at the ends of a measure over the whole vocabulary."""

    among: str = column("'all' tokens, or 'text': without special tokens, bytes and unused rows", key=True)
    what: str = column("'token', 'token–token' or 'token–position'", key=True)
    measure: str = column("'norm', 'mean_cosine', 'mean_distance', 'cosine', 'distance' or 'dot'", key=True)
    end_of_scale: str = column("'smallest', 'largest', 'most' similar, 'least' similar, or 'outlier'", key=True)
    rank: int = column("1 for the first", key=True)
    token_id: int = column("the token, or the first of the pair")
    token: str | None = column("the token as it reads")
    other_id: int | None = column("the second token or the position; NULL for a token alone")
    other: str | None = column("it as it reads; the position as text")
    value: float = column("the measure")
    certain: bool | None = column("whether rounding in float32 can have left out no other that belongs here")


class VocabularyFact(OfWeights, table="vocabulary_facts"):
    """A fact about a model's static vectors: how it knows positions, the period of their path, …"""

    compared = (Comparable(("value",), "NULL", "fact"),)

    fact: str = column("what it is", key=True)
    value: float | None = column("as a number; NULL where it is none")
    said: str | None = column("in words; NULL where the number says all")


class PositionVector(OfWeights, table="positions"):
    """A position's static vector, where a model adds one to each token."""

    position: int = column("0 for the first token", key=True)
    norm: float = column("norm of its vector")
    step_length: float | None = column("distance to the vector of the position before; NULL for the first")
    mean_cosine: float | None = column("cosine to the mean position vector; NULL for a zero vector")
    mean_distance: float = column("distance to it")
    pc1: float | None = column("coordinate on the first principal component")
    pc2: float | None = column("on the second")
    pc3: float | None = column("on the third")


class PositionCosine(OfWeights, table="position_cosines"):
    """The cosine of two positions' static vectors: all, or at most 64 spread evenly."""

    position_a: int = column("the one", key=True)
    position_b: int = column("the other", key=True)
    cosine: float | None = column("cosine of their vectors; NULL for a zero vector")


class PositionOffset(OfWeights, table="position_offsets"):
    """The mean cosine of the static vectors of two positions that are so far apart."""

    distance: int = column("positions apart", key=True)
    cosine: float = column("mean cosine")
    sd: float = column("standard deviation of these cosines")
    n: int = column("pairs of positions", "BIGINT")


TABLES = (
    VocabularyToken,
    VocabularyExtreme,
    VocabularyFact,
    PositionVector,
    PositionCosine,
    PositionOffset,
)


class Looked(Part):
    """How much of the vectors is listed and drawn."""

    extremes: int = Field(20, ge=0, le=200, description="Tokens and pairs listed at each end of each measure.")
    outlier_threshold: float = Field(
        0.2, gt=0, lt=1, description="From which |cosine| on a token and a position are outliers."
    )
    points: int = Field(2000, ge=10, le=20000, description="Tokens in a picture, drawn at random.")
    maps: Annotated[tuple[Map, ...], AsTuple] = Field(
        ("tsne",), description="Pictures besides the principal components: 'tsne', 'umap' (needs the extra 'umap')."
    )


class VocabularySpec(Looked):
    """Which models, and how much of them is listed and drawn."""

    models: Literal["all"] | Annotated[tuple[Name, ...], AsTuple] = Field(
        "all", description="Models of this study, or 'all'; of each the last checkpoint is looked at."
    )


def _whose(value: Any) -> Any:
    if value == "all" or isinstance(value, list | tuple):
        return {"models": value}
    return value


Vocabulary = Annotated[
    VocabularySpec, BeforeValidator(_whose, json_schema_input_type=Literal["all"] | list[str] | VocabularySpec)
]
"""``all``, a list of models, or a mapping with more to say."""


def _resolve(spec: VocabularySpec, folder: Path) -> Looked:
    return Looked.model_validate(spec.model_dump(exclude={"models"}))


@analysis(
    title="Static embeddings",
    summary="Token, position and token-type vectors before any text is read: how long they are, which are alike, and "
    "what the positions' path looks like.",
    statistics=(),
    cost="V² / 2 products of d numbers for a vocabulary of V tokens; no forward pass",
    tables=(*TABLES, Point, HistogramBin, Explained),
    charts=CHARTS,
    version=4,  # no sorts of tokens, no ways to know positions inside attention
    section=Section(
        Vocabulary,
        "Whose token, position and type vectors to look at: a list of models, or 'all'.",
        references=(Reference("models", "models", several=True),),
        together=WEIGHTS,
        by_name=False,
    ),
    resolve=_resolve,
    last_only=True,
)
def vocabulary(item: Looked, context: Context) -> Iterator[Row]:
    """Yield what is known of the token, position and type vectors of a model."""
    from reporter.metrics._static_numbers import analyse
    from reporter.metrics._static_vectors import static_vectors

    yield from analyse(static_vectors(context.model), item, context.seed, context.tell)
