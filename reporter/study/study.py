"""A study: what to measure on which models and texts."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Union

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationInfo, create_model, model_validator
from pydantic.json_schema import models_json_schema

from reporter.core.errors import UsageError, one_line
from reporter.core.outputs import create_new
from reporter.core.places import TOKEN_SETS, TokenSet
from reporter.study.claims import Claim, claim_type
from reporter.study.corpora import CorpusPart, NullBaseline, SinkSpec, Site, with_shares
from reporter.study.models import ModelSpec, RecipeModel
from reporter.study.offer import ClaimForm, MetricChoice, Offer, Section, offer_of, read_metrics
from reporter.study.part import DEVICE_NAME, AsPath, AsTuple, Name, Part, Text, failure, no_repeats, one_of, wrong
from reporter.study.problems import show
from reporter.study.recipes import LARGEST_SEED
from reporter.study.references import contradictions

# How a study is run; nothing here changes what is measured.


DEVICE = r"auto|cpu|mps|cuda(:[0-9]{1,3})?"


def _device(value: str) -> str:
    if not re.fullmatch(DEVICE, value):
        raise wrong(f"expected 'auto', 'cpu', 'mps', 'cuda' or 'cuda:0', got {show(value)}")
    return value


Keep = Literal["all", "sums", "nothing"]


class RunSpec(Part):
    """The settings of the forward passes."""

    device: Annotated[str, AfterValidator(_device)] = Field(
        "auto",
        description="auto (a GPU if there is one), cpu, mps, cuda, or a single GPU such as cuda:0.",
        json_schema_extra={"pattern": f"^({DEVICE})$"},
    )
    precision: Literal["auto", "mixed", "float32"] = Field(
        "auto", description="mixed: bfloat16 products with float32 weights; auto: mixed if a self-check passes."
    )
    batch_tokens: int = Field(8192, ge=1, description="Most tokens in a batch, including padding.")
    keep: Keep = Field(
        "all",
        description="Part of each forward pass that stays in the cache: 'all', in a compact form; 'sums', without "
        "sampled states, which need most of the space; 'nothing'. Later studies measure missing parts again.",
    )
    threads: int | None = Field(None, ge=1, le=1024, description="Most threads. Default: one for each available core.")
    engine: Literal["local", "ray"] = Field(
        "local", description="Where forward passes run: on this machine, or on a Ray cluster (layer-reporter[ray])."
    )
    address: str | None = Field(
        None,
        description="Address of the head of the Ray cluster, such as 10.0.0.1:6379; auto: the cluster of this machine.",
    )
    workers: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Number of processes or Ray actors for forward passes, each with `run.threads` threads (default "
        "1). Default: the main process alone, or as many Ray actors as fit.",
    )
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="Seed of bootstraps, samples and chance levels.")


# How a study's report looks, and what of it is shown; nothing here changes what is measured.


class ReportSpec(Part):
    """Templates, theme and figures of the pages."""

    theme: Literal["system", "light", "dark"] = Field(
        "system", description="Theme of the pages, until a reader chooses another theme."
    )
    style: Annotated[Path, AsPath] | None = Field(
        None, description="Stylesheet that is added after the styles of the report; relative to the study file."
    )
    templates: Annotated[Path, AsPath] | None = Field(
        None,
        description="Folder of Jinja templates that replace the templates of the report with the same name. They can "
        'extend the originals: {% extends "reporter/study.html" %}.',
    )
    figures: Annotated[tuple[Text, ...], AsTuple, AfterValidator(no_repeats)] = Field(
        (),
        description="Figures to show, in this order: statistics (anisotropy.mean_cosine) and whole metrics (spectrum). "
        "Default: all.",
    )
    hide: Annotated[tuple[Text, ...], AsTuple, AfterValidator(no_repeats)] = Field(
        (),
        description="Parts of the report to hide: claims, findings, compared, answers, glance, models, sinks, corpora, "
        "samples (texts of the corpora), cells, provenance, glossary, a metric, or a page (tokens, texts, weights). "
        "The database keeps all numbers.",
    )


STUDY_ID = r"[a-z0-9][a-z0-9_-]{0,63}"
RESERVED_IDS = ("assets", "cache")
"""Folders that every run writes beside the studies' own."""


