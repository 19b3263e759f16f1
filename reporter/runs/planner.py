"""Make a plan: build the texts, resolve the models, compare every cell with what the database holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.analyses.base import Corpus
from reporter.analyses.registry import analyses
from reporter.errors import ReporterError, UsageError
from reporter.metrics.base import Options
from reporter.metrics.registry import catalogue
from reporter.models.checkpoint import FINAL
from reporter.models.random_init import random_init
from reporter.models.resolve import resolve
from reporter.models.words import whole_words
from reporter.runs.cache import FOLDERS, not_kept
from reporter.runs.plan import FORCED, AnalysisCell, Baseline, Cell, MetricCell, Pass, Plan, difference, or_raise
from reporter.spec.models import StatesModel
from reporter.store import CellName, Store, joined
from reporter.texts import build_texts
from reporter.texts.chat import NO_TEMPLATE, Chat, tokenised
from reporter.texts.tokens import never_words
from reporter.texts.windows import Windows

if TYPE_CHECKING:
    from reporter.analyses.base import Analysis
    from reporter.metrics.base import Metric
    from reporter.models.checkpoint import Checkpoint
    from reporter.spec import Study, StudyFile
    from reporter.spec.corpora import CorpusPart
    from reporter.spec.metrics import MetricChoice
    from reporter.store import CellRecord
    from reporter.texts import Texts


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
        blind: leave the database alone, as if nothing had been done.

    Raises:
        UsageError: if ``only`` names something that is not in the study, or no cell is of all that it names.
    """
    study = file.study
    wanted = _Only(study, only)
    inputs = _Inputs(file, out / "cache", offline)
    models = [name for name in study.models if wanted.model(name)]
    read = wanted.read_besides(study)
    texts = {name: inputs.texts(name) for name in study.corpora if wanted.corpus(name) or name in read}
    checkpoints = {name: inputs.checkpoints(name) for name in models}
    loaded = [name for name in models if not isinstance(study.models[name], StatesModel)]
    baselines = [Baseline(name, kind) for name in loaded for kind in study.baselines]
    checkpoints |= {baseline.name: _of_baseline(baseline, checkpoints, study) for baseline in baselines}
    known = catalogue()
    grid = _Grid(
        file,
        {choice.name: known[choice.name] for choice in study.metrics if wanted.metric(choice.name)},
        {name: analysis for name, analysis in analyses().items() if wanted.metric(name)},
        texts,
        checkpoints,
        {baseline.name: baseline for baseline in baselines},
        {} if blind else Store(out / "results.duckdb").cells(study.study),
        wanted,
        force,
        out / "cache" / FOLDERS["pass"],
    )
    planned = (*grid.single(), *grid.compared(models), *grid.analysed())
    if only and not planned:
        raise UsageError(wanted.nothing(study, only))
    cells = tuple(_with_template(cell, inputs) for cell in map(grid.judged, planned))
    return Plan(file, grid.analyses, texts, checkpoints, grid.baselines, cells, partial=bool(only))


def _of_baseline(
    baseline: Baseline, checkpoints: Mapping[str, tuple[Checkpoint, ...] | Exception], study: Study
) -> tuple[Checkpoint, ...] | Exception:
    """Return the one checkpoint of a baseline, made from the last one of its model."""
    found = checkpoints[baseline.base]
    if isinstance(found, Exception):
        return found
    last = found[-1]
    if baseline.kind == "random-init":
        last = random_init(last, study.run.seed)
    return (replace(last, model=baseline.name, name=FINAL, step=None, warning=""),)


