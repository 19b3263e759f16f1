"""What a run would do: the cells of a study, which of them are done already, and why the others must run."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from reporter.spec.models import StatesModel
from reporter.store import CellName

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import BaseModel

    from reporter.analyses.base import Analysis, Corpus
    from reporter.forward.places import Site
    from reporter.forward.precision import Asked
    from reporter.metrics.base import Metric, Options
    from reporter.models.checkpoint import Checkpoint
    from reporter.spec import StudyFile
    from reporter.spec.reading import SinkSpec
    from reporter.texts import Texts
    from reporter.texts.chat import Chat
    from reporter.texts.windows import Windows

PASS_VERSION = 3  # raise it when tokens, strata or the pass change what observables see
FORCED = "forced"  # the reason why a cell runs that was done already
PRECISIONS: tuple[Literal["float32", "mixed"], ...] = ("float32", "mixed")

State = Literal["cached", "run", "failed"]
T = TypeVar("T")


def or_raise(value: T | Exception) -> T:
    """Return a value, or raise what stands in its place."""
    if isinstance(value, Exception):
        raise value
    return value


def digest(parts: Mapping[str, Any]) -> str:
    """Return a hash of JSON values that does not depend on the order of keys."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Pass:
    """A corpus through a checkpoint: all that its observables depend on; device and batch size are not among it.

    Args:
        checkpoint: whose states.
        texts: the corpus.
        max_tokens: where its texts are cut.
        sinks: which tokens are sinks.
        sites: where states are read.
        seed: the study's seed: bootstrap weights and samples hang on it.
        precision: as the study asks for it, until it is settled: then it is what was computed.
        shuffled: whether the tokens of each text are shuffled.
        windows: how longer texts are read instead of being cut.
        chat: whose turns count, where texts are conversations.
    """

    checkpoint: Checkpoint
    texts: Texts
    max_tokens: int
    sinks: SinkSpec
    sites: tuple[Site, ...]
    seed: int
    precision: Asked = "auto"
    shuffled: bool = False
    windows: Windows | None = None
    chat: Chat | None = None

    def __str__(self) -> str:
        return f"{self.checkpoint.model} {self.checkpoint.name} × {self.texts.name}"

    @property
    def inputs(self) -> dict[str, Any]:
        """What it depends on, as JSON; observables are kept under its hash."""
        return {
            "weights": self.checkpoint.weights_on(self.texts.name),
            "bos": self.checkpoint.bos,
            "sinks": self.sinks.model_dump(mode="json"),
            "texts": self.texts.hash,
            "max_tokens": self.max_tokens,
            "precision": self.precision,
            "seed": self.seed,
            "sites": sorted(self.sites),
            "shuffled": self.shuffled,
            "pass": PASS_VERSION,
            **({"window": self.windows.size, "stride": self.windows.stride} if self.windows else {}),
            **({"chat": self.chat.role or "all"} if self.chat else {}),
        }

    def settled(self, precision: Any) -> Pass:
        """Return the pass in the precision that ``auto`` came to; one that asks for a certain precision keeps it."""
        return replace(self, precision=precision) if self.precision == "auto" and precision in PRECISIONS else self


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A unit of work. One that is of neither kind below cannot run, since its model or corpus cannot be had.

    Args:
        key: its name.
        settings: what the study says of it, as JSON: the metric's options, or the analysis' item.
        state: ``cached`` (done with the same inputs), ``run`` or ``failed``.
        why: why it must run, or why it cannot.
    """

    key: CellName
    settings: Any = field(default_factory=dict)
    state: State = "run"
    why: str = ""

    @property
    def inputs(self) -> dict[str, Any]:
        """What its numbers depend on, as JSON; empty where it cannot run."""
        return {}

    @property
    def fingerprint(self) -> str:
        """Hash of the inputs."""
        return digest(self.inputs) if self.inputs else ""

    @property
    def compares(self) -> bool:
        """Whether it compares two passes."""
        return False

    def as_in(self, before: Mapping[str, Any]) -> Self:
        """Return the cell with what its study leaves open as it was in earlier inputs."""
        return self


@dataclass(frozen=True, kw_only=True)
class MetricCell(Cell):
    """A metric of one checkpoint on one corpus; or of several such passes, which it compares.

    Args:
        metric: the metric.
        options: its options.
        views: which tokens count.
        passes: one, or those that it compares.
    """

    metric: Metric
    options: Options
    views: tuple[str, ...]
    passes: tuple[Pass, ...]

    @property
    def inputs(self) -> dict[str, Any]:
        """Its passes, its definition and its options."""
        first, *others = (of.inputs for of in self.passes)
        return {
            **first,
            **{part + which: value for which, of in zip(_OTHERS, others, strict=False) for part, value in of.items()},
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
        """Return the cell in the precision in which it was computed before, where the study asks for none: both do."""
        parts = ("precision", *(f"precision{which}" for which in _OTHERS))
        passes = (of.settled(before.get(part)) for of, part in zip(self.passes, parts, strict=False))
        return replace(self, passes=tuple(passes))


_OTHERS = (" of the second", " of the third")
_NOT_OF_PASS = ("metric", "metric version", "metric code", "options", "views")


def passes_in(inputs: Mapping[str, Any]) -> list[str]:
    """Return the hashes of the inputs of the passes, if there are any, that a cell's inputs hold."""
    own = {part: value for part, value in inputs.items() if part not in _NOT_OF_PASS}
    found = [{part: value for part, value in own.items() if not part.endswith(_OTHERS)}]
    for which in _OTHERS:
        found.append({part.removesuffix(which): value for part, value in own.items() if part.endswith(which)})
    return [digest(parts) for parts in found if "pass" in parts]


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
    """

    analysis: Analysis
    item: BaseModel
    checkpoint: Checkpoint
    corpora: Mapping[str, Corpus]
    sites: tuple[Site, ...]
    pooling: Literal["auto", "first", "mean", "last"]
    seed: int

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
        }


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Say in words what changed between two sets of inputs, e.g. ``"options changed (sample 4096 → 64)"``."""
    said = []
    for part in sorted({*old, *new}):
        before, after = old.get(part), new.get(part)
        if before == after:
            continue
        if part in (
            "texts",
            "item",
            "weights",
            *(part + which for part in ("texts", "weights") for which in _OTHERS),
            "metric code",
            "analysis code",
        ):
            said.append(f"{part} changed")  # hashes and whole texts tell a reader nothing
        elif isinstance(before, dict) and isinstance(after, dict):
            keys = [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
            detail = ", ".join(f"{key} {before.get(key)} → {after.get(key)}" for key in keys)
            said.append(f"{part} changed ({detail})")
        else:
            said.append(f"{part} changed ({before} → {after})")
    return ", ".join(said)


@dataclass(frozen=True)
class Baseline:
    """A null baseline of a model, measured as if it were a model of its own.

    Args:
        base: the model.
        kind: ``random-init``: the same architecture with random weights; ``shuffled``: the same weights on texts whose
            tokens are shuffled.
    """

    base: str
    kind: Literal["random-init", "shuffled"]

    @property
    def name(self) -> str:
        """What it is called in the database; no model of a study can have such a name."""
        return f"{self.base} ({self.kind})"


@dataclass(frozen=True)
class Plan:
    """Everything a run needs to know before it loads a model.

    Args:
        file: the study.
        analyses: the analyses it asks for, by name.
        texts: each corpus, or why it cannot be had.
        checkpoints: the checkpoints of each model and baseline, or why they cannot be had.
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

    def count(self, state: State) -> int:
        """Return how many cells are in a state."""
        return sum(cell.state == state for cell in self.cells)

    def lines(self) -> list[str]:
        """Describe the plan for people: one cell a line, and those that cannot run for the same reason together."""
        head = f"{self.file.study.study}: {len(self.cells)} cells, {self.count('cached')} cached, "
        head += f"{self.count('run')} to run, {self.count('failed')} cannot run"
        alike = Counter(cell.why for cell in self.cells if cell.state == "failed")
        rows: dict[str, tuple[str, str, str]] = {}
        for cell in self.cells:
            many = alike[cell.why] if cell.state == "failed" else 1
            key = str(cell.key) if many == 1 else f"{many} cells"
            rows.setdefault(str(cell.key) if many == 1 else cell.why, (cell.state, key, cell.why))
        width = max((len(key) for _, key, _ in rows.values()), default=0)
        body = [f"  {state:<6}  {key:<{width}}  {why}".rstrip() for state, key, why in rows.values()]
        return [head, *body, *self._thinned(), *self.hints(), *self._to_train()]

    def hints(self) -> list[str]:
        """Say what is left out of models of which only states are there, and of a study that this one extends.

        And what numbers of whole texts are in a corpus that is read in windows; and which claims compare corpora of
        different size on numbers that move with it, and what to write.
        """
        said = [*self.file.notes, *self._left_out(), *self._windowed()]
        if not self.file.study.claims:
            return said
        from reporter.claims.kind import foreseen

        return [*said, *foreseen(self.file.study, self._words())]

    def _windowed(self) -> list[str]:
        study = self.file.study
        if not any(study.corpora[name].window for name in self.texts):
            return []
        from reporter.runs.windowed import windowed

        return [said for name in self.texts if (said := windowed(study, name))]

    def _left_out(self) -> list[str]:
        study, said = self.file.study, []
        for name in self.checkpoints:
            spec = study.models.get(name)
            if isinstance(spec, StatesModel):
                without = [f"corpus {corpus}" for corpus in study.corpora if corpus not in spec.states]
                without += [analysis.name for analysis in self.analyses.values() if analysis.items(study)]
                without += study.baselines
                said += [f"model {name}: only its states are there, so without {', '.join(without)}"] if without else []
        return said

    def _words(self) -> dict[str, int]:
        return {name: texts.words for name, texts in self.texts.items() if not isinstance(texts, Exception)}

    def _thinned(self) -> list[str]:
        """Say of each corpus with ``size_of`` what is left of it."""
        words, said = self._words(), []
        for name, texts in self.texts.items():
            other = self.file.study.corpora[name].size_of
            if other is not None and not isinstance(texts, Exception):
                wanted = f"{words[other]:,} of {other}" if other in words else f"those of {other}"
                kept = f"{len(texts):,} of {len(texts) + texts.thinned:,} texts"
                said.append(f"corpus {name}: {kept}, whose {texts.words:,} words come nearest to {wanted}")
        return said

    def _to_train(self) -> list[str]:
        """Say in one line which models a run trains first, if any; baselines read what their models leave."""
        todo = [cell for cell in self.cells if isinstance(cell, MetricCell) and cell.state == "run"]
        wanted = {of.checkpoint.model for cell in todo for of in cell.passes}
        said: dict[Path | None, str] = {}
        for name, found in self.checkpoints.items():
            if name in wanted and name not in self.baselines:
                _note_training(or_raise(found), said)
        return [f"trained first: {', '.join(said.values())}"] if said else []


def _note_training(checkpoints: tuple[Checkpoint, ...], said: dict[Path | None, str]) -> None:
    """Note the name and steps of a recipe model that is not trained yet, and of those that it continues."""
    lacks = [one for one in checkpoints if one.recipe is not None and one.loss is None and one.initialised is None]
    if lacks:
        _note_training(lacks[0].origin, said)
        said[lacks[0].path] = f"{lacks[0].model} to step {lacks[-1].step:,}"
