"""Texts from files of plain text: one for each line, paragraph or document."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from reporter.errors import ReporterError
from reporter.files import LONGEST_TEXT, endless
from reporter.texts.record import Record
from reporter.texts.utf8 import lines

Unit = Literal["line", "paragraph", "document"]


def find_files(path: Path, unit: Unit) -> list[Path]:
    """Return the files that a path names, sorted.

    Args:
        path: a file; with unit ``document`` also a folder, for its ``.txt`` files, or a pattern such as
            ``letters/*.txt``.
        unit: what one text is.

    Raises:
        ReporterError: nothing is there, or a folder where a file is wanted.
    """
    if path.is_dir():
        if unit != "document":
            raise ReporterError(
                f"{path} is a folder; name a file, or write 'unit: document' to make each .txt file in it one text"
            )
        found = sorted(file for file in path.glob("*.txt") if file.is_file())
        if not found:
            raise ReporterError(f"the folder {path} holds no .txt file")
        return found
    if problem := endless(path):
        raise ReporterError(f"{path} {problem}")
    if path.exists():
        return [path]
    if glob.has_magic(str(path)):
        if unit != "document":
            raise ReporterError(f"{path} is a pattern; patterns go with 'unit: document', where each file is one text")
        found = sorted(file for file in _matching(path) if file.is_file())
        if found:
            return found
        raise ReporterError(f"no file matches {path}")
    raise ReporterError(f"there is no file {path}")


def _matching(pattern: Path) -> Iterator[Path]:
    """Yield what matches a pattern; the part of it before the first ``*``, ``?`` or ``[`` is a folder."""
    parts = pattern.parts
    first = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    return Path(*parts[:first]).glob(str(Path(*parts[first:])))


def read_text_files(files: list[Path], unit: Unit) -> Iterator[Record]:
    """Yield the texts of files in order.

    A blank line (nothing, or white space only) is no text and ends a paragraph. The lines of a paragraph are
    joined by a space. A document keeps its lines; their ends become line feeds.

    Raises:
        ReporterError: a file cannot be read or is not UTF-8.
    """
    for file in files:
        if unit == "document":
            gathered = _Gathered(file, unit)
            for line in lines(file):
                gathered.add(line.rstrip("\r\n") + "\n")
            yield Record("".join(gathered.take()))
        elif unit == "paragraph":
            yield from _paragraphs(file)
        else:
            yield from (Record(line) for line in lines(file) if line.strip())


def _paragraphs(file: Path) -> Iterator[Record]:
    gathered = _Gathered(file, "paragraph")
    for line in lines(file):
        if line.strip():
            gathered.add(line.strip())
        elif whole := gathered.take():
            yield Record(" ".join(whole))
    if whole := gathered.take():
        yield Record(" ".join(whole))


class _Gathered:
    """The lines of one text, of which there is an end."""

    def __init__(self, file: Path, unit: Unit) -> None:
        self._file, self._unit = file, unit
        self._lines: list[str] = []
        self._characters = 0

    def add(self, line: str) -> None:
        self._lines.append(line)
        self._characters += len(line) + 1
        if self._characters > LONGEST_TEXT:
            raise ReporterError(
                f"{self._file}: a {self._unit} is longer than {LONGEST_TEXT:,} characters, which is no text; "
                "choose another 'unit'"
            )

    def take(self) -> list[str]:
        whole, self._lines, self._characters = self._lines, [], 0
        return whole
