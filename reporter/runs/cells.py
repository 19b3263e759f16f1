"""Computes one cell, a metric under every view or an analysis of an item, into rows of the database's tables."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from reporter.core.numbers import ROUNDING
from reporter.core.places import TEXT_TOKENS
from reporter.core.table import Row
from reporter.core.threads import suited_to
from reporter.forward.kept import Amount
from reporter.forward.observed import KINDS
from reporter.forward.parts import influences_of, parts_of
from reporter.forward.passes import Measured
from reporter.forward.text_vectors import OfText
from reporter.geometry.arrays import Floats, Progress, exact_products
from reporter.geometry.intervals import Spread
from reporter.metrics._coverage import shown
from reporter.metrics.analysis import Context, default_pooling
from reporter.metrics.base import (
    PATH,
    Metric,
    Numeric,
    Options,
    PairValue,
    Statistic,
    TextInfluence,
    TextParts,
    Value,
    settled,
)
from reporter.models.load import LoadedModel
from reporter.runs.plan import AnalysisCell, MetricCell
from reporter.texts import Texts
from reporter.texts.excerpts import around, bare, begins

Record = dict[str, Any]
Load = Callable[[], LoadedModel]
T = TypeVar("T")


_LARGEST = 32767  # of a SMALLINT
MOST_INFLUENTIAL = 3
"""Texts of a statistic and layer that ``text_influences`` has."""
NO_INTERVAL = "the interval is not finite and was left out"


@dataclass(frozen=True)
class Computed:
    """A cell's numbers by table, why single ones are NULL, and what a reader is warned of."""

    tables: dict[str, list[Record]]
    reasons: list[Record]
    seconds: float
    warnings: Sequence[str] = ()


def compute(cell: MetricCell, sides: Sequence[Measured]) -> Computed:
    """Return the numbers of a metric. A number that is not finite becomes NULL with a reason.

    Args:
        cell: what to compute.
        sides: what was measured in its pass, or in the two that it compares.
    """
    width = max(width for side in sides for width in side.facts.layout.widths)
    with suited_to(width, sides[0].device), exact_products():
        return _computed(cell, sides)


def _computed(cell: MetricCell, sides: Sequence[Measured]) -> Computed:
    began, metric = time.perf_counter(), cell.metric
    statistics = {statistic.name: statistic for statistic in metric.statistics}
    rows = Rows(_parts_of(cell, sides), sides[0].facts.layout.layers, statistics, sides[0].of.texts)
    rows.tokens = getattr(sides[0].observables.get("token_names"), "tokens", {})
    for view in cell.views:
        observed = [side.seen(view, cell.views) for side in sides]
        rows.texts, rows.seed = min(side.texts for side in observed), observed[0].seed
        if not cell.compares:
            results = metric.compute(observed[0], cell.options)
        else:
            assert metric.between is not None  # the planner compares for no other metric
            against = observed[1:] if metric.between.own else observed[1]
            results = metric.between.compare(observed[0], against, cell.options)
        unfed = dict.fromkeys(side.unfed[name] for side in observed for name in metric.needs if name in side.unfed)
        explained = (
            replace(row, reason=f"{row.reason} ({'; '.join(unfed)})")
            if unfed and isinstance(row, Value | PairValue) and row.reason
            else row
            for row in quiet(results)
        )
        rows.add(explained, view)
    return Computed(rows.tables, rows.reasons(), time.perf_counter() - began)


