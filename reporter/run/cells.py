"""Computes one cell: a metric under every view, as rows for the database."""

from __future__ import annotations

import json
import math
import sysconfig
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.errors import ReporterError
from reporter.metrics.base import Metric, Value
from reporter.observables.observed import Observed
from reporter.run.versions import versions

if TYPE_CHECKING:
    from reporter.forward.places import Place
    from reporter.models.checkpoint import Checkpoint
    from reporter.run.passes import Measured
    from reporter.run.plan import Cell

Row = dict[str, Any]


@dataclass(frozen=True)
class Computed:
    """A cell's numbers, and why single ones are NULL."""

    rows: list[Row]
    reasons: list[Row]
    seconds: float


def compute(
    cell: Cell,
    metric: Metric,
    checkpoint: Checkpoint,
    study: str,
    views: tuple[str, ...],
    seed: int,
    measured: Measured,
    memo: dict[Any, Any],
) -> Computed:
    """Return a cell's numbers. A number that is not finite becomes NULL with a reason.

    Args:
        cell: what to compute.
        metric: how.
        checkpoint: whose states.
        study: id of the study, for the rows.
        views: under which views.
        seed: the study's seed.
        measured: the observables.
        memo: shared between the cells of one checkpoint and corpus.
    """
    began = time.perf_counter()
    anatomy = measured.facts.anatomy
    rows: list[Row] = []
    reasons: dict[tuple[str, str, str], list[int | None]] = {}
    for view in views:
        seen = Observed(
            measured.observables,
            measured.facts.layout,
            measured.facts.counts.texts,
            view,
            seed,
            memo,
        )
        for value in _values(metric, seen, cell):
            if value.value is None:
                reasons.setdefault((value.statistic, view, value.reason), []).append(
                    None if value.place is None else value.place.layer
                )
            rows.append(
                {
                    "study": study,
                    "model": cell.key.model,
                    "checkpoint": cell.key.checkpoint,
                    "step": checkpoint.step,
                    "role": anatomy["role"],
                    "corpus": cell.key.corpus,
                    "view": view,
                    "metric": metric.name,
                    "statistic": value.statistic,
                    **where(value.place, anatomy["layers"]),
                    "value": value.value,
                    "ci_low": value.ci_low,
                    "ci_high": value.ci_high,
                    "n": value.n,
                }
            )
    said = [
        {"statistic": statistic, "view": view, "layers": layers, "reason": reason}
        for (statistic, view, reason), layers in reasons.items()
    ]
    return Computed(rows, said, time.perf_counter() - began)


def _values(metric: Metric, seen: Observed, cell: Cell) -> Iterator[Value]:
    # Metrics say by a reason, not by a warning, what could not be computed.
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for value in metric.compute(seen, cell.options):
            if value.value is not None and not math.isfinite(value.value):
                yield Value(value.statistic, value.place, None, value.n, reason="the result is not a finite number")
            elif not all(end is None or math.isfinite(end) for end in (value.ci_low, value.ci_high)):
                yield Value(value.statistic, value.place, value.value, value.n)
            else:
                yield value


def where(place: Place | None, layers: int) -> Row:
    """Return the columns that say where in a model a number was read; NULL for a number of the whole model."""
    if place is None:
        return {"site": None, "layer": None, "depth": None}
    return {"site": place.site, "layer": place.layer, "depth": place.layer / layers}


def cell_row(cell: Cell, study: str, status: str, **more: Any) -> Row:
    """Return the row of ``cells`` for a cell; ``more`` fills further columns."""
    return {
        "study": study,
        "model": cell.key.model,
        "checkpoint": cell.key.checkpoint,
        "corpus": cell.key.corpus,
        "metric": cell.key.metric,
        "options": json.dumps(cell.options.model_dump(mode="json")),
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


def describe(error: BaseException) -> str:
    """Say in one line what went wrong; for an error nobody expected, where in the code."""
    if isinstance(error, ReporterError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    libraries = tuple(sysconfig.get_paths()[kind] for kind in ("stdlib", "platlib", "purelib"))
    ours = [frame for frame in frames if not frame.filename.startswith(libraries)] or frames
    where = f" ({Path(ours[-1].filename).name}:{ours[-1].lineno})" if ours else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:500]}{where}"
