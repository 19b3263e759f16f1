"""Versions of what a number depends on, read from package metadata so that nothing heavy is imported."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from reporter import __version__

_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "scipy", "duckdb", "altair")


@cache
def versions() -> dict[str, str]:
    """Return the version of reporter, Python and each library that numbers depend on."""
    found = {"reporter": __version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
