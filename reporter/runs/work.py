"""Compute the cells of a plan, one checkpoint of one model at a time; finished cells are stored within two seconds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from reporter.core.errors import ReporterError, as_exception, describe, failures
from reporter.core.imports import importing
from reporter.core.numbers import counted
from reporter.core.places import POOLINGS
from reporter.core.progress import REST, Progress
from reporter.core.threads import given
from reporter.forward.inputs import PRECISIONS, Pass, size_of, warnings
from reporter.forward.passes import Loading, Measured, Passes
from reporter.forward.text_vectors import MOST_GATHERED, OfText, TextVectors
from reporter.models.checkpoint import FINAL, Checkpoint
from reporter.models.load import LoadedModel, load
from reporter.models.states import SavedStates, load_states
from reporter.models.toy.training import prepare, prepare_together
from reporter.runs import records
from reporter.runs.cells import NO_INTERVAL, Computed, Load, analyse, compute, wanted_by
from reporter.runs.plan import FORCED, AnalysisCell, Cell, MetricCell, Plan, in_windows, or_raise, windowed
from reporter.store import CellKey, CellName, Store
from reporter.study import Study

if TYPE_CHECKING:
    from pathlib import Path

_NO_PASS = {"forward_tokens": 0, "forward_passes": 0, "forward_seconds": 0.0}
AnyCell = TypeVar("AnyCell", MetricCell, AnalysisCell)


def work(plan: Plan, out: Path, store: Store, offline: bool, progress: Progress) -> tuple[int, int]:
    """Compute the cells of a plan that must run; return how many were computed and how many failed.

    Failures stay local: a corpus or a model fails with its own cells, a metric with one cell.

    Raises:
        ReporterError: this machine does not have the device, or results cannot be written.
    """
    with given(plan.file.study.run.threads):
        worker = _Worker(plan, out, store, offline, progress)
        with progress.expecting(plan.count("run"), lambda: worker.done, weights_of(plan)):
            return worker.do()


def weights_of(plan: Plan) -> dict[str, float]:
    """Return how much work each pass is, by name: its words times the weights of its model, where these are known."""
    sizes = {(of := each.checkpoint).model: size_of(of) for each in plan.passes.values()}
    known = {model: size.active for model, size in sizes.items() if size is not None and size.active}
    return {
        name: each.texts.words * (known[each.checkpoint.model] if len(known) == len(sizes) else 1.0)
        for name, each in plan.passes.items()
    }


class _Worker:
    def __init__(self, plan: Plan, out: Path, store: Store, offline: bool, progress: Progress) -> None:
        self.plan, self.study, self.store = plan, plan.file.study, store
        self.offline, self.progress, self.clock = offline, progress, progress.clock
        self.device = pick_device(self.study.run.device)
        self.passes = Passes(
            out / "cache", self.study.run.batch_tokens, offline, progress, self.device, self.study.run.keep
        )
        self.compared: dict[tuple[str, ...], list[MetricCell]] = {}  # by their sides
        self.needed_later: dict[str, list[MetricCell]] = {}
        for cell in plan.to_measure:
            if cell.compares:
                self.compared.setdefault(tuple(map(str, cell.passes)), []).append(cell)
                for forward_pass in cell.passes:
                    self.needed_later.setdefault(str(forward_pass), []).append(cell)
        self.measured: dict[str, Pass] = {}
        self.computed = self.failed = 0
        self.without_interval: list[Cell] = []
        self._shown: set[str] = set()
        self.prepared = cache(self._prepare)

    @property
    def done(self) -> int:
        """How many of the cells that must run have a result, good or bad."""
        return self.computed + self.failed - self.plan.count("failed")

    def do(self) -> tuple[int, int]:
        for name, texts in self.plan.texts.items():
            self.store.put("corpora", ["study", "corpus"], records.corpus_row(self.study.study, name, texts))
        self._put_texts()
        lost = [cell for cell in self.plan.cells if cell.state == "failed"]
        for why, cells in groupby(lost, key=lambda cell: cell.why):
            self._fail(list(cells), why)
        self._train_together()
        for model, series in self.plan.checkpoints.items():
            if isinstance(series, Exception):
                row = {"study": self.study.study, "model": model, "checkpoint": FINAL, "position": 1, "is_last": True}
                self.store.put("models", records.MODEL_KEY, row | {"status": "failed", "error": describe(series)})
            else:
                self._model(model, series)
        for alike in self.compared.values():
            self._compare(alike)
        for forward_pass in self.measured.values():
            self.passes.drop(forward_pass)
        self._relate()
        if without := self.without_interval:
            names = ", ".join(dict.fromkeys(cell.key.metric for cell in without))
            self.progress.note(
                f"  some intervals of {counted(len(without), 'cell')} are not finite and were left out ({names}); see "
                "the column cells.reasons"
            )
        return self.computed, self.failed

    def _put_texts(self) -> None:
        stays = self.store.records("SELECT * FROM corpus_texts WHERE study = $study", {"study": self.study.study})
        rows = [row for row in stays if row["corpus"] not in self.plan.texts]
        for name, texts in self.plan.texts.items():
            if not isinstance(texts, Exception):
                rows += records.text_rows(name, texts, self.study.run.seed)
        self.store.replace("corpus_texts", self.study.study, rows)

    def _relate(self) -> None:
        """Store what the study says of models with cached cells, which may have changed."""
        cached = {cell.key.model for cell in self.plan.cells if cell.state == "cached"}
        columns = (*records.MODEL_KEY, "step", "base", "baseline", "scores")
        rows = [
            records.model_row(self.plan, checkpoint)
            for model, series in self.plan.checkpoints.items()
            if model in cached and isinstance(series, tuple)
            for checkpoint in series
        ]
        self.store.put_all("models", records.MODEL_KEY, [{name: row[name] for name in columns} for row in rows])

    def _model(self, model: str, checkpoints: tuple[Checkpoint, ...]) -> None:
        todo = [
            cell for cell in self.plan.cells if cell.key.model == model and cell.state == "run" and not cell.compares
        ]
        if not todo:
            return
        ready = self.prepared(model)
        if isinstance(ready, Exception):  # a model that cannot be trained must not take the others down
            for checkpoint in checkpoints:
                self._put_model(checkpoint, records.failed_columns(ready))
            self._fail(todo, describe(ready))
            return
        for checkpoint in ready:
            self._checkpoint(checkpoint, [cell for cell in todo if cell.key.checkpoint == checkpoint.name])

    def _train_together(self) -> None:
        models = {cell.key.model for cell in self.plan.cells if cell.state == "run"}
        series = [prepared for model, prepared in self.plan.checkpoints.items() if model in models]
        with self.clock.within("training"):
            prepare_together([prepared for prepared in series if not isinstance(prepared, Exception)], self.progress)

    def _prepare(self, model: str) -> tuple[Checkpoint, ...] | Exception:
        checkpoints = or_raise(self.plan.checkpoints[model])
        try:
            with self.clock.within("training"):
                return prepare(checkpoints, self.progress)
        except failures() as error:
            return as_exception(error)

    def _checkpoint(self, checkpoint: Checkpoint, todo: list[Cell]) -> None:
        @cache
        def loaded() -> LoadedModel | Exception:
            try:
                return self._loaded(checkpoint)
            except failures() as error:
                self._put_model(checkpoint, records.failed_columns(as_exception(error)))
                return as_exception(error)

        def model() -> LoadedModel:
            return or_raise(loaded())

        @cache
        def base() -> LoadedModel:
            return self._loaded(or_raise(self.prepared(self.study.models[checkpoint.model].base or ""))[-1])

        analyses = self._left([cell for cell in todo if isinstance(cell, AnalysisCell)], checkpoint)
        of_metrics = [cell for cell in todo if isinstance(cell, MetricCell)]
        groups = [list(group) for _, group in groupby(of_metrics, key=lambda cell: cell.key.corpus)]
        first = [group for group in groups if self._gathers(group[0].passes[0], analyses)]
        for group in (*first, None, *(group for group in groups if group not in first)):
            if group is None:
                for cell in analyses:
                    self._analyse(cell, checkpoint, model, base)
                self.passes.gathering.clear()
            elif cells := self._left(group, checkpoint):
                self._corpus(checkpoint, cells, model)

    def _gathers(self, of: Pass, analyses: Sequence[AnalysisCell]) -> bool:
        """Prepare a pass to gather the vectors of texts that analyses read; return whether there are any."""
        readers = [
            cell
            for cell in analyses
            if cell.analysis.pooled
            and of.texts.name in cell.corpora
            and cell.sites == of.sites
            and cell.corpora[of.texts.name].max_tokens == of.max_tokens
        ]
        if not readers or len(of.texts) > MOST_GATHERED or of.windows or of.chat or of.shuffled:
            return False
        every = any(cell.pooling == "auto" for cell in readers)
        poolings = [cell.pooling for cell in readers[:1] if cell.pooling != "auto"]
        self.passes.gathering.append(TextVectors(of, POOLINGS if every else poolings))
        return True

    def _corpus(self, checkpoint: Checkpoint, cells: list[MetricCell], model: Load) -> None:
        """Compute the metrics of a checkpoint on a corpus, which goes through it once for all of them."""
        try:
            # What compares it later must find there what it needs: else the corpus would go through once more.
            later = self.needed_later.get(str(cells[0].passes[0]), [])
            side = self._measured(cells[0].passes[0], checkpoint, [*cells, *later], model)
        except failures() as error:  # a model that cannot be loaded, or a pass that breaks, must not either
            self._fail(cells, describe(error))
            return
        self._put_model(checkpoint, records.measured_columns(side))
        with self._together():
            for place, cell in enumerate(cells):
                self._compute(cell, [side], records.pass_columns(side, caused=place == 0))
        side.forget()
        if str(side.of) not in self.needed_later:
            self.passes.drop(side.of)

    def _analyse(self, cell: AnalysisCell, checkpoint: Checkpoint, model: Load, base: Load) -> None:
        try:
            ready = model()
            self._put_model(checkpoint, records.loaded_columns(ready, self.study))
            with self.progress.telling(str(cell.key)) as tell:
                with self.clock.within("analyses"):
                    done = analyse(cell, ready, self.study.run.batch_tokens, tell, base, self._known(cell))
                windows = [windowed(self.study, corpus) for corpus in cell.corpora]
                few = [corpus.texts.warning for corpus in cell.corpora.values()]
                warning = warnings(*windows, *few, *done.warnings)
                self._put_computed(cell, done, {"warning": warning})
        except failures() as error:  # an analysis that fails must not take the others down
            self._fail([cell], describe(error))

    def _known(self, cell: AnalysisCell) -> Mapping[int, Mapping[str, OfText]]:
        vectors: dict[int, dict[str, OfText]] = {}
        for gathered in self.passes.gathering:
            if gathered.of.sites == cell.sites:
                vectors.setdefault(gathered.of.max_tokens, {}).update(gathered.by_text)
        return vectors

    def _compare(self, cells: list[MetricCell]) -> None:
        try:
            sides = [self._comparison_side(forward_pass, cells) for forward_pass in cells[0].passes]
            self.measured |= {str(side.of): side.of for side in sides}
        except failures() as error:
            self._fail(cells, describe(error))
            return
        with self._together():
            for place, cell in enumerate(cells):
                self._compute(cell, sides, records.compared_columns(sides, caused=place == 0))
        for side in sides:
            side.forget()

    def _comparison_side(self, forward_pass: Pass, cells: list[MetricCell]) -> Measured:
        ready = or_raise(self.prepared(forward_pass.checkpoint.model))  # trained
        checkpoint = next(other for other in ready if other.name == forward_pass.checkpoint.name)
        return self._measured(forward_pass, checkpoint, cells, lambda: self._loaded(checkpoint))

    def _loaded(self, checkpoint: Checkpoint) -> LoadedModel:
        with self.clock.within("loading", f"{checkpoint.model} {checkpoint.name}"), importing():
            return load(checkpoint, self.device, self.offline)

    def _measured(self, forward_pass: Pass, checkpoint: Checkpoint, cells: list[MetricCell], model: Load) -> Measured:
        forward_pass = replace(forward_pass, checkpoint=checkpoint)
        wants = wanted_by((cell.metric, cell.options, cell.views) for cell in cells)
        try:
            return self.passes.measured(forward_pass, wants, self._load(forward_pass, model))
        finally:
            self.progress.finished(str(forward_pass))

    def _load(self, forward_pass: Pass, model: Load) -> Loading:
        if not forward_pass.checkpoint.states:
            return model

        def opened() -> SavedStates:
            try:
                return load_states(forward_pass.checkpoint, forward_pass.texts)
            except failures() as error:
                self._put_model(forward_pass.checkpoint, records.failed_columns(as_exception(error)))
                raise

        return opened

    def _compute(self, cell: MetricCell, sides: list[Measured], columns: Mapping[str, Any]) -> None:
        cell = replace(cell, passes=tuple(side.of for side in sides))  # in the precision that was settled
        try:
            with self.clock.within("metrics", f"{cell.key.metric} of {cell.key.model}"):
                done = compute(cell, sides)
            self._put_computed(cell, done, _warned(cell, sides, columns, self.study))
        except failures() as error:  # a metric that fails must not take the others down
            self._fail([cell], describe(error), columns)

    def _left(self, cells: Sequence[AnyCell], checkpoint: Checkpoint) -> list[AnyCell]:
        """Copy the cells whose numbers another study has; return the others."""
        with self.clock.within("store"):
            ways: dict[CellName, Mapping[str, Cell]] = {cell.key: self._by_precision(cell) for cell in cells}
            fingerprints = [fingerprint for of_cell in ways.values() for fingerprint in of_cell]
            sources = self.store.find(*fingerprints) if fingerprints else {}
            copies: dict[CellName, tuple[CellKey, dict[str, Any]]] = {}
            for name, of_cell in ways.items():
                for fingerprint, settled in of_cell.items():
                    source = sources.get(fingerprint)
                    here = source is not None and source.study == self.study.study and source[1:] == name
                    if source is not None and not here and name not in copies:
                        why = f"{settled.why}; copied from study {source.study}"
                        copies[name] = source, records.cell_row(settled, self.study.study, "done", why=why, **_NO_PASS)
            done = self.store.copy_cells(list(copies.values()), {"step": checkpoint.step}) if copies else []
            copied = {key: source for (key, (source, _)), is_done in zip(copies.items(), done, strict=True) if is_done}
            for of_model in sorted({tuple(source[:3]) for source in copied.values()}):
                self.store.copy_model(of_model, records.model_row(self.plan, checkpoint))
            self.computed += len(copied)
            return [cell for cell in cells if cell.key not in copied]

    def _by_precision(self, cell: MetricCell | AnalysisCell) -> dict[str, MetricCell | AnalysisCell]:
        paired = isinstance(cell, MetricCell) and any(s.per == "pair" for s in cell.metric.statistics)
        if cell.why.startswith(FORCED) or paired:  # rows that name both sides cannot be taken over
            return {}
        ways = [cell, *(cell.as_in({"precision": precision}) for precision in PRECISIONS)]
        return {way.fingerprint: way for way in ways}

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Store the cells of the block a few at a time."""
        with self.clock.within("store"), self.store.together(), self.clock.within(REST):
            yield

    def _put_model(self, checkpoint: Checkpoint, columns: Mapping[str, Any]) -> None:
        with self.clock.within("store"):
            self.store.put("models", records.MODEL_KEY, {**records.model_row(self.plan, checkpoint), **columns})

    def _put_computed(self, cell: Cell, done: Computed, columns: Mapping[str, Any]) -> None:
        row = records.cell_row(
            cell, self.study.study, "done", reasons=json.dumps(done.reasons), seconds=done.seconds, **columns
        )
        numbers = dict(done.tables)
        with self.clock.within("store"):
            self.store.commit_cell(row, numbers.pop("layer_metrics", ()), numbers)
        self.computed += 1
        values = [number["value"] for number in done.tables.get("layer_metrics", ())]
        if done.reasons and values and all(value is None for value in values):
            self.progress.note(f"  {cell.key}: no numbers: {done.reasons[0]['reason']}")
        if any(reason["reason"] == NO_INTERVAL for reason in done.reasons):
            self.without_interval.append(cell)

    def _fail(self, cells: Sequence[Cell], error: str, columns: Mapping[str, Any] | None = None) -> None:
        self.failed += len(cells)
        more = f" and {counted(len(cells) - 1, 'more cell')}" if len(cells) > 1 else ""
        self.progress.note(f"  failed: {cells[0].key}{more}: {'as above' if error in self._shown else error}")
        self._shown.add(error)
        with self._together():
            for cell in cells:
                self.store.commit_cell(
                    records.cell_row(cell, self.study.study, "failed", error=error, **(columns or {}))
                )


def _warned(cell: MetricCell, sides: Sequence[Measured], columns: Mapping[str, Any], study: Study) -> Mapping[str, Any]:
    read = [side.of.texts.name for side in sides if side.facts.counts.windows > side.facts.counts.texts]
    windows = [windowed(study, corpus) for corpus in read if in_windows(cell.metric)]
    few = (side.of.texts.warning for side in sides)
    return {**columns, "warning": warnings(columns["warning"], *windows, *few)}


def pick_device(name: str) -> str:
    """Return a device: ``cpu``, ``mps``, ``cuda`` or ``cuda:N`` as given, or the best of this machine for ``auto``.

    Raises:
        ReporterError: this machine does not have it.
    """
    import torch

    if name == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    kind, _, number = name.partition(":")
    count = {"cpu": 1, "mps": int(torch.backends.mps.is_available()), "cuda": torch.cuda.device_count()}[kind]
    if int(number or 0) >= count:
        raise ReporterError(f"this machine has no device {name!r}; write `device: auto` under `run` in the study")
    return name
