"""Cells of analyses: which there are, and what one of them yields."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from reporter.analyses.base import Analysis, Context, Corpus, default_pooling
from reporter.errors import ReporterError
from reporter.models.checkpoint import FINAL
from reporter.runs.cells import Computed
from reporter.runs.fingerprint import analysis_inputs, digest
from reporter.runs.plan import Asked, Baseline, Cell, CellKey, State, or_raise
from reporter.runs.rows import Record, Rows, quiet
from reporter.spec.models import StatesModel

if TYPE_CHECKING:
    from reporter.models.checkpoint import Checkpoint
    from reporter.models.load import LoadedModel
    from reporter.runs.plan import Plan
    from reporter.spec import Study, StudyFile
    from reporter.texts import Texts

VIEW = "words"  # the view under which the statistics of analyses are stored: they read a text's own tokens

Checkpoints = Mapping[str, "tuple[Checkpoint, ...] | Exception"]
Judge = Callable[[CellKey, str, Mapping[str, Any]], "tuple[State, str]"]


@dataclass(frozen=True)
class AnalysisGrid:
    """All analysis cells of a study.

    Args:
        file: the study.
        analyses: those that are planned, by name.
        texts: the corpora, or why they cannot be had.
        checkpoints: of each model and baseline that is planned, or why they cannot be had.
        baselines: the baselines by name.
        wanted: whether an item of that name is planned.
        judge: tells from key, fingerprint and inputs whether a cell must run, and why.
    """

    file: StudyFile
    analyses: Mapping[str, Analysis]
    texts: Mapping[str, Texts | Exception]
    checkpoints: Checkpoints
    baselines: Mapping[str, Baseline]
    wanted: Callable[[str], bool]
    judge: Judge

    def cells(self) -> Iterator[Cell]:
        """Yield each item of each checkpoint, model by model."""
        items = [
            (analysis, name, item)
            for analysis in self.analyses.values()
            for name, item in analysis.items(self.file.study).items()
            if self.wanted(name)
        ]
        for model, found in self.checkpoints.items():
            for analysis, name, item in items:
                if not self._looked_at(analysis, item, model):
                    continue
                chosen = found if isinstance(found, tuple) else (found,)
                for checkpoint in chosen[-1:] if analysis.last_only else chosen:
                    yield self._cell(analysis, name, item, model, checkpoint)

    def _looked_at(self, analysis: Analysis, item: Any, model: str) -> bool:
        baseline = self.baselines.get(model)
        if baseline is None:
            given = isinstance(self.file.study.models[model], StatesModel)  # an analysis needs the model itself
            return not given and analysis.looks_at(item, model)
        return analysis.baselines and baseline.kind == "random-init" and self._looked_at(analysis, item, baseline.base)

    def _cell(self, analysis: Analysis, name: str, item: Any, model: str, checkpoint: Checkpoint | Exception) -> Cell:
        study = self.file.study
        named = FINAL if isinstance(checkpoint, Exception) else checkpoint.name
        key = CellKey(model, named, name, analysis.name)
        try:
            resolved = analysis.resolve(item, self.file.folder)
            corpora = {corpus: or_raise(self.texts[corpus]) for corpus in analysis.corpora(item)}
            found = or_raise(checkpoint)
        except ReporterError as error:
            return Cell(key, "failed", str(error), {}, "", (), None)
        asked = Asked(resolved, tuple(corpora))
        inputs = analysis_inputs(
            weights=found.fingerprint,
            bos=found.bos,
            corpora={corpus: [texts.hash, study.corpora[corpus].max_tokens] for corpus, texts in corpora.items()},
            analysis=analysis.name,
            version=analysis.version,
            code=analysis.code,
            item=asked.settings,
            sites=study.sites,
            pooling=study.pooling if analysis.pooled else None,
            seed=study.run.seed,
        )
        fingerprint = digest(inputs)
        state, why = self.judge(key, fingerprint, inputs)
        return Cell(key, state, why, inputs, fingerprint, (), None, asked)


def analyse(
    cell: Cell, analysis: Analysis, checkpoint: Checkpoint, model: LoadedModel, plan: Plan, tell: Any
) -> Computed:
    """Return the rows of one analysis cell.

    Args:
        cell: what to compute.
        analysis: how.
        checkpoint: of which model.
        model: the same, loaded.
        plan: the study's plan.
        tell: told of progress.
    """
    from reporter.forward.places import Layout

    study, began = plan.file.study, time.perf_counter()
    assert cell.asked is not None  # the grid asks in every cell that can run
    context = Context(
        model=model,
        layout=Layout.of(model.anatomy, study.sites),
        pooling=default_pooling(model.anatomy.role) if study.pooling == "auto" else study.pooling,
        corpora={
            name: Corpus(or_raise(plan.texts[name]), study.corpora[name].max_tokens) for name in cell.asked.corpora
        },
        seed=study.run.seed,
        batch_tokens=study.run.batch_tokens,
        tell=tell,
    )
    said = {
        "model": checkpoint.model,
        "checkpoint": checkpoint.name,
        "step": checkpoint.step,
        "role": model.anatomy.role,
        "corpus": cell.key.corpus,
        "metric": analysis.name,
    }
    rows = Rows(said, model.anatomy.layers)
    rows.add(quiet(analysis.compute(cell.asked.item, context)), VIEW)
    return Computed(rows.tables, rows.reasons(), time.perf_counter() - began)


def model_columns(model: LoadedModel, study: Study) -> Record:
    """Return the columns of ``models`` that a loaded model fills where no corpus went through it."""
    row: Record = asdict(model.anatomy) | {"device": str(model.device)}
    return row if study.metrics and study.corpora else row | {"precision": "float32"}
