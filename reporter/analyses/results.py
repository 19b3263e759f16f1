"""What analyses yield besides values: one class for each table, with the columns that the cell does not fill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from reporter.forward.places import Place

Measure = Literal["cosine", "distance"]
WithPositions = Literal["without", "with"]


@dataclass(frozen=True)
class Finding:
    """A row on its way to ``table``; fields are columns (``renamed`` where they are called otherwise).

    A field ``place`` becomes site, layer and depth.
    """

    table: ClassVar[str]
    renamed: ClassVar[Mapping[str, str]] = {}


@dataclass(frozen=True)
class JourneyStep(Finding):
    """A token at one place; see the comments of the table ``journeys``."""

    table: ClassVar[str] = "journeys"
    place: Place
    text: int
    position: int
    token_id: int
    token: str
    followed: bool
    special: bool
    positions: WithPositions
    cosine: float | None
    distance: float | None
    rank_cosine: int | None
    rank_distance: int | None
    norm: float
    step_length: float | None
    step_cosine: float | None
    turnover_cosine: float | None
    turnover_distance: float | None


@dataclass(frozen=True)
class Neighbour(Finding):
    """A vocabulary token near a followed token; ``rank`` (1 = nearest) is the column ``place``."""

    table: ClassVar[str] = "neighbours"
    renamed: ClassVar[Mapping[str, str]] = {"rank": "place"}
    place: Place
    text: int
    position: int
    token_id: int
    token: str
    positions: WithPositions
    measure: Measure
    rank: int
    neighbour_id: int
    neighbour: str | None
    cosine: float | None
    distance: float


@dataclass(frozen=True)
class GroupSpread(Finding):
    """A group of texts, or a control, at one place; see the table ``groups``."""

    table: ClassVar[str] = "groups"
    place: Place
    text_group: str
    control: Literal["none", "random-characters", "random-words"]
    pooling: str
    silhouette: float | None
    within: float
    between: float | None
    ratio: float | None
    n: int


@dataclass(frozen=True)
class PairDirection(Finding):
    """A concept at one place; see the table ``pair_directions``."""

    table: ClassVar[str] = "pair_directions"
    place: Place
    concept: str
    pooling: str
    consistency: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    norm: float
    relative_norm: float | None
    n: int
    same: int


@dataclass(frozen=True)
class DirectionCosine(Finding):
    """Two concepts at one place; see the table ``direction_cosines``."""

    table: ClassVar[str] = "direction_cosines"
    place: Place
    concept_a: str
    concept_b: str
    pooling: str
    cosine: float | None
    p: float | None
    n_a: int
    n_b: int


@dataclass(frozen=True)
class Point(Finding):
    """A point of a picture; see the table ``projections``. Points of weights have no place."""

    table: ClassVar[str] = "projections"
    place: Place | None
    projection: str
    part: str
    point: int
    label: str | None
    x: float
    y: float
    z: float | None = None


@dataclass(frozen=True)
class HistogramBin(Finding):
    """A bin of a distribution; see the table ``histograms``."""

    table: ClassVar[str] = "histograms"
    place: Place | None
    measure: str
    part: str
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Explained(Finding):
    """The variance that the first components hold; see the table ``explained_variance``."""

    table: ClassVar[str] = "explained_variance"
    place: Place | None
    part: str
    components: int
    share: float
    n: int
