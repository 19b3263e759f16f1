"""Foreign SQL: it may read the results and nothing else on this machine, in limited time and memory.

DuckDB forbids the rest, but some of its functions ignore its time limit or its memory limit. So queries run in another
process under the limits of the operating system, which the caller can end at any moment. The process stays for the next
query and ends with the caller.

A question is a JSON object: the database or a folder of Parquet files, the statement, the form of the answer, the
limits. An answer is some messages, each a letter and data.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from threading import RLock
from typing import IO, TYPE_CHECKING, Any, cast

from reporter.core.confined import confined, quoted
from reporter.core.errors import ReporterError, UsageError, describe, no_results
from reporter.core.table import NUMBER_ROWS
from reporter.store.absent import absent_values, is_nothing
from reporter.store.checking import require_ours, require_version
from reporter.store.opening import WAIT_SECONDS, attach, explained, is_torn
from reporter.store.parquet import is_parquet, open_parquet, parquet_files

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

    from reporter.store.formats import Format

MEMORY = "2GB"
_BESIDES = 3 * 2**30  # bytes of address space beyond an idle process: DuckDB's limit, rows and libraries
_GRACE_SECONDS = 2.0  # beyond the limit, for what DuckDB stops itself
_OPENING_SECONDS = WAIT_SECONDS + 60.0  # a process starts, and a writer may have the file; after that it hangs
_READY, _TEXT, _FRAME, _NOTE, _USAGE, _WRONG, _END = b"r", b"t", b"f", b"n", b"u", b"w", b"."
_READS = {"SELECT", "EXPLAIN", "MULTI"}  # DuckDB turns one PIVOT into several statements and calls it MULTI
_CHUNK_ROWS = 10_000
_THREADS = 4

_log = logging.getLogger(__name__)


def query(path: Path, sql: str, format: Format = "table", limit_seconds: float = 30.0) -> str:
    """Run one reading statement, cut off from files, network, extensions and settings, and return the rows as text.

    Args:
        path: the database file; where it is missing and its folder holds exported Parquet files, these are read.
        sql: one statement: SELECT, FROM, WITH, DESCRIBE, SHOW, SUMMARIZE, PIVOT or EXPLAIN.
        format: ``table`` (at most 1,000 rows, 6 significant digits), ``csv``, ``json``, ``markdown`` or ``latex``
            (everything); without a line break at its end.
        limit_seconds: time after which the statement is stopped.

    Raises:
        UsageError: there are no results yet, or the statement is wrong or not allowed.
        ReporterError: it took too long or too much memory, or the file cannot be read.
    """
    return "".join(stream(path, sql, format, limit_seconds))


def stream(
    path: Path, sql: str, format: Format = "table", limit_seconds: float = 30.0, width: int | None = None
) -> Iterator[str]:
    """Run one reading statement like :func:`query`, and yield the text piece by piece, as it comes.

    A table fits ``width`` columns of a terminal, where they are given.
    """
    for data in _answers(path, sql, format, limit_seconds, width=width):
        yield data.decode("utf-8", "replace")


def write_parquet(path: Path, sql: str, out: IO[bytes], limit_seconds: float = 30.0) -> None:
    """Run one reading statement like :func:`query` and write its rows as Parquet, once all are computed."""
    with tempfile.TemporaryDirectory(prefix="reporter-") as folder:
        file = Path(folder) / "rows.parquet"
        for _ in _answers(path, sql, "parquet", limit_seconds, str(file)):
            pass
        with file.open("rb") as rows:
            shutil.copyfileobj(rows, out)


def query_frame(path: Path, sql: str, limit_seconds: float = 30.0) -> pd.DataFrame:
    """Run one reading statement like :func:`query` and return the rows as a DataFrame, with the types of DuckDB."""
    (data,) = _answers(path, sql, "frame", limit_seconds)
    return cast("pd.DataFrame", pickle.loads(data))  # of our own process


def _answers(
    path: Path, sql: str, form: str, limit_seconds: float, to: str = "", width: int | None = None
) -> Iterator[bytes]:
    """Yield what the worker sends, and end the worker if it exceeds the limits or its answer is not read to the end.

    Where ``to`` is a file, the rows are written there instead.
    """
    if not path.exists() and is_parquet(path.parent):
        path = path.parent
    if not path.exists():
        raise no_results(path)
    question = {
        "path": str(path.absolute()),
        "sql": sql,
        "form": form,
        "to": to,
        "seconds": limit_seconds,
        "width": width,
    }
    with _one_at_a_time:
        worker = _worker()
        is_idle = False
        try:
            yield from worker.ask(question | {"memory": MEMORY}, limit_seconds)
            is_idle = True
        except ReporterError:  # it has answered, unless it was ended
            is_idle = worker.is_alive
            raise
        finally:
            if not is_idle:
                _end()


_one_at_a_time = RLock()
_workers: dict[int, _QueryProcess] = {}  # by the process that started it: a fork has its own


class _QueryProcess:
    """The process that runs queries, and the pipe to it."""

    def __init__(self) -> None:
        quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
        self._pipe, other_end = Pipe()
        rooms = ", ".join(dict.fromkeys(declare.__module__ for declare in NUMBER_ROWS))  # whose tables it must know
        code = f"import {rooms}, reporter.store.sandbox; reporter.store.sandbox.answer_questions({other_end.fileno()})"
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", code],  # -P: the current folder may hold files of other people, as json.py
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[other_end.fileno()],
            env={**os.environ, **quiet, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C is for the caller
        )
        other_end.close()

    @property
    def is_alive(self) -> bool:
        """Whether it can answer the next question."""
        return self.process.poll() is None

    def ask(self, question: dict[str, object], limit_seconds: float) -> Iterator[bytes]:
        """Send a question and yield the data of the answer; the time of the reader in between does not count."""
        left = _OPENING_SECONDS  # until the file is open, which may take a writer's time
        late = f"the SQL worker did not answer for {left:.0f} s and was ended; run the query again"
        with suppress(BrokenPipeError):
            self._pipe.send_bytes(json.dumps(question).encode())
        while True:
            began = time.monotonic()
            try:
                if not self._pipe.poll(max(0.0, left)):
                    self.end()
                    raise ReporterError(late)
                message = self._pipe.recv_bytes()
            except (EOFError, ConnectionError):  # the operating system ended it
                self.end()
                raise _too_large(MEMORY) from None
            left -= time.monotonic() - began
            kind, data = message[:1], message[1:]
            if kind == _READY:
                left = limit_seconds + _GRACE_SECONDS
                late = str(_too_slow(limit_seconds))
            elif kind in (_TEXT, _FRAME):
                yield data
            elif kind == _NOTE:
                _log.warning(data.decode())
            elif kind == _END:
                return
            else:
                raise (UsageError if kind == _USAGE else ReporterError)(data.decode())

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self._pipe.close()
        self.process.wait()


def _worker() -> _QueryProcess:
    worker = _workers.get(os.getpid())
    if worker is None or not worker.is_alive:
        worker = _workers[os.getpid()] = _QueryProcess()
    return worker


@atexit.register
def _end() -> None:
    if worker := _workers.pop(os.getpid(), None):
        worker.end()


# The other side: what runs in the process of the worker.


def answer_questions(pipe_number: int) -> None:
    """Answer the questions that come through a pipe until its other end closes."""
    pipe = Connection(pipe_number)
    try:
        _limit_memory()
    except Exception as error:
        pipe.send_bytes(_WRONG + f"the SQL worker cannot start: {describe(error)}".encode())
        return
    with suppress(EOFError):
        while True:
            question = json.loads(pipe.recv_bytes())
            _limit_processor(question["seconds"])
            try:
                _answer(question, pipe)
                pipe.send_bytes(_END)
            except ReporterError as error:
                kind = _USAGE if isinstance(error, UsageError) else _WRONG
                pipe.send_bytes(kind + str(error).encode("utf-8", "replace"))
            except MemoryError:
                pipe.send_bytes(_WRONG + str(_too_large(question["memory"])).encode())
            except Exception as error:
                pipe.send_bytes(_WRONG + f"the query failed: {describe(error)}".encode("utf-8", "replace"))


def _limit_memory() -> None:
    import duckdb
    import pandas  # noqa: F401  (before the limit, so that it does not count)

    duckdb.connect(":memory:").close()
    with suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + _BESIDES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _limit_processor(seconds: float) -> None:
    with suppress(ImportError, OSError, ValueError):
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        allowed = int(used.ru_utime + used.ru_stime + _THREADS * (seconds + 10))
        resource.setrlimit(resource.RLIMIT_CPU, (allowed, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _answer(question: dict[str, Any], pipe: Connection) -> None:
    """Run one statement in a connection that can read one database and nothing else, and send what it returns."""
    import duckdb

    sql, path = question["sql"], Path(question["path"])
    with _opened(path, question) as connection:
        pipe.send_bytes(_READY)
        try:
            if question["to"]:
                _copy(connection, sql, question["to"])
                return
            cursor = _executed(connection, sql)
            if question["form"] == "frame":
                frame = cursor.df()
                pipe.send_bytes(_FRAME + pickle.dumps(frame, protocol=5))
                first = frame.head(2).astype(object)
                rows = first.where(first.notna(), None).values.tolist()
            else:
                rows = _send_rows(cursor, question, pipe)
            if is_nothing(rows):
                with suppress(duckdb.Error):  # its time may be over
                    for note in absent_values(connection, sql):
                        pipe.send_bytes(_NOTE + note.encode("utf-8", "replace"))
        except duckdb.InterruptException as problem:
            raise _too_slow(question["seconds"]) from problem
        except (duckdb.OutOfMemoryException, MemoryError) as problem:
            raise _too_large(question["memory"]) from problem
        except duckdb.PermissionException as problem:
            message = f"not allowed, since a query can read only the results: {one_line(problem, sql)}"
            raise UsageError(message) from problem
        except duckdb.Error as problem:
            if is_torn(problem):
                raise explained(path, problem) from problem
            if "bad_alloc" in str(problem) or "llocation failure" in str(problem):  # no OutOfMemoryException
                raise _too_large(question["memory"]) from problem
            raise UsageError(one_line(problem, sql)) from problem


@contextmanager
def _opened(path: Path, question: dict[str, Any]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database, or a folder of Parquet files as one, in a connection that can reach nothing else.

    Our own COPY may write the file ``question["to"]``; a query only reads.
    """
    settings = {
        "memory_limit": question["memory"],
        "threads": min(_THREADS, os.cpu_count() or 1),
        "max_execution_time": max(1, round(question["seconds"] * 1000)),
    }
    files = parquet_files(path) if path.is_dir() else [path]
    with confined([*files, *([Path(question["to"])] if question["to"] else [])], **settings) as connection:
        if path.is_dir():
            open_parquet(connection, path, files)
        else:
            attach(connection, path, "results", read_only=True)
            require_ours(connection, "results", path)
            connection.execute("USE results")
            require_version(connection, path)
        yield connection