def analyse(
    cell: AnalysisCell,
    model: LoadedModel,
    batch_tokens: int,
    tell: Progress,
    base: Load,
    known: Mapping[int, Mapping[str, OfText]],
) -> Computed:
    """Return the rows of an analysis.

    Args:
        cell: what to compute.
        model: its checkpoint, loaded.
        batch_tokens: the most tokens in a batch, padding included; changes no number.
        tell: told of progress.
        base: loads the model's base; called where the analysis compares with it.
        known: vectors of texts that a pass gathered, see ``Context``.
    """
    from reporter.models.places import Layout

    began = time.perf_counter()
    context = Context(
        model=model,
        layout=Layout.of(model.anatomy, cell.sites),
        pooling=default_pooling(model.anatomy.role) if cell.pooling == "auto" else cell.pooling,
        corpora=cell.corpora,
        seed=cell.seed,
        batch_tokens=batch_tokens,
        tell=tell,
        auto=cell.pooling == "auto",
        base=base,
        known=known,
    )
    parts = {
        "model": cell.checkpoint.model,
        "checkpoint": cell.checkpoint.name,
        "step": cell.checkpoint.step,
        "role": model.anatomy.role,
        "corpus": cell.key.corpus,
        "metric": cell.analysis.name,
    }
    rows = Rows(parts, model.anatomy.layers)
    rows.add(quiet(cell.analysis.compute(cell.item, context)), TEXT_TOKENS)  # they read a text's own tokens
    return Computed(rows.tables, rows.reasons(), time.perf_counter() - began, context.warnings)


def _parts_of(cell: MetricCell, sides: Sequence[Measured]) -> dict[str, Any]:
    """Return the parts of a cell or of its two sides."""
    first, last = (side.of for side in (sides[0], sides[min(1, len(sides) - 1)]))
    cell_parts = {
        "metric": cell.metric.name,
        "model": first.checkpoint.model,
        "checkpoint": first.checkpoint.name,
        "step": first.checkpoint.step,
        "role": sides[0].facts.anatomy["role"],
        "corpus": first.texts.name,
        "kind": "corpora" if first.texts.name != last.texts.name else "base",
    }
    for side, forward_pass in (("a", first), ("b", last)):
        parts = {
            "model": forward_pass.checkpoint.model,
            "checkpoint": forward_pass.checkpoint.name,
            "corpus": forward_pass.texts.name,
        }
        cell_parts |= {f"{part}_{side}": value for part, value in parts.items()}
    return cell_parts


