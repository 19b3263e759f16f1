"""The plan of a run: the cells of a study, which of them are done, why the others must run, and what they cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from reporter.core.numbers import counted, duration, size_text
from reporter.forward.inputs import ADDED, FEWEST_TOKENS, FOLDERS, PRECISIONS, Pass, Size, rate_of, size_of
from reporter.forward.inputs import tokens_of as tokens_of_texts
from reporter.metrics.analysis import Analysis, Corpus, analyses
from reporter.metrics.base import Metric, Options, catalogue
from reporter.models.checkpoint import Checkpoint
from reporter.models.model_folder import fingerprint, limit_of
from reporter.models.sentence import unused_settings
from reporter.store import CellName
from reporter.study import Study, StudyFile
from reporter.study.corpora import Site
from reporter.study.models import StatesModel
from reporter.study.study import Keep
from reporter.texts import Texts

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import BaseModel

    from reporter.forward.kept import Wanted

FORCED = "forced"  # the reason why a cell runs that was done already
TOKENS_PER_TYPE = 40  # English: tokens for each type that occurs five times or more
_OTHERS = "compared with"  # the inputs of the other passes of a cell that compares
_HASHES = {"texts", "item", "weights", "metric code", "analysis code"}  # tell a reader nothing

State = Literal["cached", "run", "failed"]
T = TypeVar("T")


def cells_text(count: int) -> str:
    """Return how many cells there are, with what a cell is."""
    return f"{counted(count, 'cell')} (checkpoint × corpus × metric)"


def or_raise(value: T | Exception) -> T:
    """Return a value, or raise the exception in its place."""
    if isinstance(value, Exception):
        raise value
    return value


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A unit of work; of neither kind below where it cannot run, since its model or its corpus is not available.

    Args:
        key: its name.
        settings: its part of the study, as JSON: the options of the metric, or the item of the analysis.
        state: ``cached`` (done with the same inputs), ``run`` or ``failed``.
        why: why it must run, or why it cannot.
    """

    key: CellName
    settings: Any = field(default_factory=dict)
    state: State = "run"
    why: str = ""

    @property
    def inputs(self) -> dict[str, Any]:
        """The dependencies of its numbers as JSON; empty where it cannot run."""
        return {}

    @property
    def fingerprint(self) -> str:
        """Hash of the inputs."""
        return fingerprint(self.inputs) if self.inputs else ""

    @property
    def compares(self) -> bool:
        """Whether it compares two passes or more."""
        return False

    def as_in(self, before: Mapping[str, Any]) -> Self:
        """Return the cell with what its study leaves open as it was in earlier inputs."""
        return self


@dataclass(frozen=True, kw_only=True)
class MetricCell(Cell):
    """A metric of one checkpoint on one corpus, or of several such passes that it compares."""

    metric: Metric
    options: Options
    views: tuple[str, ...]
    passes: tuple[Pass, ...]

    @property
    def inputs(self) -> dict[str, Any]:
        """Its passes, its definition and its options."""
        first, *rest = (forward_pass.inputs for forward_pass in self.passes)
        return {
            **first,
            **({_OTHERS: rest} if rest else {}),
            "metric": self.metric.name,
            "metric version": self.metric.version,
            **({"metric code": self.metric.code} if self.metric.code else {}),
            "options": self.options.model_dump(mode="json"),
            "views": sorted(self.views),
        }

    @property
    def compares(self) -> bool:
        """Whether it compares two passes or more."""
        return len(self.passes) > 1

    def as_in(self, before: Mapping[str, Any]) -> MetricCell:
        """Return the cell in the precision of its earlier inputs, where the study asks for none."""
        sides = [before, *before.get(_OTHERS, ())]
        sides += [{}] * (len(self.passes) - len(sides))
        passes = (
            forward_pass.settled(side.get("precision")) for forward_pass, side in zip(self.passes, sides, strict=False)
        )
        return replace(self, passes=tuple(passes))


