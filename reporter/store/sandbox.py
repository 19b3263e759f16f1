"""Asking with foreign SQL: it may read the results, and nothing else on this machine, and its time and memory end.

DuckDB closes the doors, but not every function of it minds the clock or its own limit of memory. So a query runs in a
process of its own, under the limits of the operating system, and whoever waits for it can end it at any moment. The
process lives on for the next query; it ends with this one.
"""

from __future__ import annotations

import atexit
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from select import select
from threading import RLock
from typing import IO, TYPE_CHECKING, cast

from reporter.errors import ReporterError, UsageError
from reporter.store.answering import FRAME, HEADER, MEMORY, READY, TEXT, USAGE, WRONG
from reporter.store.connection import WAIT_SECONDS
from reporter.store.parquet import is_parquet

if TYPE_CHECKING:
    import pandas as pd

    from reporter.store.formats import Format

_GRACE_SECONDS = 2.0  # beyond the limit, for what DuckDB stops by itself
_OPENING_SECONDS = WAIT_SECONDS + 60.0  # a process starts, and a writer may have the file; after that it hangs


def query(path: Path, sql: str, format: Format = "table", limit_seconds: float = 30.0) -> str:
    """Runs one reading statement, read-only and cut off from files, network, extensions and settings.

    Args:
        path: The database file; where it is missing and its folder holds exported Parquet files, these are read.
        sql: One statement: SELECT, FROM, WITH, DESCRIBE, SHOW, SUMMARIZE, PIVOT or EXPLAIN.
        format: ``table`` (at most 1,000 rows, 6 significant digits), ``csv``, ``json``, ``markdown`` or ``latex``
            (everything).
        limit_seconds: Time after which it is stopped.

    Returns:
        The result as text, without a line break at its end.

    Raises:
        UsageError: There are no results yet, or the statement is wrong or not allowed.
        ReporterError: It took too long or too much memory, or the file cannot be read.
    """
    return "".join(stream(path, sql, format, limit_seconds))


def stream(path: Path, sql: str, format: Format = "table", limit_seconds: float = 30.0) -> Iterator[str]:
    """Runs one reading statement like :func:`query`, and yields the text piece by piece, as it comes."""
    for _, data in _answers(path, sql, format, limit_seconds):
        yield data.decode("utf-8", "replace")


def write_parquet(path: Path, sql: str, out: IO[bytes], limit_seconds: float = 30.0) -> None:
    """Runs one reading statement like :func:`query` and writes its rows as Parquet, once all are found."""
    with tempfile.TemporaryDirectory(prefix="reporter-") as folder:
        file = Path(folder) / "rows.parquet"
        for _ in _answers(path, sql, "parquet", limit_seconds, str(file)):
            pass
        with file.open("rb") as rows:
            shutil.copyfileobj(rows, out)


def query_frame(path: Path, sql: str, limit_seconds: float = 30.0) -> pd.DataFrame:
    """Runs one reading statement like :func:`query` and returns the rows as a DataFrame, its types those of DuckDB."""
    ((_, data),) = _answers(path, sql, "frame", limit_seconds)
    return cast("pd.DataFrame", pickle.loads(data))  # of our own process


def _answers(path: Path, sql: str, form: str, limit_seconds: float, to: str = "") -> Iterator[tuple[bytes, bytes]]:
    """Yield what the process answers, and end it if it does not keep the limits or nobody reads on.

    Where ``to`` is a file, the rows are written there instead.
    """
    if not path.exists() and is_parquet(path.parent):
        path = path.parent
    if not path.exists():
        raise UsageError(f"{path}: no results yet; run `reporter run STUDY` first")
    with _one_at_a_time:
        process = _process()
        whole = False
        try:
            asked: dict[str, object] = {"path": str(path.absolute()), "sql": sql, "form": form, "to": to}
            asked |= {"seconds": limit_seconds, "memory": MEMORY}
            yield from process.ask(asked, limit_seconds)
            whole = True
        except ReporterError:  # it has answered, unless it was ended
            whole = process.lives
            raise
        finally:
            if not whole:
                _end()


_one_at_a_time = RLock()
_running: dict[int, _Process] = {}  # by the process that started it: a fork has its own


class _Process:
    """The process that runs queries, and the pipes to it."""

    def __init__(self) -> None:
        quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
        self._popen = subprocess.Popen(
            # -P: the current folder may be one that a stranger filled, and is no place to import json from
            [sys.executable, "-P", "-c", "from reporter.store.answering import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **quiet, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C is ours to hear
        )
        self._in, self._out = cast("IO[bytes]", self._popen.stdin), cast("IO[bytes]", self._popen.stdout)

    @property
    def lives(self) -> bool:
        """Whether it can be asked once more."""
        return self._popen.poll() is None

    def ask(self, asked: dict[str, object], limit_seconds: float) -> Iterator[tuple[bytes, bytes]]:
        """Send a question and yield the answers; the time that the reader takes between them does not count."""
        left, opened = _OPENING_SECONDS, False  # until the file is open, which may take a writer's time
        with suppress(BrokenPipeError):
            self._in.write(json.dumps(asked).encode() + b"\n")
            self._in.flush()
        while True:
            began = time.monotonic()
            late = f"the query was stopped after {limit_seconds:g} s; narrow it down"
            if not opened:
                late = f"the process that runs queries did not answer for {left:.0f} s and was ended; ask again"
            kind, data = self._answer(began + left, late)
            left -= time.monotonic() - began
            if kind == READY:
                left, opened = limit_seconds + _GRACE_SECONDS, True
            elif kind in (TEXT, FRAME):
                yield kind, data
            elif kind == USAGE:
                raise UsageError(data.decode())
            elif kind == WRONG:
                raise ReporterError(data.decode())
            else:
                return

    def _answer(self, deadline: float, late: str) -> tuple[bytes, bytes]:
        size = int.from_bytes((head := self._read(HEADER, deadline, late))[1:], "little")
        return head[:1], self._read(size, deadline, late)

    def _read(self, size: int, deadline: float, late: str) -> bytes:
        parts = []
        while size:
            wait = deadline - time.monotonic()
            if wait <= 0:
                self.end()
                raise ReporterError(late)
            if not select([self._out], [], [], min(wait, 1.0))[0]:
                continue
            part = os.read(self._out.fileno(), min(size, 1 << 20))
            if not part:  # the operating system ended it
                self.end()
                raise ReporterError(f"the query needs more than {MEMORY} of memory; narrow it down")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def end(self) -> None:
        """Kill it."""
        self._popen.kill()
        for pipe in (self._in, self._out):
            with suppress(OSError):
                pipe.close()
        self._popen.wait()


def _process() -> _Process:
    found = _running.get(os.getpid())
    if found is None or not found.lives:
        found = _running[os.getpid()] = _Process()
    return found


@atexit.register
def _end() -> None:
    if found := _running.pop(os.getpid(), None):
        found.end()
