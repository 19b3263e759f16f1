"""The database file of a results folder: checked and completed once, and kept open where many queries come."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from reporter.core.errors import no_results
from reporter.store.checking import require_version
from reporter.store.making import complete, create_file
from reporter.store.opening import errors_explained, opened, transaction

if TYPE_CHECKING:
    import duckdb

_KEPT_SECONDS = 1.0


class DatabaseFile:
    """A path, and how to open it. Nothing is held open between calls, except inside :meth:`kept_open`.

    Args:
        path: the database file.
        waiting: see :func:`opened`.
    """

    def __init__(self, path: Path, waiting: Callable[[str], None] | None = None) -> None:
        self.path = path
        self._waiting = waiting
        self._complete: tuple[int, ...] | None = None  # the state of the file after its tables were last checked
        self._readable: tuple[int, ...] | None = None  # its state when its version was last checked
        self._kept: ExitStack | None = None
        self._kept_by: tuple[int, float] = 0, 0.0  # thread, and time of opening
        self._connection: duckdb.DuckDBPyConnection | None = None

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Keep the file open between the calls of :meth:`reading` inside the block: to open it takes milliseconds.

        A write of this process closes it, and so does a second, so that writers of other processes need not wait.
        """
        if self._kept is not None:
            yield
            return
        with ExitStack() as self._kept:
            self._kept_by = threading.get_ident(), 0.0
            try:
                yield
            finally:
                self._close()
                self._kept = None

    def _close(self) -> None:
        if self._kept is not None and self._kept_by[0] == threading.get_ident():
            self._connection = None
            self._kept.close()

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open the file for reading inside the block.

        Raises:
            UsageError: there is no file yet.
            ReporterError: the file cannot be read, or another version of reporter or another program wrote it.
        """
        thread, since = self._kept_by
        if self._kept is None or thread != threading.get_ident():
            with self._reading() as connection:
                yield connection
            return
        if self._connection is None or time.monotonic() - since > _KEPT_SECONDS:
            self._close()
            self._connection = self._kept.enter_context(self._reading())
            self._kept_by = thread, time.monotonic()
        with errors_explained(self.path):
            yield self._connection

    @contextmanager
    def _reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        if not self.path.exists():
            raise no_results(self.path)
        with opened(self.path, read_only=True, waiting=self._waiting, is_plain=self._is_checked) as connection:
            state = self._state()  # which stays as it is while the file is open
            has_tables = state in (self._complete, self._readable) or require_version(connection, self.path)
            if has_tables:
                self._readable = state
                yield connection
        if not has_tables:
            with self.writing():
                pass
            with self._reading() as connection:
                yield connection

    @contextmanager
    def writing(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open the file for one transaction inside the block; make it where it is missing.

        Raises:
            ReporterError: the file cannot be written, or another version of reporter or another program wrote it.
        """
        self._close()
        create_file(self.path)
        with opened(self.path, read_only=False, waiting=self._waiting, is_plain=self._is_checked) as connection:
            if self._complete != self._state():  # checked while no other process can write
                require_version(connection, self.path)
                complete(connection, self.path)
            with transaction(connection):
                yield connection
        self._complete = self._state()

    def _is_checked(self) -> bool:
        return self._state() in (self._complete, self._readable)

    def _state(self) -> tuple[int, ...]:
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            return ()
        return stat.st_ino, stat.st_mtime_ns, stat.st_size