def passes_in(inputs: Mapping[str, Any]) -> list[str]:
    """Return the names of the folders of the passes that a cell's inputs hold."""
    not_of_pass = (_OTHERS, "metric", "metric version", "metric code", "options", "views")
    first = {part: value for part, value in inputs.items() if part not in not_of_pass}
    return [fingerprint(side) for side in (first, *inputs.get(_OTHERS, ())) if "pass" in side]


@dataclass(frozen=True, kw_only=True)
class AnalysisCell(Cell):
    """An analysis of one item of the study, of one checkpoint; ``settings`` is its item as JSON.

    Args:
        analysis: the analysis.
        item: the item, as the analysis resolved it.
        checkpoint: of which model.
        corpora: the corpora that the item reads.
        sites: where states are read.
        pooling: how texts become vectors, as the study asks for it.
        seed: the study's seed.
        base: the last checkpoint of the model's base, where the analysis compares with it.
    """

    analysis: Analysis
    item: BaseModel
    checkpoint: Checkpoint
    corpora: Mapping[str, Corpus]
    sites: tuple[Site, ...]
    pooling: Literal["auto", "first", "mean", "last"]
    seed: int
    base: Checkpoint | None = None

    @property
    def inputs(self) -> dict[str, Any]:
        """Its model, the item with the contents of files that it names, and the definition."""
        return {
            "weights": self.checkpoint.fingerprint,
            "bos": self.checkpoint.bos,
            "texts": {name: [corpus.texts.hash, corpus.max_tokens] for name, corpus in self.corpora.items()},
            "analysis": self.analysis.name,
            "analysis version": self.analysis.version,
            **({"analysis code": self.analysis.code} if self.analysis.code else {}),
            "item": self.settings,
            "sites": sorted(self.sites),
            "pooling": self.pooling if self.analysis.pooled else None,
            "seed": self.seed,
            **({"base": self.base.fingerprint} if self.base else {}),
        }


