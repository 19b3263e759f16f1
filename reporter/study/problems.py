"""Problems of a study: one line for each problem, with file, line and column."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from reporter.core.errors import UsageError, bounded, one_line

Location = tuple[str | int, ...]
"""The keys and list indices (from 0) that lead from the top of a study to one of its parts."""


@dataclass(frozen=True)
class Problem:
    """One mistake in a study file."""

    file: str
    line: int
    column: int
    where: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        # Names and messages can carry what the study says, and that can be anything.
        parts = (place, bounded(self.where), bounded(self.message))
        return one_line(": ".join(part for part in parts if part))


class SpecError(UsageError):
    """A study, or several, cannot be used; the text has one line for each problem.

    Args:
        problems: every problem found, in the order in which they are printed.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @classmethod
    def of_file(cls, path: Path, message: str) -> Self:
        """Return the error that a file as a whole cannot be used."""
        return cls([Problem(str(path), 0, 0, "", message)])


def show_location(location: Location) -> str:
    """Write ``("metrics", 1, "sample")`` as ``metrics[1].sample``; keys with odd characters are quoted."""
    shown = ""
    for part in location:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            plain = re.fullmatch(r"[\w-]+", part) is not None
            shown += ("." if shown else "") + (_shorten(part) if plain else _quote(part))
    return shown


def show(value: Any) -> str:
    """Describe a value from a study in a few words: ``text 'ten'``, ``the number 5``, ``a list``."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 1024:  # Python refuses to write very long numbers
        return "a number beyond float64"
    if isinstance(value, int | float):
        return f"the number {_shorten(repr(value))}"
    if isinstance(value, str):
        return f"text {_quote(value)}"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    return type(value).__name__


def choices(names: Sequence[str]) -> str:
    """Write alternatives as ``'a', 'b' or 'c'``."""
    quoted = [f"'{name}'" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def _quote(text: str) -> str:
    short = _shorten(text)
    return f"'{one_line(short)}'" if "'" not in short else one_line(json.dumps(short, ensure_ascii=False))


def _shorten(text: str, longest: int = 60) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
