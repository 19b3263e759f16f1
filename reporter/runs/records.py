"""Rows of ``studies``, ``corpora``, ``models`` and ``cells``, which describe a run and hold no numbers."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.core.errors import describe
from reporter.core.version import VERSION
from reporter.forward.inputs import warnings
from reporter.forward.token_categories import SinkRule
from reporter.models.checkpoint import Checkpoint
from reporter.runs.plan import Cell, Plan
from reporter.study import Study, StudyFile
from reporter.texts import Texts
from reporter.texts.excerpts import EXCERPT
from reporter.texts.lexicon import Draws

if TYPE_CHECKING:
    from reporter.forward.passes import Measured
    from reporter.models.load import LoadedModel

Record = dict[str, Any]

FIRST_TEXTS = DRAWN_TEXTS = 5
"""How many texts of each corpus the database holds for readers: the first ones, and as many from the others."""

MODEL_KEY = ("study", "model", "checkpoint")
_OF_CHECKPOINT = ("model", "step", "source", "location", "revision", "fingerprint", "bos", "loss", "unigram_entropy")
_OF_COUNTS = ("texts", "distinct_texts", "tokens", "ordinary", "special", "sinks", "cut_texts", "short_texts")
_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "scipy", "duckdb", "altair")


@cache
def versions() -> dict[str, str]:
    """Return the version of reporter, Python and each library that numbers depend on."""
    numbers = {"reporter": VERSION, "python": platform.python_version()}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            numbers[name] = version(name)
    return numbers


def now() -> datetime:
    """Return the time as the database keeps it: UTC, without a time zone."""
    return datetime.now(UTC).replace(tzinfo=None)


def spec_hash(file: StudyFile) -> str:
    """Return the hash of a study's text."""
    return hashlib.sha256(file.text.encode()).hexdigest()


def study_row(file: StudyFile, **more: Any) -> Record:
    """Return the row of ``studies``; ``more`` fills further columns."""
    study = file.study
    return {
        "study": study.study,
        "title": study.title,
        "question": study.question,
        "spec": file.text,
        "spec_hash": spec_hash(file),
        "views": json.dumps(study.views),
        "versions": json.dumps(versions()),
        **more,
    }


def corpus_row(study: str, name: str, texts: Texts | Exception) -> Record:
    """Return the row of ``corpora`` for a corpus, or for one that is not available."""
    row: Record = {"study": study, "corpus": name}
    if isinstance(texts, Exception):
        return row | {"status": "failed", "error": describe(texts)}
    kept = ("source", "location", "available", "words", "characters", "dropped", "thinned")
    row |= {name: getattr(texts, name) for name in kept}
    labels = None
    if texts.labels is not None and texts.label_codes is not None:
        codes, counts = np.unique(texts.label_codes, return_counts=True)
        labels = {texts.labels[code]: int(n) for code, n in zip(codes, counts, strict=True) if code >= 0}
    row["clusters"] = None if texts.clusters is None else texts.units
    row |= {"content_hash": texts.hash, "texts": len(texts), "labels": labels and json.dumps(labels)}
    return row | {"status": "done", "error": None}


def text_rows(name: str, texts: Texts, seed: int) -> list[Record]:
    """Return the rows of ``corpus_texts`` for a corpus: its first texts, and some that the seed draws of the rest."""
    first = min(FIRST_TEXTS, len(texts))
    draws, drawn = Draws(seed), set[int]()
    while len(drawn) < min(DRAWN_TEXTS, len(texts) - first):
        drawn.add(draws.between(first, len(texts) - 1))
    return [
        {
            "corpus": name,
            "number": place + 1,
            "drawn": place in drawn,
            "text": texts[place][:EXCERPT],
            "characters": len(texts[place]),
            "label": texts.label(place),
        }
        for place in (*range(first), *sorted(drawn))
    ]


