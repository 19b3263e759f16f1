"""A study's tables as Parquet, for other engines and for ``reporter sql``: ``TABLE/study=S/model=M/*.parquet``.

The files have every column, so that an engine that does not read folder names loses nothing. A table without rows has
no folder.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reporter.core.confined import identifier, quoted
from reporter.core.errors import ReporterError, failing_as, first_line, no_study
from reporter.core.files import link_or_copy
from reporter.core.locks import is_unfinished
from reporter.core.outputs import replacing
from reporter.core.table import Table
from reporter.core.version import VERSION
from reporter.store.checking import require_version
from reporter.store.making import comments_on
from reporter.store.opening import attached
from reporter.store.schema import SCHEMA_VERSION, tables
from reporter.store.views import VIEWS

if TYPE_CHECKING:
    import duckdb

MARK = "reporter.json"
"""The file that marks such a folder."""


def write_parquet(database: Path, study: str, to: Path) -> list[Path]:
    """Write every table of a study as Parquet, beside the studies that were written there before; return its files.

    Args:
        database: the file of results.
        study: its id.
        to: a new or empty folder, or one that this function wrote; it changes when all is written.

    Raises:
        UsageError: there is no such study, or the folder holds something else.
        ReporterError: the database cannot be read, or a file cannot be written.
    """
    import duckdb

    with replacing(to, alone=True) as fresh, failing_as(f"{to} cannot be written", duckdb.Error):
        _copy_tables(database, study, fresh)
        written = [path.relative_to(fresh) for path in sorted(fresh.rglob("*.parquet"))]
        (fresh / MARK).write_text(json.dumps({"reporter": VERSION, "schema_version": SCHEMA_VERSION}) + "\n")
        _keep_others(to, fresh, f"study={study}")
    return [to / path for path in written]


def is_parquet(folder: Path) -> bool:
    """Return whether a folder holds tables that :func:`write_parquet` wrote."""
    return (folder / MARK).is_file()


def parquet_files(folder: Path) -> list[Path]:
    """Return the files in such a folder.

    Raises:
        ReporterError: one is a link, which may lead anywhere.
    """
    files = sorted(path for path in folder.glob("*/**/*.parquet") if not is_unfinished(folder / path.parts[0]))
    for path in files:
        for part in (path, *path.parents):
            if part == folder:
                break
            if part.is_symlink():
                raise ReporterError(f"{part} is a link; copy the folder with the files themselves")
    return files


def open_parquet(connection: duckdb.DuckDBPyConnection, folder: Path, files: Sequence[Path]) -> None:
    """Give a connection a view of each table in such a folder, empty where it has no rows.

    Args:
        connection: may read the files.
        folder: the folder.
        files: those of :func:`parquet_files`.

    Raises:
        ReporterError: another version of reporter wrote it, or a file in it is damaged.
    """
    import duckdb

    _check(folder)
    ours = tables()
    by_table = defaultdict(list)
    for file in files:
        by_table[file.relative_to(folder).parts[0]].append(file)
    for name in (*ours, *sorted(by_table.keys() - ours.keys())):
        of_table = by_table[name]
        listed = ", ".join(quoted(str(path.resolve())) for path in of_table)
        source = f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"
        try:
            columns = [row[0] for row in connection.execute(f"DESCRIBE FROM {source}").fetchall()] if of_table else []
        except duckdb.Error as problem:
            raise ReporterError(f"{folder / name} cannot be read: {first_line(problem)}") from problem
        if name in ours:
            _make_view(connection, ours[name], columns, source)
        else:
            connection.execute(f"CREATE VIEW {identifier(name)} AS FROM {source}")
    for view in VIEWS.values():
        connection.execute(view.sql)


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
    with attached({"results": database}, folder=draft) as connection:
        connection.execute("USE results")
        if not require_version(connection, database):
            raise no_study(study, database, ())
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
        if way.parts[1] != study and not path.is_symlink():
            (draft / way).parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(path, draft / way)


def _check(folder: Path) -> None:
    try:
        mark = json.loads((folder / MARK).read_text())
        version, by = int(mark["schema_version"]), mark["reporter"]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise ReporterError(f"cannot read {folder / MARK}; export the study again") from problem
    if version > SCHEMA_VERSION:
        raise ReporterError(
            f"{folder} was written by reporter {by}, which is newer than this version ({VERSION}); upgrade reporter"
        )
    if version < SCHEMA_VERSION:
        raise ReporterError(f"{folder}: export the study again: an older version of reporter ({by}) wrote it")