def _study_id(value: str) -> str:
    if not re.fullmatch(STUDY_ID, value):
        rule = "of at most 64 lower-case letters, digits, '-' and '_'"
        raise wrong(f"expected an id such as 'my-study', {rule}, got {show(value)}")
    if value in RESERVED_IDS or DEVICE_NAME.fullmatch(value):
        raise wrong(f"'{value}' is reserved for a folder in the results, or for Windows; choose another id")
    return value


_CORPORA = "Texts to measure the models on; each corpus has a short name."


class Study(Part):
    """One study, as written in its file, with every default filled in."""

    examples = MappingProxyType(
        {
            "models": "{bert: google-bert/bert-base-uncased, mine: {path: ./mine}}",
            "corpora": "{mine: {file: texts.txt}, sample: {sample: english}}",
            "claims": "{NAME: {says: SENTENCE, value: {metric: METRIC, model: MODEL, layer: last}, above: 0}}",
        }
    )
    # `study_form` adds the key of each analysis and the keys of each source of texts.

    study: Annotated[str, AfterValidator(_study_id)] = Field(
        description="Id of the study; also the name of the report's folder.",
        json_schema_extra={"pattern": f"^{STUDY_ID}$"},
    )
    extends: str | None = Field(
        None,
        description="Study to start from: a study that ships with reporter, such as eacl-anisotropy, or a path. Each "
        "top-level key here replaces the whole key of the other study. `study` is always needed.",
    )
    title: str | None = Field(None, description="Heading of the report.")
    question: str | None = Field(None, description="Question that the study answers; shown first in the report.")
    plugins: Annotated[tuple[Annotated[Path, AsPath], ...], AsTuple, AfterValidator(no_repeats)] = Field(
        (),
        description="Python files with your own metrics, analyses, kinds of claims or sources of texts, relative to "
        "the study file: functions decorated with @reporter.metric, @reporter.analysis, @reporter.claim_kind or "
        "@reporter.corpus_source. Reading the study runs these files.",
    )
    models: dict[Name, ModelSpec] = Field(min_length=1, description="Models to measure; each has a short name.")
    corpora: Annotated[dict[Name, CorpusPart], AfterValidator(with_shares)] = Field({}, description=_CORPORA)
    texts: Literal["sampled", "fixed"] = Field(
        "sampled",
        description="'sampled': the texts are a sample of similar texts. 'fixed': the corpus is the whole population. "
        "Claims then have no sampling error from texts; three or more models still count as a sample. 'fixed' excludes "
        "relations over layers or models. Intervals are still stored and shown.",
    )
    metrics: Annotated[tuple[MetricChoice, ...], BeforeValidator(read_metrics, json_schema_input_type=Any)] = Field(
        "all",  # read_metrics turns it into every metric of the catalogue
        validate_default=True,
        description="'all', 'none', or a list of metrics, which may contain 'all'. Options are written {name: {option: "
        "value}}. Optional metrics need more than a plain forward pass and run only if they are listed.",
    )
    views: Annotated[tuple[TokenSet, ...], AsTuple, AfterValidator(no_repeats)] = Field(
        TOKEN_SETS,
        min_length=1,
        description="Token sets: which tokens count. 'text tokens' leaves out what the tokenizer adds ([CLS], [SEP], "
        "BOS, EOS), 'with special tokens' only padding, 'without sinks' special tokens, sinks and the first token of "
        "each text. Metrics are computed for each; the first is shown first.",
    )
    sinks: SinkSpec = Field(
        default_factory=SinkSpec,
        description="Rule for sinks. Default: the norm exceeds twice the median, and one coordinate outweighs all "
        "others. {factor: 8} uses only the norm: sinks exceed 8 medians of their text.",
    )
    sites: Annotated[tuple[Site, ...], AsTuple, AfterValidator(no_repeats)] = Field(
        ("embedding", "block", "final"),
        min_length=1,
        description="Positions at which states are read: 'embedding' and 'block' (always), 'final' (after the final "
        "norm), 'attention' (after attention, before the feed-forward).",
    )
    baselines: Annotated[tuple[NullBaseline, ...], AsTuple, AfterValidator(no_repeats)] = Field(
        (),
        description="Null baselines of each model: 'random-init' (the same architecture with random weights), "
        "'shuffled' (the tokens of each text in random order).",
    )
    pooling: Literal["auto", "first", "mean", "last"] = Field(
        "auto",
        description="Text vector for groups, pairs, clouds, probes and partners: the first token, the mean of the "
        "text's own tokens, or the last own token. 'auto': the mean for encoders, the last token for decoders; probes "
        "of texts and partners try all three.",
    )
    claims: dict[Name, Claim] = Field(
        {}, description="Statements to test against the numbers of this study; each has a short name."
    )
    run: RunSpec = Field(
        default_factory=RunSpec,
        description="Device, precision, batches and seed. These keys do not change what is measured.",
    )
    report: ReportSpec = Field(
        default_factory=ReportSpec,
        description="Theme, templates and figures of the report. These keys do not change what is measured.",
    )

    @property
    def sections(self) -> dict[str, Any]:
        """The content of each analysis' key; an empty mapping or None where the study lacks the key."""
        return {name: getattr(self, name) for name in type(self).model_fields if name not in Study.model_fields}

    def twin(self, name: str) -> str | None:
        """Return the seed replicate of a model: its ``twin``, or the model whose recipe differs only in the seed."""
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
    """Return the form of a study with a key for each analysis, and with the corpora and claims of the offer."""
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
    form = create_model("Study", __base__=Study, __doc__=Study.__doc__, **fields)
    form.examples = MappingProxyType({**Study.examples, **{name: section.example for name, section in sections}})
    return form


