"""Finds analyses: the modules of this folder, packages with the entry point ``reporter.analyses``, files, notebooks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from reporter.analyses.base import Analysis, as_written
from reporter.charts import Chart
from reporter.effort import Declared, little
from reporter.errors import ReporterError
from reporter.metrics.base import Statistic
from reporter.registry import Registry, code_of
from reporter.spec.offer import Section
from reporter.spec.study import Study
from reporter.table import Row

ANALYSES: Registry[Analysis] = Registry("analysis", "analyses", "reporter.analyses", helpers=("base", "registry"))

Function = TypeVar("Function", bound=Callable[..., Iterator[Row]])


def analysis(
    *,
    name: str,
    title: str,
    summary: str,
    statistics: tuple[Statistic, ...],
    section: Section,
    resolve: Callable[[Any, Path], BaseModel] = as_written,
    version: int = 1,
    cost: str = "",
    effort: Declared = little,
    tables: tuple[type[Row], ...] = (),
    charts: tuple[Chart, ...] = (),
    pooled: bool = False,
    last_only: bool = False,
    rounds: int = 1,
    baselines: bool = False,
) -> Callable[[Function], Function]:
    """Register the decorated function as the analysis ``name``; arguments are those of :class:`Analysis`.

    A cell of a notebook that runs again, or a module that is loaded again, replaces what it registered before.

    Raises:
        ReporterError: if another module has an analysis of that name, or it cannot be a key of a study.
    """
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or name in Study.model_fields or hasattr(Study, name):
        raise ReporterError(f"an analysis cannot be called {name!r}: its name is a key of the study file, of its own")

    def register(compute: Function) -> Function:
        found = Analysis(
            name=name,
            title=title,
            summary=summary,
            statistics=statistics,
            section=section,
            resolve=resolve,
            compute=compute,
            version=version,
            cost=cost,
            effort=effort,
            tables=tables,
            charts=charts,
            pooled=pooled,
            last_only=last_only,
            rounds=rounds,
            baselines=baselines,
            code=code_of(compute),
        )
        ANALYSES.add(name, found, compute)
        return compute

    return register


def analyses() -> dict[str, Analysis]:
    """Every analysis by name, in alphabetical order. Importing them brings neither torch nor scikit-learn."""
    return ANALYSES.all()
