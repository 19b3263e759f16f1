"""Reads texts, labels and clusters from tables: CSV, TSV, JSON lines, JSON, Parquet and DuckDB give the same values.

A value is text as it is written, without the white space around it. Nothing is guessed from it: neither a type, nor a
date, nor a missing value. A missing value is NULL, NaN, an empty cell or an absent key, in every format.
"""

import csv
import json
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from reporter.core.children import Limit, in_child
from reporter.core.confined import confined, identifier, quoted, require_plain
from reporter.core.errors import ReporterError, first_line, suggest
from reporter.core.files import LONGEST_TEXT
from reporter.core.json_text import MOST_DEEP
from reporter.texts.chat import written
from reporter.texts.readers import characters, has_byte, lines
from reporter.texts.texts import Record, encoded

TableKind = Literal["csv", "tsv", "jsonl", "json", "parquet", "duckdb"]

TABLES: dict[str, TableKind] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".duckdb": "duckdb",
}
"""How a table is read, by the ending of its file."""

Marks = Mapping[str, str | None]
"""The columns with labels and clusters, by key of the study; None where a study names none."""
_Named = Mapping[str, str] | None
"""The columns to read besides the texts, by key; None for all that hold one value in each row."""
_Row = tuple[str, Mapping[str, Any]]  # where it is, for messages, and its values by column
_Check = Callable[[Sequence[str]], None]  # given the columns of a table, raises if one of the study's is missing


def read_table(
    path: Path, kind: TableKind, column: str | None, marks: Marks, chat: bool = False, table: str | None = None
) -> Iterator[Record]:
    """Yield the texts of a column in the order of the rows, with their labels and clusters.

    Args:
        path: the table; a ``.gz`` file of text is unpacked.
        kind: its format.
        column: the column of the texts.
        marks: the columns of labels and clusters.
        chat: whether the column holds conversations.
        table: the name of a table in a DuckDB file; None for its only one.

    Raises:
        ReporterError: the file cannot be read, a column is missing, or a value is of the wrong type; with its line.
    """
    named = {key: name for key, name in marks.items() if name is not None}

    def check(columns: Sequence[str]) -> None:
        require_column(column, columns, str(path))
        for key, name in named.items():
            require_column(name, columns, str(path), key)

    for where, row in _rows(path, kind, check, column, named, table):
        value = row.get(str(column))
        text = written(value, where) if chat else _text(value, str(column), where)
        yield Record(text, **marks_of(row, named, where))


def read_marks(
    path: Path, kind: TableKind, column: str, most: int, table: str | None = None
) -> tuple[int, dict[str, Counter[str]]]:
    """Return how many of the first rows have a text, and how often each other column has each label in them.

    Columns of lists and mappings, and those of one name, are left out.

    Args:
        path: the table.
        kind: its format.
        column: the column of the texts.
        most: rows with a text that are read.
        table: see ``read_table``.

    Raises:
        ReporterError: the file cannot be read, or has no such column.
    """
    columns = Counter[str]()

    def check(names: Sequence[str]) -> None:
        columns.update(names)
        require_column(column, names, str(path))

    texts, marks, unfit = 0, dict[str, Counter[str]](), {column}
    for where, row in _rows(path, kind, check, column, None, table):
        if not (_text(row.get(column), column, where) or "").strip():
            continue
        texts += 1
        for name in row.keys() - unfit:
            try:
                mark = mark_of(row[name], name)
            except ReporterError:
                unfit.add(name)
            else:
                marks.setdefault(name, Counter()).update([] if mark is None else [mark])
        if texts == most:
            break
    return texts, {name: of_name for name, of_name in marks.items() if name not in unfit and columns[name] < 2}


def _rows(
    path: Path, kind: TableKind, check: _Check, column: str | None, named: _Named, table: str | None
) -> Iterator[_Row]:
    if kind == "parquet":
        return _parquet_rows(path, check, column, named)
    if kind == "duckdb":
        return _duckdb_rows(path, check, column, named, table)
    if kind == "csv" or kind == "tsv":
        return _separated_rows(path, check, tabs=kind == "tsv")
    objects = _json_lines(path) if kind == "jsonl" else _json_objects(path)
    return _object_rows(objects, check, column)


