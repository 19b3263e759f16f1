"""The database file: opened for the moment of a read or a commit, always with the tables of this version.

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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from reporter.core.children import Limit, in_child
from reporter.core.confined import confined, quoted, require_plain
from reporter.core.errors import ReporterError, first_line, no_results
from reporter.core.files import place_file, writing
from reporter.core.locks import unfinished_folder
from reporter.core.table import LAST_CHECKPOINT, Column, Table
from reporter.core.version import VERSION
from reporter.store.schema import KEPT, SCHEMA_VERSION, find_table, number_rows, tables

if TYPE_CHECKING:
    import duckdb

WAIT_SECONDS = 60.0
MEMORY = "1GB"
"""What DuckDB may take for a database of ours, besides the rows that it returns; more of a query goes to the disk."""
_APART_SECONDS = 3600.0
_APART_BYTES = 8 * 2**30  # of address space, most of which is never used
REMEDY = "restore it from a backup, or move it away and run the study again; the cache still has the measurements"
_SAY_AFTER_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 0.25
# Small blocks: a study is some thousand numbers, which in DuckDB's large ones would fill 2 MB instead of 0.4.
# An old storage version: people open the file with the DuckDB client they have.
_NEW_FILE = ", BLOCK_SIZE 16384, STORAGE_VERSION 'v1.4.0'"
_HERE = "WHERE database_name = current_database()"

R = TypeVar("R")

_log = logging.getLogger(__name__)
# Inside one process DuckDB shares one instance among connections, so the threads of a process take turns.
_one_at_a_time = threading.RLock()
_KEPT_SECONDS = 1.0
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
            with _errors_explained(path), process.cursor() as connection:
                connection.execute(f"USE {name}")
                yield connection
        finally:
            with suppress(duckdb.IOException):  # a commit is in the file or its log by now, even on a full disk
                process.execute(f"DETACH {name}")


@contextmanager
def _errors_explained(path: Path) -> Iterator[None]:
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
        own = [key for key in _instances if key[0] == process]
        if len(own) >= _MOST_INSTANCES:
            del _instances[own[0]]
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


@dataclass(frozen=True)
class View:
    """A saved query: rows of one table under a condition, with the columns of the table and their comments."""

    name: str
    comment: str
    table: str
    where: str

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns: those of its table."""
        return find_table(self.table).columns

    @property
    def sql(self) -> str:
        """The statement that makes it; it names the columns, so that a new column does not break it."""
        columns = ", ".join(f'"{column.name}"' for column in self.columns)
        return f"CREATE OR REPLACE VIEW {self.name} AS SELECT {columns} FROM {self.table} WHERE {self.where}"


LAYERS = View(
    "layers",
    "Profiles over layers: the rows of layer_metrics for the embedding (layer 0) and the blocks (1..L). Left out are "
    "states after the final norm (site 'final') and after attention, numbers of the whole model, and null baselines.",
    "layer_metrics",
    "site IN ('embedding', 'block') AND layer IS NOT NULL AND (study, model) NOT IN "
    "(SELECT (study, model) FROM models WHERE baseline IS NOT NULL)",
)

PROFILES = View(
    "profiles",
    "The part of the view 'layers' that the report shows first: the last checkpoint of each model, and the first view "
    "of the study.",
    "layer_metrics",
    f"{LAYERS.where} AND {LAST_CHECKPOINT} "
    "AND (study, \"view\") IN (SELECT (study, json_extract_string(views, '$[0]')) FROM studies)",
)

VIEWS = {view.name: view for view in (LAYERS, PROFILES)}


