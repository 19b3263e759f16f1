"""Texts from a column of a Parquet file or a JSON array, streamed through DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from reporter.errors import ReporterError, first_line
from reporter.texts.columns import require_column
from reporter.texts.record import Record

if TYPE_CHECKING:
    import duckdb

_AT_ONCE = 1024  # rows
_MEMORY = "2GB"  # a few kilobytes of Parquet can stand for any number of them
_TEXT = {
    "parquet": ("VARCHAR", "ENUM"),
    "json": ("VARCHAR", "DATE", "TIME", "UUID"),  # strings, some of which happen to look like dates
}
_NESTED = ("STRUCT", "MAP", "UNION", "BLOB", "JSON")


def read_with_duckdb(
    path: Path, kind: Literal["parquet", "json"], column: str | None, label: str | None
) -> Iterator[Record]:
    """Yield the texts of a column in the file's order; NULL is no text.

    Args:
        path: the file.
        kind: Parquet, or a JSON array of objects (also gzipped).
        column: holds the texts; its type must be text.
        label: holds the labels, or None; any plain type, taken as text.

    Raises:
        ReporterError: the file cannot be read, or a column is missing or of the wrong type.
    """
    import duckdb

    # One thread and rows in order: the same texts every time, in buffers of a few dozen MB.
    with duckdb.connect(
        config={"threads": 1, "memory_limit": _MEMORY, "autoinstall_known_extensions": False}
    ) as connection:
        try:
            types = {name: type_ for name, type_, *_ in _describe(connection, kind, path)}
            text = _text_column(types, kind, column, path)
            value = None if label is None else _label_column(types, label, path)
            _select(connection, kind, path, text, value)
            while rows := connection.fetchmany(_AT_ONCE):
                yield from (Record(*row) for row in rows)
        except duckdb.Error as error:
            said = first_line(error)
            advice = "; save the file as UTF-8" if "UTF-8" in said else ""
            raise ReporterError(f"cannot read {path}: {said}{advice}") from error


def _describe(connection: duckdb.DuckDBPyConnection, kind: str, path: Path) -> list[tuple[str, str]]:
    options = ", sample_size = -1" if kind == "json" else ""
    query = f"DESCRIBE SELECT * FROM read_{kind}(?{options})"
    rows: list[tuple[str, str]] = connection.execute(query, [_literal(path)]).fetchall()
    return rows


def _text_column(types: dict[str, str], kind: str, column: str | None, path: Path) -> str:
    text = require_column(column, list(types), str(path))
    if not types[text].startswith(_TEXT[kind]) or types[text].endswith("]"):
        raise ReporterError(f"{path}: the column '{text}' does not hold text but {types[text]}")
    return text


def _label_column(types: dict[str, str], label: str, path: Path) -> str:
    require_column(label, list(types), str(path), "label")
    if types[label].startswith(_NESTED) or types[label].endswith("]"):
        raise ReporterError(f"{path}: the label column '{label}' does not hold plain values but {types[label]}")
    return label


def _select(connection: duckdb.DuckDBPyConnection, kind: str, path: Path, text: str, label: str | None) -> None:
    wanted = [text] if label is None else [text, label]
    columns = ", ".join(f"CAST({_quoted(name)} AS VARCHAR)" for name in wanted)
    if kind == "json":
        # Typed as text while it is read, so that "2020-1-1" stays what it is and does not become a date.
        query = f"SELECT {columns} FROM read_json(?, columns = ?)"
        connection.execute(query, [_literal(path), dict.fromkeys(wanted, "VARCHAR")])
    else:
        connection.execute(f"SELECT {columns} FROM read_parquet(?)", [_literal(path)])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(path: Path) -> str:
    """Return the path such that DuckDB takes ``*``, ``?`` and ``[`` in it as they are."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(path))
