"""A study: what to measure on which models and texts."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationInfo, create_model, model_validator
from pydantic.json_schema import models_json_schema

from reporter.core.errors import UsageError, one_line
from reporter.core.files import writing
from reporter.spec.claims import Claim, claim_type
from reporter.spec.corpora import CorpusPart, NullBaseline, SinkSpec, Site, View, with_shares
from reporter.spec.models import ModelSpec, RecipeModel
from reporter.spec.offer import ClaimForm, MetricChoice, Offer, Section, offer_of, read_metrics
from reporter.spec.part import AsPath, AsTuple, Complaint, Name, Part, Text, failure, no_repeats, one_of
from reporter.spec.problems import show
from reporter.spec.recipes import LARGEST_SEED
from reporter.spec.references import contradictions

# How a study is run; nothing here changes what is measured.


DEVICE = r"auto|cpu|mps|cuda(:[0-9]{1,3})?"


def _device(value: str) -> str:
    if not re.fullmatch(DEVICE, value):
        raise failure(Complaint(f"expected 'auto', 'cpu', 'mps', 'cuda' or 'cuda:0', got {show(value)}"))
    return value


Keep = Literal["all", "sums", "nothing"]


class RunSpec(Part):
    """The settings of the forward passes."""

    device: Annotated[str, AfterValidator(_device)] = Field(
        "auto",
        description="auto (a GPU if there is one), cpu, mps, cuda, or a certain GPU such as cuda:0.",
        json_schema_extra={"pattern": f"^({DEVICE})$"},
    )
    precision: Literal["auto", "mixed", "float32"] = Field(
        "auto", description="mixed: bfloat16 products on float32 weights; auto: mixed where a self-check passes."
    )
    batch_tokens: int = Field(8192, ge=1, description="The most tokens in a batch, padding included.")
    keep: Keep = Field(
        "all",
        description="What of a pass stays in the cache once the cells of the study are computed: all, compactly; sums, "
        "without the sampled states, which take most of the room; nothing. A later study measures again what it lacks.",
    )
    threads: int | None = Field(
        None, ge=1, le=1024, description="Threads at most; one for each core that it may use if left out."
    )
    engine: Literal["local", "ray"] = Field(
        "local", description="Who does the forward passes: this machine, or a Ray cluster (layer-reporter[ray])."
    )
    address: str | None = Field(
        None, description="Of the Ray cluster's head, such as 10.0.0.1:6379; auto: one that this machine belongs to."
    )
    workers: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Processes, or Ray actors, that do the passes; each has run.threads threads, 1 if left out. Of Ray "
        "as many as it has room for if left out.",
    )
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="Seeds bootstraps, samples and floors.")


# How a study's report looks, and what of it is shown; nothing here changes what is measured.


class ReportSpec(Part):
    """Templates, theme and figures of the pages."""

    theme: Literal["system", "light", "dark"] = Field(
        "system", description="The theme that pages open in, until a reader chooses another one."
    )
    style: Annotated[Path, AsPath] | None = Field(
        None, description="A stylesheet of your own, beside the study, that comes after the report's."
    )
    templates: Annotated[Path, AsPath] | None = Field(
        None,
        description="A folder of Jinja templates, beside the study, that stand in for the report's of the same name; "
        'they can build on them: {% extends "reporter/study.html" %}.',
    )
    figures: Annotated[tuple[Text, ...], AsTuple, AfterValidator(no_repeats)] = Field(
        (),
        description="The only figures to show, by full name (anisotropy.mean_cosine), and whole metrics (spectrum), in "
        "this order; all of them if left out.",
    )
    hide: Annotated[tuple[Text, ...], AsTuple, AfterValidator(no_repeats)] = Field(
        (),
        description="Parts to leave out: claims, findings, compared, answers, glance, models, sinks, corpora, samples "
        "(texts of the corpora), cells, provenance, glossary, a metric, or a page (tokens, texts, weights). "
        "The database keeps their numbers.",
    )


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
        description="The study's id; it becomes the report's folder.", json_schema_extra={"pattern": f"^{STUDY_ID}$"}
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
        default_factory=RunSpec, description="Device, precision, batches and seed; what is measured stays the same."
    )
    report: ReportSpec = Field(
        default_factory=ReportSpec,
        description="Theme, templates and figures of the report; what is measured stays the same.",
    )

    @property
    def sections(self) -> dict[str, Any]:
        """The content of each analysis' key; an empty mapping or None where the study has no such key."""
        return {name: getattr(self, name) for name in type(self).model_fields if name not in Study.model_fields}

    def twin(self, name: str) -> str | None:
        """Return the same model from another seed: its ``twin``, or one whose recipe differs in the seed alone."""
        model = self.models[name]
        if model.twin is not None:
            return model.twin
        if not isinstance(model, RecipeModel):
            return None
        return next(
            (other for other, candidate in self.models.items() if other != name and model.differs_in_seed(candidate)),
            None,
        )

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
        union: Any = Union[tuple(form for _, form in sources)]  # noqa: UP007 - of a number that is not known here
        check = BeforeValidator(one_of(dict(sources), "{file: texts.txt}"), json_schema_input_type=union)
        of_sources = Annotated[dict[Name, Annotated[union, check]], AfterValidator(with_shares)]
        fields["corpora"] = (of_sources, Field({}, description=_CORPORA))
    fields["claims"] = (dict[Name, claim_type(dict(claims))], Study.model_fields["claims"])  # type: ignore[misc]
    return create_model("Study", __base__=Study, __doc__=Study.__doc__, **fields)


