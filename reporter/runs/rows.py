"""Turns what metrics yield into rows of the database's tables, and keeps why single numbers are missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from reporter.metrics.base import Number, PairValue
from reporter.table import Row

Record = dict[str, Any]
T = TypeVar("T")

NO_INTERVAL = "its interval is not finite and was left out"


@dataclass
class Rows:
    """The rows of one cell by table, and its reasons for NULL.

    Args:
        cell: what rows say of the cell or its two sides; see :attr:`reporter.table.Column.part`.
        layers: blocks of the (first) model, for the depth.
        tables: the rows so far.
    """

    cell: Mapping[str, Any]
    layers: int
    tables: dict[str, list[Record]] = field(default_factory=dict)
    _missing: dict[tuple[str, str, str], list[int | None]] = field(default_factory=dict)
    _first_view: str | None = None

    def add(self, results: Iterable[Row], view: str) -> None:
        """Add what a metric or an analysis yielded; of tables without views what it yielded under the first one.

        Args:
            results: what it yielded.
            view: under which view.
        """
        self._first_view = self._first_view or view
        cell = {**self.cell, "view": view}
        for result in results:
            if view != self._first_view and not result.table.holding("view"):
                continue
            row = finite(result) if isinstance(result, Number) else result
            if isinstance(row, Number) and row.reason:
                self._missing.setdefault((row.statistic, view, row.reason), []).append(_layer(row))
            self.tables.setdefault(row.table.name, []).append(row.record(cell, self.layers))

    def reasons(self) -> list[Record]:
        """Return why numbers, or their intervals, are NULL, one entry for each statistic, view and reason."""
        return [
            {"statistic": statistic, "view": view, "layers": sorted(set(layers), key=lambda x: (x is None, x))}
            | {"reason": reason}
            for (statistic, view, reason), layers in self._missing.items()
        ]


def finite(number: Number) -> Number:
    """Return the number without what is not finite: no value, or no interval, and the reason."""
    if number.value is not None and not math.isfinite(number.value):
        return replace(number, value=None, ci_low=None, ci_high=None, reason="the result is not a finite number")
    if not all(end is None or math.isfinite(end) for end in (number.ci_low, number.ci_high)):
        return replace(number, ci_low=None, ci_high=None, reason=number.reason or NO_INTERVAL)
    return number


def _layer(number: Number) -> int | None:
    if isinstance(number, PairValue):
        return number.layer_a
    return None if number.place is None else number.place.layer


def quiet(results: Iterable[T]) -> Iterator[T]:
    """Yield the results with warnings off: metrics say by a reason, not by a warning, what could not be computed."""
    import warnings

    import numpy as np

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield from results
