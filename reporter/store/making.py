"""Make the database file with all its tables, and add what plug-ins brought since."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.core.confined import quoted
from reporter.core.errors import ReporterError
from reporter.core.files import place_file, writing
from reporter.core.locks import unfinished_folder
from reporter.core.table import Table
from reporter.core.version import VERSION
from reporter.store.checking import IN_USE, REMEDY, version_of
from reporter.store.opening import opened, transaction
from reporter.store.schema import KEPT, SCHEMA_VERSION, number_rows, tables
from reporter.store.views import VIEWS, View

if TYPE_CHECKING:
    import duckdb

# Small blocks: a study is some thousand numbers, which in DuckDB's large ones would fill 2 MB instead of 0.4.
# An old storage version: people open the file with the DuckDB client they have.
_NEW_FILE = ", BLOCK_SIZE 16384, STORAGE_VERSION 'v1.4.0'"

_log = logging.getLogger(__name__)


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


def _comments(connection: duckdb.DuckDBPyConnection) -> dict[tuple[str, str | None], str | None]:
    rows = connection.execute(
        f"SELECT table_name, NULL, comment FROM duckdb_tables() {IN_USE} "
        f"UNION ALL SELECT view_name, NULL, comment FROM duckdb_views() {IN_USE} AND NOT internal "
        f"UNION ALL SELECT table_name, column_name, comment FROM duckdb_columns() {IN_USE}"
    ).fetchall()
    return {(table, column): comment for table, column, comment in rows}
