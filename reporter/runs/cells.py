"""Computes one cell: a metric of one side, or of two that it compares, under every view."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from reporter.metrics.base import Metric, PairValue, Value
from reporter.observables.observed import Observed
from reporter.runs.rows import Record, Rows, quiet
from reporter.runs.versions import versions
from reporter.store import joined
from reporter.table import Row

if TYPE_CHECKING:
    from reporter.models.checkpoint import Checkpoint
    from reporter.runs.passes import Measured
    from reporter.runs.plan import Cell


@dataclass(frozen=True)
class Computed:
    """A cell's numbers by table, and why single ones are NULL."""

    tables: dict[str, list[Record]]
    reasons: list[Record]
    seconds: float


@dataclass(frozen=True)
class Measurement:
    """One side of a cell: a checkpoint measured on a corpus.

    Args:
        checkpoint: whose states.
        corpus: name of the corpus.
        words: its words.
        measured: the observables.
        memo: shared between the cells of this checkpoint and corpus.
    """

    checkpoint: Checkpoint
    corpus: str
    words: int
    measured: Measured
    memo: dict[Any, Any]

    def seen(self, view: str, seed: int) -> Observed:
        """Return what a metric gets to see under one view."""
        facts = self.measured.facts
        return Observed(
            self.measured.observables,
            facts.layout,
            facts.counts.distinct_texts,
            view,
            seed,
            self.memo,
            self.corpus,
            self.words,
            facts.head_problem,
            facts.unfed,
        )


def compute(cell: Cell, metric: Metric, sides: Sequence[Measurement], views: tuple[str, ...], seed: int) -> Computed:
    """Return a cell's numbers. A number that is not finite becomes NULL with a reason.

    Args:
        cell: what to compute.
        metric: how.
        sides: one measurement, or the two that are compared.
        views: under which views.
        seed: the study's seed.
    """
    began, options = time.perf_counter(), cell.options
    assert options is not None  # the planner gives them to each cell of a metric that can run
    rows = Rows(_said_of(metric.name, sides), sides[0].measured.facts.layout.layers)
    for view in views:
        seen = [side.seen(view, seed) for side in sides]
        if len(seen) == 1:
            results = metric.compute(seen[0], options)
        else:
            assert metric.between is not None  # the planner compares for no other metric
            results = metric.between.compare(seen[0], seen[1], options)
        unfed = dict.fromkeys(side.unfed[name] for side in seen for name in metric.needs if name in side.unfed)
        rows.add(_explained(quiet(results), "; ".join(unfed)), view)
    return Computed(rows.tables, rows.reasons(), time.perf_counter() - began)


def _explained(results: Iterable[Row], unfed: str) -> Iterator[Row]:
    """Add to the reason of a number that is missing what its metric could not see."""
    for result in results:
        if unfed and isinstance(result, Value | PairValue) and result.reason:
            result = replace(result, reason=f"{result.reason} ({unfed})")
        yield result


def _said_of(metric: str, sides: Sequence[Measurement]) -> dict[str, Any]:
    """Return what rows say of a cell or its two sides, by part."""
    first, last = sides[0], sides[-1]
    return {
        "metric": metric,
        "model": first.checkpoint.model,
        "checkpoint": first.checkpoint.name,
        "step": first.checkpoint.step,
        "role": first.measured.facts.anatomy["role"],
        "corpus": first.corpus,
        "kind": "corpora" if first.corpus != last.corpus else "base",
        **{
            f"{part}_{side}": value
            for side, one in (("a", first), ("b", last))
            for part, value in (
                ("model", one.checkpoint.model),
                ("checkpoint", one.checkpoint.name),
                ("corpus", one.corpus),
            )
        },
    }


def cell_row(cell: Cell, study: str, status: str, **more: Any) -> Record:
    """Return the row of ``cells`` for a cell; ``more`` fills further columns."""
    return {
        "study": study,
        "model": cell.key.model,
        "checkpoint": cell.key.checkpoint,
        "corpus": cell.key.corpus,
        "metric": cell.key.metric,
        "options": json.dumps(cell.settings),
        "fingerprint": cell.fingerprint,
        "inputs": json.dumps(dict(cell.inputs)),
        "status": status,
        "why": cell.why,
        "versions": json.dumps(versions()),
        "finished": datetime.now(UTC).replace(tzinfo=None),
        **more,
    }


def pass_columns(measured: Measured, caused: bool) -> Mapping[str, Any]:
    """Return the columns of ``cells`` that describe the pass; ``caused`` marks the one cell that shows its cost."""
    counts = measured.facts.counts
    forward = measured.forward if caused else None
    return {
        "texts": counts.texts,
        "tokens": counts.tokens,
        "ordinary": counts.ordinary,
        "special": counts.special,
        "sinks": counts.sinks,
        "cut_texts": counts.cut_texts,
        "short_texts": counts.short_texts,
        "forward_tokens": forward.tokens if forward else 0,
        "forward_passes": int(bool(forward and forward.tokens)),
        "forward_seconds": forward.seconds if forward else 0.0,
        "device": measured.facts.device,
        "precision": measured.facts.precision,
    }


def compared_columns(sides: Sequence[Measured]) -> Mapping[str, Any]:
    """Return the columns of ``cells`` that describe the passes behind a comparison."""
    both = [pass_columns(side, caused=True) for side in sides]
    sums = {name: sum(one[name] for one in both) for name, value in both[0].items() if not isinstance(value, str)}
    return {**sums, **{name: joined(both[0][name], both[1][name]) for name in ("device", "precision")}}