def require_ours(connection: duckdb.DuckDBPyConnection, name: str, path: Path) -> None:
    """Refuse a database with anything but tables and views as reporter writes them; nothing of it is evaluated.

    Args:
        connection: has the file attached and does not use it yet, so that its macros stand in for nothing.
        name: of the attached file.
        path: of the file, for messages.

    Raises:
        ReporterError: with the name of what could run, or of a column of ours that has another type.
    """
    views, types = _our_catalogue(*tables())
    require_plain(connection, name, path, views)
    columns = "SELECT lower(table_name), lower(column_name), data_type FROM duckdb_columns() WHERE database_name = ?"
    rows = connection.execute(columns, [name]).fetchall()
    version = f'SELECT version FROM "{name}".schema_version'
    if ("schema_version", "version", "INTEGER") in rows and connection.execute(version).fetchall() != [
        (SCHEMA_VERSION,)
    ]:
        return  # `version_of` refuses it; `diff` reads old ones
    for table, column, kind in rows:
        if types.get((table, column), kind) != kind:
            raise ReporterError(
                f"{path} was changed by another program: column {column} of table {table} has the type {kind} instead "
                f"of {types[table, column]}; {REMEDY}"
            )


@cache
def _our_catalogue(*names: str) -> tuple[list[str], dict[tuple[str, str], str]]:
    """Return the views and the types of columns of a new file, as DuckDB writes them; ``names`` are those of tables."""
    with confined(()) as connection:
        for table in tables().values():
            columns = ", ".join(f'"{column.name}" {column.type}' for column in table.columns)
            connection.execute(f"CREATE TABLE {table.name} ({columns})")
        for view in VIEWS.values():
            connection.execute(view.sql)
        views = connection.execute("SELECT sql FROM duckdb_views() WHERE NOT internal").fetchall()
        columns = connection.execute("SELECT table_name, column_name, data_type FROM duckdb_columns()").fetchall()
    return [sql for (sql,) in views], {(table, column): kind for table, column, kind in columns}


def create_file(path: Path) -> None:
    """Make the database with all its tables, unless it exists.

    It is built elsewhere and then linked to its place, so that no process meets a half-made file.

    Raises:
        ReporterError: the folder cannot be written.
    """
    if path.exists():
        return
    with writing(path), unfinished_folder(path.parent) as folder:
        draft = folder / path.name
        with opened(draft, read_only=False, options=_NEW_FILE) as connection:
            complete(connection, draft)
            connection.execute("CHECKPOINT")  # its log would stay behind; on a full disk this fails
        place_file(draft, path)


