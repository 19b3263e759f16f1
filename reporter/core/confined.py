"""DuckDB, confined: it reaches the files that it is given, and nothing else on this machine.

A database file from somebody else can hold views, macros and generated columns, which run when a statement names them.
DuckDB's authors compare opening such a file with loading a library. So every connection of reporter is confined before
it sees a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.core.errors import ReporterError, one_line

if TYPE_CHECKING:
    import duckdb

_BESIDE = ("", ".wal", ".wal.checkpoint", ".wal.recovery")  # what DuckDB writes beside a database


def confined(
    files: Iterable[Path], folder: Path | None = None, spill: Path | None = None, **settings: Any
) -> duckdb.DuckDBPyConnection:
    """Return DuckDB in memory that can open some files, and no other file, network, extension or Python variable.

    Args:
        files: databases to attach, or files to read or write.
        folder: where it may write files.
        spill: where it writes what exceeds its memory; None for nowhere.
        settings: further settings, such as ``memory_limit``; none can be changed afterwards.
    """
    import duckdb

    fixed = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
        "temp_directory": "" if spill is None else str(spill),
    }
    connection = duckdb.connect(":memory:", config={**fixed, **{name: str(value) for name, value in settings.items()}})
    paths = [f"{file.resolve()}{ending}" for file in files for ending in _BESIDE]
    connection.execute(f"SET allowed_paths = [{', '.join(map(quoted, paths))}]")
    if folder is not None:
        connection.execute(f"SET allowed_directories = [{quoted(str(folder.resolve()))}]")
    connection.execute("SET TimeZone = 'UTC'")  # a date is the same day on every machine
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def quoted(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Return the name of a table or a column as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


_STRANGE = (
    ("macro", "SELECT function_name FROM duckdb_functions() WHERE database_name = $name"),
    ("trigger", "SELECT trigger_name FROM duckdb_triggers() WHERE database_name = $name"),
    ("schema", "SELECT schema_name FROM duckdb_schemas() WHERE database_name = $name AND schema_name NOT IN "
     "('main', 'information_schema', 'pg_catalog')"),
    ("view", "SELECT view_name FROM duckdb_views() WHERE database_name = $name AND NOT internal AND sql NOT IN "
     "(SELECT unnest($views))"),
    # only now: to list columns, DuckDB evaluates views
    ("generated column", "SELECT table_name || '.' || column_name FROM duckdb_columns() "
     "WHERE database_name = $name AND is_generated"),
    ("default value", "SELECT table_name || '.' || column_name FROM duckdb_columns() "
     "WHERE database_name = $name AND column_default IS NOT NULL"),
    ("constraint", "SELECT table_name || '.' || constraint_text FROM duckdb_constraints() "
     "WHERE database_name = $name AND constraint_type != 'NOT NULL'"),
)  # fmt: skip
"""What a file may hold that runs when a statement reads or writes it: a macro even stands in for a function."""


def require_plain(connection: duckdb.DuckDBPyConnection, name: str, path: Path, views: Sequence[str] = ()) -> None:
    """Refuse a database with anything but base tables and known views; nothing of it is evaluated.

    Args:
        connection: has the file attached and does not use it yet, so that its macros stand in for nothing.
        name: of the attached file.
        path: of the file, for messages.
        views: the statements of views that may be there.

    Raises:
        ReporterError: with the name of what could run.
    """
    for kind, query in _STRANGE:
        parameters = {"name": name, "views": list(views)} if "$views" in query else {"name": name}
        if names := sorted(str(row[0]) for row in connection.execute(query, parameters).fetchall()):
            raise ReporterError(
                f"{path} has a {kind} '{one_line(names[0])}', which could run when the file is read. If it is yours, "
                "move it to a database of its own that attaches this file; otherwise do not trust the file"
            )
