"""DuckDB, confined: it reaches the files that it is given, and nothing else on this machine.

A database file from somebody else can hold views, macros and generated columns, which run when a statement names them.
DuckDB's authors compare opening such a file with loading a library. So every connection of reporter is confined before
it sees a file.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def quoted(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Return the name of a table or a column as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