def check_study(content: Any, offer: Offer) -> Study:
    """Return the validated study of a mapping, or raise Pydantic's ``ValidationError``."""
    return study_form(offer).model_validate(content, context=offer)


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


# What people start from: the study that ``reporter init`` writes, the metric of ``reporter metrics --new``.


def write_starter(name: str, shipped: Mapping[str, Path] | None = None) -> Path:
    """Write a commented study that runs as it is, without a model hub, or a copy of a study that ships.

    Args:
        name: the file to write, or the name of a study that ships.
        shipped: the studies that ship, by name.

    Raises:
        UsageError: the name cannot be a study's id, or the file is already there.
        ReporterError: the file cannot be written.
    """
    if shipped and name in shipped:
        copy = Path(shipped[name].name)
        _write(copy, shipped[name].read_text(encoding="utf-8").replace(f"studies/{name}.yaml", copy.name))
        return copy
    path = Path(name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")
    study = path.stem
    if not re.fullmatch(STUDY_ID, study) or study in RESERVED_IDS:
        raise UsageError(
            f"'{one_line(study)}' cannot be a study's id; use lower-case letters, digits, '-' and '_'"
            f" (and not {' or '.join(RESERVED_IDS)})"
        )
    text = Path(__file__).with_name("starter.yaml").read_text(encoding="utf-8")
    _write(path, text.replace("{file}", one_line(str(path))).replace("{id}", study))
    return path


def write_metric(name: str, taken: Collection[str]) -> Path:
    """Write a file that registers a metric and works as it is, for the ``plugins`` of a study.

    Raises:
        UsageError: the name cannot be a metric's, or the file is already there.
        ReporterError: the file cannot be written.
    """
    if not re.fullmatch("[a-z][a-z0-9_]{0,40}", name) or keyword.iskeyword(name):
        raise UsageError(f"'{one_line(name)}' cannot be a metric's name; use lower-case letters, digits and '_'")
    if name in taken:
        raise UsageError(f"'{name}' is there already, see `reporter metrics {name}`; give another name")
    text = Path(__file__).with_name("metric.txt").read_text(encoding="utf-8")
    path = Path(f"{name}.py")
    _write(path, text.replace("{name}", name).replace("{title}", name.replace("_", " ").capitalize()))
    return path


def packaging(name: str) -> str:
    """Return what makes a package of a metric's file, so that every study has it, as lines of a ``pyproject.toml``."""
    return f"""[project]
name = "reporter-{name.replace("_", "-")}"
version = "0.1.0"
dependencies = ["layer-reporter"]

[project.entry-points."reporter.metrics"]
{name} = "{name}"

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
only-include = ["{name}.py"]"""


def _write(path: Path, text: str) -> None:
    if path.exists():
        raise UsageError(f"{path} is already there; give another name, or remove it first")
    with writing(path), path.open("x", encoding="utf-8") as file:
        file.write(text)


# The JSON Schema of a study, for editors that complete and check YAML.


def study_schema(offer: Offer) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a study file, with all metrics' options and analyses' items."""
    metrics, study = offer.metrics, study_form(offer)
    models: list[type[BaseModel]] = [study, *metrics.values()]
    references, together = models_json_schema([(model, "validation") for model in models])
    definitions = together["$defs"]
    schema = definitions.pop(references[study, "validation"]["$ref"].rsplit("/", 1)[1])
    options = {name: references[model, "validation"] for name, model in metrics.items()}
    schema["properties"]["metrics"] = {
        "description": schema["properties"]["metrics"]["description"],
        "default": "all",
        "anyOf": [{"enum": ["all", "none"]}, {"type": "array", "minItems": 1, "items": _metric(options)}],
    }
    # A study that extends another has its models from there.
    schema["required"] = ["study"]
    schema["anyOf"] = [{"required": ["models"]}, {"required": ["extends"]}]
    # What exists only in Python (the choice of a metric) leaves definitions that nobody refers to.
    text = json.dumps([schema, definitions])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A study of reporter",
        "description": schema.pop("description"),
        **{key: value for key, value in schema.items() if key != "title"},
        "$defs": {name: definition for name, definition in definitions.items() if f'"#/$defs/{name}"' in text},
    }


def _metric(options: dict[str, Any]) -> dict[str, Any]:
    with_options = {
        "type": "object",
        "properties": {name: {"anyOf": [reference, {"type": "null"}]} for name, reference in options.items()},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
    return {"anyOf": [{"enum": list(options)}, with_options]}
