"""Reads texts from files: plain text, CSV, JSON lines, JSON and Parquet; errors name the line."""

import codecs
import csv
import glob
import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any, Literal, cast

from reporter.core.confined import confined, identifier
from reporter.core.errors import ReporterError, failing_as, first_line, suggest
from reporter.core.files import LONGEST_TEXT, endless, instead_of, parse_json
from reporter.texts.chat import written
from reporter.texts.texts import Record

# Ends of lines as in Python's text mode. str.splitlines would also break at U+2028, form feeds and others,
# which are ordinary characters of a text here.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def lines(path: Path) -> Iterator[str]:
    r"""Yield the lines of a file with their ends (``\n``, ``\r\n`` or ``\r``); a byte order mark is left out.

    Raises:
        ReporterError: the file cannot be read, or is not UTF-8; with line and byte.
    """
    with failing_as(f"cannot read {path}", OSError):
        try:
            with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
                yield from _decode(cast("IO[bytes]", file), path)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ReporterError(
                f"{path} is not a complete gzip file ({error}); compress or download it again"
            ) from error


def _decode(file: IO[bytes], path: Path) -> Iterator[str]:
    offset = 0
    for number, raw in enumerate(iter(lambda: file.readline(LONGEST_TEXT + 1), b""), 1):
        if len(raw) > LONGEST_TEXT:
            raise ReporterError(
                f"{path}:{number}: this line has more than {LONGEST_TEXT:,} bytes; split it into several texts"
            )
        if number == 1 and raw.startswith(_UTF16):
            raise ReporterError(f"{path} is UTF-16, not UTF-8; convert it with: iconv -f UTF-16 -t UTF-8")
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            if b"\0" in raw + file.read(4096):
                raise ReporterError(f"{path} is a binary file with zero bytes, not text; name a text file") from error
            raise ReporterError(
                f"{path}:{number}: byte {offset + error.start} (0x{raw[error.start]:02x}) is not UTF-8; "
                "save the file as UTF-8 (for a file from Windows: iconv -f WINDOWS-1252 -t UTF-8)"
            ) from error
        offset += len(raw)
        if number == 1:
            line = line.removeprefix("\ufeff")
        if "\r" in line:
            yield from _LINE.findall(line)
        elif line:
            yield line


# Finds a column in a table.


def require_column(column: str | None, columns: Sequence[str], where: str, key: str = "column") -> str:
    """Return ``column`` if the table has it.

    Raises:
        ReporterError: there is no such column, or two of that name; the message lists the columns.
    """
    if column is None:
        raise ReporterError(
            f"{where} is a table; name the column of the texts with `{key}: NAME`. Columns: {listed(columns)}"
        )
    if list(columns).count(column) > 1:
        raise ReporterError(f"{where} has several columns '{column}'; rename all but one")
    if column not in columns:
        meant = suggest(column, columns)
        ending = f"; did you mean '{meant}'?" if meant else "."
        raise ReporterError(f"{where} has no column '{column}' for `{key}`{ending} Columns: {listed(columns)}")
    return column


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more or "none"


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
                f"{path} is a folder; name a file, or write `unit: document` to read each .txt file in it as one text"
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


# Texts from a column of a CSV or TSV file (also gzipped), one row at a time.
#
# The standard library's reader rather than DuckDB's: it holds one row where DuckDB holds the file (500 MB for one of
# 480 MB), keeps every character, and knows the line of each error.


_DELIMITERS = (",", ";", "\t", "|")


Marks = Mapping[str, str | None]
"""The columns with labels and clusters, by key of the study; None where a study names none."""


def read_csv(path: Path, column: str | None, marks: Marks, tabs: bool) -> Iterator[Record]:
    """Yield the texts of a column. The first row names the columns.

    Raises:
        ReporterError: the file cannot be read, a column is missing, or a row is malformed; with its line.
    """
    csv.field_size_limit(LONGEST_TEXT)
    text = lines(path)
    first = next(text, "")
    unquoted = "".join(first.split('"')[::2])
    delimiter = "\t" if tabs else next((d for d in _DELIMITERS if d in unquoted), ",")
    rows = csv.reader(chain([first], text), delimiter=delimiter, strict=True)
    try:
        header = [name.strip() for name in next(rows)]
        place = header.index(require_column(column, header, str(path)))
        marked = {
            key: header.index(require_column(name, header, str(path), key)) for key, name in marks.items() if name
        }
        for row in rows:
            if len(row) == len(header):
                yield Record(row[place], **{key: row[at] or None for key, at in marked.items()})
            elif row:
                raise ReporterError(
                    f"{path}:{rows.line_num}: this row has {len(row)} columns, but the first row has {len(header)}; "
                    f"put values that contain {delimiter!r} or a line break in double quotes"
                )
    except csv.Error as error:
        raise ReporterError(f"{path}:{rows.line_num}: invalid CSV row ({error}); check the quotes") from error


