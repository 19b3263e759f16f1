"""Open databases for the moment of a read or a commit.

DuckDB locks a file that one process has open for writing: no other process can even read it. So every read and every
commit opens the file, does its work and closes it again, and other processes wait. A process starts DuckDB once without
any file and then attaches and detaches files, which takes a fifth of the time.
"""

from __future__ import annotations

import logging
import os
import random
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from reporter.core.children import Limit, in_child
from reporter.core.confined import confined, quoted
from reporter.core.errors import ReporterError, first_line
from reporter.store.checking import REMEDY, require_ours

if TYPE_CHECKING:
    import duckdb

WAIT_SECONDS = 60.0
MEMORY = "1GB"
"""What DuckDB may take for a database of ours, besides the rows that it returns; more of a query goes to the disk."""
_APART_SECONDS = 3600.0
_APART_BYTES = 8 * 2**30  # of address space, most of which is never used
_SAY_AFTER_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 0.25
R = TypeVar("R")
_log = logging.getLogger(__name__)
# Inside one process DuckDB shares one instance among connections, so the threads of a process take turns.
_one_at_a_time = threading.RLock()
_MOST_INSTANCES = 4  # a process rarely reads more results folders
_count = count()


@contextmanager
def opened(
    path: Path,
    *,
    read_only: bool,
    options: str = "",
    waiting: Callable[[str], None] | None = None,
    is_plain: Callable[[], bool] = lambda: False,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database inside the block, waiting while another process holds its lock; yields a connection.

    Args:
        path: the file; opening it for writing makes it where it is missing.
        read_only: whether other readers may work at the same time.
        options: further options of ATTACH.
        waiting: called once, after 2 s of waiting, with a message; by default a warning is logged.
        is_plain: called while the file is open; whether :func:`require_ours` has seen it in this state.

    Raises:
        ReporterError: the lock stayed taken, the file is no database, it is damaged or was changed, it holds what could
            run, or the disk failed.
    """
    import duckdb

    with _one_at_a_time:
        process, name = _duckdb(os.getpid(), path.resolve()), f"results_{next(_count)}"
        attach(process, path, name, read_only, options, waiting)
        try:
            if not is_plain():
                require_ours(process, name, path)
            # a connection of its own, so that nothing temporary stays behind
            with errors_explained(path), process.cursor() as connection:
                connection.execute(f"USE {name}")
                yield connection
        finally:
            with suppress(duckdb.IOException):  # a commit is in the file or its log by now, even on a full disk
                process.execute(f"DETACH {name}")


@contextmanager
def errors_explained(path: Path) -> Iterator[None]:
    """Raise errors of DuckDB inside the block as :func:`explained` says, and Ctrl-C as such."""
    import duckdb

    try:
        yield
    except RuntimeError as problem:
        if "Query interrupted" in str(problem):  # what DuckDB makes of Ctrl-C
            raise KeyboardInterrupt from problem
        raise
    except duckdb.Error as problem:
        raise explained(path, problem) from problem


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Commit everything that happens inside the block, or nothing of it."""
    connection.begin()
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


@contextmanager
def attached(
    files: Mapping[str, Path], target: Path | None = None, folder: Path | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open several databases for reading inside the block, in one connection, each under its name in SQL.

    Args:
        files: the databases by name.
        target: a further database that the block may attach and write.
        folder: where the block may write files.

    Raises:
        ReporterError: a lock stayed taken, a file is no database or holds what could run, or the disk failed.
    """
    reached = [*files.values(), *([target] if target else [])]
    spill = target.parent / "spill" if target else _spill(os.getpid())
    with _one_at_a_time, confined(reached, folder, spill, memory_limit=MEMORY) as connection:
        for name, path in files.items():
            attach(connection, path, name, read_only=True)
            require_ours(connection, name, path)
        yield connection


def apart(function: Callable[[], R], folders: Sequence[Path]) -> R:
    """Return what a function returns that reads databases of others, in a process of its own.

    A file that was made to crash DuckDB ends that process and not this one.

    Args:
        function: returns what can be pickled.
        folders: what it reads, for messages.

    Raises:
        ReporterError: the process ended, or the function raised this error.
    """
    what = f"reading {' and '.join(dict.fromkeys(map(str, folders)))}"
    return in_child(function, Limit(what, "one of the files is damaged, or too large", _APART_SECONDS, _APART_BYTES))


_instances: dict[tuple[int, Path], duckdb.DuckDBPyConnection] = {}  # by process and file


def _duckdb(process: int, path: Path) -> duckdb.DuckDBPyConnection:
    """Return the DuckDB of this process for a file, which is not open yet.

    A fork makes its own, and never lets go of those of its parent: to close one there crashes, since its threads do not
    exist in the fork.
    """
    if (process, path) not in _instances:
        of_process = [key for key in _instances if key[0] == process]
        if len(of_process) >= _MOST_INSTANCES:
            del _instances[of_process[0]]
        # DuckDB would keep what it has read of a file in up to 80 % of all memory; and a query that does not fit would
        # fill the folder that the program was started in
        _instances[process, path] = confined([path], spill=_spill(process), memory_limit=MEMORY)
    return _instances[process, path]


def _spill(process: int) -> Path:
    return Path(tempfile.gettempdir(), f"duckdb-{process}")


def attach(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    name: str,
    read_only: bool,
    options: str = "",
    waiting: Callable[[str], None] | None = None,
) -> None:
    """Attach a file as soon as no other process holds its lock; see :func:`opened`.

    The limit is for one holder: where the lock passes from one process to the next, no process hangs.
    """
    import duckdb

    statement = (
        f'ATTACH {quoted(str(path.resolve()))} AS "{name}" ({"READ_ONLY" if read_only else "READ_WRITE"}{options})'
    )
    start = since = time.monotonic()
    pause, holder, has_warned = 0.005, "", False
    while True:
        try:
            connection.execute(statement)
            return
        except duckdb.IOException as problem:
            if "Could not set lock" not in str(problem) and "Conflicting lock" not in str(problem):
                raise ReporterError(_cannot_open(path, problem)) from problem
            before, holder = holder, re.search(r" ?\(PID \d+\)|$", str(problem))[0]  # type: ignore[index]
        except (duckdb.ConnectionException, duckdb.ResourceInUseException) as problem:
            message = f"{path} is already open in this process; close the other connection first"
            raise ReporterError(message) from problem
        except duckdb.Error as problem:
            raise (explained(path, problem) if is_torn(problem) else problem) from problem
        now = time.monotonic()
        if holder != before:
            since = now
        if now - since >= WAIT_SECONDS:
            raise ReporterError(
                f"{path} has been in use by another process{holder} for {WAIT_SECONDS:g} s; end that process, or wait "
                "for it, and run the command again"
            )
        if now - start >= _SAY_AFTER_SECONDS and not has_warned:
            (waiting or _log.warning)(f"{path.name} is in use by another process{holder}; waiting")
            has_warned = True
        time.sleep(pause * random.uniform(0.5, 1.0))  # random, so that two waiting processes do not keep in step
        pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)


def explained(path: Path, problem: duckdb.Error) -> Exception:
    """Return the error to raise for an error of DuckDB in one of reporter's own statements."""
    import duckdb

    text = first_line(problem)
    if isinstance(problem, duckdb.CatalogException | duckdb.BinderException):
        return ReporterError(f"{path} was changed by another program ({text}); {REMEDY}")
    if isinstance(problem, duckdb.OutOfMemoryException):
        return ReporterError(f"out of memory while reading or writing {path}; free memory and run the command again")
    if is_torn(problem):
        return ReporterError(f"{path} is damaged ({text}); {REMEDY}")
    of_the_disk = isinstance(problem, duckdb.IOException | duckdb.TransactionException)  # it is full, or was taken away
    return ReporterError(f"{path}: {text}") if of_the_disk else problem


def is_torn(problem: Exception) -> bool:
    """Return whether DuckDB reports that a file is damaged."""
    import duckdb

    if isinstance(problem, duckdb.InternalException | duckdb.FatalException | duckdb.SerializationException):
        return True
    return any(word in str(problem).lower() for word in ("corrupt", "checksum", "deserializ"))


def _cannot_open(path: Path, problem: duckdb.Error) -> str:
    if "not a valid DuckDB database" in str(problem):
        return f"{path} is not a DuckDB database; move it away, or choose another folder for the results"
    if not os.access(path, os.R_OK):
        return f"no permission to read {path}; change its permissions with chmod"
    return str(explained(path, problem)) if is_torn(problem) else f"cannot open {path}: {first_line(problem)}"
