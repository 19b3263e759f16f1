"""Turns what metrics yield into rows of the database's tables, and keeps why single numbers are missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from reporter.metrics.base import Difference, Eigenvalue, PairValue, Result, SinkCut, SinkToken, TokenType, Value

if TYPE_CHECKING:
    from reporter.forward.places import Place

Row = dict[str, Any]
T = TypeVar("T")

TABLES: dict[type, str] = {
    Value: "layer_metrics",
    Eigenvalue: "spectra",
    TokenType: "token_types",
    SinkToken: "sinks",
    SinkCut: "sink_cuts",
    PairValue: "layer_pairs",
    Difference: "differences",
}
OF_NO_VIEW = (SinkToken, SinkCut)  # what is the same under every view is stored once

NO_INTERVAL = "its interval is not finite and was left out"


@dataclass
class Rows:
    """The rows of one cell by table, and its reasons for NULL.

    Args:
        names: for each table the columns that name the cell or its two sides.
        tables: the rows so far.
    """

    names: Mapping[str, Row]
    tables: dict[str, list[Row]] = field(default_factory=dict)
    _missing: dict[tuple[str, str, str], list[int | None]] = field(default_factory=dict)
    _first_view: str | None = None

    def add(self, results: Iterable[Result], view: str, layers: int) -> None:
        """Add what a metric yielded under one view.

        Args:
            results: what it yielded.
            view: the view.
            layers: blocks of the (first) model, for the depth.
        """
        self._first_view = self._first_view or view
        for result in map(finite, results):
            if isinstance(result, OF_NO_VIEW) and view != self._first_view:
                continue
            reason = getattr(result, "reason", "")
            if reason:
                at = result.layer_a if isinstance(result, PairValue) else _layer(getattr(result, "place", None))
                self._missing.setdefault((_statistic(result), view, reason), []).append(at)
            values = {f.name: getattr(result, f.name) for f in fields(result) if f.name not in ("place", "reason")}
            table = TABLES[type(result)]
            row = {**self.names[table], **values}
            if not isinstance(result, OF_NO_VIEW):
                row["view"] = view
            if not isinstance(result, PairValue | SinkToken):
                row |= where(result.place, layers)
            self.tables.setdefault(table, []).append(row)

    def reasons(self) -> list[Row]:
        """Return why numbers, or their intervals, are NULL, one entry for each statistic, view and reason."""
        return [
            {"statistic": statistic, "view": view, "layers": sorted(set(layers), key=lambda x: (x is None, x))}
            | {"reason": reason}
            for (statistic, view, reason), layers in self._missing.items()
        ]


def where(place: Place | None, layers: int) -> Row:
    """Return the columns that say where in a model a number was read; NULL for a number of the whole model."""
    if place is None:
        return {"site": None, "layer": None, "depth": None}
    return {"site": place.site, "layer": place.layer, "depth": place.layer / layers}


def finite(result: Result) -> Result:
    """Return the result without numbers that are not finite: no value, or no interval, and the reason."""
    if isinstance(result, Eigenvalue | TokenType | SinkToken | SinkCut):
        return result
    if result.value is not None and not math.isfinite(result.value):
        return replace(result, value=None, ci_low=None, ci_high=None, reason="the result is not a finite number")
    if not all(end is None or math.isfinite(end) for end in (result.ci_low, result.ci_high)):
        return replace(result, ci_low=None, ci_high=None, reason=result.reason or NO_INTERVAL)
    return result


def _layer(place: Place | None) -> int | None:
    return None if place is None else place.layer


def _statistic(result: Result) -> str:
    return getattr(result, "statistic", "")


def quiet(results: Iterable[T]) -> Iterator[T]:
    """Yield the results with warnings off: metrics say by a reason, not by a warning, what could not be computed."""
    import warnings

    import numpy as np

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield from results