def one_line(problem: Exception, sql: str) -> str:
    """Return DuckDB's message in one line, with the place that DuckDB marks by a caret as ``(line 1, column 8)``."""
    message, _, drawing = str(problem).partition("\nLINE ")
    text = " ".join(message.split())
    marked = re.match(r"(\d+): (.*)\n( *)\^", drawing)
    if not marked:
        return text
    line, excerpt, column = int(marked[1]), marked[2], len(marked[3]) - len(f"LINE {marked[1]}: ")
    if excerpt.startswith("..."):  # a long line is drawn only around the place
        lines = sql.splitlines()
        core = excerpt.removeprefix("...").removesuffix("...")
        start = lines[line - 1].find(core) if line <= len(lines) else -1
        if start < 0:
            return f"{text} (line {line})"
        column += start - len("...")
    return f"{text} (line {line}, column {column + 1})"


def _executed(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyConnection:
    cursor = connection.execute(_statement(connection, sql))
    for name, type_name, *_ in cursor.description:
        if "TIME ZONE" in str(type_name):
            raise UsageError(f"column {name} has a time zone, which is not supported; write {name}::TIMESTAMP")
    return cursor


def _copy(connection: duckdb.DuckDBPyConnection, sql: str, to: str) -> None:
    import duckdb

    statement = _statement(connection, sql)
    if statement.type.name != "SELECT":
        raise UsageError(f"{statement.type.name} returns no rows to write as Parquet; write a SELECT")
    bare = statement.query.strip().rstrip(";")
    try:
        connection.execute(f"COPY ({bare}\n) TO {quoted(to)} (FORMAT parquet, USE_TMP_FILE false)")
    except (duckdb.BinderException, duckdb.CatalogException, duckdb.PermissionException):
        connection.execute(statement)  # raises the same error with the place in the caller's statement
        raise


def _statement(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    """Return the only statement, if it is one that reads."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise UsageError(f"expected exactly one SQL statement, got {len(statements) or 'none'}")
    try:
        kind = statements[0].type.name
    except ValueError:  # a kind that DuckDB has no name for in Python, such as UPDATE EXTENSIONS
        kind = "this kind of statement"
    if kind not in _READS:
        raise UsageError(
            f"{kind} is not allowed, since a query can only read; use SELECT, FROM, WITH, DESCRIBE, SHOW, SUMMARIZE, "
            "PIVOT or EXPLAIN"
        )
    return statements[0]


def _send_rows(cursor: duckdb.DuckDBPyConnection, question: dict[str, Any], pipe: Connection) -> list[tuple[Any, ...]]:
    """Send the rows as text, as they come, and return the first two; the time that the reader takes does not count."""
    from reporter.store.formats import pieces

    taken, first = 0.0, list[tuple[Any, ...]]()

    def chunks() -> Iterator[Sequence[tuple[Any, ...]]]:
        nonlocal taken  # DuckDB's own limit does not count the time that Python takes to fetch
        while True:
            began = time.monotonic()
            rows = cursor.fetchmany(_CHUNK_ROWS)
            taken += time.monotonic() - began
            if taken > question["seconds"]:
                raise _too_slow(question["seconds"])
            if not rows:
                return
            first.extend(rows[: 2 - len(first)])
            yield rows

    for text in pieces(
        tuple(column[0] for column in cursor.description), chunks(), question["form"], question["width"]
    ):
        pipe.send_bytes(_TEXT + text.encode("utf-8", "replace"))
    return first


def _too_slow(seconds: float) -> ReporterError:
    return ReporterError(f"the query was stopped after {seconds:g} s; select fewer rows, or aggregate them")


def _too_large(memory: str) -> ReporterError:
    return ReporterError(f"the query needs more than {memory} of memory; select fewer rows or columns")
