"""Whether a database is one of ours: its version, its tables and views, and nothing that could run."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from reporter.core.confined import confined, require_plain
from reporter.core.errors import ReporterError
from reporter.core.version import VERSION
from reporter.store.schema import SCHEMA_VERSION, tables
from reporter.store.views import VIEWS

if TYPE_CHECKING:
    import duckdb

REMEDY = "restore it from a backup, or move it away and run the study again; the cache still has the measurements"
_AGAIN = "move it away and run the study again, which reuses the cache"
IN_USE = "WHERE database_name = current_database()"


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


def version_of(connection: duckdb.DuckDBPyConnection, path: Path) -> int:
    """Return the schema version of a database; 0 where it has no table.

    Raises:
        ReporterError: a newer version of reporter or another program wrote the file.
    """
    names = {name for (name,) in connection.execute(f"SELECT table_name FROM duckdb_tables() {IN_USE}").fetchall()}
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
            f"{path}: {_AGAIN}: an older version of reporter wrote it, and this version ({VERSION}) cannot read it"
        )
    return version


def table_columns(connection: duckdb.DuckDBPyConnection, database: str) -> dict[str, list[str]]:
    """Return the columns of each table of an attached database, in order."""
    rows = connection.execute(
        "SELECT table_name, list(column_name ORDER BY column_index) FROM duckdb_columns() "
        "SEMI JOIN duckdb_tables() USING (database_name, table_oid) "  # views have columns, too
        "WHERE database_name = ? AND NOT internal GROUP BY table_name",
        [database],
    ).fetchall()
    return dict(rows)