def check_study(content: Any, offer: Offer) -> Study:
    """Return the validated study of a mapping, or raise Pydantic's ``ValidationError``."""
    return study_form(offer).model_validate(content, context=offer)


@dataclass(frozen=True)
class StudyFile:
    """A study and the file it was read from.

    Args:
        study: what the file says.
        path: the file, as the user named it.
        text: the file's text, character for character; for a study with ``extends`` or overrides, all layers together
            as one text.
        notes: the claims of the extended study that were left out, and why.
    """

    study: Study
    path: Path
    text: str
    notes: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder that relative paths in the study start from."""
        return self.path.resolve().parent


# Templates: the study that ``reporter init`` writes, the metric of ``reporter metrics --new``.


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
        create_new(copy, shipped[name].read_text(encoding="utf-8").replace(f"studies/{name}.yaml", copy.name))
        return copy
    path = Path(name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")
    study = path.stem
    if not re.fullmatch(STUDY_ID, study) or study in RESERVED_IDS:
        raise UsageError(
            f"'{one_line(study)}' cannot be the id of a study; use at most 64 lower-case letters, digits, '-' and '_'"
            f" (not {' or '.join(RESERVED_IDS)})"
        )
    text = Path(__file__).with_name("starter.yaml").read_text(encoding="utf-8")
    create_new(path, text.replace("{file}", one_line(str(path))).replace("{id}", study))
    return path


def write_metric(name: str, taken: Collection[str]) -> Path:
    """Write a file that registers a metric and works as it is, for the ``plugins`` of a study.

    Raises:
        UsageError: the name cannot be a metric's, or the file is already there.
        ReporterError: the file cannot be written.
    """
    if not re.fullmatch("[a-z][a-z0-9_]{0,40}", name) or keyword.iskeyword(name):
        raise UsageError(
            f"'{one_line(name)}' cannot be the name of a metric; use lower-case letters, digits and '_', at most 41"
        )
    if name in taken:
        raise UsageError(f"metric '{name}' exists already (see `reporter metrics {name}`); choose another name")
    text = Path(__file__).with_name("metric.txt").read_text(encoding="utf-8")
    path = Path(f"{name}.py")
    create_new(path, text.replace("{name}", name).replace("{title}", name.replace("_", " ").capitalize()))
    return path


def packaging(name: str) -> str:
    """Return a ``pyproject.toml`` that makes a package of a metric's file, so that every study can use the metric."""
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
    return {"anyOf": [{"enum": ["all", *options]}, with_options]}
