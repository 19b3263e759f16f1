"""Errors meant for people: what is wrong, where, and what to do. They are printed without a traceback."""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

from reporter.paths import shortened


class ReporterError(Exception):
    """An expected failure. Its text is one sentence a user can act on; the command line prints it and exits 1."""


class UsageError(ReporterError):
    """The call or the study is wrong: nothing was computed or written, exit code 2."""


def one_line(text: str) -> str:
    """Return ``text`` with line breaks, control characters and other invisible ones written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def first_line(problem: BaseException) -> str:
    """Return the first line of what an exception says, or the name of its type where it says nothing."""
    return (str(problem).strip() or type(problem).__name__).splitlines()[0].strip()


def suggest(wrong: str, known: Iterable[str]) -> str | None:
    """Return the known name that ``wrong`` most resembles, or None when none comes close."""
    by_folded = {name.casefold(): name for name in known}
    close = get_close_matches(wrong.casefold(), list(by_folded), n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def hint(wrong: str, known: Sequence[str], otherwise: str) -> str:
    """Finish a message about an unknown name: the likeliest meant, or else every name there is.

    Args:
        wrong: what the study says.
        known: what it may say.
        otherwise: introduces the list when nothing comes close, e.g. ``"known here"``.
    """
    meant = suggest(wrong, known)
    if meant is not None:
        return f"; did you mean '{meant}'?"
    return f"; {otherwise}: {', '.join(known)}" if known else ""


def no_study(study: str, place: Path, known: Sequence[str]) -> UsageError:
    """Return the error that there is no such study.

    Args:
        study: its id, as somebody gave it.
        place: the database or its folder.
        known: the ids that are there.
    """
    ending = hint(study, known, "it has") or "; run it first with `reporter run`"
    return UsageError(f"no study '{one_line(study)}' in {place}{ending}")


LONGEST_LINE = 2000
_LONGEST_WORD = 300


def bounded(text: str) -> str:
    """Return one line of an error for people: what a name of 100,000 characters would bury stays in sight.

    Args:
        text: the line; very long words in it are cut, and the middle of what is still too long is left out.
    """
    if len(text) <= _LONGEST_WORD:
        return text
    text = re.sub(rf"\S{{{_LONGEST_WORD},}}", lambda word: f"{word[0][:60]}…{word[0][-20:]}", text)
    half = LONGEST_LINE // 2
    return text if len(text) <= LONGEST_LINE else f"{text[:half]} … {text[-half:]}"


_SAID_OF_MEMORY = (
    "defaultcpuallocator: can't allocate",  # torch
    "not enough memory",
    "out of memory",  # torch on a device, DuckDB
    "cannot allocate memory",  # the operating system
    "bad_alloc",  # C++
    "bad allocation",
    "failed to map segment",  # the linker, while something is imported
    "can't start new thread",  # Python, which has no room for its stack
)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error says that memory of host or device did not suffice, or came of one that does."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        if not isinstance(error, ReporterError) and any(said in str(error).lower() for said in _SAID_OF_MEMORY):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def said_by(error: BaseException) -> str:
    """Return in one line what a library's error says, to be part of one that says what it was asked for."""
    text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return f"memory does not suffice ({text})" if is_out_of_memory(error) else text


def describe(error: BaseException) -> str:
    """Say in one line what went wrong, for the database; for an error nobody expected, where in the code."""
    if isinstance(error, ReporterError):
        return bounded(shortened(str(error)))
    frames = traceback.extract_tb(error.__traceback__)
    libraries = tuple(sysconfig.get_paths()[kind] for kind in ("stdlib", "platlib", "purelib"))
    ours = [frame for frame in frames if not frame.filename.startswith(libraries)] or frames
    where = f" ({Path(ours[-1].filename).name}:{ours[-1].lineno})" if ours else ""
    if is_out_of_memory(error):
        return f"memory does not suffice{where}; run it again with more, or with a smaller `batch_tokens` or `sample`"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {shortened(text[:500])}{where}"
