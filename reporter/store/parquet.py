"""A study's tables as Parquet, for other engines and for ``reporter sql``: ``TABLE/study=S/model=M/*.parquet``.

The files have every column, so that an engine that does not read folder names loses nothing. A table without rows has
no folder.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from reporter import __version__
from reporter.core.errors import ReporterError, UsageError, first_line, no_study
from reporter.core.files import writing
from reporter.core.table import Table
from reporter.store.schema import SCHEMA_VERSION, tables
from reporter.store.shape import DatabaseFile, comments_on, quoted

if TYPE_CHECKING:
    import duckdb

MARK = "reporter.json"
"""The file that marks such a folder."""


def write_parquet(database: Path, study: str, to: Path) -> list[Path]:
    """Write every table of a study as Parquet, beside the studies that were written there before; return its files.

    Args:
        database: the file of results.
        study: its id.
        to: a new or empty folder, or one that this function wrote; it changes at once, when all is written.

    Raises:
        UsageError: there is no such study, or the folder holds something else.
        ReporterError: the database cannot be read, or a file cannot be written.
    """
    if to.exists() and not is_parquet(to) and (not to.is_dir() or any(to.iterdir())):
        raise UsageError(f"{to} has other files than exported tables; name a new folder with --to")
    with writing(to):
        to.absolute().parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".parquet-", dir=to.absolute().parent) as folder:
            draft = Path(folder) / "new"
            draft.mkdir()
            _copy_tables(database, study, draft)
            written = [path.relative_to(draft) for path in sorted(draft.rglob("*.parquet"))]
            (draft / MARK).write_text(json.dumps({"reporter": __version__, "schema_version": SCHEMA_VERSION}) + "\n")
            if to.exists():
                _keep_others(to, draft, f"study={study}")
                to.rename(Path(folder) / "old")
            draft.rename(to)
    return [to / path for path in written]


def is_parquet(folder: Path) -> bool:
    """Return whether a folder holds tables that :func:`write_parquet` wrote."""
    return (folder / MARK).is_file()


def open_parquet(connection: duckdb.DuckDBPyConnection, folder: Path) -> list[Path]:
    """Give a connection a view of each table in such a folder, empty where it has no rows; return the files they read.

    Args:
        connection: to a database in memory, that may still read files.
        folder: the folder.

    Raises:
        ReporterError: another version of reporter wrote it, or a file in it is damaged.
    """
    import duckdb

    _check(folder)
    read: list[Path] = []
    ours = tables()
    folders = {path.name for path in folder.iterdir() if path.is_dir()}
    for name in (*ours, *sorted(folders - ours.keys())):
        files = sorted(folder.joinpath(name).rglob("*.parquet"))
        listed = ", ".join(quoted(str(path)) for path in files)
        source = f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"
        try:
            columns = [row[0] for row in connection.execute(f"DESCRIBE FROM {source}").fetchall()] if files else []
        except duckdb.Error as problem:
            raise ReporterError(f"{folder / name} cannot be read: {first_line(problem)}") from problem
        if name in ours:
            _make_view(connection, ours[name], columns, source)
        else:
            connection.execute(f'CREATE VIEW "{name}" AS FROM {source}')
        read += files
    return read


def _make_view(connection: duckdb.DuckDBPyConnection, table: Table, columns: list[str], source: str) -> None:
    listed = ", ".join(
        f'"{column.name}"::{column.type} AS "{column.name}"'
        if column.name in columns  # a plug-in may have added others since
        else f'NULL::{column.type} AS "{column.name}"'
        for column in table.columns
    )
    name, rows = table.name, f" FROM {source}" if columns else " WHERE false"
    connection.execute(f'CREATE VIEW "{name}" AS SELECT {listed}{rows}')
    connection.execute(f'COMMENT ON VIEW "{name}" IS {quoted(table.comment)}')
    for statement in comments_on(table):
        connection.execute(statement)


def _copy_tables(database: Path, study: str, draft: Path) -> None:
    with DatabaseFile(database).reading() as connection:
        studies = [name for (name,) in connection.execute("SELECT study FROM studies ORDER BY study").fetchall()]
        if study not in studies:
            raise no_study(study, database, studies)
        for name, table in tables().items():
            names = [column.name for column in table.columns]
            if "study" not in names:
                continue
            rows = f"FROM {name} WHERE study = {quoted(study)}"
            if not connection.execute(f"SELECT 1 {rows} LIMIT 1").fetchone():
                continue
            by = ", ".join(["study", *(["model"] if "model" in table.key else [])])
            connection.execute(
                f"COPY (SELECT * {rows}) TO {quoted(str(draft / name))} "
                f"(FORMAT parquet, COMPRESSION zstd, PARTITION_BY ({by}), WRITE_PARTITION_COLUMNS true)"
            )


def _keep_others(folder: Path, draft: Path, study: str) -> None:
    for path in folder.glob("*/study=*/**/*.parquet"):
        way = path.relative_to(folder)
        if way.parts[1] != study:
            (draft / way).parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path, draft / way)
            except OSError:  # a file system without hard links
                shutil.copyfile(path, draft / way)


def _check(folder: Path) -> None:
    try:
        mark = json.loads((folder / MARK).read_text())
        version, by = int(mark["schema_version"]), mark["reporter"]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise ReporterError(f"cannot read {folder / MARK}; export the study again") from problem
    if version > SCHEMA_VERSION:
        raise ReporterError(
            f"{folder} was written by reporter {by}, which is newer than this version ({__version__}); upgrade reporter"
        )
    if version < SCHEMA_VERSION:
        raise ReporterError(f"{folder} was written by an older version of reporter ({by}); export the study again")