# Columns and values.


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


def column_name(name: str) -> str:
    """Return the name of a column without white space and byte order marks around it."""
    return name.strip().strip("\ufeff").strip()


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more or "none"


class _Numeral(str):
    """A number of a JSON file as it is written there."""


class _Several(list[Any]):
    """The values of a JSON object that have one name."""


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _text(value: Any, column: str, where: str) -> str | None:
    if _is_missing(value):
        return None
    if isinstance(value, str) and not isinstance(value, _Numeral):
        encoded(value, f"{where}: the value of '{column}'")
        return value
    raise ReporterError(
        f"{where}: the value of '{column}' must be text, got {_shown(value)}; name another `column`, or quote it"
    )


def marks_of(row: Mapping[str, Any], named: Mapping[str, str], where: str) -> dict[str, str | None]:
    """Return the label and the cluster of a row, by key; ``named`` has the column of each."""
    return {key: mark_of(row.get(name), f"{where}: the {key} '{name}'") for key, name in named.items()}


def mark_of(value: Any, what: str) -> str | None:
    """Return a label or a cluster as text without white space around it; None for a missing value.

    Args:
        value: what the table holds.
        what: where and what it is, for messages.

    Raises:
        ReporterError: it is a list or a mapping, or not valid Unicode.
    """
    if isinstance(value, list | dict | bytes):
        raise ReporterError(f"{what} must be one value, got {_shown(value)}; name another column")
    if _is_missing(value):
        return None
    text = str(value).lower() if isinstance(value, bool) else str(value)
    encoded(text, what)
    return text.strip() or None


def _shown(value: Any) -> str:
    if isinstance(value, _Several):
        return "several values of this name"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    return str(value) if isinstance(value, _Numeral) else json.dumps(value, default=str)[:40]


# CSV and TSV, also gzipped, one row at a time.
#
# The standard library's reader rather than DuckDB's: it holds one row where DuckDB holds the file (500 MB for one of
# 480 MB), keeps every character, and knows the line of each error.

_DELIMITERS = (",", ";", "\t", "|")


def _separated_rows(path: Path, check: _Check, tabs: bool) -> Iterator[_Row]:
    """Yield the rows of a table whose first row names the columns."""
    csv.field_size_limit(LONGEST_TEXT)
    text = lines(path)
    first = next(text, "")
    unquoted = "".join(first.split('"')[::2])
    delimiter = "\t" if tabs else next((d for d in _DELIMITERS if d in unquoted), ",")
    quotes = delimiter != "\t" or _has_quotes(path, path.stat().st_mtime_ns, path.stat().st_size)
    remedy = f"put values that contain {delimiter!r} or a line break in double quotes" if quotes else "remove the tab"
    pending: list[str] = []  # the lines of a row

    def noted() -> Iterator[str]:
        for line in chain([first], text):
            pending.append(line)
            yield line

    rows = csv.reader(
        noted(),
        delimiter=delimiter,
        strict=True,
        skipinitialspace=delimiter != "\t",
        quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
    )
    try:
        header = [column_name(name) for name in next(rows)]
        check(header)
        joined, needs_quotes = "", len(header) == 1 or '"' in first
        pending.clear()
        for row in rows:
            if not needs_quotes and row:
                # Without quotes, each line would be a row; then nothing tells whether they enclose values.
                needs_quotes = any(line.count(delimiter) != len(header) - 1 for line in pending)
                if len(pending) > 1 and not joined:
                    joined = f"{path}:{rows.line_num - len(pending) + 1}"
            pending.clear()
            if len(row) == len(header) > 1 and header == [column_name(name) for name in row]:
                raise ReporterError(f"{path}:{rows.line_num}: this row repeats the names of the columns; remove it")
            if len(row) == len(header):
                yield f"{path}:{rows.line_num}", {name: cell or None for name, cell in zip(header, row, strict=True)}
            elif row:
                raise ReporterError(
                    f"{path}:{rows.line_num}: this row has {len(row)} columns, but the first row has {len(header)}; "
                    f"{remedy}"
                )
        if joined and not needs_quotes:
            raise ReporterError(
                f"{joined}: quotes join this line and the next ones, but each has {len(header)} columns without them. "
                "If quotes are characters of this file, double and enclose them; otherwise save it as JSON lines"
            )
    except csv.Error as error:
        raise ReporterError(f"{path}:{rows.line_num}: invalid CSV row ({error}); check the quotes") from error


