"""A study: what to measure on which models and texts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from reporter.spec.claims import ClaimSpec
from reporter.spec.clouds import Cloud
from reporter.spec.corpora import CorpusSpec
from reporter.spec.groups import GroupSpec
from reporter.spec.journeys import JourneySpec
from reporter.spec.metrics import MetricChoice, read_metrics
from reporter.spec.models import ModelSpec
from reporter.spec.pairs import PairsSpec
from reporter.spec.part import AsPath, AsTuple, Complaint, Name, Part, failure, no_repeats
from reporter.spec.probes import ProbeSpec
from reporter.spec.problems import show
from reporter.spec.reading import NullBaseline, SinkSpec, Site, View
from reporter.spec.references import contradictions
from reporter.spec.run import RunSpec
from reporter.spec.vocabulary import Vocabulary

STUDY_ID = r"[a-z0-9][a-z0-9_-]{0,63}"
RESERVED_IDS = ("assets", "cache")
"""Folders that every run writes beside the studies' own."""


def _study_id(value: str) -> str:
    if not re.fullmatch(STUDY_ID, value):
        rule = "at most 64 lower-case letters, digits, '-' and '_', the first a letter or digit"
        raise failure(Complaint(f"expected an id of {rule}, got {show(value)}"))
    if value in RESERVED_IDS:
        raise failure(Complaint(f"'{value}' is the name of a folder that every run writes; choose another id"))
    return value


class Study(Part):
    """One study, as written in its file, with every default filled in."""

    study: Annotated[str, AfterValidator(_study_id)] = Field(
        description="The study's id; it becomes the report's folder.",
        json_schema_extra={"pattern": f"^{STUDY_ID}$"},
    )
    title: str | None = Field(None, description="The report's heading.")
    question: str | None = Field(None, description="What the study is to find out; shown first in the report.")
    plugins: Annotated[tuple[Annotated[Path, AsPath], ...], AsTuple, AfterValidator(no_repeats)] = Field(
        (),
        description="Python files, beside the study, that bring metrics of your own: functions decorated with "
        "@reporter.metric. They are run when the study is read.",
    )
    models: dict[Name, ModelSpec] = Field(min_length=1, description="The models to compare, by a short name.")
    corpora: dict[Name, CorpusSpec] = Field({}, description="The texts to measure them on, by a short name.")
    metrics: Annotated[tuple[MetricChoice, ...], BeforeValidator(read_metrics, json_schema_input_type=Any)] = Field(
        "all",  # read_metrics turns it into every metric of the catalogue
        validate_default=True,
        description="'all', or a list of metrics (and 'all'); one with options is written {name: {option: value}}. "
        "Optional ones, which take more than one plain forward pass, are only there where they are listed.",
    )
    views: Annotated[tuple[View, ...], AsTuple, AfterValidator(no_repeats)] = Field(
        ("words", "all", "no-sinks"),
        min_length=1,
        description="Which tokens count; metrics are computed for each view; the first is shown first.",
    )
    sinks: SinkSpec = Field(
        default_factory=SinkSpec,
        description="Which tokens are sinks, if not those of which one coordinate outweighs all others: "
        "{factor: 8} takes those whose norm exceeds 8 medians of their text.",
    )
    sites: Annotated[tuple[Site, ...], AsTuple, AfterValidator(no_repeats)] = Field(
        ("embedding", "block", "final"),
        min_length=1,
        description="Where states are read: 'embedding' and 'block' (always), 'final' (after the closing norm), "
        "'attention' (after attention, before the feed-forward).",
    )
    baselines: Annotated[tuple[NullBaseline, ...], AsTuple, AfterValidator(no_repeats)] = Field(
        (),
        description="Null baselines of each model: 'random-init' (the same architecture with random weights), "
        "'shuffled' (the tokens of each text in random order).",
    )
    journeys: dict[Name, JourneySpec] = Field({}, description="Tokens to follow through the layers, by a short name.")
    groups: dict[Name, GroupSpec] = Field(
        {}, description="Texts that mean the same, by group: a list, or a pattern such as '{Hello|Hi} there'."
    )
    pairs: dict[Name, PairsSpec] = Field(
        {}, description="Sets of concepts, each with pairs of texts that differ in it; 'shipped' for those of reporter."
    )
    clouds: dict[Name, Cloud] = Field({}, description="Corpora to compare as clouds of points, by a short name.")
    probes: dict[Name, ProbeSpec] = Field(
        {}, description="What a classifier is to read from the states, by a short name."
    )
    vocabulary: Vocabulary | None = Field(
        None, description="Whose token, position and type vectors to look at: a list of models, or 'all'."
    )
    pooling: Literal["auto", "first", "mean", "last"] = Field(
        "auto",
        description="How a text becomes one vector for groups, pairs, clouds and probes: its first token, the mean of "
        "its own tokens or the last of them; 'auto' is the mean for encoders and the last token for decoders.",
    )
    claims: dict[Name, ClaimSpec] = Field(
        {}, description="Statements that are tested against the numbers of this study, by a short name."
    )
    run: RunSpec = Field(
        default_factory=RunSpec,
        description="Device, precision, batches and seed; what is measured stays the same.",
    )

    @model_validator(mode="after")
    def _references_exist(self) -> Study:
        if complaints := contradictions(self):
            raise failure(*complaints)
        return self


@dataclass(frozen=True)
class StudyFile:
    """A study and the file it was read from.

    Args:
        study: what the file says.
        path: the file, as the user named it.
        text: the file's text, character for character.
    """

    study: Study
    path: Path
    text: str

    @property
    def folder(self) -> Path:
        """The folder that relative paths in the study start from."""
        return self.path.resolve().parent
