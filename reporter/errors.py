"""Errors meant for people: what is wrong, where, and what to do. They are printed without a traceback."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

from reporter.paths import shortened


class ReporterError(Exception):
    """An expected failure. Its text is one sentence a user can act on; the command line prints it and exits 1."""


class UsageError(ReporterError):
    """The call or the study is wrong: nothing was computed or written, exit code 2."""


def describe(error: BaseException) -> str:
    """Say in one line what went wrong, for the database; for an error nobody expected, where in the code."""
    if isinstance(error, ReporterError):
        return shortened(str(error))
    frames = traceback.extract_tb(error.__traceback__)
    libraries = tuple(sysconfig.get_paths()[kind] for kind in ("stdlib", "platlib", "purelib"))
    ours = [frame for frame in frames if not frame.filename.startswith(libraries)] or frames
    where = f" ({Path(ours[-1].filename).name}:{ours[-1].lineno})" if ours else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {shortened(text[:500])}{where}"