@lru_cache(maxsize=16)
def _has_quotes(path: Path, *state: int) -> bool:
    """Return whether quotes in a TSV file enclose values, or are characters of them, as in tweets and STS.

    Where each line has the cells of the first one, quotes enclose values if a program that quotes could have written
    them: the names of columns, all values of a column, just the values that hold quotes, which are then doubled, or
    just those with a quote or a comma, as spreadsheets do. Otherwise some value holds a tab or the end of a line, for
    which it must be in quotes.

    Args:
        path: the file, which is read to its end.
        state: what changes with the file.

    Raises:
        ReporterError: both are possible.
    """
    if not has_byte(path, b'"'):
        return True
    width, stray, opened, doubled, in_header = 0, 0, 0, False, False
    enclosed, bare = set[int](), set[int]()  # columns with values in quotes without need, and without quotes
    enclosed_plain = bare_comma = False
    for number, line in enumerate(lines(path), 1):
        cells = line.rstrip("\r\n").split("\t")
        width = width or len(cells)
        if len(cells) != width and cells != [""]:
            return True
        for column, cell in enumerate(cells):
            inner = cell[1:-1]
            if not cell.startswith('"'):
                stray = stray or number * ('"' in cell)
                if cell and number > 1:
                    bare.add(column)
                    bare_comma |= "," in cell
            elif len(cell) < 2 or not cell.endswith('"') or '"' in inner.replace('""', ""):
                stray, opened = stray or number, opened or number
            elif '"' in inner or (not inner and number > 1):
                doubled = True
            elif number == 1:
                in_header = True
            else:
                enclosed.add(column)
                enclosed_plain |= "," not in inner
    mixed = stray and doubled
    if not in_header and ((width == 1 and mixed) or (opened and (width == 1 or mixed) and _can_be_quoted(path, width))):
        raise ReporterError(
            f"{path}:{stray}: quotes may enclose values of this file or be a part of them; save it as JSON lines"
        )
    in_whole_columns, in_need = not enclosed & bare, not enclosed_plain and not bare_comma
    return in_header or (not stray and (doubled or bool(enclosed)) and (in_whole_columns or in_need))


def _can_be_quoted(path: Path, width: int) -> bool:
    """Return whether a TSV file can be read with quotes around values."""
    try:
        return all(len(row) in (0, width) for row in csv.reader(lines(path), delimiter="\t", strict=True))
    except csv.Error:
        return False


# JSON lines and JSON, also gzipped.


