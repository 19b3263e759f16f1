"""Importing: many modules without the garbage collector going through all they make, and those of optional packages."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from reporter.errors import ReporterError, UsageError


@contextmanager
def importing() -> Iterator[None]:
    """Keep the garbage collector away from what is done inside, which takes a quarter longer with it.

    For what makes many things that stay: thousands of modules, the classes of a model, the pages of a report. What is
    no longer referred to goes as ever; only circles of it wait for the end.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            if not gc.get_freeze_count():  # a program that froze things wants them to stay so
                gc.freeze()
                gc.unfreeze()  # all of it is old now: or the collector would go through it at each of its three ages
            gc.enable()


def optional(module: str, extra: str, by: str) -> Any:
    """Import a module of an optional package.

    Args:
        module: its full name.
        extra: the extra of this package that brings it.
        by: what needs it, as people call it: "the engine ray".

    Raises:
        UsageError: it is not installed; the text says which extra brings it.
    """
    try:
        return import_module(module)
    except ImportError as problem:
        if problem.name and problem.name.partition(".")[0] != module.partition(".")[0]:
            raise UsageError(f"{module} cannot be imported: {problem}") from None
        raise UsageError(_missing(module, extra, by)) from None


def check_installed(module: str, extra: str, by: str) -> None:
    """Look for an optional package without importing it; see ``optional``.

    Raises:
        ReporterError: it is not installed.
    """
    if find_spec(module) is None:
        raise ReporterError(_missing(module, extra, by))


def _missing(module: str, extra: str, by: str) -> str:
    return f"{by} needs the optional package {module.partition('.')[0]}: pip install 'reporter[{extra}]'"
