"""What the analysis of static vectors yields: one class for each table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from reporter.analyses.results import Finding


@dataclass(frozen=True)
class VocabularyToken(Finding):
    """A token's vector; see the table ``vocabulary``."""

    table: ClassVar[str] = "vocabulary"
    renamed: ClassVar[Mapping[str, str]] = {"kind": "class"}
    token_id: int
    token: str | None
    kind: str
    subword: bool | None
    script: str | None
    length: int
    norm: float
    mean_cosine: float | None
    mean_distance: float
    repeated: bool
    pc1: float | None
    pc2: float | None
    pc3: float | None


@dataclass(frozen=True)
class VocabularyShare(Finding):
    """How much of the vocabulary is of one sort."""

    table: ClassVar[str] = "vocabulary_shares"
    sorted_by: str
    sort: str
    count: int
    share: float


@dataclass(frozen=True)
class VocabularyExtreme(Finding):
    """A token or a pair at one end of a measure."""

    table: ClassVar[str] = "vocabulary_extremes"
    among: str
    what: str
    measure: str
    end_of_scale: str
    rank: int
    token_id: int
    token: str | None
    other_id: int | None
    other: str | None
    value: float
    certain: bool | None


@dataclass(frozen=True)
class VocabularyFact(Finding):
    """A fact about a model's static vectors."""

    table: ClassVar[str] = "vocabulary_facts"
    fact: str
    value: float | None
    said: str | None


@dataclass(frozen=True)
class PositionVector(Finding):
    """A position's vector; see the table ``positions``."""

    table: ClassVar[str] = "positions"
    position: int
    norm: float
    step_length: float | None
    mean_cosine: float | None
    mean_distance: float
    pc1: float | None
    pc2: float | None
    pc3: float | None
    change_p: float | None


@dataclass(frozen=True)
class PositionCosine(Finding):
    """The cosine of two positions' vectors."""

    table: ClassVar[str] = "position_cosines"
    position_a: int
    position_b: int
    cosine: float | None


@dataclass(frozen=True)
class PositionOffset(Finding):
    """The mean cosine of positions so far apart."""

    table: ClassVar[str] = "position_offsets"
    distance: int
    cosine: float
    sd: float
    n: int