def _constant(name: str) -> float:
    return float(name.replace("Infinity", "inf"))


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; what has the name of something else in it is ``_Several``."""
    values = dict(pairs)
    if len(values) < len(pairs):
        for name, count in Counter(name for name, _ in pairs).items():
            if count > 1:
                values[name] = _Several(value for other, value in pairs if other == name)
    return values


_DECODER = json.JSONDecoder(
    parse_float=_Numeral, parse_int=_Numeral, parse_constant=_constant, object_pairs_hook=_object
)
_SPACE = " \t\n\r"
_PIECE = 2**20  # characters


def _object_rows(objects: Iterator[tuple[str, Any]], check: _Check, column: str | None) -> Iterator[_Row]:
    """Yield objects as rows. They need not have the same keys, so a column is missing if no object has it."""
    columns: dict[str, None] = {}  # in order of appearance
    for where, row in objects:
        if not isinstance(row, dict):
            raise ReporterError(f'{where}: expected a JSON object such as {{"text": "…"}}, got {_shown(row)}')
        values = _object([(column_name(name), value) for name, value in row.items()])
        if column is None:
            check(list(values))
        columns.update(dict.fromkeys(values))
        yield where, values
    if columns:
        check(list(columns))


def _json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(map(str.strip, lines(path)), 1):
        if line:
            where = f"{path}:{number}"
            try:
                value, end = _decoded(line, 0)
                if end < len(line):
                    raise json.JSONDecodeError("Extra data", line, end)
            except ValueError as error:
                raise ReporterError(f"{where}: invalid JSON ({error}); each line must be one JSON object") from error
            yield where, value


def _decoded(text: str, start: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, start)
    except RecursionError:
        raise ValueError(f"lists and mappings are nested more than {MOST_DEEP} deep") from None


def _json_objects(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the values of a JSON array, or values one after the other, a piece of the file at a time."""
    pieces = characters(path, _PIECE)
    text, start, line, expected, in_array = "", 0, 1, "first", False
    while True:
        here = _skipped(text, start)
        line, start = line + text.count("\n", start, here), here
        if start == len(text):
            text, start = next(pieces, ""), 0
            if text:
                continue
            if in_array or expected == "comma":
                raise ReporterError(f"cannot read {path}: line {line}: the file ends within the list")
            return
        mark = text[start]
        if expected == "first" and mark == "[":
            start, expected, in_array = start + 1, "value or end", True
        elif in_array and mark == "]" and expected in ("comma", "value or end"):
            start, expected, in_array = start + 1, "end", False
        elif in_array and mark == "," and expected == "comma":
            start, expected = start + 1, "value"
        elif expected in ("end", "comma"):
            raise ReporterError(f"cannot read {path}: line {line}: unexpected {text[start : start + 20]!r}")
        else:
            value, text, start, passed = _next_value(path, text, start, line, pieces)
            yield f"{path}:{line}", value
            line, expected = line + passed, "comma" if in_array else "value"


def _skipped(text: str, start: int) -> int:
    while start < len(text) and text[start] in _SPACE:
        start += 1
    return start


def _next_value(path: Path, text: str, start: int, line: int, pieces: Iterator[str]) -> tuple[Any, str, int, int]:
    """Return the value that begins at a place, the text with what was read on, where it goes on, and its lines."""
    while True:
        try:
            value, end = _decoded(text, start)
            return value, text, end, text.count("\n", start, end)
        except ValueError as error:
            at = line + text.count("\n", start, getattr(error, "pos", start))
            text, start, more = text[start:], 0, ""
            while len(more) <= len(text) and (piece := next(pieces, "")):  # twice as much, so that time is linear
                more += piece
            if not more or len(text) > LONGEST_TEXT:
                problem = getattr(error, "msg", str(error))
                raise ReporterError(f"cannot read {path}: line {at}: invalid JSON ({problem})") from error
            text += more


# Parquet and DuckDB.

_AT_ONCE = 1024  # rows
_FIRST_ROWS = 20_000  # that are copied from a database before the others
_MEMORY = "2GB"  # a few kilobytes of Parquet can stand for any number of them
_NESTED = ("STRUCT", "MAP", "UNION", "BLOB", "JSON")


def _parquet_rows(path: Path, check: _Check, column: str | None, named: _Named, before: int = 0) -> Iterator[_Row]:
    import duckdb

    # One thread and rows in order: the same texts every time, in buffers of a few dozen MB.
    pattern = "".join(f"[{c}]" if c in "*?[" else c for c in str(path.resolve()))
    # A folder such as label=joy/ tells nothing about the columns.
    source = f"read_parquet({quoted(pattern)}, hive_partitioning = false)"
    with confined([path, Path(pattern)], threads=1, memory_limit=_MEMORY) as connection:
        try:
            described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
            names = _parquet_names(connection, pattern)
            check(names)
            # DuckDB renames columns that differ in case alone; their order stays.
            types = {name: (given, kind) for name, (given, kind, *_) in zip(names, described, strict=True)}
            terms = _terms(types, path, column, named)
            connection.execute(f"SELECT {', '.join(terms.values())} FROM {source}")
            rows = chain.from_iterable(iter(lambda: connection.fetchmany(_AT_ONCE), []))
            for number, row in enumerate(rows, before + 1):
                yield f"{path}: row {number}", dict(zip(terms, row, strict=True))
        except duckdb.Error as error:
            message = first_line(error)
            advice = "; save the file as UTF-8" if "UTF-8" in message else ""
            raise ReporterError(f"cannot read {path}: {message}{advice}") from error