def complete(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Add the tables, columns and comments that plug-ins brought since the file was written, in one transaction.

    Raises:
        ReporterError: another version of reporter or another program wrote the file, or it was changed.
    """
    version = version_of(connection, path)
    comments = _comments(connection)
    declared: dict[tuple[str, str | None], str] = {}
    described: list[Any] = [*tables().values(), *VIEWS.values()]
    for shown in described:
        declared[shown.name, None] = shown.comment
        declared |= {(shown.name, column.name): column.comment for column in shown.columns}
    if version:
        if all(comments.get(key) == comment for key, comment in declared.items()):
            return
        # Without a table or a column of reporter itself its cells would count as done without numbers.
        ours = {"layer_metrics", *(row.table.name for row in KEPT)}
        for table, column in declared:
            if table in ours and (table, column) not in comments:
                what = f"table {table}" if column is None else f"column {column} of table {table}"
                raise ReporterError(f"{path} was changed by another program: the {what} is missing; {REMEDY}")
        _warn_of_lost_tables(connection, comments.keys(), path)
    with transaction(connection):
        for statement in _statements(comments.keys()):
            connection.execute(statement)
        connection.execute("DELETE FROM schema_version")
        connection.execute("INSERT INTO schema_version VALUES (?, ?)", [SCHEMA_VERSION, VERSION])


def _warn_of_lost_tables(
    connection: duckdb.DuckDBPyConnection, present: Collection[tuple[str, str | None]], path: Path
) -> None:
    """Warn where a table of a metric is made again without the numbers of its cells.

    A plug-in may just have learnt to yield such a table, so this is no reason to refuse the file.
    """
    for name, rows in number_rows().items():
        gone = [row.table.name for row in rows if (row.table.name, None) not in present]
        if gone:
            done = "SELECT count(*) FROM cells WHERE metric = ? AND status = 'done'"
            (cells,) = connection.execute(done, [name]).fetchone() or (0,)
            if cells:
                _log.warning(
                    f"{path.name} has no table {', '.join(gone)}, although {cells} cells of {name} are done; it is "
                    f"created empty. To fill it, run `reporter run STUDY --only {name} --force`"
                )


def version_of(connection: duckdb.DuckDBPyConnection, path: Path) -> int:
    """Return the schema version of a database; 0 where it has no table.

    Raises:
        ReporterError: a newer version of reporter or another program wrote the file.
    """
    names = {name for (name,) in connection.execute(f"SELECT table_name FROM duckdb_tables() {_HERE}").fetchall()}
    if not names:
        return 0
    foreign = f"{path} has tables of another program; choose another folder for the results with --out"
    if "schema_version" not in names:
        raise ReporterError(foreign)
    columns = connection.execute("DESCRIBE schema_version").fetchall()
    rows = connection.execute("SELECT * FROM schema_version").fetchall()
    if [column[0] for column in columns[:2]] != ["version", "reporter"] or len(rows) != 1:
        raise ReporterError(foreign)
    version, written_by = int(rows[0][0]), rows[0][1]
    if version > SCHEMA_VERSION:
        raise ReporterError(
            f"{path} was written by reporter {written_by}, which is newer than this version ({VERSION}); upgrade "
            "reporter, or choose another folder for the results with --out"
        )
    return version


def require_version(connection: duckdb.DuckDBPyConnection, path: Path) -> int:
    """Return the schema version of a database like :func:`version_of`, and refuse that of an older reporter."""
    version = version_of(connection, path)
    if 0 < version < SCHEMA_VERSION:
        raise ReporterError(
            f"{path} was written by an older version of reporter, and this version ({VERSION}) cannot read it; "
            "move it away and run the study again, which reuses the cache"
        )
    return version


def _statements(present: Collection[tuple[str, str | None]]) -> Iterator[str]:
    for table in tables().values():
        if (table.name, None) not in present:
            columns = ", ".join(f'"{column.name}" {column.type}' for column in table.columns)
            yield f"CREATE TABLE {table.name} ({columns})"
        for column in table.columns if (table.name, None) in present else ():
            if (table.name, column.name) not in present:
                yield f'ALTER TABLE {table.name} ADD COLUMN "{column.name}" {column.type}'
        yield f"COMMENT ON TABLE {table.name} IS {quoted(table.comment)}"
        yield from comments_on(table)
    for view in VIEWS.values():  # after its table, which may have changed
        yield view.sql
        yield f"COMMENT ON VIEW {view.name} IS {quoted(view.comment)}"
        yield from comments_on(view)


def comments_on(table: Table | View) -> Iterator[str]:
    """Yield the statements that describe the columns of a table or of a view."""
    for column in table.columns:
        yield f'COMMENT ON COLUMN {table.name}."{column.name}" IS {quoted(column.comment)}'


def table_columns(connection: duckdb.DuckDBPyConnection, database: str) -> dict[str, list[str]]:
    """Return the columns of each table of an attached database, in order."""
    rows = connection.execute(
        "SELECT table_name, list(column_name ORDER BY column_index) FROM duckdb_columns() "
        "SEMI JOIN duckdb_tables() USING (database_name, table_oid) "  # views have columns, too
        "WHERE database_name = ? AND NOT internal GROUP BY table_name",
        [database],
    ).fetchall()
    return dict(rows)


def _comments(connection: duckdb.DuckDBPyConnection) -> dict[tuple[str, str | None], str | None]:
    rows = connection.execute(
        f"SELECT table_name, NULL, comment FROM duckdb_tables() {_HERE} "
        f"UNION ALL SELECT view_name, NULL, comment FROM duckdb_views() {_HERE} AND NOT internal "
        f"UNION ALL SELECT table_name, column_name, comment FROM duckdb_columns() {_HERE}"
    ).fetchall()
    return {(table, column): comment for table, column, comment in rows}


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
        with _errors_explained(self.path):
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