# Texts from a file with one JSON object on each line (also gzipped).


def read_json_lines(path: Path, column: str | None, marks: Marks, chat: bool = False) -> Iterator[Record]:
    """Yield the values of a key; an object without it, or with null, has no text. Blank lines are skipped.

    Raises:
        ReporterError: the file cannot be read, a line is no JSON object, a text is no string, or a key is
            nowhere.
    """
    keys: dict[str, None] = {}  # in order of appearance: objects need not have the same keys
    for number, line in enumerate(lines(path), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        row = _parse(line, where)
        if column is None:
            require_column(None, list(row), str(path))
        keys.update(dict.fromkeys(row))
        value = row.get(str(column))
        text = written(value, where) if chat else _text(value, str(column), where)
        yield Record(text, **{key: _mark(row, name, where, key) for key, name in marks.items()})
    if keys:
        for key, name in {"column": column, **marks}.items():
            if key == "column" or name is not None:
                require_column(name, list(keys), str(path), key)


def _parse(line: str, where: str) -> dict[str, object]:
    try:
        row = parse_json(line)
    except (ValueError, MemoryError) as error:
        raise ReporterError(f"{where}: invalid JSON ({error}); each line must be one JSON object") from error
    if not isinstance(row, dict):
        raise ReporterError(f'{where}: expected a JSON object such as {{"text": "…"}}, got {line.strip()[:40]}')
    return row


def _text(value: object, column: str, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise ReporterError(
        f"{where}: the value of '{column}' must be text, got {json.dumps(value)[:40]}; name another `column`, or "
        "quote it"
    )


def _mark(row: dict[str, object], name: str | None, where: str, key: str) -> str | None:
    value = None if name is None else row.get(name)
    if isinstance(value, dict | list):
        raise ReporterError(
            f"{where}: the {key} '{name}' must be one value, got {json.dumps(value)[:40]}; name another `{key}`"
        )
    return value if value is None or isinstance(value, str) else json.dumps(value)


# Texts from a column of a Parquet file or a JSON array, streamed through DuckDB.


_AT_ONCE = 1024  # rows
_MEMORY = "2GB"  # a few kilobytes of Parquet can stand for any number of them
_TEXT = {
    "parquet": ("VARCHAR", "ENUM"),
    "json": ("VARCHAR", "DATE", "TIME", "UUID"),  # strings, some of which happen to look like dates
}
_NESTED = ("STRUCT", "MAP", "UNION", "BLOB", "JSON")


def read_with_duckdb(
    path: Path, kind: Literal["parquet", "json"], column: str | None, marks: Marks
) -> Iterator[Record]:
    """Yield the texts of a column in the file's order; NULL is no text.

    Raises:
        ReporterError: the file cannot be read, or a column is missing or of the wrong type.
    """
    import duckdb

    # One thread and rows in order: the same texts every time, in buffers of a few dozen MB.
    literal = "".join(f"[{c}]" if c in "*?[" else c for c in str(path.resolve()))
    with confined([path, Path(literal)], threads=1, memory_limit=_MEMORY) as connection:
        try:
            options = ", sample_size = -1" if kind == "json" else ""
            described = connection.execute(f"DESCRIBE SELECT * FROM read_{kind}(?{options})", [literal]).fetchall()
            types = {name: type_ for name, type_, *_ in described}
            named = {"text": _of_type(types, path, column, "column", kind)}
            named |= {key: _of_type(types, path, name, key, kind) for key, name in marks.items() if name is not None}
            texts = ", ".join(f"CAST({identifier(name)} AS VARCHAR)" for name in named.values())
            if kind == "json":
                # Typed as text while it is read, so that "2020-1-1" stays what it is and does not become a date.
                parameters: list[Any] = [literal, dict.fromkeys(named.values(), "VARCHAR")]
                connection.execute(f"SELECT {texts} FROM read_json(?, columns = ?)", parameters)
            else:
                connection.execute(f"SELECT {texts} FROM read_parquet(?)", [literal])
            while rows := connection.fetchmany(_AT_ONCE):
                yield from (Record(**dict(zip(named, row, strict=True))) for row in rows)
        except duckdb.Error as error:
            message = first_line(error)
            advice = "; save the file as UTF-8" if "UTF-8" in message else ""
            raise ReporterError(f"cannot read {path}: {message}{advice}") from error


def _of_type(types: dict[str, str], path: Path, column: str | None, key: str, kind: str) -> str:
    """Return a column if it holds what a text, a label or a cluster can be made of."""
    name = require_column(column, list(types), str(path), key)
    fits = types[name].startswith(_TEXT[kind]) if key == "column" else not types[name].startswith(_NESTED)
    if not fits or types[name].endswith("]"):
        what = (
            f"column '{name}' must hold text" if key == "column" else f"{key} column '{name}' must hold single values"
        )
        raise ReporterError(f"{path}: the {what}, got {types[name]}; name another `{key}`")
    return name