@dataclass(frozen=True)
class _Grid:
    """All cells of a study.

    Args:
        file: the study.
        metrics: those that are planned, by name.
        analyses: those that are planned, by name.
        texts: the corpora, or why they cannot be had.
        checkpoints: of each model and baseline that is planned, or why they cannot be had.
        baselines: the baselines by name.
        done: what is known of cells that ran.
        wanted: what is planned.
        force: whether cells that are done run, too.
        passes: the folder of kept passes.
    """

    file: StudyFile
    metrics: Mapping[str, Metric]
    analyses: Mapping[str, Analysis]
    texts: Mapping[str, Texts | Exception]
    checkpoints: Mapping[str, tuple[Checkpoint, ...] | Exception]
    baselines: Mapping[str, Baseline]
    done: Mapping[CellName, CellRecord]
    wanted: _Only
    force: bool
    passes: Path

    @property
    def _choices(self) -> list[MetricChoice]:
        return [choice for choice in self.file.study.metrics if choice.name in self.metrics]

    @property
    def _corpora(self) -> list[str]:
        return [name for name in self.texts if self.wanted.corpus(name)]

    def single(self) -> Iterator[Cell]:
        """Yield each metric of each checkpoint on each corpus."""
        for model, found in self.checkpoints.items():
            for corpus in self._corpora:
                for choice in self._choices if self._reads(model, corpus) else ():
                    if self.metrics[choice.name].compares_only:
                        continue
                    for checkpoint in found if isinstance(found, tuple) else (found,):
                        yield self._of_metric(choice, [(model, checkpoint, corpus)])

    def compared(self, models: Sequence[str]) -> Iterator[Cell]:
        """Yield each comparison that a metric makes: between models, corpora, or a model and its base.

        Of a model with several checkpoints the last one is compared; baselines are not.
        """
        last, corpora = {}, self._corpora
        for model in models:
            found = self.checkpoints[model]
            last[model] = found[-1] if isinstance(found, tuple) else found
        pairs: dict[str, list[tuple[tuple[str, str], tuple[str, str]]]] = {
            "models": [((a, on), (b, on)) for (a, b), on in product(combinations(models, 2), corpora)],
            "corpora": [((model, a), (model, b)) for model, (a, b) in product(models, combinations(corpora, 2))],
            "base": [
                ((model, on), (base, on))
                for model, on in product(models, corpora)
                if (base := self.file.study.models[model].base) in last
            ],
        }
        for choice in self._choices:
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
        """Yield a metric of each checkpoint of each model that has a base, beside it and the model from another seed.

        Args:
            choice: the metric.
            pairs: model and base, each with the corpus.
            last: the last checkpoint of each model that is planned.
        """
        for (model, corpus), (base, _) in pairs:
            found = self.checkpoints[model]
            twin = self.file.study.twin(model)
            others = [base, twin] if twin in last and twin is not None else [base]
            if not all(self._reads(one, corpus) for one in (model, *others)):
                continue
            for checkpoint in found if isinstance(found, tuple) else (found,):
                sides = [(model, checkpoint, corpus), *((one, last[one], corpus) for one in others)]
                yield self._of_metric(choice, sides, of_first=True)

    def analysed(self) -> Iterator[Cell]:
        """Yield each item of each analysis of each checkpoint, model by model."""
        items = [
            (analysis, name, item)
            for analysis in self.analyses.values()
            for name, item in analysis.items(self.file.study).items()
            if self.wanted.corpus(name)
        ]
        for model, found in self.checkpoints.items():
            for analysis, name, item in items:
                if not self._looked_at(analysis, item, model):
                    continue
                chosen = found if isinstance(found, tuple) else (found,)
                for checkpoint in chosen[-1:] if analysis.last_only else chosen:
                    yield self._of_analysis(analysis, name, item, model, checkpoint)

    def judged(self, cell: Cell) -> Cell:
        """Return a cell with what is to be done with it, and why."""
        if cell.state == "failed":
            return cell
        cell = self._compared_with_before(cell)
        lost = not_kept(self.passes, cell) if cell.state == "run" and isinstance(cell, MetricCell) else []
        return replace(cell, why=f"{cell.why}; not kept (run.keep): {', '.join(lost)}") if lost else cell

    def _compared_with_before(self, cell: Cell) -> Cell:
        record = self.done.get(cell.key)
        if record is None:
            return replace(cell, state="run", why="new")
        if record.status != "done":
            return replace(cell, state="run", why=f"failed before: {record.error}")
        before = json.loads(record.inputs) if record.inputs else {}
        as_then = cell.as_in(before)
        if record.fingerprint != as_then.fingerprint:
            changed = difference(before, json.loads(json.dumps(as_then.inputs)))
            return replace(cell, state="run", why=changed or "its inputs changed")
        return replace(cell, state="run", why=FORCED) if self.force else replace(as_then, state="cached")

    def _reads(self, model: str, corpus: str) -> bool:
        """Tell whether a model can be measured on a corpus: where only its states are there, on those they are of."""
        spec = self.file.study.models.get(model)
        return not isinstance(spec, StatesModel) or corpus in spec.states

    def _looked_at(self, analysis: Analysis, item: Any, model: str) -> bool:
        baseline = self.baselines.get(model)
        if baseline is None:
            given = isinstance(self.file.study.models[model], StatesModel)  # an analysis needs the model itself
            return not given and analysis.looks_at(item, model)
        return analysis.baselines and baseline.kind == "random-init" and self._looked_at(analysis, item, baseline.base)

    def _of_metric(
        self, choice: MetricChoice, parts: Sequence[tuple[str, Checkpoint | Exception, str]], of_first: bool = False
    ) -> Cell:
        metric, options = self.metrics[choice.name], choice.options
        assert isinstance(options, Options)  # the catalogue gave the study nothing else
        names = [(m, c.name if not isinstance(c, Exception) else FINAL, on) for m, c, on in parts]
        model, checkpoint, corpus = (joined(a, b) for a, b in zip(names[0], names[0 if of_first else -1], strict=True))
        key, settings = CellName(model, checkpoint, corpus, choice.name), options.model_dump(mode="json")
        trouble = [x for _, c, on in parts for x in (c, self.texts[on]) if isinstance(x, Exception)]
        if trouble:
            return Cell(key=key, settings=settings, state="failed", why=str(trouble[0]))
        passes = tuple(self._pass(*part) for part in parts)
        views = self.file.study.views
        return MetricCell(key=key, settings=settings, metric=metric, options=options, views=views, passes=passes)

    def _pass(self, model: str, checkpoint: Checkpoint | Exception, corpus: str) -> Pass:
        study, found = self.file.study, or_raise(checkpoint)
        return Pass(
            checkpoint=found,
            texts=or_raise(self.texts[corpus]),
            max_tokens=study.corpora[corpus].longest,
            sinks=study.sinks,
            sites=study.sites,
            seed=study.run.seed,
            precision="auto" if found.states else study.run.precision,  # states that are given are what they are
            shuffled=model in self.baselines and self.baselines[model].kind == "shuffled",
            windows=None if found.states else Windows.of(study.corpora[corpus]),
            chat=_chat(study.corpora[corpus]),
        )

    def _of_analysis(
        self, analysis: Analysis, name: str, item: Any, model: str, checkpoint: Checkpoint | Exception
    ) -> Cell:
        study = self.file.study
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
                corpora={corpus: Corpus(found, study.corpora[corpus].longest) for corpus, found in texts.items()},
                sites=study.sites,
                pooling=study.pooling,
                seed=study.run.seed,
            )
        except ReporterError as error:
            return Cell(key=key, state="failed", why=str(error))


