"""Hidden states of one's own, measured as a study measures those of a model."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, ValidationError

from reporter.app.results import Tables
from reporter.core.arrays import as_json
from reporter.core.errors import UsageError
from reporter.core.numbers import short
from reporter.core.places import TokenSet
from reporter.core.progress import Progress
from reporter.forward.inputs import Pass
from reporter.forward.passes import Passes
from reporter.metrics.base import Options, catalogue
from reporter.models.anatomy import Role
from reporter.models.checkpoint import FINAL, Checkpoint
from reporter.models.states import SavedStates, States
from reporter.runs.cells import compute, wanted_by
from reporter.runs.plan import MetricCell
from reporter.store import CellName
from reporter.study.corpora import SinkSpec
from reporter.study.offer import MetricChoice, Offer, read_metrics
from reporter.study.part import Part, complaints_of
from reporter.study.problems import show_location
from reporter.study.study import RunSpec
from reporter.texts.build import TextsWriter
from reporter.texts.texts import Texts, open_texts, texts_at

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

_NAME = "states"
_NAMES = ["model", "checkpoint", "step", "role", "corpus", "model_a", "checkpoint_a", "model_b", "checkpoint_b"]
"""Columns that name a cell of a study; here there is none."""
_FIRST = ["metric", "statistic", "view", "site", "layer", "depth", "value", "ci_low", "ci_high", "n"]
"""Columns in the order of the table ``layer_metrics``."""

_SMALLEST = 1e-16  # the largest number of a layer; squares of smaller ones vanish in float32
_SPARSE = 10
"""More texts than this for each token: their numbers are ids of a database, and only those with tokens exist."""


class _MeasureOptions(Part):
    metrics: Annotated[tuple[MetricChoice, ...], BeforeValidator(read_metrics)]
    view: TokenSet
    seed: int = Field(ge=0, lt=2**32)


class Measured(Tables):
    """Measurements of states; each table that has rows is an attribute, and a notebook shows the first.

    ``layer_metrics`` has the columns of the table of that name, without those that name a study's cell, and ``reason``:
    why a number could not be computed.
    """

    def __init__(self, tables: Mapping[str, pd.DataFrame]) -> None:
        self._tables = dict(tables)

    def _names(self) -> Sequence[str]:
        return list(self._tables)

    def _table(self, name: str) -> pd.DataFrame:
        return self._tables[name]

    def __repr__(self) -> str:
        return repr(self.layer_metrics)

    def _repr_html_(self) -> str:
        return str(self.layer_metrics.to_html(max_rows=60, na_rep="", float_format=short))


def measure(
    states: Any,
    metrics: str | Sequence[str | Mapping[str, Any]] = "all",
    *,
    texts: ArrayLike | None = None,
    tokens: Any = None,
    special: ArrayLike | None = None,
    final: Any = None,
    role: Role | None = None,
    view: TokenSet = "text tokens",
    seed: int = 0,
) -> Measured:
    """Measure hidden states of any model: of text, proteins or images.

    One row is one token (residue, patch). Say which text each belongs to, and intervals are over texts; say which token
    it is, and numbers of token types are there and states that must be equal count once. Metrics that need the model
    itself (``loss``, ``lens``, ``journey``) have no number, and a reason.

    Args:
        states: {layer: (tokens, width)} with the layers 0…L, or (L + 1, tokens, width), NumPy or torch; layer 0 is what
            enters the first block, layer l what block l returns.
        metrics: names, or {name: {option: value}}; ``all`` are those that are not optional.
        texts: for each token the text that it belongs to, as ascending integers; if left out, each is one by itself.
        tokens: for each token its id, or the token itself as text.
        special: for each token whether it is not the text's own ([CLS], a BOS).
        final: the last state after the final norm, (tokens, final width).
        role: ``encoder``, or ``decoder`` where no token saw a later one; if left out it is told from texts that begin
            alike.
        view: which tokens count: ``text tokens``, ``with special tokens`` or ``without sinks``.
        seed: seeds bootstraps, samples and floors.

    Returns:
        the numbers, as DataFrames.

    Raises:
        UsageError: the shapes do not fit, a state is not finite or masked, or there is no such metric or option.
        ReporterError: a state is too large.
    """
    definitions = catalogue()
    try:
        context = Offer({name: metric.options for name, metric in definitions.items()})
        request = as_json({"metrics": metrics, "view": view, "seed": seed}, "metrics, view and seed")
        choice = _MeasureOptions.model_validate(json.loads(request), context=context)
    except ValidationError as error:
        raise UsageError("\n".join(f"{show_location(c.location)}: {c.message}" for c in complaints_of(error))) from None
    if not choice.metrics:
        raise UsageError("metrics: 'none' measures nothing; name at least one metric")
    given = States.of(states, texts, tokens, special, final, role)
    layers = [(f"layer {layer}", x) for layer, x in enumerate(given.layers)]
    for name, x in layers if given.final is None else [*layers, ("final", given.final)]:
        finite = x.isfinite().all(dim=1)
        if not finite.all():
            token = int(finite.int().argmin())
            raise UsageError(f"the states of {name} are not finite, first at token {token}; remove these tokens")
    for name, x in layers:
        if 0 < max(x.amax(), -x.amin()) < _SMALLEST:
            raise UsageError(f"the states of {name} are too small for float32; multiply all states by a constant")
    if given.text[-1] > _SPARSE * len(given.text):
        given = replace(given, text=np.unique(given.text, return_inverse=True)[1])
    model = SavedStates(given)
    with tempfile.TemporaryDirectory(prefix="reporter-") as folder:
        return _measured(model, choice, Path(folder))


def _measured(model: SavedStates, request: _MeasureOptions, folder: Path) -> Measured:
    texts = _texts(model.states, folder / "texts")
    chosen = []
    for choice in request.metrics:
        assert isinstance(choice.options, Options)  # the catalogue gave it nothing else
        chosen.append((catalogue()[choice.name], choice.options))
    forward_pass = Pass(_checkpoint(), texts, len(model.states.text), SinkSpec(), ("final",), request.seed)
    passes = Passes(folder, RunSpec().batch_tokens, True, Progress(io.StringIO()))
    observables = wanted_by((metric, options, (request.view,)) for metric, options in chosen)
    result = passes.measured(forward_pass, observables, lambda: model)
    rows: dict[str, list[dict[str, Any]]] = {"layer_metrics": []}
    for metric, options in chosen:
        key = CellName(_NAME, FINAL, _NAME, metric.name)
        cell = MetricCell(key=key, metric=metric, options=options, views=(request.view,), passes=(forward_pass,))
        done = compute(cell, [result])
        why = {(gap["statistic"], layer): gap["reason"] for gap in done.reasons for layer in gap["layers"]}
        for row in done.tables.get("layer_metrics", ()):
            complete = None not in (row["value"], row["ci_low"])
            row["reason"] = None if complete else why.get((row["statistic"], row["layer"]))
        for table, rows_of_table in done.tables.items():
            rows.setdefault(table, []).extend(rows_of_table)
    return Measured({table: _frame(rows_of_table) for table, rows_of_table in rows.items()})


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(rows, columns=None if rows else [*_FIRST, "reason"]).drop(columns=_NAMES, errors="ignore")
    for name in {"value", "ci_low", "ci_high"} & set(frame):  # where all are missing they would be objects
        frame[name] = frame[name].astype(float)
    first = [name for name in _FIRST if name in frame]
    return frame[first + [name for name in frame if name not in first]]


def _texts(states: States, folder: Path) -> Texts:
    starts, ids = states.starts.tolist(), states.token_ids
    with texts_at(folder).filling() as fresh, TextsWriter(fresh, labelled=False) as writer:
        for text, (start, stop) in enumerate(pairwise(starts)):
            name = f"text {text}" if ids is None or start == stop else " ".join(map(str, ids[start:stop].tolist()))
            writer.add(name, stop - start)
        writer.finish(0)
    texts = open_texts(folder, _NAME, "inline", "")
    assert texts is not None  # it was written just now
    return texts


def _checkpoint() -> Checkpoint:
    return Checkpoint(_NAME, FINAL, "states", location="", fingerprint="", dtype="float32")
