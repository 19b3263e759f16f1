"""Finds metrics: every module of this folder, and packages that offer the entry point ``reporter.metrics``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points

from reporter.errors import ReporterError
from reporter.metrics.base import Between, Compute, Metric, Options, Statistic
from reporter.table import Row

_found: dict[str, Metric] = {}
_NOT_METRICS = {"base", "registry"}


def metric(
    *,
    name: str,
    title: str,
    summary: str,
    statistics: tuple[Statistic, ...],
    needs: tuple[str, ...],
    options: type[Options] = Options,
    version: int = 1,
    cost: str = "",
    between: Between | None = None,
    tables: tuple[type[Row], ...] = (),
) -> Callable[[Compute], Compute]:
    """Register the decorated function as the metric ``name``; arguments are those of :class:`Metric`."""

    def register(compute: Compute) -> Compute:
        known = _found.get(name)
        if known is not None and known.compute.__module__ != compute.__module__:
            raise ReporterError(
                f"metric {name!r} is defined twice: in {known.compute.__module__} and in {compute.__module__}"
            )
        _found[name] = Metric(
            name=name,
            title=title,
            summary=summary,
            statistics=statistics,
            needs=needs,
            compute=compute,
            options=options,
            version=version,
            cost=cost,
            between=between,
            tables=tables,
        )
        return compute

    return register


@cache
def catalogue() -> dict[str, Metric]:
    """Every metric by name, in alphabetical order. Imports the metric modules, but neither torch nor scipy."""
    import reporter.metrics as room

    for module in pkgutil.iter_modules(room.__path__):
        if module.name not in _NOT_METRICS and not module.name.startswith("_"):
            importlib.import_module(f"reporter.metrics.{module.name}")
    for entry in entry_points(group="reporter.metrics"):
        try:
            entry.load()
        except Exception as error:  # whatever another package does wrong, say whose it is
            raise ReporterError(f"the metrics of {entry.value!r} cannot be loaded: {error}") from error
    return dict(sorted(_found.items()))


def statistics() -> dict[str, dict[str, str]]:
    """Return, by metric, the names of its statistics, floors among them, and what each has one number for."""
    return {
        name: {f"{s.name}{floor}": s.per for s in metric.statistics for floor in (("", "_floor") if s.floor else ("",))}
        for name, metric in catalogue().items()
    }
