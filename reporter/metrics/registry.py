"""Finds metrics: every module of this folder, packages with the entry point ``reporter.metrics``, files, notebooks."""

from __future__ import annotations

import hashlib
import importlib
import linecache
import marshal
import pkgutil
import sys
import traceback
from collections.abc import Callable, Collection, Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from reporter.errors import ReporterError, UsageError
from reporter.metrics.base import Between, Compute, Metric, Options, Own, Statistic
from reporter.table import Row

_found: dict[str, Metric[Any]] = {}
_of_plugins: dict[Path, frozenset[str]] = {}
_NOT_METRICS = {"base", "registry"}
_PLUGIN = "reporter_plugin_"  # how the module of a plugin's file is called, before a hash of its path


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
    between: Between[Own] | None = None,
    tables: tuple[type[Row], ...] = (),
) -> Callable[[Compute[Own]], Compute[Own]]:
    """Register the decorated function as the metric ``name``; arguments are those of :class:`Metric`.

    A cell of a notebook that runs again, or a module that is loaded again, replaces what it registered before.

    Raises:
        ReporterError: if another module has a metric of that name.
    """

    def register(compute: Compute[Own]) -> Compute[Own]:
        if not _is_ours(compute):
            _import_shipped()  # whose names are taken
        known = _found.get(name)
        if known is not None and known.compute.__module__ != compute.__module__:
            raise ReporterError(f"metric {name!r} is defined twice: in {_home(known.compute)} and in {_home(compute)}")
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
            code=_code(compute),
        )
        return compute

    return register


def catalogue() -> dict[str, Metric[Any]]:
    """Every metric by name, in alphabetical order. Imports the metric modules, but neither torch nor scipy."""
    _import_shipped()
    _import_offered()
    return dict(sorted(_found.items()))


def load_plugin(path: Path) -> None:
    """Run a Python file that registers metrics, as a study's ``plugins`` name it; what it registered before goes.

    Raises:
        UsageError: if it cannot be read or run, or registers no metric; the text has the file and, where known, the
            line.
    """
    path = path.resolve()
    catalogue()  # so that a name that is taken is taken by what was there first
    forget_plugins([path])
    others, name = set(_found), _PLUGIN + hashlib.sha256(str(path).encode()).hexdigest()[:12]
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    linecache.checkcache(str(path))
    try:
        # Compiled here, since Python's cache of bytecode takes a file that was edited within a second for the same.
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:  # other people's code, which may fail in any way
        raise UsageError(f"{_place(path, error)}: {_said(error)}; mend it, or take it out of 'plugins'") from error
    finally:
        _of_plugins[path] = frozenset(set(_found) - others)
    if not _of_plugins[path]:
        raise UsageError(f"{path}: registers no metric; decorate a function with @reporter.metric(…)")


def forget_plugins(paths: Collection[Path] | None = None) -> None:
    """Forget the metrics of some plugins, or of all."""
    for path in list(_of_plugins) if paths is None else [path for path in paths if path in _of_plugins]:
        for name in _of_plugins.pop(path):
            _found.pop(name, None)


def catalogue_for(plugins: Collection[Path]) -> dict[str, Metric[Any]]:
    """Return the metrics that a study with these plugins may ask for: those of other studies' plugins are left out."""
    mine = {path.resolve() for path in plugins}
    hidden = {name for path, names in _of_plugins.items() if path not in mine for name in names}
    return {name: metric for name, metric in catalogue().items() if name not in hidden}


def _place(path: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}:{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)


def _said(error: BaseException) -> str:
    if isinstance(error, ReporterError):
        return str(error)
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _home(compute: Compute[Any]) -> str:
    module = compute.__module__
    return str(sys.modules[module].__file__) if module.startswith(_PLUGIN) else module


def _is_ours(compute: Compute[Any]) -> bool:
    return compute.__module__.startswith("reporter.")


def _code(compute: Compute[Any]) -> str:
    """Return a hash of the file, or of the notebook's cell, that defines a metric; empty for those of reporter."""
    if _is_ours(compute):
        return ""
    linecache.checkcache(compute.__code__.co_filename)
    lines = linecache.getlines(compute.__code__.co_filename)
    source = "".join(lines).encode() if lines else marshal.dumps(compute.__code__)
    return hashlib.sha256(source).hexdigest()[:32]


@cache
def _import_shipped() -> None:
    import reporter.metrics as room

    for module in pkgutil.iter_modules(room.__path__):
        if module.name not in _NOT_METRICS and not module.name.startswith("_"):
            importlib.import_module(f"reporter.metrics.{module.name}")


@cache
def _import_offered() -> None:
    for entry in entry_points(group="reporter.metrics"):
        try:
            entry.load()
        except Exception as error:  # whatever another package does wrong, say whose it is
            raise ReporterError(f"the metrics of {entry.value!r} cannot be loaded: {error}") from error


def statistics(metrics: Mapping[str, Metric] | None = None) -> dict[str, dict[str, str]]:
    """Return, by metric, the names of its statistics, floors among them, and what each has one number for.

    Args:
        metrics: the metrics; all there are if left out.
    """
    return {
        name: {f"{s.name}{floor}": s.per for s in metric.statistics for floor in (("", "_floor") if s.floor else ("",))}
        for name, metric in (catalogue() if metrics is None else metrics).items()
    }
