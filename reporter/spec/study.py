"""A study: what to measure on which models and texts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, create_model, model_validator

from reporter.spec.claims import Claim, claim_type
from reporter.spec.corpora import CorpusPart, with_shares
from reporter.spec.metrics import MetricChoice, read_metrics
from reporter.spec.models import ModelSpec, RecipeModel
from reporter.spec.offer import ClaimForm, Offer, Section, offer_of
from reporter.spec.part import AsPath, AsTuple, Complaint, Name, Part, failure, no_repeats, one_of
from reporter.spec.problems import show
from reporter.spec.reading import NullBaseline, SinkSpec, Site, View
from reporter.spec.references import contradictions
from reporter.spec.report import ReportSpec
from reporter.spec.run import RunSpec

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


_CORPORA = "The texts to measure them on, by a short name."


class Study(Part):
    """One study, as written in its file, with every default filled in."""

    # What analyses look at stands under keys of theirs, which `study_form` adds; it knows the sources of texts, too.

    study: Annotated[str, AfterValidator(_study_id)] = Field(
        description="The study's id; it becomes the report's folder.",
        json_schema_extra={"pattern": f"^{STUDY_ID}$"},
    )
    extends: str | None = Field(
        None,
        description="A study to start from: one that ships with reporter, such as eacl-anisotropy, or a path. Each key "
        "that stands here takes the place of the same key there, as a whole; 'study' must stand here.",
    )
    title: str | None = Field(None, description="The report's heading.")
    question: str | None = Field(None, description="What the study is to find out; shown first in the report.")
    plugins: Annotated[tuple[Annotated[Path, AsPath], ...], AsTuple, AfterValidator(no_repeats)] = Field(
        (),
        description="Python files, beside the study, that bring metrics, analyses, kinds of claims or sources of texts "
        "of your own: functions decorated with @reporter.metric, @reporter.analysis, @reporter.claim_kind or "
        "@reporter.corpus_source. They are run when the study is read.",
    )
    models: dict[Name, ModelSpec] = Field(min_length=1, description="The models to compare, by a short name.")
    corpora: Annotated[dict[Name, CorpusPart], AfterValidator(with_shares)] = Field({}, description=_CORPORA)
    texts: Literal["sampled", "fixed"] = Field(
        "sampled",
        description="'fixed': the texts are those that are meant, no sample of others like them; claims then "
        "compare numbers as they stand, without an error of sampling, and only three models or more are a sample of "
        "others. Not with relations over layers or models. Intervals of numbers are stored and shown all the same.",
    )
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
    pooling: Literal["auto", "first", "mean", "last"] = Field(
        "auto",
        description="How a text becomes one vector for groups, pairs, clouds and probes: its first token, the mean of "
        "its own tokens or the last of them; 'auto' is the mean for encoders and the last token for decoders, and "
        "probes of texts try all three.",
    )
    claims: dict[Name, Claim] = Field(
        {}, description="Statements that are tested against the numbers of this study, by a short name."
    )
    run: RunSpec = Field(
        default_factory=RunSpec,
        description="Device, precision, batches and seed; what is measured stays the same.",
    )
    report: ReportSpec = Field(
        default_factory=ReportSpec,
        description="Theme, templates and figures of the report; what is measured stays the same.",
    )

    @property
    def sections(self) -> dict[str, Any]:
        """What stands under the key of each analysis; an empty mapping or None where the study has no such key."""
        return {name: getattr(self, name) for name in type(self).model_fields if name not in Study.model_fields}

    def twin(self, name: str) -> str | None:
        """Return the same model from another seed: its ``twin``, or one whose recipe differs in the seed alone."""
        model = self.models[name]
        if model.twin is not None:
            return model.twin
        if not isinstance(model, RecipeModel):
            return None
        return next((other for other, one in self.models.items() if other != name and model.differs_in_seed(one)), None)

    @model_validator(mode="after")
    def _references_exist(self, info: ValidationInfo) -> Study:
        if complaints := contradictions(self, offer_of(info)):
            raise failure(*complaints)
        return self


def study_form(offer: Offer) -> type[Study]:
    """Return what a study is where every analysis that is offered has its key, every source its corpora and so on."""
    return _form(tuple(offer.sections.items()), tuple(offer.sources.items()), tuple(offer.claims.items()))


@lru_cache(maxsize=8)  # making one takes longer than checking a study with it
def _form(
    sections: tuple[tuple[str, Section], ...],
    sources: tuple[tuple[str, type[CorpusPart]], ...],
    claims: tuple[tuple[str, ClaimForm], ...],
) -> type[Study]:
    fields: dict[str, Any] = {
        name: (section.form, Field({} if section.by_name else None, description=section.description))
        for name, section in sections
    }
    if sources:
        one: Any = Union[tuple(form for _, form in sources)]  # noqa: UP007 - of a number that is not known here
        check = BeforeValidator(one_of(dict(sources), "{file: texts.txt}"), json_schema_input_type=one)
        of_sources = Annotated[dict[Name, Annotated[one, check]], AfterValidator(with_shares)]
        fields["corpora"] = (of_sources, Field({}, description=_CORPORA))
    fields["claims"] = (dict[Name, claim_type(dict(claims))], Study.model_fields["claims"])  # type: ignore[misc]
    return create_model("Study", __base__=Study, __doc__=Study.__doc__, **fields)


def check_study(said: Any, offer: Offer) -> Study:
    """Return the study that a mapping says; raise Pydantic's ``ValidationError`` where it is wrong.

    Args:
        said: what a study file says.
        offer: what it may ask for.
    """
    return study_form(offer).model_validate(said, context=offer)


@dataclass(frozen=True)
class StudyFile:
    """A study and the file it was read from.

    Args:
        study: what the file says.
        path: the file, as the user named it.
        text: the file's text, character for character; of a study that extends another, or of which a call says
            something otherwise, what all of them say together, as a text that needs no other.
        notes: what of a study that it extends it leaves out, and why.
    """

    study: Study
    path: Path
    text: str
    notes: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder that relative paths in the study start from."""
        return self.path.resolve().parent
