"""Make a plan: build the texts, resolve the models, compare every cell with what the database holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from reporter.errors import ReporterError, UsageError
from reporter.metrics.registry import catalogue
from reporter.models.resolve import resolve
from reporter.models.words import whole_words
from reporter.run.fingerprint import cell_inputs, difference, digest, pass_inputs
from reporter.run.plan import FORCED, Cell, CellKey, Plan, State, or_raise
from reporter.store import CellName, Store
from reporter.texts import build_texts

if TYPE_CHECKING:
    from reporter.metrics.base import Metric, Options
    from reporter.models.checkpoint import Checkpoint
    from reporter.spec import Study, StudyFile
    from reporter.spec.metrics import MetricChoice
    from reporter.store import CellRecord
    from reporter.texts import Texts


def plan_study(
    file: StudyFile, out: Path, *, offline: bool = False, force: bool = False, only: Sequence[str] = ()
) -> Plan:
    """Return what a run of this study would do. Builds texts, but loads and trains nothing.

    Args:
        file: a valid study.
        out: the results folder.
        offline: never ask a hub.
        force: run cells that are done, too.
        only: names of models, corpora or metrics; a cell is planned if each kind that is named names it.

    Raises:
        UsageError: if ``only`` names nothing in the study.
    """
    study = file.study
    wanted = _Only(study, only)
    inputs = _Inputs(file, out / "cache", offline)
    texts = {name: inputs.texts(name) for name in study.corpora if wanted.corpus(name)}
    checkpoints = {name: inputs.checkpoints(name) for name in study.models if wanted.model(name)}
    known = catalogue()
    metrics = {choice.name: known[choice.name] for choice in study.metrics if wanted.metric(choice.name)}
    done = Store(out / "results.duckdb").cells(study.study)
    cells = []
    for model, corpus, choice in _grid(study, wanted):
        here = checkpoints[model]
        for checkpoint in here if isinstance(here, tuple) else (here,):
            cells.append(
                _cell(file, model, checkpoint, corpus, texts[corpus], choice, metrics[choice.name], done, force)
            )
    return Plan(file, metrics, texts, checkpoints, tuple(cells), partial=bool(only))


def _grid(study: Study, wanted: _Only) -> Iterator[tuple[str, str, MetricChoice]]:
    for model in filter(wanted.model, study.models):
        for corpus in filter(wanted.corpus, study.corpora):
            for choice in study.metrics:
                if wanted.metric(choice.name):
                    yield model, corpus, choice


def _cell(
    file: StudyFile,
    model: str,
    checkpoint: Checkpoint | Exception,
    corpus: str,
    texts: Texts | Exception,
    choice: MetricChoice,
    metric: Metric,
    done: dict[CellName, CellRecord],
    force: bool,
) -> Cell:
    study, options = file.study, cast("Options", choice.options)  # the catalogue gave the spec nothing else
    if isinstance(checkpoint, Exception) or isinstance(texts, Exception):
        name = checkpoint.name if not isinstance(checkpoint, Exception) else "final"
        trouble = checkpoint if isinstance(checkpoint, Exception) else texts
        return Cell(CellKey(model, name, corpus, choice.name), "failed", str(trouble), {}, "", {}, options)
    of_pass = pass_inputs(
        weights=checkpoint.fingerprint,
        texts=texts.hash,
        max_tokens=study.corpora[corpus].max_tokens,
        precision=study.run.precision,
        seed=study.run.seed,
        sites=study.sites,
    )
    inputs = cell_inputs(
        of_pass,
        metric=metric.name,
        version=metric.version,
        options=options.model_dump(mode="json"),
        views=study.views,
    )
    key = CellKey(model, checkpoint.name, corpus, choice.name)
    fingerprint = digest(inputs)
    state, why = _state(done.get(CellName(*key)), fingerprint, inputs, force)
    return Cell(key, state, why, inputs, fingerprint, of_pass, options)


def _state(record: CellRecord | None, fingerprint: str, inputs: dict[str, object], force: bool) -> tuple[State, str]:
    if record is None:
        return "run", "new"
    if record.status != "done":
        return "run", f"failed before: {record.error}"
    if record.fingerprint != fingerprint:
        before = json.loads(record.inputs) if record.inputs else {}
        return "run", difference(before, json.loads(json.dumps(inputs))) or "its inputs changed"
    return ("run", FORCED) if force else ("cached", "")


class _Inputs:
    """Texts and checkpoints, each made once; recipes need texts, and vocabularies need models."""

    def __init__(self, file: StudyFile, cache_folder: Path, offline: bool) -> None:
        self.file, self.cache_folder, self.offline = file, cache_folder, offline
        self.texts = cache(self._texts)
        self.checkpoints = cache(self._checkpoints)

    def _texts(self, name: str) -> Texts | Exception:
        try:
            return build_texts(
                name,
                self.file.study.corpora[name],
                self.file.folder,
                self.cache_folder,
                whole_words=self._words_of,
                offline=self.offline,
            )
        except ReporterError as error:
            return error

    def _checkpoints(self, name: str) -> tuple[Checkpoint, ...] | Exception:
        try:
            return resolve(
                name,
                self.file.study.models[name],
                self.file.folder,
                self.cache_folder,
                texts=lambda corpus: or_raise(self.texts(corpus)),
                offline=self.offline,
            )
        except ReporterError as error:
            return error

    def _words_of(self, model: str) -> Sequence[str]:
        return whole_words(or_raise(self.checkpoints(model))[-1])


class _Only:
    """Which cells ``--only`` asks for."""

    def __init__(self, study: Study, names: Sequence[str]) -> None:
        kinds = (set(study.models), set(study.corpora), {choice.name for choice in study.metrics})
        everything = set().union(*kinds)
        for name in names:
            if name not in everything:
                meant = get_close_matches(name, everything, 1)
                hint = f"; did you mean {meant[0]!r}?" if meant else f"; there are {', '.join(sorted(everything))}"
                raise UsageError(f"--only {name}: no model, corpus or metric of study {study.study!r}{hint}")
        self._kept = [kind & set(names) or kind for kind in kinds]

    def model(self, name: str) -> bool:
        return name in self._kept[0]

    def corpus(self, name: str) -> bool:
        return name in self._kept[1]

    def metric(self, name: str) -> bool:
        return name in self._kept[2]
