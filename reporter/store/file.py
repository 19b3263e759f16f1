"""The database file: opened for one read or one transaction, always in the shape of today."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from reporter.errors import UsageError
from reporter.store.connection import WAIT_SECONDS, opened, transaction
from reporter.store.schema import SCHEMA_VERSION
from reporter.store.shape import complete, create_file, version_of

if TYPE_CHECKING:
    import duckdb


class DatabaseFile:
    """A path, and how to open it. Nothing is held open between calls."""

    def __init__(
        self,
        path: Path,
        wait_seconds: float = WAIT_SECONDS,
        waiting: Callable[[str], None] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Names the file; nothing is opened yet.

        Args:
            path: The database file.
            wait_seconds: How long to wait while another process has it open.
            waiting: Told in one sentence when there is a wait of more than 2 s; default: a logged warning.
            config: DuckDB settings of its connections.
        """
        self.path = path
        self._config = config
        self._wait_seconds = wait_seconds
        self._waiting = waiting
        self._known: tuple[int, ...] | None = None  # the file as it was left when it was last seen in today's shape

    def exists(self) -> bool:
        """Tells whether anything was ever written.

        Returns:
            Whether the file is there.
        """
        return self.path.exists()

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Opens the file for reading; one of an older reporter first gets the tables and columns it lacks.

        Yields:
            A connection that cannot write.

        Raises:
            UsageError: There is no file yet.
            ReporterError: The file cannot be read, or a newer reporter or somebody else wrote it.
        """
        if not self.exists():
            raise UsageError(f"{self.path}: no results yet; run `reporter run STUDY` first")
        with self._opened(read_only=True) as connection:
            if self._known == self._now() or version_of(connection, self.path) == SCHEMA_VERSION:
                yield connection
                return
        with self.writing():
            pass
        with self._opened(read_only=True) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Opens the file for writing, inside one transaction; makes it where it is missing.

        Yields:
            A connection; what it does is kept when the block ends well, and undone otherwise.

        Raises:
            ReporterError: The file cannot be written, or a newer reporter or somebody else wrote it.
        """
        create_file(self.path)
        with self._opened(read_only=False) as connection:
            if self._known != self._now():  # asked while nobody else can write
                complete(connection, self.path)
            with transaction(connection):
                yield connection
        self._known = self._now()

    def _now(self) -> tuple[int, ...]:
        """What tells this file from another one, and from itself after anybody has written; nothing if it is gone."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_size

    @contextmanager
    def _opened(self, read_only: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        with opened(
            self.path,
            read_only=read_only,
            config=self._config,
            wait_seconds=self._wait_seconds,
            waiting=self._waiting,
        ) as connection:
            yield connection
