"""The process that runs foreign SQL: it reads questions from its standard input and answers on its standard output.

A question is one line of JSON: the database or a folder of Parquet files, the statement, the form of the answer, the
limits. An answer is a letter, a length in eight bytes, and so many bytes.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.errors import ReporterError, UsageError, describe, is_out_of_memory
from reporter.store.connection import is_torn, said_of
from reporter.store.file import DatabaseFile
from reporter.store.parquet import open_parquet
from reporter.store.shape import quoted

if TYPE_CHECKING:
    import duckdb

MEMORY = "2GB"
READY, TEXT, FRAME, USAGE, WRONG, END = b"r", b"t", b"f", b"u", b"w", b"."
HEADER = 9

_BESIDES = 3 * 2**30  # bytes of address space beyond what an idle process takes: DuckDB's limit, rows and libraries
_READS = {"SELECT", "EXPLAIN", "MULTI"}  # DuckDB turns one PIVOT into several statements and calls it MULTI
_CHUNK_ROWS = 10_000
_THREADS = 4

Answer = Callable[[bytes, bytes], None]


def main() -> None:
    """Answer until nobody asks any more."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer

    def answer(kind: bytes, data: bytes = b"") -> None:
        out.write(kind + len(data).to_bytes(HEADER - 1, "little") + data)
        out.flush()

    try:
        _limited()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        answer(WRONG, b"memory does not suffice to begin a query; the same command goes on with more")
        return
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        _seconds(asked["seconds"])
        try:
            _run(asked, answer)
            answer(END)
        except UsageError as error:
            answer(USAGE, str(error).encode("utf-8", "replace"))
        except ReporterError as error:
            answer(WRONG, str(error).encode("utf-8", "replace"))
        except MemoryError:
            answer(WRONG, _greedy(asked).encode())
        except Exception as error:
            answer(WRONG, f"the query failed: {describe(error)}".encode("utf-8", "replace"))


def _limited() -> None:
    """Have the operating system refuse more memory, where it can."""
    import duckdb
    import pandas  # noqa: F401  (before the limit, so that it does not count)

    duckdb.connect(":memory:").close()
    with suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + _BESIDES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _seconds(limit: float) -> None:
    """Have the operating system end a process that nobody waits for any more."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        allowed = int(used.ru_utime + used.ru_stime + _THREADS * (limit + 10))
        resource.setrlimit(resource.RLIMIT_CPU, (allowed, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _run(asked: dict[str, Any], answer: Answer) -> None:
    """Run one statement in a connection that can read this file and nothing else, and answer what it returns."""
    import duckdb

    settings = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
        "temp_directory": "",
        "memory_limit": asked["memory"],
        "threads": str(min(_THREADS, os.cpu_count() or 1)),
        "max_execution_time": str(max(1, round(asked["seconds"] * 1000))),
    }
    sql, seconds = asked["sql"], asked["seconds"]
    path = Path(asked["path"])
    with _opened(path, settings, asked["to"]) as connection:
        answer(READY, b"")
        try:
            if asked["to"]:
                _copied(connection, sql, asked["to"])
                return
            cursor = _executed(connection, sql)
            if asked["form"] == "frame":
                answer(FRAME, pickle.dumps(cursor.df(), protocol=5))
                return
            _written(cursor, asked["form"], seconds, answer)
        except duckdb.InterruptException as problem:
            raise _too_slow(seconds) from problem
        except (duckdb.OutOfMemoryException, MemoryError) as problem:
            raise ReporterError(_greedy(asked)) from problem
        except duckdb.PermissionException as problem:
            message = f"not allowed, a query reads the results and nothing else: {one_line(problem, sql)}"
            raise UsageError(message) from problem
        except duckdb.Error as problem:
            if is_torn(problem):
                raise said_of(path, problem) from problem
            if "bad_alloc" in str(problem) or "llocation failure" in str(problem):
                raise ReporterError(_greedy(asked)) from problem
            raise UsageError(one_line(problem, sql)) from problem


@contextmanager
def _opened(path: Path, settings: dict[str, str], to: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database, or a folder of Parquet files as one, in a connection that can reach nothing else.

    Where ``to`` is a file, it may be written, and by our own COPY alone: a query only reads.
    """
    import duckdb

    files: list[Path] = []
    with ExitStack() as stack:
        if path.is_dir():
            connection = stack.enter_context(duckdb.connect(":memory:", config=settings))
            files = open_parquet(connection, path)
        else:
            connection = stack.enter_context(DatabaseFile(path, config=settings).reading())
        if may := [*map(str, files), *([to] if to else [])]:
            connection.execute(f"SET allowed_paths = [{', '.join(map(quoted, may))}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield connection


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


def _executed(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyConnection:
    """Run the statement, if it is one that reads."""
    cursor = connection.execute(_reading(connection, sql))
    for name, type_name, *_ in cursor.description:
        if "TIME ZONE" in str(type_name):
            raise UsageError(f"column {name} is a time with a time zone; write it as {name}::TIMESTAMP")
    return cursor


def _copied(connection: duckdb.DuckDBPyConnection, sql: str, to: str) -> None:
    """Write what a statement returns as Parquet; types are DuckDB's."""
    import duckdb

    statement = _reading(connection, sql)
    if statement.type.name != "SELECT":
        raise UsageError(f"{statement.type.name} has no rows to write as Parquet; give a SELECT")
    bare = statement.query.strip().rstrip(";")
    try:
        connection.execute(f"COPY ({bare}\n) TO {quoted(to)} (FORMAT parquet, USE_TMP_FILE false)")
    except (duckdb.BinderException, duckdb.CatalogException, duckdb.PermissionException):
        connection.execute(statement)  # says the same, with the place in what was asked
        raise


def _reading(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    """Return the only statement, if it is one that reads."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise UsageError(f"give exactly one SQL statement, not {len(statements) or 'none'}")
    try:
        kind = statements[0].type.name
    except ValueError:  # a kind that DuckDB has no name for in Python, such as UPDATE EXTENSIONS
        kind = "this kind of statement"
    if kind not in _READS:
        raise UsageError(
            f"{kind} is not allowed: a query reads the results "
            "(SELECT, FROM, WITH, DESCRIBE, SHOW, SUMMARIZE, PIVOT or EXPLAIN)"
        )
    return statements[0]


def _written(cursor: duckdb.DuckDBPyConnection, form: Any, seconds: float, answer: Answer) -> None:
    """Answer the rows as text, as they come; waiting for whoever reads does not count as time of the query."""
    from reporter.store.formats import pieces

    taken = 0.0

    def chunks() -> Iterator[Sequence[tuple[Any, ...]]]:
        # DuckDB's own time limit does not count the time that Python takes to fetch.
        nonlocal taken
        while True:
            began = time.monotonic()
            rows = cursor.fetchmany(_CHUNK_ROWS)
            taken += time.monotonic() - began
            if taken > seconds:
                raise _too_slow(seconds)
            if not rows:
                return
            yield rows

    for text in pieces(tuple(column[0] for column in cursor.description), chunks(), form):
        answer(TEXT, text.encode("utf-8", "replace"))


def _too_slow(seconds: float) -> ReporterError:
    return ReporterError(f"the query was stopped after {seconds:g} s; narrow it down")


def _greedy(asked: dict[str, Any]) -> str:
    return f"the query needs more than {asked['memory']} of memory; narrow it down"
