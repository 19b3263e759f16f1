"""Opening the database for a moment.

DuckDB locks a file for one writing process: while it is open for writing nobody else can even read it. So
every read and every commit opens the file, does its work and closes it again, and whoever comes second waits.

What takes time is to start DuckDB, not to open a file: a process starts it once, without any file, and then attaches
and detaches files, in a fifth of the time.
"""

from __future__ import annotations

import logging
import os
import random
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from reporter.errors import ReporterError, first_line

if TYPE_CHECKING:
    import duckdb

WAIT_SECONDS = 60.0
MEMORY = "1GB"
"""What DuckDB may take for a database of ours, besides the rows that it returns; more of a query goes to the disk."""
_SAY_AFTER_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 0.25

_log = logging.getLogger(__name__)
_Opened = TypeVar("_Opened")

# Inside one process DuckDB shares one instance among connections and refuses a second configuration, so the
# threads of a process take turns.
_one_at_a_time = threading.RLock()
_count = count()


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
        ReporterError: The lock stayed taken, the file is no database, it is damaged or was changed by hand, or the disk
            failed.
    """
    import duckdb

    with _one_at_a_time:
        patience = wait_seconds, waiting or _log.warning
        with _started(path, read_only, config, *patience) if config else _attached(path, read_only, *patience) as found:
            try:
                yield found
            except RuntimeError as problem:
                if "Query interrupted" in str(problem):  # what DuckDB makes of Ctrl-C
                    raise KeyboardInterrupt from problem
                raise
            except duckdb.Error as problem:
                raise said_of(path, problem) from problem


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
    import duckdb

    with _one_at_a_time, duckdb.connect(":memory:") as connection:
        for name, path in files.items():
            _patiently(partial(_attach, connection, path, name, True), path, wait_seconds, _log.warning)
        yield connection


@contextmanager
def _started(
    path: Path, read_only: bool, config: Mapping[str, str], wait_seconds: float, waiting: Callable[[str], None]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB of its own, for settings that are not everybody's."""
    import duckdb

    connect = partial(duckdb.connect, str(path), read_only=read_only, config=dict(config))
    connection = _patiently(connect, path, wait_seconds, waiting)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def _attached(
    path: Path, read_only: bool, wait_seconds: float, waiting: Callable[[str], None]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """The file in this process' DuckDB, under a connection of its own, so that nothing temporary stays behind."""
    import duckdb

    process = _duckdb(os.getpid())
    name = f"results_{next(_count)}"
    _patiently(partial(_attach, process, path, name, read_only), path, wait_seconds, waiting)
    try:
        with process.cursor() as connection:
            connection.execute(f"USE {name}")
            yield connection
    finally:
        with suppress(duckdb.IOException):  # what is committed is in the file or beside it, even on a disk that is full
            process.execute(f"DETACH {name}")


@cache
def _duckdb(process: int) -> duckdb.DuckDBPyConnection:
    """This process' DuckDB, without a file; a fork gets its own."""
    import duckdb

    # DuckDB would keep what it has read of a file in up to 80 % of all memory; and a query that does not fit would fill
    # the folder that the program was started in
    room = str(Path(tempfile.gettempdir(), f"duckdb-{process}"))
    return duckdb.connect(":memory:", config={"memory_limit": MEMORY, "temp_directory": room})


def _attach(connection: duckdb.DuckDBPyConnection, path: Path, name: str, read_only: bool) -> None:
    quoted = str(path).replace("'", "''")
    connection.execute(f"ATTACH '{quoted}' AS \"{name}\" ({'READ_ONLY' if read_only else 'READ_WRITE'})")


def _patiently(
    open_it: Callable[[], _Opened], path: Path, wait_seconds: float, waiting: Callable[[str], None]
) -> _Opened:
    """Tries until the lock is free; random pauses, so that two waiting processes do not keep in step.

    Patience is with one holder at a time: where it passes from one process to the next, nobody hangs.
    """
    import duckdb

    start = since = time.monotonic()
    pause, told, before = 0.005, False, ""
    while True:
        try:
            return open_it()
        except duckdb.IOException as problem:
            if not _is_locked(problem):
                raise ReporterError(_explain(path, problem)) from problem
            holder = _holder(problem)
        except (duckdb.ConnectionException, duckdb.ResourceInUseException) as problem:
            message = f"{path} is open elsewhere in this process; close that connection first"
            raise ReporterError(message) from problem
        except duckdb.Error as problem:
            raise (said_of(path, problem) if is_torn(problem) else problem) from problem
        now = time.monotonic()
        if holder != before:
            before, since = holder, now
        if now - since >= wait_seconds:
            raise ReporterError(
                f"{path} was in use by another process{holder} for {wait_seconds:g} s; close that one first"
            )
        if now - start >= _SAY_AFTER_SECONDS and not told:
            waiting(f"{path.name} is in use by another process{holder}; waiting")
            told = True
        time.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)


def _is_locked(problem: Exception) -> bool:
    return "Could not set lock" in str(problem) or "Conflicting lock" in str(problem)


def _holder(problem: Exception) -> str:
    found = re.search(r"\(PID (\d+)\)", str(problem))
    return f" (PID {found[1]})" if found else ""


WAY_OUT = "restore it from a copy, or move it away and run the study again: what was measured is still in the cache"


def said_of(path: Path, problem: duckdb.Error) -> Exception:
    """Return the error to raise for what DuckDB says of one of reporter's own statements."""
    import duckdb

    said = first_line(problem)
    if isinstance(problem, duckdb.CatalogException | duckdb.BinderException):
        return ReporterError(f"{path} lacks what reporter wrote into it, somebody changed it ({said}); {WAY_OUT}")
    if isinstance(problem, duckdb.OutOfMemoryException):
        return ReporterError(f"memory does not suffice to read or write {path}; the same command goes on with more")
    if is_torn(problem):
        return ReporterError(f"{path} is damaged ({said}); {WAY_OUT}")
    of_the_disk = isinstance(problem, duckdb.IOException | duckdb.TransactionException)  # it is full, or was taken away
    return ReporterError(f"{path}: {said}") if of_the_disk else problem


def is_torn(problem: Exception) -> bool:
    """Tell whether DuckDB finds that a file does not hold what was written into it."""
    import duckdb

    if isinstance(problem, duckdb.InternalException | duckdb.FatalException | duckdb.SerializationException):
        return True
    return any(word in str(problem).lower() for word in ("corrupt", "checksum", "deserializ"))


def _explain(path: Path, problem: duckdb.Error) -> str:
    """One sentence about a file that cannot be opened."""
    if "not a valid DuckDB database" in str(problem):
        return f"{path} is not a DuckDB database; move it away, or choose another folder for the results"
    if not os.access(path, os.R_OK):
        return f"{path} cannot be read: no permission"
    return str(said_of(path, problem)) if is_torn(problem) else f"{path} cannot be opened: {first_line(problem)}"
