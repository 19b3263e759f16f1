"""Reads text files as UTF-8, plain or gzipped, line by line, and says exactly where one is not."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from reporter.errors import ReporterError
from reporter.files import LONGEST_TEXT

# Ends of lines as in Python's text mode. str.splitlines would also break at U+2028, form feeds and others,
# which are ordinary characters of a text here.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def lines(path: Path) -> Iterator[str]:
    r"""Yield the lines of a file with their ends (``\n``, ``\r\n`` or ``\r``); a byte order mark is left out.

    Args:
        path: the file; one whose name ends in ``.gz`` is unpacked on the way.

    Raises:
        ReporterError: the file cannot be read, or is not UTF-8; with line and byte.
    """
    try:
        with open_bytes(path) as file:
            yield from _decode(file, path)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ReporterError(f"{path} is not a whole gzip file ({error}); pack it again") from error
    except OSError as error:
        raise unreadable(path, error) from error


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading bytes, unpacking ``.gz``."""
    if path.suffix.lower() == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return path.open("rb")


def unreadable(path: Path, error: OSError) -> ReporterError:
    """Say that a file cannot be read, and what the system said."""
    return ReporterError(f"cannot read {path}: {error.strerror or error}")


def _decode(file: IO[bytes], path: Path) -> Iterator[str]:
    offset = 0
    for number, raw in enumerate(iter(lambda: file.readline(LONGEST_TEXT + 1), b""), 1):
        if len(raw) > LONGEST_TEXT:
            raise ReporterError(f"{path}:{number}: this line has more than {LONGEST_TEXT:,} bytes, which is no text")
        if number == 1 and raw.startswith(_UTF16):
            raise ReporterError(f"{path} is UTF-16, not UTF-8; convert it: iconv -f UTF-16 -t UTF-8")
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ReporterError(
                f"{path}:{number}: byte {offset + error.start} (0x{raw[error.start]:02x}) is not UTF-8; "
                "save the file as UTF-8 (if it came from Windows: iconv -f WINDOWS-1252 -t UTF-8)"
            ) from error
        offset += len(raw)
        if number == 1:
            line = line.removeprefix("\ufeff")
        if "\r" in line:
            yield from _LINE.findall(line)
        elif line:
            yield line
