"""Finds metrics: every module of this folder, packages with the entry point ``reporter.metrics``, files, notebooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reporter.charts import Chart
from reporter.effort import Declared, little
from reporter.metrics.base import Between, Compute, Metric, Options, Own, Statistic
from reporter.registry import Registry, code_of
from reporter.table import Row

METRICS: Registry[Metric[Any]] = Registry("metric", "metrics", "reporter.metrics", helpers=("base", "registry"))


def metric(
    *,
    name: str,
    title: str,
    summary: str,
    statistics: tuple[Statistic, ...],
    needs: tuple[str, ...],
    options: type[Own] = Options,  # type: ignore[assignment]  # which is what it is where nothing is said
    version: int = 1,
    cost: str = "",
    effort: Declared = little,
    between: Between | None = None,
    tables: tuple[type[Row], ...] = (),
    charts: tuple[Chart, ...] = (),
) -> Callable[[Compute[Own]], Compute[Own]]:
    """Register the decorated function as the metric ``name``; arguments are those of :class:`Metric`.

    A cell of a notebook that runs again, or a module that is loaded again, replaces what it registered before.

    Raises:
        ReporterError: if another module has a metric of that name.
    """

    def register(compute: Compute[Own]) -> Compute[Own]:
        found = Metric(
            name=name,
            title=title,
            summary=summary,
            statistics=statistics,
            needs=needs,
            compute=compute,
            options=options,
            version=version,
            cost=cost,
            effort=effort,
            between=between,
            tables=tables,
            charts=charts,
            code=code_of(compute),
        )
        METRICS.add(name, found, compute)
        return compute

    return register


def catalogue() -> dict[str, Metric[Any]]:
    """Every metric by name, in alphabetical order. Imports the metric modules, but neither torch nor scipy."""
    return METRICS.all()


def statistics(metrics: Mapping[str, Metric[Any]] | None = None) -> dict[str, dict[str, str]]:
    """Return, by metric, the names of its statistics, floors among them, and what each has one number for.

    Args:
        metrics: the metrics; all there are if left out.
    """
    return {
        name: {f"{s.name}{floor}": s.per for s in metric.statistics for floor in (("", "_floor") if s.floor else ("",))}
        for name, metric in (catalogue() if metrics is None else metrics).items()
    }
