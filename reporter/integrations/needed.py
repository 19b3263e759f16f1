"""Packages that only an integration needs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from reporter.errors import UsageError


def needed(module: str, extra: str) -> Any:
    """Import a module of an optional package.

    Raises:
        UsageError: it is not installed; the text says which extra brings it.
    """
    try:
        return import_module(module)
    except ImportError as problem:
        if problem.name and problem.name.partition(".")[0] != module.partition(".")[0]:
            raise UsageError(f"{module} cannot be imported: {problem}") from None
        raise UsageError(f"this needs {module.partition('.')[0]}: pip install 'reporter[{extra}]'") from None