def _chat(said: CorpusPart) -> Chat | None:
    return Chat(getattr(said, "role", None)) if getattr(said, "chat", False) else None


def _with_template(cell: Cell, inputs: _Inputs) -> Cell:
    """Return a cell that is to run as one that cannot where a chat has no template that takes it."""
    if cell.state != "run" or not isinstance(cell, MetricCell):
        return cell
    sides = (of for of in cell.passes if of.chat is not None and not of.checkpoint.states)
    problem = next(filter(None, map(inputs.refused, sides)), "")
    return replace(cell, state="failed", why=f"model '{cell.key.model}': {problem}") if problem else cell


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
                whole_words=self._words_of,
                offline=self.offline,
                words_of=lambda corpus: or_raise(self.texts(corpus)).words,
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
                models=lambda model: or_raise(self.checkpoints(model)),
            )
        except ReporterError as error:
            return error

    def refused(self, of: Pass) -> str:
        """Return why a chat cannot be written out by a model's tokenizer, as its first conversation shows; or nothing.

        Nothing, too, where that tokenizer is not on this machine.
        """
        known = (of.checkpoint.model, of.checkpoint.name, of.texts.name)
        if known not in self._refused:
            self._refused[known] = self._tried(of)
        return self._refused[known]

    def _tried(self, of: Pass) -> str:
        if of.checkpoint.recipe is not None:
            return NO_TEMPLATE
        if of.checkpoint.path is None or not len(of.texts):
            return ""
        from reporter.models.tokenizer import load_tokenizer  # brings transformers

        folder = of.checkpoint.path / (of.checkpoint.subfolder or "")
        try:
            tokenizer = load_tokenizer(of.checkpoint, folder, self.offline)
        except ReporterError:
            return ""  # the run says so, and it may be there by then
        try:
            assert of.chat is not None
            tokenised(of.texts[0], 1, tokenizer, never_words(tokenizer), of.chat)
        except ReporterError as error:
            # Of a hub model the template may be the one file that is not here yet.
            fetchable = of.checkpoint.source == "hub" and not self.offline and str(error) == NO_TEMPLATE
            return "" if fetchable else str(error)
        return ""

    def _words_of(self, model: str) -> Sequence[str]:
        return whole_words(or_raise(self.checkpoints(model))[-1], self.offline)


class _Only:
    """Which cells ``--only`` asks for."""

    def __init__(self, study: Study, names: Sequence[str]) -> None:
        items = {name: analysis.items(study) for name, analysis in analyses().items()}
        named = {item for found in items.values() for item in found}
        asked = {name for name, found in items.items() if found}
        kinds = (set(study.models), set(study.corpora) | named, {choice.name for choice in study.metrics} | asked)
        everything = set().union(*kinds)
        for name in names:
            if name not in everything:
                meant = get_close_matches(name, everything, 1)
                hint = f"; did you mean {meant[0]!r}?" if meant else f"; there are {', '.join(sorted(everything))}"
                raise UsageError(f"--only {name}: nothing of study {study.study!r} is called so{hint}")
        self._kept = [kind & set(names) or kind for kind in kinds]

    def model(self, name: str) -> bool:
        return name in self._kept[0]

    def corpus(self, name: str) -> bool:
        return name in self._kept[1]

    def read_besides(self, study: Study) -> set[str]:
        """Return the corpora that models are trained on, and those that planned items of analyses read."""
        recipes = (getattr(study.models[name], "recipe", None) for name in study.models if self.model(name))
        return {recipe.train_on for recipe in recipes if recipe is not None} | {
            corpus
            for name, analysis in analyses().items()
            if self.metric(name)
            for item, value in analysis.items(study).items()
            if self.corpus(item)
            for corpus in analysis.corpora(value)
        }

    def metric(self, name: str) -> bool:
        return name in self._kept[2]

    def nothing(self, study: Study, names: Sequence[str]) -> str:
        """Say that no cell is left."""
        said = " ".join(f"--only {name}" for name in names)
        if len(names) == 1:
            return f"{said}: study {study.study!r} has no cell of it"
        return f"{said}: no cell of study {study.study!r} is of all of these; run them one after the other"
