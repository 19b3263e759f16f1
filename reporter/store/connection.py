"""Opening the database for a moment.

DuckDB locks a file for one writing process: while it is open for writing nobody else can even read it. So
every read and every commit opens the file, does its work and closes it again, and whoever comes second waits.
"""

from __future__ import annotations

import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from reporter.errors import ReporterError

if TYPE_CHECKING:
    import duckdb

WAIT_SECONDS = 60.0
_SAY_AFTER_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 0.25

_log = logging.getLogger(__name__)
_Opened = TypeVar("_Opened")

# Inside one process DuckDB shares one instance among connections and refuses a second configuration, so the
# threads of a process take turns.
_one_at_a_time = threading.RLock()


@contextmanager
def opened(
    path: Path,
    *,
    read_only: bool,
    config: Mapping[str, str] | None = None,
    wait_seconds: float = WAIT_SECONDS,
    waiting: Callable[[str], None] | None = None,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Opens a database, waiting while another process holds its lock, and closes it at the end.

    Args:
        path: The database file; opening for writing makes it where it is missing.
        read_only: Whether other readers may work at the same time.
        config: DuckDB settings of the connection.
        wait_seconds: How long to wait for another process.
        waiting: Told in one sentence, once, that there is a wait of more than 2 s; default: a logged warning.

    Yields:
        The connection.

    Raises:
        ReporterError: The lock stayed taken, the file is no database, or the disk failed.
    """
    import duckdb

    with _one_at_a_time:
        connection = _connect(path, read_only, dict(config or {}), wait_seconds, waiting or _log.warning)
        try:
            yield connection
        except duckdb.IOException as problem:
            raise ReporterError(f"{path}: {_first_line(problem)}") from problem
        finally:
            connection.close()


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Makes everything inside happen, or nothing of it.

    Args:
        connection: A connection opened for writing.

    Yields:
        Nothing.
    """
    connection.begin()
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


@contextmanager
def attached(files: Mapping[str, Path], wait_seconds: float = WAIT_SECONDS) -> Iterator[duckdb.DuckDBPyConnection]:
    """Opens several databases side by side, each for reading, in one connection.

    Args:
        files: The files by the name under which SQL finds them; a file cannot come twice.
        wait_seconds: How long to wait for another process, for each file.

    Yields:
        A connection to an empty database in memory that has them attached.

    Raises:
        ReporterError: A lock stayed taken, a file is no database, or the disk failed.
    """
    with opened(Path(":memory:"), read_only=False) as connection:
        for name, path in files.items():
            quoted = str(path).replace("'", "''")
            attach = partial(connection.execute, f"ATTACH '{quoted}' AS \"{name}\" (READ_ONLY)")
            _patiently(attach, path, wait_seconds, _log.warning)
        yield connection


def _connect(
    path: Path, read_only: bool, config: dict[str, str], wait_seconds: float, waiting: Callable[[str], None]
) -> duckdb.DuckDBPyConnection:
    import duckdb

    connect = partial(duckdb.connect, str(path), read_only=read_only, config=config)
    return _patiently(connect, path, wait_seconds, waiting)


def _patiently(
    open_it: Callable[[], _Opened], path: Path, wait_seconds: float, waiting: Callable[[str], None]
) -> _Opened:
    """Tries until the lock is free; random pauses, so that two waiting processes do not keep in step."""
    import duckdb

    start = time.monotonic()
    pause, told = 0.005, False
    while True:
        try:
            return open_it()
        except duckdb.IOException as problem:
            if not _is_locked(problem):
                raise ReporterError(_explain(path, problem)) from problem
            holder = _holder(problem)
        except duckdb.ConnectionException as problem:
            message = f"{path} is open elsewhere in this process; close that connection first"
            raise ReporterError(message) from problem
        waited = time.monotonic() - start
        if waited >= wait_seconds:
            raise ReporterError(
                f"{path} was in use by another process{holder} for {wait_seconds:g} s; close that one first"
            )
        if waited >= _SAY_AFTER_SECONDS and not told:
            waiting(f"{path.name} is in use by another process{holder}; waiting")
            told = True
        time.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)


def _is_locked(problem: Exception) -> bool:
    return "Could not set lock" in str(problem) or "Conflicting lock" in str(problem)


def _holder(problem: Exception) -> str:
    found = re.search(r"\(PID (\d+)\)", str(problem))
    return f" (PID {found[1]})" if found else ""


def _explain(path: Path, problem: Exception) -> str:
    """One sentence about a file that cannot be opened."""
    if "not a valid DuckDB database" in str(problem):
        return f"{path} is not a DuckDB database; move it away, or choose another folder for the results"
    if not os.access(path, os.R_OK):
        return f"{path} cannot be read: no permission"
    return f"{path} cannot be opened: {_first_line(problem)}"


def _first_line(problem: Exception) -> str:
    return str(problem).strip().splitlines()[0]