@dataclass
class Rows:
    """The rows of one cell by table, and its reasons for NULL.

    Args:
        cell: the parts of the cell or its two sides; see :attr:`reporter.core.table.Column.part`.
        layers: blocks of the (first) model, for the depth.
        statistics: the metric's statistics by name. Some values are fixed by their definition; main statistics have
            parts of texts.
        corpus: its texts, for rows that name some; None for an analysis, which names them itself.
        texts: distinct texts that were measured; None for an analysis, which decides itself which intervals it shows.
        seed: the study's seed.
        tokens: the tokens of the corpus by id, for rows that name one in a text.
        tables: the rows so far.
    """

    cell: Mapping[str, Any]
    layers: int
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    corpus: Texts | None = None
    texts: int | None = None
    seed: int = 0
    tokens: Mapping[str, str] = field(default_factory=dict)
    tables: dict[str, list[Record]] = field(default_factory=dict)
    _missing: dict[tuple[str, str, str], list[int | None]] = field(default_factory=dict)
    _first_view: str | None = None

    def add(self, results: Iterable[Row], view: str) -> None:
        """Add the results of a metric or an analysis under a view; tables without views keep those of the first one."""
        self._first_view = self._first_view or view
        cell = {**self.cell, "view": view}
        for result in results:
            if view != self._first_view and not result.table.holding("view"):
                continue
            row = finite(result) if isinstance(result, Numeric) else result
            statistic = self.statistics.get(row.statistic) if isinstance(row, Value) else None
            if isinstance(row, Value) and statistic is not None:
                row = settled(statistic, row, self.layers)
            if isinstance(row, Numeric) and self.texts is not None:
                row = shown(row, self.cell["metric"], self.texts, bool(statistic and statistic.interval))
            if isinstance(row, Numeric) and row.reason:
                self._missing.setdefault((row.statistic, view, row.reason), []).append(_layer(row))
            record = row.record(cell, self.layers)
            if "begins" in record and not record["begins"]:
                record["begins"] = self._excerpt(record)
            if isinstance(row, Value):
                record["by_definition"] = bool(row.by_definition)
            self.tables.setdefault(row.table.name, []).append(record)
            if isinstance(row, Value) and statistic is not None and statistic.main and row.ci_low is not None:
                self._add_parts(row, cell)

    def _add_parts(self, number: Value, cell: Mapping[str, Any]) -> None:
        if number.place is not None and number.place.site not in PATH:
            return
        parts = None if number.spread is None else parts_of(number.spread, number.texts or self.texts or 0, self.seed)
        if parts is not None:
            scale = float(np.abs(parts).max(initial=0.0)) / _LARGEST or 1.0
            row = TextParts(number.statistic, _layer(number) or 0, scale, np.rint(parts / scale).astype(int).tolist())
            self._put(row, cell)
        if number.spread is not None and number.place is not None and cell["view"] == self._first_view:
            for influence in self._influences(number, number.spread):
                self._put(influence, cell)

    def _put(self, row: Row, cell: Mapping[str, Any]) -> None:
        self.tables.setdefault(row.table.name, []).append(row.record(cell, self.layers))

    def _influences(self, number: Value, spread: Spread) -> Iterator[TextInfluence]:
        known = None if self.corpus is None else influences_of(spread, self._sizes, self.seed)
        if known is None or number.value is None:
            return
        texts, moved = known
        for rank, i in enumerate(np.argsort(-np.abs(moved), kind="stable")[:MOST_INFLUENTIAL].tolist(), 1):
            if moved[i]:
                place = int(texts[i]) + 1
                without = float(number.value - moved[i])
                text = self._excerpt({"text": place})
                yield TextInfluence(number.statistic, _layer(number) or 0, rank, place, without, text)

    @cached_property
    def _sizes(self) -> Floats:
        return np.array([len(text) for text in self.corpus or ()], dtype=np.float64)

    def _excerpt(self, record: Mapping[str, Any]) -> str:
        """Return the beginning of the text that a row names, or what stands around the token that it names."""
        if self.corpus is None:
            return ""
        text = self.corpus[record["text"] - 1]
        if "token" not in record:
            return begins(text)
        return around(text, record["token"], record["position"], self._tokens)

    @cached_property
    def _tokens(self) -> frozenset[str]:
        return frozenset(map(bare, self.tokens.values()))

    def reasons(self) -> list[Record]:
        """Return why numbers, or their intervals, are NULL, one entry for each statistic, view and reason."""
        return [
            {"statistic": statistic, "view": view, "layers": sorted(set(layers), key=lambda x: (x is None, x))}
            | {"reason": reason}
            for (statistic, view, reason), layers in self._missing.items()
        ]


def finite(number: Numeric) -> Numeric:
    """Return the number without what is not finite: no value, or no interval, and the reason.

    An interval that misses its value by rounding alone is extended to it.
    """
    if number.value is not None and not math.isfinite(number.value):
        return replace(number, value=None, ci_low=None, ci_high=None, reason="the result is not a finite number")
    if not all(end is None or math.isfinite(end) for end in (number.ci_low, number.ci_high)):
        return replace(number, ci_low=None, ci_high=None, reason=number.reason or NO_INTERVAL)
    if number.value is not None and number.ci_low is not None and number.ci_high is not None:
        missed = max(number.ci_low - number.value, number.value - number.ci_high)
        if 0 < missed <= ROUNDING * max(1.0, abs(number.value)):
            low, high = min(number.ci_low, number.value), max(number.ci_high, number.value)
            return replace(number, ci_low=low, ci_high=high)
    return number


def _layer(number: Numeric) -> int | None:
    if isinstance(number, PairValue):
        return number.layer_a
    return None if number.place is None else number.place.layer


def quiet(results: Iterable[T]) -> Iterator[T]:
    """Yield the results with warnings off: metrics say by a reason, not by a warning, what could not be computed."""
    import warnings

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield from results


def wanted_by(chosen: Iterable[tuple[Metric, Options, Sequence[str]]]) -> dict[str, Amount]:
    """Return the observables that some metrics need under some views, each as large as the most demanding one asks."""
    wants: dict[str, Amount] = {}
    for metric, options, views in chosen:
        for name in metric.needs:
            size = options.size_of(name) if KINDS[name].bounded != "no" else 0
            wants[name] = wants.get(name, Amount()) | Amount(size, tuple(views) if KINDS[name].tells_views else ())
    return wants
