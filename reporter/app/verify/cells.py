"""Choose the cells of a finished study to measure again: the smallest first, of each role in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reporter.core.errors import UsageError, hint, one_line
from reporter.core.json_text import stored_json
from reporter.runs.plan import AnalysisCell
from reporter.store import Store
from reporter.study.models import StatesModel

if TYPE_CHECKING:
    from reporter.forward.inputs import Pass
    from reporter.runs.plan import Plan


Side = tuple[str, str, str]  # a model, its checkpoint and a corpus


def side_of(measured: Pass) -> Side:
    """Return the side of a comparison that a pass is."""
    return measured.checkpoint.model, measured.checkpoint.name, measured.texts.name


@dataclass(frozen=True)
class Asked:
    """The choice of cells to measure again: at most so many, of small corpora, of one model or corpus."""

    cells: int = 2
    max_texts: int = 500
    model: str | None = None
    corpus: str | None = None


@dataclass(frozen=True)
class VerifiedCell:
    """A checkpoint on a corpus, with the metrics that are stored of it."""

    model: str
    checkpoint: str
    corpus: str
    metrics: Mapping[str, Mapping[str, Any]]
    facts: Mapping[str, Any]
    counted: Mapping[str, Any]

    def __str__(self) -> str:
        checkpoint = "" if self.checkpoint == "final" else f" {self.checkpoint}"
        return f"{self.model}{checkpoint} × {self.corpus}"

    @property
    def side(self) -> Side:
        """The side of a comparison that it is."""
        return self.model, self.checkpoint, self.corpus

    @property
    def cost(self) -> int:
        """A number that grows with the time it takes."""
        return int(self.counted["tokens"]) * int(self.facts["parameters"])


def choose(plan: Plan, store: Store, request: Asked) -> tuple[list[VerifiedCell], dict[str, str]]:
    """Return the cells to measure again, and why each of the others is not.

    Raises:
        UsageError: if the study has no such model or corpus.
    """
    _check(request.model, "model", list(plan.checkpoints))
    _check(request.corpus, "corpus", list(plan.texts))
    done, left_out = _done(plan, store)
    chosen: list[VerifiedCell] = []
    for cell in done:
        texts = int(cell.counted["texts"])
        if request.model not in (None, cell.model) or request.corpus not in (None, cell.corpus):
            left_out[str(cell)] = "not chosen by --model or --corpus"
        elif plan.file.study.corpora[cell.corpus].window is not None:
            left_out[str(cell)] = "`verify` does not support corpora in windows"
        elif texts > request.max_texts:
            left_out[str(cell)] = f"{texts:,} texts, more than --max-texts {request.max_texts:,}"
        else:
            chosen.append(cell)
    for cell in _in_turn(chosen)[request.cells :]:
        left_out[str(cell)] = f"not among the smallest --cells {request.cells}"
    return _in_turn(chosen)[: request.cells], left_out


def _check(name: str | None, what: str, names: list[str]) -> None:
    if name is not None and name not in names:
        raise UsageError(f"the study has no {what} '{one_line(name)}'{hint(name, names, 'it has')}")


def _in_turn(cells: list[VerifiedCell]) -> list[VerifiedCell]:
    places: Counter[str] = Counter()
    ranked = []
    for cell in sorted(cells, key=lambda cell: (cell.cost, str(cell))):
        ranked.append((places[cell.facts["role"]], cell.cost, str(cell), cell))
        places[cell.facts["role"]] += 1
    return [cell for *_, cell in sorted(ranked, key=lambda rank: rank[:3])]


_COUNTED = ("texts", "tokens", "special", "sinks", "cut_texts")


def _done(plan: Plan, store: Store) -> tuple[list[VerifiedCell], dict[str, str]]:
    study = plan.file.study.study
    models = _rows(store, "SELECT * FROM models WHERE study = ?", study, ("model", "checkpoint"))
    of_cells = ("model", "checkpoint", "corpus", "metric")
    stored = _rows(store, "SELECT * FROM cells WHERE study = ? AND status = 'done'", study, of_cells)
    cells: dict[tuple[str, str, str], VerifiedCell] = {}
    left_out: dict[str, str] = {}
    for cell in plan.cells:
        if cell.compares or isinstance(cell, AnalysisCell):
            continue
        if isinstance(plan.file.study.models.get(cell.key.model), StatesModel):
            left_out[str(cell.key)] = "a model of saved states cannot be measured again"
            continue
        if cell.state != "cached":
            why = {"new": "has not run", "forced": "forced"}.get(cell.why, cell.why)
            left_out[str(cell.key)] = why if cell.state == "failed" else f"{why}; compute it with `reporter run`"
            continue
        row = stored[tuple(cell.key)]
        key = (cell.key.model, cell.key.checkpoint, cell.key.corpus)
        facts = models[key[:2]]
        cell_so_far = cells.setdefault(key, VerifiedCell(*key, {}, facts, {name: row[name] for name in _COUNTED}))
        options = stored_json(row["options"])
        cells[key] = replace(cell_so_far, metrics={**cell_so_far.metrics, cell.key.metric: options})
    return list(cells.values()), left_out


def _rows(store: Store, query: str, study: str, key: tuple[str, ...]) -> dict[tuple[str, ...], dict[str, Any]]:
    return {tuple(str(row[name]) for name in key): row for row in store.records(query, [study])}
