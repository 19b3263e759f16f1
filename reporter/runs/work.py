"""Does a plan's work: one model at a time, one checkpoint at a time; a cell is stored the moment it is finished."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.errors import describe
from reporter.models.anatomy import Anatomy
from reporter.models.load import LoadedModel, load
from reporter.models.pocket import prepare
from reporter.models.states import SavedStates, load_states
from reporter.runs.analysis_cells import analyse, model_columns
from reporter.runs.cells import Computed, Measurement, cell_row, compared_columns, compute, pass_columns
from reporter.runs.machine import pick_device
from reporter.runs.passes import Measured, measured, sink_rule, wanted_by
from reporter.runs.plan import FORCED, or_raise
from reporter.runs.rows import NO_INTERVAL

if TYPE_CHECKING:
    from pathlib import Path

    from reporter.models.checkpoint import Checkpoint
    from reporter.runs.plan import Cell, Plan, Side
    from reporter.runs.progress import Progress
    from reporter.store import Store
    from reporter.texts import Texts


def work(plan: Plan, out: Path, store: Store, offline: bool, progress: Progress) -> tuple[int, int]:
    """Compute the cells of a plan that must run; return how many were computed and how many failed.

    Whatever fails, fails alone: a corpus takes its cells down, a model its cells, a metric one cell.

    Args:
        plan: the plan.
        out: the results folder.
        store: its database.
        offline: never ask a hub.
        progress: where progress is shown.

    Raises:
        ReporterError: if the device is not there or results cannot be written.
    """
    return _Worker(plan, out, store, offline, progress).do()


class _Worker:
    def __init__(self, plan: Plan, out: Path, store: Store, offline: bool, progress: Progress) -> None:
        self.plan, self.study, self.store = plan, plan.file.study, store
        self.offline, self.progress = offline, progress
        self.observables = out / "cache" / "observables"
        self.device = pick_device(self.study.run.device)
        self.sinks = sink_rule(self.study.sinks)
        self.computed = self.failed = 0
        self.without_interval: list[Cell] = []
        self.prepared = cache(self._prepare)

    def do(self) -> tuple[int, int]:
        for name, texts in self.plan.texts.items():
            self._put_corpus(name, texts)
        lost = [cell for cell in self.plan.cells if cell.state == "failed"]
        for why, cells in groupby(lost, key=lambda cell: cell.why):
            self._fail(list(cells), why)
        for model, found in self.plan.checkpoints.items():
            if isinstance(found, Exception):
                row = {"study": self.study.study, "model": model, "checkpoint": "final"}
                self.store.put("models", _MODEL_KEY, row | {"status": "failed", "error": describe(found)})
            else:
                self._model(model, found)
        for cell in self.plan.cells:
            if cell.state == "run" and cell.compares:
                self._compare(cell)
        self._relate()
        if lost := self.without_interval:
            names = ", ".join(dict.fromkeys(cell.key.metric for cell in lost))
            many = "1 cell" if len(lost) == 1 else f"{len(lost)} cells"
            self.progress.note(
                f"  some intervals of {many} are not finite and were left out ({names}): see cells.reasons"
            )
        return self.computed, self.failed

    def _relate(self) -> None:
        """Store what the study alone says of models, since it may change where no cell must run."""
        known = {cell.key.model for cell in self.plan.cells if cell.state == "cached"}
        ready = [found for model, found in self.plan.checkpoints.items() if model in known]
        found = [one for checkpoints in ready if isinstance(checkpoints, tuple) for one in checkpoints]
        said = (*_MODEL_KEY, "base", "baseline", "scores")
        rows = map(self._model_row, found)
        self.store.put_all("models", _MODEL_KEY, [{name: row[name] for name in said} for row in rows])

    def _model(self, model: str, checkpoints: tuple[Checkpoint, ...]) -> None:
        todo = [
            cell for cell in self.plan.cells if cell.key.model == model and cell.state == "run" and not cell.compares
        ]
        if not todo:
            return
        ready = self.prepared(model)
        if isinstance(ready, Exception):  # a model that cannot be trained must not take the others down
            for checkpoint in checkpoints:
                self._put_failed_model(checkpoint, ready)
            self._fail(todo, describe(ready))
            return
        for checkpoint in ready:
            self._checkpoint(checkpoint, [cell for cell in todo if cell.key.checkpoint == checkpoint.name])

    def _prepare(self, model: str) -> tuple[Checkpoint, ...] | Exception:
        """Return a model's checkpoints, trained where they come from a recipe, or why they cannot be had."""
        checkpoints = or_raise(self.plan.checkpoints[model])
        try:
            return prepare(checkpoints, self.progress)
        except Exception as error:
            return error

    def _checkpoint(self, checkpoint: Checkpoint, todo: list[Cell]) -> None:
        @cache
        def model() -> LoadedModel | Exception:
            try:
                return load(checkpoint, self.device, self.offline)
            except Exception as error:
                self._put_failed_model(checkpoint, error)
                return error

        for cell in todo:
            if cell.asked is not None and not self._taken_over(cell, checkpoint):
                self._analyse(cell, checkpoint, lambda: or_raise(model()))
        todo = [cell for cell in todo if cell.asked is None]
        for corpus, group in groupby(todo, key=lambda cell: cell.key.corpus):
            cells = [cell for cell in group if not self._taken_over(cell, checkpoint)]
            if not cells:
                continue
            try:
                of_corpus = self._loading(checkpoint, corpus, lambda: or_raise(model()))
                result = self._measure(cells[0].sides[0], cells, of_corpus)
            except Exception as error:  # nor must a model that cannot be loaded, or a pass that breaks
                self._fail(cells, describe(error))
                continue
            self._put_model(checkpoint, result)
            side = Measurement(checkpoint, corpus, self._words(corpus), result, {})
            for place, cell in enumerate(cells):
                self._compute(cell, [side], pass_columns(result, caused=place == 0))

    def _analyse(self, cell: Cell, checkpoint: Checkpoint, model: Callable[[], LoadedModel]) -> None:
        """Compute a cell of an analysis."""
        try:
            loaded = model()
            self.store.put("models", _MODEL_KEY, self._model_row(checkpoint) | self._loaded_columns(loaded))
            with self.progress.telling(str(cell.key)) as tell:
                analysis = self.plan.analyses[cell.key.metric]
                self._put_computed(cell, analyse(cell, analysis, checkpoint, loaded, self.plan, tell), {})
        except Exception as error:  # an analysis that fails must not take the others down
            self._fail([cell], describe(error))

    def _loaded_columns(self, model: LoadedModel) -> dict[str, Any]:
        return model_columns(model, self.study) | {"status": "done", "error": None}

    def _put_computed(self, cell: Cell, done: Computed, columns: Mapping[str, Any]) -> None:
        row = cell_row(
            cell, self.study.study, "done", reasons=json.dumps(done.reasons), seconds=done.seconds, **columns
        )
        numbers = dict(done.tables)
        self.store.commit_cell(row, numbers.pop("layer_metrics", ()), numbers)
        self.computed += 1
        if any(reason["reason"] == NO_INTERVAL for reason in done.reasons):
            self.without_interval.append(cell)

    def _compare(self, cell: Cell) -> None:
        """Compute a cell that compares two sides; their observables are kept since their own cells were computed."""
        try:
            found = [self._side(side, cell) for side in cell.sides]
        except Exception as error:
            self._fail([cell], describe(error))
            return
        self._compute(cell, found, compared_columns([side.measured for side in found]))

    def _side(self, side: Side, cell: Cell) -> Measurement:
        checkpoints = or_raise(self.prepared(side.model))
        checkpoint = next(one for one in checkpoints if one.name == side.checkpoint)
        loading = self._loading(checkpoint, side.corpus, lambda: load(checkpoint, self.device, self.offline))
        result = self._measure(side, [cell], loading)
        return Measurement(checkpoint, side.corpus, self._words(side.corpus), result, {})

    def _taken_over(self, cell: Cell, checkpoint: Checkpoint) -> bool:
        """Copy a cell's numbers from another study that has them; tell whether there was one."""
        source = None if cell.why == FORCED else self.store.find(cell.fingerprint)
        here = (self.study.study, *cell.key)
        if source is None or tuple(source) == here or cell.key.metric in self._paired:
            return False
        row = cell_row(cell, self.study.study, "done", forward_tokens=0, forward_passes=0, forward_seconds=0.0)
        row["why"] = f"{cell.why}; taken over from study {source.study}"
        if not self.store.copy_cell(source, row | {"step": checkpoint.step}):
            return False
        self.store.copy_row("models", tuple(source[:3]), self._model_row(checkpoint))
        self.computed += 1
        return True

    @property
    def _paired(self) -> set[str]:
        """Metrics whose rows name both sides, and so cannot be taken over."""
        return {name for name, metric in self.plan.metrics.items() if any(s.per == "pair" for s in metric.statistics)}

    def _loading(self, checkpoint: Checkpoint, corpus: str, loaded: Callable[[], LoadedModel]) -> Loading:
        """Return what loads a model, or the states on this corpus that take its place."""
        if not checkpoint.states:
            return loaded

        def opened() -> SavedStates:
            try:
                return load_states(checkpoint, corpus, len(or_raise(self.plan.texts[corpus])))
            except Exception as error:
                self._put_failed_model(checkpoint, error)
                raise

        return opened

    def _measure(self, side: Side, cells: list[Cell], model: Loading) -> Measured:
        chosen = [(self.plan.metrics[cell.key.metric], cell.options) for cell in cells if cell.options is not None]
        return measured(
            side,
            wanted_by(chosen),
            model,
            or_raise(self.plan.texts[side.corpus]),
            self.study.run,
            self.study.corpora[side.corpus].max_tokens,
            self.sinks,
            self.study.sites,
            self.observables,
            self.offline,
            self.progress,
        )

    def _words(self, corpus: str) -> int:
        return or_raise(self.plan.texts[corpus]).words

    def _compute(self, cell: Cell, sides: list[Measurement], columns: Mapping[str, Any]) -> None:
        metric = self.plan.metrics[cell.key.metric]
        try:
            self._put_computed(cell, compute(cell, metric, sides, self.study.views, self.study.run.seed), columns)
        except Exception as error:  # a metric that fails must not take the others down
            self._fail([cell], describe(error), columns)

    def _fail(self, cells: list[Cell], error: str, columns: Mapping[str, Any] | None = None) -> None:
        """Store cells that failed for one reason, and say so once."""
        self.failed += len(cells)
        more = f" and {len(cells) - 1} more" if len(cells) > 1 else ""
        self.progress.note(f"  failed: {cells[0].key}{more}: {error}")
        for cell in cells:
            row = cell_row(cell, self.study.study, "failed", error=error, **(columns or {}))
            self.store.commit_cell(row)

    def _put_corpus(self, name: str, texts: Texts | Exception) -> None:
        row: dict[str, Any] = {"study": self.study.study, "corpus": name}
        if isinstance(texts, Exception):
            row |= {"status": "failed", "error": describe(texts)}
        else:
            row |= {
                "source": texts.source,
                "location": texts.location,
                "content_hash": texts.hash,
                "texts": len(texts),
                "words": texts.words,
                "characters": texts.characters,
                "dropped": texts.dropped,
                "thinned": texts.thinned,
                "labels": _label_counts(texts),
                "status": "done",
                "error": None,
            }
        self.store.put("corpora", ["study", "corpus"], row)

    def _put_model(self, checkpoint: Checkpoint, result: Measured) -> None:
        facts = result.facts
        row = self._model_row(checkpoint) | facts.anatomy
        row |= {"device": facts.device, "precision": facts.precision, "precision_deviation": facts.deviation}
        self.store.put("models", _MODEL_KEY, row | {"status": "done", "error": None})

    def _put_failed_model(self, checkpoint: Checkpoint, error: Exception) -> None:
        measured_before = dict.fromkeys((*MEASURED, "device", "precision", "precision_deviation"))
        row = self._model_row(checkpoint) | measured_before
        self.store.put("models", _MODEL_KEY, row | {"status": "failed", "error": describe(error)})

    def _model_row(self, checkpoint: Checkpoint) -> dict[str, Any]:
        name = checkpoint.model
        baseline = self.plan.baselines.get(name)
        spec = self.study.models[baseline.base if baseline else name]
        return {
            "study": self.study.study,
            "model": name,
            "checkpoint": checkpoint.name,
            "step": checkpoint.step,
            "source": checkpoint.source,
            "location": checkpoint.location,
            "revision": checkpoint.revision,
            "fingerprint": checkpoint.fingerprint,
            "bos": checkpoint.bos,
            "sink_rule": self.sinks.said,
            "base": baseline.base if baseline else spec.base,
            "baseline": baseline.kind if baseline else None,
            "scores": None if baseline or not spec.scores else json.dumps(spec.scores),
            "loss": checkpoint.loss,
            "unigram_entropy": checkpoint.unigram_entropy,
            "warning": checkpoint.warning or None,
        }


Loading = Callable[[], LoadedModel | SavedStates]
_MODEL_KEY = ("study", "model", "checkpoint")
MEASURED = tuple(field.name for field in fields(Anatomy))  # columns that only a loaded model can fill


def _label_counts(texts: Texts) -> str | None:
    if texts.labels is None or texts.label_codes is None:
        return None
    codes, counts = np.unique(texts.label_codes, return_counts=True)
    return json.dumps({texts.labels[code]: int(n) for code, n in zip(codes, counts, strict=True) if code >= 0})