def difference(old: Mapping[str, Any], new: Mapping[str, Any], which: str = "") -> str:
    """Return in words what changed between two sets of inputs, e.g. ``"options changed (sample 4096 → 64)"``."""
    changes = []
    for part in sorted({*old, *new} - {_OTHERS}):
        before, after = old.get(part), new.get(part)
        if before == after:
            continue
        detail = f"{before} → {after}"
        if isinstance(before, dict) and isinstance(after, dict):
            keys = [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
            detail = ", ".join(f"{key} {before.get(key)} → {after.get(key)}" for key in keys)
        changes.append(f"{part}{which} changed" + ("" if part in _HASHES else f" ({detail})"))
    for which, a, b in zip(
        (" of the second side", " of the third side"), old.get(_OTHERS, ()), new.get(_OTHERS, ()), strict=False
    ):
        changes.append(difference(a, b, which))
    return ", ".join(filter(None, changes))


@dataclass(frozen=True)
class Baseline:
    """A null baseline of the model ``base``, measured like a model.

    ``random-init`` is the same architecture with random weights, ``shuffled`` the same weights on texts whose tokens
    are shuffled.
    """

    base: str
    kind: Literal["random-init", "shuffled"]

    @property
    def name(self) -> str:
        """Its name in the database, which no model of a study can have."""
        return f"{self.base} ({self.kind})"


@dataclass(frozen=True)
class Plan:
    """Everything that a run needs to know before it loads a model.

    Args:
        file: the study.
        analyses: the analyses it asks for, by name.
        texts: each corpus, or why it is not available.
        checkpoints: the checkpoints of each model and baseline, or why they are not available.
        baselines: the baselines by name.
        cells: every cell, in the order of the study.
        partial: whether it covers only a part of the study.
    """

    file: StudyFile
    analyses: Mapping[str, Analysis]
    texts: Mapping[str, Texts | Exception]
    checkpoints: Mapping[str, tuple[Checkpoint, ...] | Exception]
    baselines: Mapping[str, Baseline]
    cells: tuple[Cell, ...]
    partial: bool

    @property
    def read(self) -> dict[str, Texts]:
        """The corpora that are available."""
        return {name: texts for name, texts in self.texts.items() if not isinstance(texts, Exception)}

    @property
    def to_measure(self) -> list[MetricCell]:
        """The cells of metrics that must run."""
        return [cell for cell in self.cells if isinstance(cell, MetricCell) and cell.state == "run"]

    @property
    def passes(self) -> dict[str, Pass]:
        """What these cells read, by name."""
        return {str(forward_pass): forward_pass for cell in self.to_measure for forward_pass in cell.passes}

    def count(self, state: State) -> int:
        """Return how many cells are in a state."""
        return sum(cell.state == state for cell in self.cells)

    def lines(self, each: bool = False) -> list[str]:
        """Describe the plan for people: cells that run, or cannot run, for the same reason share a line.

        Args:
            each: a line for each cell instead, also for those that are cached.
        """
        head = f"{self.file.study.study}: {cells_text(len(self.cells))}: {self.count('cached')} cached, "
        head += f"{self.count('run')} to run, {self.count('failed')} cannot run"
        alike: dict[tuple[str, ...], list[Cell]] = defaultdict(list)
        for cell in self.cells:
            if each or cell.state != "cached":
                alike[(cell.state, cell.why, *([str(cell.key)] if each else []))].append(cell)
        rows = [(state, _together(cells), why) for (state, why, *_), cells in alike.items()]
        width = max((len(key) for _, key, _ in rows), default=0)
        body = [f"  {state:<6}  {key:<{width}}  {why}".rstrip() for state, key, why in rows]
        return [head, *body, *self._thinned(), *self.hints(), *self._sentence_encoders(), *self._to_train()]

    def hints(self) -> list[str]:
        """Return notes on the study: what is left out, and numbers that do not mean what a reader may think.

        They are about texts that are too few or unfit, models of which only states are there, corpora that are read in
        windows, texts that a model cuts, and claims that compare corpora of different size on numbers that depend on
        it.
        """
        from reporter.runs.cautions import cautions
        from reporter.runs.studies import beyond_limits

        study = self.file.study
        windows = [windowed(study, name) for name in self.texts if study.corpora[name].window]
        few = cautions(study, self.read)
        hints = [*self.file.notes, *self._left_out(), *filter(None, windows), *few, *beyond_limits(self.file)]
        if not study.claims:
            return hints
        from reporter.judge.claims import untestable_claims

        return [*hints, *untestable_claims(study, self._words())]

    def _left_out(self) -> list[str]:
        study, hints = self.file.study, []
        for name in self.checkpoints:
            spec = study.models.get(name)
            if isinstance(spec, StatesModel):
                without = [f"corpus {corpus}" for corpus in study.corpora if corpus not in spec.states]
                without += [analysis.name for analysis in self.analyses.values() if analysis.items(study)]
                without += study.baselines
                if without:
                    hints.append(f"model {name} has saved states only, which leaves out {', '.join(without)}")
        return hints

    def _words(self) -> dict[str, int]:
        return {name: texts.words for name, texts in self.read.items()}

    def _thinned(self) -> list[str]:
        words, lines = self._words(), []
        for name, texts in self.read.items():
            other = self.file.study.corpora[name].size_of
            if other is not None:
                size = f"the {words[other]:,} words of {other}" if other in words else f"the size of {other}"
                kept = f"{len(texts):,} of {len(texts) + texts.thinned:,} texts"
                lines.append(f"corpus {name}: {kept} with {texts.words:,} words, to match {size} (size_of)")
        return lines

    def _sentence_encoders(self) -> Iterator[str]:
        """Yield what sentence-transformers would read otherwise; each pass says it, too, in a run."""
        most = max((corpus.max_tokens for corpus in self.file.study.corpora.values()), default=0)
        for name, checkpoints in self.checkpoints.items():
            if (
                name in self.baselines
                or isinstance(checkpoints, Exception)
                or (folder := checkpoints[-1].folder) is None
            ):
                continue
            if unused := unused_settings(folder, min(most, limit_of(folder) or most)):
                yield f"model {name}: {unused}"

    def _to_train(self) -> list[str]:
        models = {forward_pass.checkpoint.model for forward_pass in self.passes.values()}
        trainings: dict[Path | None, str] = {}
        for name, checkpoints in self.checkpoints.items():
            if name in models and name not in self.baselines:
                _note_training(or_raise(checkpoints), trainings)
        return [f"to train first: {', '.join(trainings.values())}"] if trainings else []


def _together(cells: Sequence[Cell]) -> str:
    """Return the name of a cell, or how many there are, with the model, corpus or metric that all share."""
    if len(cells) == 1:
        return str(cells[0].key)
    names = {part: {getattr(cell.key, part) for cell in cells} for part in ("model", "corpus", "metric")}
    shared = [f"{part} {min(of_cells)}" for part, of_cells in names.items() if len(of_cells) == 1]
    return f"{len(cells)} cells" + (f" ({', '.join(shared)})" if shared else "")


def _note_training(checkpoints: tuple[Checkpoint, ...], trainings: dict[Path | None, str]) -> None:
    lacks = [
        checkpoint
        for checkpoint in checkpoints
        if checkpoint.recipe is not None and checkpoint.loss is None and checkpoint.initialised is None
    ]
    if lacks:
        _note_training(lacks[0].origin, trainings)
        trainings[lacks[0].path] = f"{lacks[0].model} to step {lacks[-1].step:,}"


def in_windows(metric: Metric) -> set[str]:
    """Return what a metric reads of a text in windows where it is about texts: ``each`` of them, the ``first``."""
    from reporter.forward.observed import KINDS  # imports torch, for studies with windows alone

    return {read for name in metric.needs if (read := KINDS[name].in_windows)}


def windowed(study: Study, corpus: str) -> str:
    """Return a warning about a corpus that is read in windows; empty where no number of the study is about texts."""
    window = study.corpora[corpus].window
    if window is None:
        return ""
    read = {choice.name: in_windows(catalogue()[choice.name]) for choice in study.metrics}
    each = [name for name, windows in read.items() if "each" in windows]
    first = [name for name, windows in read.items() if "first" in windows]
    for name, analysis in analyses().items():
        if any(corpus in analysis.corpora(item) for item in analysis.items(study).values()):
            first.append(name)
    parts = [f"each window counts as a text for {', '.join(each)}"] if each else []
    parts += [f"only the first window of a longer text counts for {', '.join(first)}"] if first else []
    return f"corpus '{corpus}' is read in windows of {window} tokens: {'; '.join(parts)}" if parts else ""


@dataclass(frozen=True)
class Estimate:
    """The cost of a plan.

    Args:
        cells: cells that must be computed.
        analyses: how many of them are of analyses.
        passes: passes over a corpus whose observables are not kept.
        tokens: tokens through models, over all passes.
        seconds: time of the passes; None where no pass was timed on this machine.
        weights: bytes of the largest model's weights in memory.
        disk: bytes that the passes leave in the cache.
        unknown: models that are not counted, since their size is not known before they are downloaded.
    """

    cells: int = 0
    analyses: int = 0
    passes: int = 0
    tokens: int = 0
    seconds: float | None = None
    weights: int = 0
    disk: int = 0
    unknown: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return the estimate in words, one subject in each line."""
        if not self.cells:
            return ["nothing to measure"]
        lines = []
        if self.passes:
            took = f"time unknown, since no pass of {FEWEST_TOKENS:,} tokens or more is in this results folder"
            if self.seconds is not None:
                took = f"about {duration(self.seconds, rough=True)} plus loading, at the speed of the last pass"
            passes = counted(self.passes, "forward pass", "forward passes")
            lines.append(f"{passes} over {self.tokens:,} tokens: {took}")
        elif not self.unknown and self.cells > self.analyses:
            lines.append("no forward pass: the cache has all that the metrics need")
        if self.analyses:
            lines.append(f"{counted(self.analyses, 'cell')} of analyses: no time estimate")
        if self.weights:
            lines.append(
                f"memory: {size_text(self.weights)} for the weights of the largest model, plus a batch of states"
            )
        if self.disk:
            lines.append(f"disk: about {size_text(self.disk)} in the cache")
        if self.unknown:
            lines.append(f"not counted: {', '.join(self.unknown)}; the size of a model is known after its download")
        return lines


def estimate(plan: Plan, cache: Path) -> Estimate:
    """Estimate the cost of a plan: time from the rate of the last pass here, weights from the headers of files.

    Args:
        plan: the plan.
        cache: the folder of caches; what is kept there is not measured again.
    """
    from reporter.runs.cells import wanted_by
    from reporter.runs.work import pick_device

    run, todo = plan.file.study.run, [cell for cell in plan.cells if cell.state == "run"]
    of_analyses = [cell for cell in todo if isinstance(cell, AnalysisCell)]
    of_pass: dict[Any, list[MetricCell]] = defaultdict(list)
    for cell in plan.to_measure:
        if not cell.compares:  # both sides of a comparison have cells too
            of_pass[cell.key[:3]].append(cell)
    rate = rate_of(cache, pick_device(run.device)) if todo else None
    unknown: dict[str, None] = {}
    passes = tokens = weights = disk = 0
    work = 0.0
    read_by = [cells[0].passes[0].checkpoint for cells in of_pass.values()]
    for checkpoint in [*(cell.checkpoint for cell in of_analyses), *read_by]:
        if (size := size_of(checkpoint)) is None:
            unknown[checkpoint.model] = None
        else:
            weights = max(weights, size.parameters * (4 if checkpoint.dtype == "float32" else 2))
    for cells in of_pass.values():
        forward_pass = cells[0].passes[0]
        missing = _missing(cache, forward_pass, wanted_by((cell.metric, cell.options, cell.views) for cell in cells))
        if not missing or (size := size_of(forward_pass.checkpoint)) is None:
            continue
        read = tokens_of_texts(
            forward_pass.checkpoint, forward_pass.texts, forward_pass.max_tokens, forward_pass.windows
        )
        passes, tokens, work = passes + 1, tokens + read, work + read * size.active
        disk += _bytes_left(forward_pass, size, missing, read, run.keep)
    seconds = None if rate is None else work / rate
    cells_to_run = sum(isinstance(cell, MetricCell | AnalysisCell) for cell in todo)
    return Estimate(cells_to_run, len(of_analyses), passes, tokens, seconds, weights, disk, tuple(unknown))


def _missing(cache: Path, forward_pass: Pass, amounts: Wanted) -> Wanted:
    from reporter.forward.kept import PassFolder

    ways = [forward_pass.settled(precision) for precision in PRECISIONS]
    return min((PassFolder(cache / FOLDERS["pass"], way.inputs).missing(amounts) for way in ways), key=len)


def _bytes_left(forward_pass: Pass, size: Size, amounts: Wanted, tokens: int, keep: Keep) -> int:
    from reporter.forward.kept import bytes_kept, stays
    from reporter.models.places import Layout

    layout = Layout(
        size.layers,
        size.width,
        size.width if "final" in forward_pass.sites else None,
        "attention" in forward_pass.sites,
    )
    texts = len(forward_pass.texts)
    categories = [max(0, n) for n in (tokens - (ADDED + 1) * texts, ADDED * texts, texts)]
    types = dict.fromkeys(range(tokens // TOKENS_PER_TYPE), 10)
    kept = bytes_kept(layout, amounts, categories, texts, types)
    return 8 * tokens + sum(size for name, size in kept.items() if stays(name, keep))
