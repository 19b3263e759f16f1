"""Make a plan: build the texts, resolve the models, compare every cell with what the database holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

from reporter.core.errors import ReporterError, UsageError, hint
from reporter.core.json_text import stored_json
from reporter.forward.inputs import FOLDERS, Pass
from reporter.metrics.analysis import Analysis, Corpus, analyses
from reporter.metrics.base import Options, catalogue
from reporter.models.checkpoint import FINAL, Checkpoint, random_init
from reporter.models.resolve import resolve
from reporter.models.words import whole_words
from reporter.runs.cache import not_kept
from reporter.runs.plan import FORCED, AnalysisCell, Baseline, Cell, MetricCell, Plan, difference, or_raise
from reporter.store import CellName, CellRecord, Store, joined
from reporter.study import Study, StudyFile
from reporter.study.models import HubModel, StatesModel
from reporter.study.offer import MetricChoice
from reporter.texts import Texts, build_texts
from reporter.texts.chat import NO_TEMPLATE, Chat
from reporter.texts.sources.stored import DatasetCorpus, FileCorpus
from reporter.texts.tokens import Shard, Windows, tokenise

Checkpoints = tuple["Checkpoint", ...] | Exception


def plan_study(
    file: StudyFile,
    out: Path,
    *,
    offline: bool = False,
    force: bool = False,
    only: Sequence[str] = (),
    blind: bool = False,
) -> Plan:
    """Return what a run of this study would do. Builds texts, but loads and trains nothing.

    Args:
        file: a valid study.
        out: the results folder.
        offline: never ask a hub.
        force: run cells that are done, too.
        only: names of models, of corpora or items, of metrics or analyses; a cell is planned if each of these three
            kinds that is named names it.
        blind: leave the database closed, as if nothing had been done.

    Raises:
        UsageError: ``only`` names something that is not in the study, or no cell is of all that it names.
    """
    done = {} if blind else Store(out / "results.duckdb").cells(file.study.study)
    grid = _Grid(file, _Inputs(file, out / "cache", offline), _CellFilter(file.study, only), done, force)
    planned = (*grid.single(), *grid.compared(), *grid.analysed())
    if only and not planned:
        names = " ".join(f"--only {name}" for name in only)
        lacking = f"no cell of study {file.study.study!r} matches"
        raise UsageError(f"{names}: {lacking}{' all of these names; run each name alone' * (len(only) > 1)}")
    cells = tuple(map(grid.judged, planned))
    return Plan(file, grid.analyses, grid.texts, grid.checkpoints, grid.baselines, cells, partial=bool(only))


class _Grid:
    """All cells of a study that are planned.

    Args:
        file: the study.
        inputs: makes its texts and checkpoints.
        only: which of its cells are planned.
        done: the cells that ran.
        force: whether cells that are done run, too.
    """

    def __init__(
        self, file: StudyFile, inputs: _Inputs, only: _CellFilter, done: Mapping[CellName, CellRecord], force: bool
    ) -> None:
        self.file, self.inputs, self.only, self.done, self.force = file, inputs, only, done, force
        self.study = study = file.study
        self.metrics = catalogue()
        self.models = [name for name in study.models if name in only.models]
        self.choices = [choice for choice in study.metrics if choice.name in only.metrics]
        self.analyses = {name: analysis for name, analysis in analyses().items() if name in only.metrics}
        self.corpora = [name for name in study.corpora if name in only.corpora]
        read = {*self.corpora, *self._read_besides()}
        self.texts: Mapping[str, Texts | Exception] = {
            name: inputs.texts(name) for name in study.corpora if name in read
        }
        self.checkpoints: dict[str, Checkpoints] = {name: inputs.checkpoints(name) for name in self.models}
        loaded = [name for name in self.models if not isinstance(study.models[name], StatesModel)]
        baselines = [Baseline(name, kind) for name in loaded for kind in study.baselines]
        self.baselines = {baseline.name: baseline for baseline in baselines}
        self.checkpoints |= {baseline.name: self._of_baseline(baseline) for baseline in baselines}

    def _read_besides(self) -> Iterator[str]:
        """Yield the corpora that models are trained on, and those that planned items of analyses read."""
        for model in self.models:
            recipe = getattr(self.study.models[model], "recipe", None)
            if recipe is not None:
                yield recipe.train_on
        for analysis in self.analyses.values():
            for name, item in analysis.items(self.study).items():
                if name in self.only.corpora:
                    yield from analysis.corpora(item)

    def _of_baseline(self, baseline: Baseline) -> Checkpoints:
        checkpoints = self.checkpoints[baseline.base]
        if isinstance(checkpoints, Exception):
            return checkpoints
        last = checkpoints[-1]
        if baseline.kind == "random-init":
            last = random_init(last, self.study.run.seed)
        return (replace(last, model=baseline.name, name=FINAL, step=None, warning=""),)

    def _each(self, model: str) -> tuple[Checkpoint | Exception, ...]:
        """Return the checkpoints of a model, or the reason why they are not available as the only one."""
        checkpoints = self.checkpoints[model]
        return checkpoints if isinstance(checkpoints, tuple) else (checkpoints,)

    def single(self) -> Iterator[Cell]:
        """Yield each metric of each checkpoint on each corpus."""
        for model in self.checkpoints:
            for corpus in self.corpora:
                for choice in self.choices if self._reads(model, corpus) else ():
                    for checkpoint in () if self.metrics[choice.name].compares_only else self._each(model):
                        yield self._of_metric(choice, [(model, checkpoint, corpus)])

    def compared(self) -> Iterator[Cell]:
        """Yield each comparison that a metric makes: between models, corpora, or a model and its base.

        Of a model with several checkpoints the last one is compared; baselines are not.
        """
        last = {model: self._each(model)[-1] for model in self.models}
        pairs: dict[str, list[tuple[tuple[str, str], tuple[str, str]]]] = {
            "models": [((a, on), (b, on)) for (a, b), on in product(combinations(self.models, 2), self.corpora)],
            "corpora": [
                ((model, a), (model, b)) for model, (a, b) in product(self.models, combinations(self.corpora, 2))
            ],
            "base": [
                ((model, on), (base, on))
                for model, on in product(self.models, self.corpora)
                if (base := self.study.models[model].base) in last
            ],
        }
        for choice in self.choices:
            between = self.metrics[choice.name].between
            if between and between.own:
                yield from self._against_bases(choice, pairs["base"], last)
                continue
            for kind, compared in pairs.items():
                for sides in compared if between and kind in between.of else ():
                    if all(self._reads(model, on) for model, on in sides):
                        yield self._of_metric(choice, [(model, last[model], on) for model, on in sides])

    def _against_bases(
        self,
        choice: MetricChoice,
        pairs: Sequence[tuple[tuple[str, str], tuple[str, str]]],
        last: Mapping[str, Checkpoint | Exception],
    ) -> Iterator[Cell]:
        """Yield a metric of each checkpoint of each model that has a base, with the base and the model of another seed.

        Args:
            choice: the metric.
            pairs: model and base, each with the corpus.
            last: the last checkpoint of each model that is planned.
        """
        for (model, corpus), (base, _) in pairs:
            replicate = self.study.twin(model)
            against = [base, replicate] if replicate in last and replicate is not None else [base]
            if not all(self._reads(name, corpus) for name in (model, *against)):
                continue
            for checkpoint in self._each(model):
                sides = [(model, checkpoint, corpus), *((name, last[name], corpus) for name in against)]
                yield self._of_metric(choice, sides, of_first=True)

    def analysed(self) -> Iterator[Cell]:
        """Yield each item of each analysis of each checkpoint, model by model."""
        items = [
            (analysis, name, item)
            for analysis in self.analyses.values()
            for name, item in analysis.items(self.study).items()
            if name in self.only.corpora
        ]
        for model in self.checkpoints:
            for analysis, name, item in items:
                if self._is_analysed(analysis, item, model):
                    for checkpoint in self._each(model)[-1:] if analysis.last_only else self._each(model):
                        yield self._of_analysis(analysis, name, item, model, checkpoint)

    def judged(self, cell: Cell) -> Cell:
        """Return a cell with its state, and why it runs or cannot."""
        if cell.state == "failed":
            return cell
        cell = self._compared_with_before(cell)
        if cell.state != "run" or not isinstance(cell, MetricCell):
            return cell
        chats = [read for read in cell.passes if read.chat is not None and not read.checkpoint.states]
        if problem := next(filter(None, map(self.inputs.refused, chats)), ""):
            return replace(cell, state="failed", why=f"model '{cell.key.model}': {problem}")
        lost = not_kept(self.inputs.cache_folder / FOLDERS["pass"], cell)
        return replace(cell, why=f"{cell.why}; the cache did not keep {', '.join(lost)} (run.keep)") if lost else cell

    def _compared_with_before(self, cell: Cell) -> Cell:
        record = self.done.get(cell.key)
        if record is None:
            return replace(cell, state="run", why="new")
        if record.status != "done":
            return replace(cell, state="run", why=f"failed last time: {record.error}")
        before = stored_json(record.inputs) if record.inputs else {}
        as_before = cell.as_in(before)
        if record.fingerprint != as_before.fingerprint:
            changed = difference(before, json.loads(json.dumps(as_before.inputs)))
            return replace(cell, state="run", why=changed or "inputs changed")
        return replace(cell, state="run", why=FORCED) if self.force else replace(as_before, state="cached")

    def _reads(self, model: str, corpus: str) -> bool:
        spec = self.study.models.get(model)
        return not isinstance(spec, StatesModel) or corpus in spec.states

    def _is_analysed(self, analysis: Analysis, item: Any, model: str) -> bool:
        baseline = self.baselines.get(model)
        if baseline is None:
            spec = self.study.models[model]
            based = spec.base in self.models and not isinstance(self.study.models[spec.base], StatesModel)
            if analysis.against_base and not based:
                return False
            return not isinstance(spec, StatesModel) and analysis.looks_at(item, model)  # it needs the model itself
        return (
            analysis.baselines and baseline.kind == "random-init" and self._is_analysed(analysis, item, baseline.base)
        )

    def _of_metric(
        self, choice: MetricChoice, parts: Sequence[tuple[str, Checkpoint | Exception, str]], of_first: bool = False
    ) -> Cell:
        options = choice.options
        assert isinstance(options, Options)  # the catalogue gave the study nothing else
        names = [(m, c.name if not isinstance(c, Exception) else FINAL, on) for m, c, on in parts]
        model, checkpoint, corpus = (joined(a, b) for a, b in zip(names[0], names[0 if of_first else -1], strict=True))
        key, settings = CellName(model, checkpoint, corpus, choice.name), options.model_dump(mode="json")
        trouble = [x for _, c, on in parts for x in (c, self.texts[on]) if isinstance(x, Exception)]
        if trouble:
            return Cell(key=key, settings=settings, state="failed", why=str(trouble[0]))
        return MetricCell(
            key=key,
            settings=settings,
            metric=self.metrics[choice.name],
            options=options,
            views=self.study.views,
            passes=tuple(self._pass(*part) for part in parts),
        )

    def _pass(self, model: str, checkpoint: Checkpoint | Exception, corpus: str) -> Pass:
        study, resolved = self.study, or_raise(checkpoint)
        part = study.corpora[corpus]
        return Pass(
            checkpoint=resolved,
            texts=or_raise(self.texts[corpus]),
            max_tokens=part.longest,
            sinks=study.sinks,
            sites=study.sites,
            seed=study.run.seed,
            precision="auto" if resolved.states else study.run.precision,  # states that are given are what they are
            shuffled=model in self.baselines and self.baselines[model].kind == "shuffled",
            windows=None if resolved.states else Windows.of(part),
            chat=Chat(part.role, part.date) if isinstance(part, FileCorpus) and part.chat else None,
        )

    def _of_analysis(
        self, analysis: Analysis, name: str, item: Any, model: str, checkpoint: Checkpoint | Exception
    ) -> Cell:
        study = self.study
        key = CellName(model, FINAL if isinstance(checkpoint, Exception) else checkpoint.name, name, analysis.name)
        try:
            resolved = analysis.resolve(item, self.file.folder)
            texts = {corpus: or_raise(self.texts[corpus]) for corpus in analysis.corpora(item)}
            return AnalysisCell(
                key=key,
                settings=resolved.model_dump(mode="json"),
                analysis=analysis,
                item=resolved,
                checkpoint=or_raise(checkpoint),
                corpora={
                    corpus: Corpus(read_texts, study.corpora[corpus].longest) for corpus, read_texts in texts.items()
                },
                sites=study.sites,
                pooling=study.pooling,
                seed=study.run.seed,
                base=or_raise(self._each(study.models[model].base or "")[-1]) if analysis.against_base else None,
            )
        except ReporterError as error:
            return Cell(key=key, state="failed", why=str(error))


class _Inputs:
    """Texts and checkpoints, each made once; recipes need texts, vocabularies models, and thinned texts other texts."""

    def __init__(self, file: StudyFile, cache_folder: Path, offline: bool) -> None:
        self.file, self.cache_folder, self.offline = file, cache_folder, offline
        self.texts = cache(self._texts)
        self.checkpoints = cache(self._checkpoints)
        self._refused: dict[tuple[str, str, str], str] = {}

    def _texts(self, name: str) -> Texts | Exception:
        try:
            return build_texts(
                name,
                self.file.study.corpora[name],
                self.file.folder,
                self.cache_folder,
                whole_words=lambda model: whole_words(or_raise(self.checkpoints(model))[-1], self.offline),
                offline=self.offline,
                words_of=lambda corpus: or_raise(self.texts(corpus)).words,
            )
        except ReporterError as error:
            return error

    def _checkpoints(self, name: str) -> Checkpoints:
        try:
            return resolve(
                name,
                self.file.study.models[name],
                self.file.folder,
                self.cache_folder,
                texts=lambda corpus: or_raise(self.texts(corpus)),
                offline=self.offline,
                models=lambda model: or_raise(self.checkpoints(model)),
            )
        except ReporterError as error:
            return error

    def refused(self, forward_pass: Pass) -> str:
        """Return why a model's tokenizer cannot write out a chat, as its first conversation shows.

        Empty where it can, or where the tokenizer is not on this machine.
        """
        key = (forward_pass.checkpoint.model, forward_pass.checkpoint.name, forward_pass.texts.name)
        if key not in self._refused:
            self._refused[key] = self._problem_of_template(forward_pass)
        return self._refused[key]

    def _problem_of_template(self, forward_pass: Pass) -> str:
        if forward_pass.checkpoint.recipe is not None:
            return NO_TEMPLATE
        if forward_pass.checkpoint.path is None or not len(forward_pass.texts):
            return ""
        from reporter.models.tokenizer import load_tokenizer  # imports transformers

        folder = forward_pass.checkpoint.path / (forward_pass.checkpoint.subfolder or "")
        try:
            tokenizer = load_tokenizer(forward_pass.checkpoint, folder, self.offline)
        except ReporterError:
            return ""  # the run says so, and it may be there by then
        try:
            tokenise(forward_pass.texts, Shard(0, 0, 1), tokenizer, forward_pass.max_tokens, chat=forward_pass.chat)
        except ReporterError as error:
            # Of a hub model the template may be the one file that is not here yet.
            fetchable = forward_pass.checkpoint.source == "hub" and not self.offline and str(error) == NO_TEMPLATE
            return "" if fetchable else str(error)
        return ""


def check_hub(file: StudyFile, cache: Path, offline: bool) -> None:
    """Check that a study's models and data sets of the hub can be found; texts of data sets stay in the cache.

    Raises:
        ReporterError: one of them cannot be found; if it is a model, nothing was written.
    """
    inputs = _Inputs(file, cache, offline)
    for name, model in file.study.models.items():
        if isinstance(model, HubModel):
            or_raise(inputs.checkpoints(name))
    for name, corpus in file.study.corpora.items():
        if isinstance(corpus, DatasetCorpus):
            or_raise(inputs.texts(name))


class _CellFilter:
    """The cells that ``--only`` asks for."""

    def __init__(self, study: Study, names: Sequence[str]) -> None:
        items = {name: analysis.items(study) for name, analysis in analyses().items()}
        metrics = {choice.name for choice in study.metrics} | {name for name, named in items.items() if named}
        kinds = (set(study.models), {*study.corpora, *(item for named in items.values() for item in named)}, metrics)
        everything = set[str]().union(*kinds)
        for name in names:
            if name not in everything:
                meant = hint(name, sorted(everything), "its names")
                raise UsageError(f"--only {name}: study {study.study!r} has nothing of this name{meant}")
        self.models, self.corpora, self.metrics = (kind & set(names) or kind for kind in kinds)