def model_row(plan: Plan, checkpoint: Checkpoint) -> Record:
    """Return the columns of ``models`` that are known before the checkpoint is loaded."""
    name, study = checkpoint.model, plan.file.study
    baseline = plan.baselines.get(name)
    series = plan.checkpoints[name]
    names = [member.name for member in series] if isinstance(series, tuple) else [checkpoint.name]
    spec = study.models[baseline.base if baseline else name]
    return {
        "study": study.study,
        "checkpoint": checkpoint.name,
        **{column: getattr(checkpoint, column) for column in _OF_CHECKPOINT},
        "position": names.index(checkpoint.name) + 1,
        "is_last": checkpoint.name == names[-1],
        "sink_rule": SinkRule.of(study.sinks.factor, study.sinks.dominance).said,
        "base": baseline.base if baseline else spec.base,
        "baseline": baseline.kind if baseline else None,
        "scores": None if baseline or not spec.scores else json.dumps(spec.scores),
        "warning": checkpoint.warning or None,
    }


def measured_columns(measured: Measured) -> Record:
    """Return the columns of ``models`` that a pass fills."""
    facts = measured.facts
    ran = {"device": facts.device, "precision": facts.precision, "precision_deviation": facts.deviation}
    warning = _warning(measured.of.checkpoint, facts.anatomy.get("part"))
    return facts.anatomy | ran | {"status": "done", "error": None, "warning": warning} | _weights(facts.weights)


def loaded_columns(model: LoadedModel, study: Study) -> Record:
    """Return the columns of ``models`` that a loaded model fills where it reads no corpus."""
    row: Record = asdict(model.anatomy) | {"device": str(model.device), "status": "done", "error": None}
    row |= {"warning": _warning(model.checkpoint, model.anatomy.part)} | _weights(model.groups)
    return row if study.metrics and study.corpora else row | {"precision": "float32"}


def _weights(groups: Mapping[str, str]) -> Record:
    return {"weights": json.dumps(groups)} if groups else {}


def _warning(checkpoint: Checkpoint, part: str | None) -> str | None:
    texts = [checkpoint.warning]
    if part == "encoder" and checkpoint.part is None:
        texts.append("only the encoder was measured; to measure the decoder, add a model with `part: decoder`")
    if part == "decoder":
        texts.append(
            "each token attends to earlier tokens only, but also to the encoder, which has read the whole text"
        )
    return warnings(*texts)


def failed_columns(error: Exception) -> Record:
    """Return the columns of ``models`` for one that cannot be loaded; earlier measurements are removed."""
    from reporter.models.anatomy import Anatomy

    measured = (*(field.name for field in fields(Anatomy)), "device", "precision", "precision_deviation")
    return {**dict.fromkeys(measured), "status": "failed", "error": describe(error)}


def cell_row(cell: Cell, study: str, status: str, **more: Any) -> Record:
    """Return the row of ``cells`` for a cell; ``more`` fills further columns."""
    return {
        "study": study,
        **cell.key._asdict(),
        "options": json.dumps(cell.settings),
        "fingerprint": cell.fingerprint,
        "inputs": json.dumps(cell.inputs),
        "status": status,
        "why": cell.why,
        "versions": json.dumps(versions()),
        "finished": now(),
        **more,
    }


def pass_columns(measured: Measured, caused: bool) -> Record:
    """Return the columns of ``cells`` that describe the pass; ``caused`` marks the one cell that shows its cost."""
    forward = measured.forward if caused else None
    return {
        **{column: getattr(measured.facts.counts, column) for column in _OF_COUNTS},
        "forward_tokens": forward.tokens if forward else 0,
        "forward_passes": int(bool(forward and forward.tokens)),
        "forward_seconds": forward.seconds if forward else 0.0,
        "device": measured.facts.device,
        "precision": measured.facts.precision,
        "alone_deviation": measured.facts.alone,
        "warning": measured.facts.warning or None,
    }


def compared_columns(sides: Sequence[Measured], caused: bool) -> Record:
    """Return the columns of ``cells`` that describe the passes behind a comparison; ``caused`` as for one pass."""
    each = [pass_columns(side, caused) for side in sides]
    alone = [x for row in each if (x := row.pop("alone_deviation")) is not None]
    sums = {name: sum(row[name] for row in each) for name, value in each[0].items() if isinstance(value, int | float)}
    return {
        **sums,
        "alone_deviation": max(alone, default=None),
        "warning": warnings(*(row["warning"] for row in each)),
        **{name: " | ".join(dict.fromkeys(row[name] for row in each)) for name in ("device", "precision")},
    }