def _parquet_names(connection: Any, pattern: str) -> list[str]:
    """Return the names of the columns as the file has them."""
    rows = connection.execute("SELECT name, num_children FROM parquet_schema(?)", [pattern]).fetchall()
    names, inside = list[str](), 0  # the elements of all columns, each before what it holds; the first is the whole
    for name, children in rows[1:]:
        names += [] if inside else [column_name(name)]
        inside += (children or 0) - (1 if inside else 0)
    return names


def _terms(types: Mapping[str, tuple[str, str]], path: Path, column: str | None, named: _Named) -> dict[str, str]:
    """Return the SQL term of each column to read, by its name."""
    if named is None:
        named = {name: name for name, (_, kind) in types.items() if _is_one_value(kind)}
    return {name: _term(types[name], path, name, key) for key, name in {**named, "column": str(column)}.items()}


def _is_one_value(kind: str) -> bool:
    return not kind.startswith(_NESTED) and not kind.endswith("]")


def _term(typed: tuple[str, str], path: Path, name: str, key: str) -> str:
    """Return the SQL term of a column if it holds what a text, a label or a cluster can be made of."""
    given, kind = typed
    if not _is_one_value(kind) or (key == "column" and not kind.startswith(("VARCHAR", "ENUM"))):
        what = f"column '{name}' must hold text" if key == "column" else f"{key} '{name}' must be one value"
        raise ReporterError(f"{path}: the {what}, got {kind}; name another `{key}`")
    term = identifier(given)
    if kind in ("FLOAT", "DOUBLE"):
        term = f"CASE WHEN isnan({term}) THEN NULL ELSE {term} END"
    return f"CAST({term} AS VARCHAR)"


def _duckdb_rows(path: Path, check: _Check, column: str | None, named: _Named, table: str | None) -> Iterator[_Row]:
    """Yield the rows of a table in a database, the first ones without a look at the others.

    A file that was made to crash DuckDB ends the process that copies the columns, and not this one.
    """
    what = Limit(f"reading {path}", "the file is damaged, or too large", 600, 4 * 2**30)
    count = 0
    for part, before in ((f"LIMIT {_FIRST_ROWS}", 0), (f"OFFSET {_FIRST_ROWS}", _FIRST_ROWS)):
        if count < before:
            return
        with tempfile.TemporaryDirectory() as folder:
            copied = Path(folder, "table.parquet")
            in_child(partial(_copy, path, copied, table, check, column, named, part), what)
            for where, row in _parquet_rows(copied, lambda columns: None, column, named, before):
                yield where.replace(str(copied), str(path)), row
                count += 1


def _copy(
    path: Path, copied: Path, table: str | None, check: _Check, column: str | None, named: _Named, part: str
) -> None:
    import duckdb

    with confined([path, copied], threads=1, memory_limit=_MEMORY) as connection:
        try:
            connection.execute(f"ATTACH {quoted(str(path.resolve()))} AS data (READ_ONLY)")
            require_plain(connection, "data", path)
            names = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'data' ORDER BY ALL"
            tables = [name for (name,) in connection.execute(names).fetchall()]
            if table is None and len(tables) != 1:
                raise ReporterError(f"{path} has {len(tables)} tables; name one with `table: NAME`: {listed(tables)}")
            if table is not None and table not in tables:
                raise ReporterError(f"{path} has no table '{table}'. Tables: {listed(tables)}")
            source = f"data.main.{identifier(table or tables[0])}"
            described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
            check([column_name(name) for name, *_ in described])
            types = {column_name(name): (name, kind) for name, kind, *_ in described}
            terms = _terms(types, path, column, named).items()
            listed_terms = ", ".join(f"{term} AS {identifier(name)}" for name, term in terms)
            # In the order of the rows, since there is one thread: `rowid` may be the name of a column.
            rows = f"SELECT {listed_terms} FROM {source} {part}"
            connection.execute(f"COPY ({rows}) TO {quoted(str(copied))} (FORMAT parquet)")
        except duckdb.Error as error:
            raise ReporterError(f"cannot read {path}: {first_line(error)}") from error
        finally:
            with suppress(duckdb.Error):
                connection.execute("DETACH data")
