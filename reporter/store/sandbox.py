"""Answering foreign SQL: it may read the results, and nothing else on this machine."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from reporter.errors import ReporterError, UsageError
from reporter.store.connection import opened
from reporter.store.formats import TABLE_ROWS, Format, Result, write

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

T = TypeVar("T")
_MEMORY = "2GB"
_READS = {"SELECT", "EXPLAIN", "MULTI"}  # DuckDB turns one PIVOT into several statements and calls it MULTI
_CHUNK_ROWS = 10_000


def query(path: Path, sql: str, format: Format = "table", limit_seconds: float = 30.0) -> str:
    """Runs one reading statement, read-only and cut off from files, network, extensions and settings.

    Args:
        path: The database file.
        sql: One statement: SELECT, FROM, WITH, DESCRIBE, SHOW, SUMMARIZE, PIVOT or EXPLAIN.
        format: ``table`` (at most 1,000 rows, 6 significant digits), ``csv`` or ``json`` (everything).
        limit_seconds: Time after which it is stopped.

    Returns:
        The result as text, without a line break at its end.

    Raises:
        UsageError: There are no results yet, or the statement is wrong or not allowed.
        ReporterError: It took too long or too much memory, or the file cannot be read.
    """
    keep = None if format != "table" else TABLE_ROWS
    return write(_asked(path, sql, limit_seconds, lambda cursor: _fetched(cursor, keep, limit_seconds)), format)


def query_frame(path: Path, sql: str, limit_seconds: float = 30.0) -> pd.DataFrame:
    """Runs one reading statement like :func:`query` and returns the rows as a DataFrame, its types those of DuckDB."""
    frame: pd.DataFrame = _asked(path, sql, limit_seconds, lambda cursor: cursor.df())
    return frame


def _asked(path: Path, sql: str, limit_seconds: float, fetch: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
    """Runs one statement in a connection that can read this file and nothing else, and fetches what it returns."""
    if not path.exists():
        raise UsageError(f"{path}: no results yet; run `reporter run STUDY` first")
    settings = {
        "enable_external_access": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
        "temp_directory": "",
        "memory_limit": _MEMORY,
        "max_execution_time": str(max(1, round(limit_seconds * 1000))),
        "lock_configuration": "true",
    }
    import duckdb

    with opened(path, read_only=True, config=settings) as connection:
        try:
            return fetch(_run(connection, sql))
        except duckdb.InterruptException as problem:
            raise _too_slow(limit_seconds) from problem
        except (duckdb.OutOfMemoryException, MemoryError) as problem:
            raise ReporterError(f"the query needs more than {_MEMORY} of memory; narrow it down") from problem
        except duckdb.PermissionException as problem:
            message = f"not allowed, a query reads the results and nothing else: {one_line(problem, sql)}"
            raise UsageError(message) from problem
        except duckdb.Error as problem:
            raise UsageError(one_line(problem, sql)) from problem


def one_line(problem: Exception, sql: str) -> str:
    """Folds DuckDB's many-line message, which draws a caret below the statement, into one line.

    Args:
        problem: DuckDB's error.
        sql: The statement.

    Returns:
        The message with its suggestions, and the place as ``(line 1, column 8)``.
    """
    message, _, drawing = str(problem).partition("\nLINE ")
    text = " ".join(message.split())
    found = re.match(r"(\d+): (.*)\n( *)\^", drawing)
    if not found:
        return text
    line, excerpt, column = int(found[1]), found[2], len(found[3]) - len(f"LINE {found[1]}: ")
    if excerpt.startswith("..."):  # a long line is drawn only around the place
        lines = sql.splitlines()
        core = excerpt.removeprefix("...").removesuffix("...")
        start = lines[line - 1].find(core) if line <= len(lines) else -1
        if start < 0:
            return f"{text} (line {line})"
        column += start - len("...")
    return f"{text} (line {line}, column {column + 1})"


def _run(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyConnection:
    """Runs the statement, if it is one that reads."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise UsageError(f"give exactly one SQL statement, not {len(statements) or 'none'}")
    kind = statements[0].type.name
    if kind not in _READS:
        raise UsageError(
            f"{kind} is not allowed: a query reads the results "
            "(SELECT, FROM, WITH, DESCRIBE, SHOW, SUMMARIZE, PIVOT or EXPLAIN)"
        )
    cursor = connection.execute(statements[0])
    for name, type_name, *_ in cursor.description:
        if "TIME ZONE" in str(type_name):
            raise UsageError(f"column {name} is a time with a time zone; write it as {name}::TIMESTAMP")
    return cursor


def _fetched(cursor: duckdb.DuckDBPyConnection, keep: int | None, limit_seconds: float) -> Result:
    """Fetches rows; DuckDB's own time limit does not count the time that Python takes to do so."""
    deadline = time.monotonic() + limit_seconds
    rows: list[tuple[Any, ...]] = []
    total = 0
    while chunk := cursor.fetchmany(_CHUNK_ROWS):
        total += len(chunk)
        rows.extend(chunk if keep is None else chunk[: max(0, keep - len(rows))])
        if time.monotonic() > deadline:
            raise _too_slow(limit_seconds)
    return Result(tuple(column[0] for column in cursor.description), rows, total)


def _too_slow(limit_seconds: float) -> ReporterError:
    return ReporterError(f"the query was stopped after {limit_seconds:g} s; narrow it down")
