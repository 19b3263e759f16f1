"""Reads files of plain text, by line, paragraph or document; errors name the line."""

import codecs
import glob
import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, cast

from reporter.core.errors import ReporterError, failing_as
from reporter.core.files import LONGEST_TEXT, endless, instead_of
from reporter.texts.texts import Record

# Ends of lines as in Python's text mode. str.splitlines would also break at U+2028, form feeds and others,
# which are ordinary characters of a text here.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")

_BINARY = 0.1  # share of zero bytes at the beginning of a file that is not text
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def lines(path: Path) -> Iterator[str]:
    r"""Yield the lines of a file with their ends (``\n``, ``\r\n`` or ``\r``); a byte order mark is left out.

    Raises:
        ReporterError: the file cannot be read, or is not UTF-8; with line and byte.
    """
    with _opened(path) as file:
        yield from _decode(file, path)


def has_byte(path: Path, byte: bytes) -> bool:
    """Return whether a byte is anywhere in a file.

    Raises:
        ReporterError: the file cannot be read.
    """
    with _opened(path) as file:
        return any(byte in piece for piece in iter(lambda: file.read(2**20), b""))


def _decode(file: IO[bytes], path: Path, longest: int = LONGEST_TEXT) -> Iterator[str]:
    offset = 0
    for number, raw in enumerate(iter(lambda: file.readline(longest + 1), b""), 1):
        if len(raw) > longest:
            raise ReporterError(
                f"{path}:{number}: this line has more than {longest:,} bytes; split it into several texts"
            )
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _not_utf8(path, number, offset, error, file.read(4096)) from error
        offset += len(raw)
        if number == 1:
            line = line.removeprefix("\ufeff")
        if "\r" in line:
            yield from _LINE.findall(line)
        elif line:
            yield line


def _not_utf8(path: Path, line: int, offset: int, error: UnicodeDecodeError, after: bytes) -> ReporterError:
    if b"\0" in error.object + after:
        return ReporterError(f"{path} is a binary file with zero bytes, not text; name a text file")
    return ReporterError(
        f"{path}:{line}: byte {offset + error.start} (0x{error.object[error.start]:02x}) is not UTF-8; "
        "save the file as UTF-8 (for a file from Windows: iconv -f WINDOWS-1252 -t UTF-8)"
    )


def characters(path: Path, size: int) -> Iterator[str]:
    """Yield the text of a file in pieces of at most so many characters; a byte order mark is left out.

    Raises:
        ReporterError: the file cannot be read, or is not UTF-8; with line and byte.
    """
    with _opened(path) as file:
        text = io.TextIOWrapper(cast("io.BufferedReader", file), "utf-8-sig", newline="")
        try:
            yield from iter(lambda: text.read(size), "")
        except UnicodeDecodeError:
            with _opened(path) as again:
                for _ in _decode(again, path, sys.maxsize - 1):
                    pass  # up to the line that is not UTF-8
            raise


def _require_text(start: bytes, path: Path) -> None:
    if start.startswith(_UTF16):
        raise ReporterError(f"{path} is UTF-16, not UTF-8; convert it with: iconv -f UTF-16 -t UTF-8")
    if start.startswith(b"\x1f\x8b"):
        raise ReporterError(f"{path} is compressed; add .gz to its name")
    if start.count(0) > _BINARY * len(start):
        raise ReporterError(
            f"{path} is a binary file with zero bytes, or UTF-16; name a text file, or convert it with: "
            "iconv -f UTF-16LE -t UTF-8"
        )


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with failing_as(f"cannot read {path}", OSError):
        try:
            with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
                _require_text(file.peek(4096), path)
                yield cast("IO[bytes]", file)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ReporterError(
                f"{path} is not a complete gzip file ({error}); compress or download it again"
            ) from error


# Texts from files of plain text: one for each line, paragraph or document.


Unit = Literal["line", "paragraph", "document"]


def find_files(path: Path, unit: Unit) -> list[Path]:
    """Return the files that a path names, sorted.

    Raises:
        ReporterError: nothing is there, or a folder where a file is wanted.
    """
    if path.is_dir():
        if unit != "document":
            raise ReporterError(
                f"{path} is a folder; name a file in it, or write `unit: document` to read each .txt file as one text"
            )
        files = sorted(file for file in path.glob("*.txt") if file.is_file())
        if not files:
            raise ReporterError(f"the folder {path} has no .txt file; name another folder, or a pattern such as *.md")
        return files
    if problem := endless(path):
        raise ReporterError(f"{path} {problem}")
    if path.exists():
        return [path]
    if glob.has_magic(str(path)):
        if unit != "document":
            raise ReporterError(f"{path} is a pattern; add `unit: document`, which reads each file as one text")
        fixed = next(i for i, part in enumerate(path.parts) if glob.has_magic(part))
        matching = Path(*path.parts[:fixed]).glob(str(Path(*path.parts[fixed:])))
        if files := sorted(file for file in matching if file.is_file()):
            return files
        raise ReporterError(f"no file matches {path}; check the pattern")
    raise ReporterError(f"there is no file {path}{instead_of(path) or '; check the path'}")


def read_text_files(files: list[Path], unit: Unit) -> Iterator[Record]:
    """Yield the texts of files in order.

    A blank line (nothing, or white space only) is no text and ends a paragraph. The lines of a paragraph are
    joined by a space. A document keeps its lines; their ends become line feeds.

    Raises:
        ReporterError: a file cannot be read or is not UTF-8.
    """
    for file in files:
        gathered: list[str] = []
        characters = 0
        for line in lines(file):
            if unit != "document" and not line.strip():
                if gathered:
                    yield Record(" ".join(gathered))
                gathered, characters = [], 0
            elif unit == "line":
                yield Record(line)
            else:
                gathered.append(line.rstrip("\r\n") + "\n" if unit == "document" else line.strip())
                characters += len(gathered[-1]) + 1
                if characters > LONGEST_TEXT:
                    raise ReporterError(
                        f"{file}: a {unit} has more than {LONGEST_TEXT:,} characters; choose another `unit`"
                    )
        if unit == "document" or gathered:
            yield Record(("" if unit == "document" else " ").join(gathered))
