"""What a run would do: the cells of a study, which of them are done already, and why the others must run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel

from reporter.runs.estimate import estimate
from reporter.spec.models import StatesModel

if TYPE_CHECKING:
    from pathlib import Path

    from reporter.analyses.base import Analysis
    from reporter.metrics.base import Metric, Options
    from reporter.models.checkpoint import Checkpoint
    from reporter.spec import StudyFile
    from reporter.texts import Texts

State = Literal["cached", "run", "failed"]
FORCED = "forced"  # the reason why a cell runs that was done already

T = TypeVar("T")


def or_raise(value: T | Exception) -> T:
    """Return a value, or raise what stands in its place."""
    if isinstance(value, Exception):
        raise value
    return value


class CellKey(NamedTuple):
    """Names a cell within its study."""

    model: str
    checkpoint: str
    corpus: str
    metric: str

    def __str__(self) -> str:
        return " × ".join(self)


@dataclass(frozen=True)
class Side:
    """A checkpoint measured on a corpus.

    Args:
        model: name of the model, or of its baseline.
        checkpoint: name of the checkpoint.
        corpus: name of the corpus.
        of_pass: what its observables depend on.
    """

    model: str
    checkpoint: str
    corpus: str
    of_pass: Mapping[str, Any]


@dataclass(frozen=True)
class Asked:
    """What an analysis looks at.

    Args:
        item: the item of the study as the analysis resolved it.
        corpora: the corpora that it reads.
    """

    item: BaseModel
    corpora: tuple[str, ...]

    @property
    def settings(self) -> Any:
        """The item as JSON."""
        return self.item.model_dump(mode="json")


@dataclass(frozen=True)
class Cell:
    """One metric of one checkpoint on one corpus, or of two such sides that it compares; or one item of an analysis.

    Args:
        key: its names.
        state: ``cached`` (done with the same inputs), ``run``, or ``failed`` (its model or corpus cannot be had).
        why: why it must run, or why it cannot.
        inputs: what its numbers depend on; empty when failed.
        fingerprint: hash of the inputs.
        sides: one, or the two that are compared; none when failed.
        options: the metric's options; None for an analysis.
        asked: what an analysis looks at; None for a metric, and when failed.
    """

    key: CellKey
    state: State
    why: str
    inputs: Mapping[str, Any]
    fingerprint: str
    sides: tuple[Side, ...]
    options: Options | None
    asked: Asked | None = None

    @property
    def settings(self) -> Any:
        """What the study says of it, as JSON: the metric's options, or the analysis' item."""
        if self.options is not None:
            return self.options.model_dump(mode="json")
        return self.asked.settings if self.asked else {}

    @property
    def compares(self) -> bool:
        """Whether it compares two sides."""
        return len(self.sides) == 2


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
        metrics: the metrics it asks for, by name.
        analyses: the analyses it asks for, by name.
        texts: each corpus, or why it cannot be had.
        checkpoints: the checkpoints of each model and baseline, or why they cannot be had.
        baselines: the baselines by name.
        cells: every cell, in the order of the study.
        partial: whether it covers only a part of the study.
    """

    file: StudyFile
    metrics: Mapping[str, Metric]
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
        return [head, *body, *self._thinned(), *self.hints(), *self._to_train(), estimate(self).line()]

    def hints(self) -> list[str]:
        """Say what is left out of models of which only states are there.

        And which claims compare corpora of different size on numbers that move with it, and what to write.
        """
        if not self.file.study.claims:
            return self._left_out()
        from reporter.claims.kind import foreseen

        return [*self._left_out(), *foreseen(self.file.study, self._words())]

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
        wanted = {side.model for cell in self.cells if cell.state == "run" for side in cell.sides}
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
