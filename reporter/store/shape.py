"""Giving a file its tables: made once, extended when reporter has grown, refused when it is not ours."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from reporter import __version__
from reporter.errors import ReporterError
from reporter.store.connection import WAY_OUT, opened, transaction
from reporter.store.schema import KEPT, SCHEMA_VERSION, tables
from reporter.store.views import VIEWS, View

if TYPE_CHECKING:
    import duckdb

    from reporter.table import Table

# Small blocks: a study is some thousand numbers, which in DuckDB's large ones would fill 2 MB instead of 0.4.
# An old storage version: people open the file with the DuckDB client they have.
_NEW_FILE = {"default_block_size": "16384", "storage_compatibility_version": "v1.4.0"}
_log = logging.getLogger(__name__)
_HERE = "WHERE database_name = current_database()"

RENAMED = {
    (table, "pair_set"): "pairs" for table in ("pair_directions", "pair_texts", "direction_cosines", "concept_answers")
}
"""What columns were called before version 14: a name beside a count of pairs."""

# What older files hold in place of a table or a column, until the study runs again.
_FILL = {
    ("models", "is_last"): (  # before version 13: the training step stands in for the order of the study
        "UPDATE models SET position = of.position, is_last = of.position = of.count FROM ("
        "SELECT study, model, checkpoint, row_number() OVER (PARTITION BY study, model "
        "ORDER BY coalesce(step, -1), checkpoint) AS position, count(*) OVER (PARTITION BY study, model) AS count "
        "FROM models) AS of "
        "WHERE (of.study, of.model, of.checkpoint) = (models.study, models.model, models.checkpoint)",
    ),
    ("probe_poolings", None): (  # before version 14: one pooling, that of the numbers
        "INSERT INTO probe_poolings BY NAME SELECT t.*, true AS main, m.value AS accuracy, m.ci_low, m.ci_high, "
        "f.value AS chance, m.n FROM (SELECT DISTINCT study, model, checkpoint, step, role, probe, pooling, site, "
        "layer, depth FROM probe_texts) AS t "
        "JOIN layer_metrics AS m ON (t.study, t.model, t.checkpoint, t.probe, t.site, t.layer) = "
        "(m.study, m.model, m.checkpoint, m.corpus, m.site, m.layer) "
        "JOIN layer_metrics AS f ON (m.study, m.model, m.checkpoint, m.corpus, m.site, m.layer, m.metric, m.view) = "
        "(f.study, f.model, f.checkpoint, f.corpus, f.site, f.layer, f.metric, f.view) "
        "WHERE m.metric = 'probes' AND m.statistic = 'linear' AND f.statistic = 'linear_floor' AND m.value IS NOT NULL",
    ),
    ("layer_answers", "needed"): (  # before version 14: pairs have an answer of their own now
        "DELETE FROM layer_answers WHERE kind = 'pairs'",
    ),
}
# The text of a study counts as changed, so that the next run writes all that does not come from a model again.
_AGAIN = "UPDATE studies SET spec_hash = ''"


def create_file(path: Path) -> None:
    """Makes the database with all its tables, unless it is there.

    It is built beside its place and then linked into it, so that nobody ever meets a half-made file and the
    first of two processes wins.

    Args:
        path: Where the database shall be; missing folders are made.

    Raises:
        ReporterError: The folder cannot be written.
    """
    if path.exists():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as folder:
            draft = Path(folder) / path.name
            with opened(draft, read_only=False, config=_NEW_FILE) as connection:
                complete(connection, draft)
            _place(draft, path)
    except OSError as problem:
        raise ReporterError(f"{path} cannot be created: {problem.strerror}") from problem


def complete(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Adds the tables, columns and comments that a file lacks, in one transaction; nothing is taken away.

    Args:
        connection: Open for writing.
        path: The file, for the error's text.

    Raises:
        ReporterError: A newer reporter or somebody else wrote the file.
    """
    version = version_of(connection, path)
    present = _comments(connection)
    wanted: dict[tuple[str, str | None], str] = {}
    described: list[Table | View] = [*tables().values(), *VIEWS.values()]
    for table in described:
        wanted[table.name, None] = table.comment
        wanted |= {(table.name, column.name): column.comment for column in table.columns}
    if version == SCHEMA_VERSION:
        if all(present.get(key) == comment for key, comment in wanted.items()):
            return
        _refuse_altered(present.keys(), wanted.keys(), path)
        _say_what_went(connection, present.keys(), path)
    with transaction(connection):
        for statement in _statements(present.keys()):
            connection.execute(statement)
        if 0 < version < SCHEMA_VERSION:
            connection.execute(_AGAIN)
        connection.execute("DELETE FROM schema_version")
        connection.execute("INSERT INTO schema_version VALUES (?, ?)", [SCHEMA_VERSION, __version__])


def _refuse_altered(
    present: Collection[tuple[str, str | None]], wanted: Iterable[tuple[str, str | None]], path: Path
) -> None:
    """Refuse a file that lacks what its version has: what plug-ins bring may be new, these tables are not.

    To add them once more would leave cells that count as done without their numbers.
    """
    ours = {"layer_metrics", *(row.table.name for row in KEPT)}
    for table, column in wanted:
        if table in ours and (table, column) not in present:
            what = f"table {table}" if column is None else f"column {column} of table {table}"
            raise ReporterError(f"{path} lacks the {what}, somebody changed it; {WAY_OUT}")


def _say_what_went(
    connection: duckdb.DuckDBPyConnection, present: Collection[tuple[str, str | None]], path: Path
) -> None:
    """Say which table of a metric is made again without the numbers that its cells had.

    A plug-in may just have learnt to yield one, so it is no reason to refuse the file.
    """
    from reporter.analyses.registry import analyses
    from reporter.metrics.registry import catalogue

    for name, definition in {**catalogue(), **analyses()}.items():
        gone = [row.table.name for row in definition.tables if (row.table.name, None) not in present]
        if gone:
            done = "SELECT count(*) FROM cells WHERE metric = ? AND status = 'done'"
            (cells,) = connection.execute(done, [name]).fetchone() or (0,)
            if cells:
                _log.warning(
                    f"{path.name} lacks the table {', '.join(gone)}, although {cells} cells of {name} are done: it is "
                    f"made again, empty; `reporter run STUDY --only {name} --force` fills it"
                )


def version_of(connection: duckdb.DuckDBPyConnection, path: Path) -> int:
    """Reads which shape a file has.

    Args:
        connection: Open for reading or writing.
        path: The file, for the error's text.

    Returns:
        Its schema version; 0 for a database without any table.

    Raises:
        ReporterError: A newer reporter or somebody else wrote the file.
    """
    tables = {name for (name,) in connection.execute(f"SELECT table_name FROM duckdb_tables() {_HERE}").fetchall()}
    if not tables:
        return 0
    foreign = f"{path} holds tables that reporter did not make; choose another folder for the results"
    if "schema_version" not in tables:
        raise ReporterError(foreign)
    columns = connection.execute("DESCRIBE schema_version").fetchall()
    rows = connection.execute("SELECT * FROM schema_version").fetchall()
    if [column[0] for column in columns[:2]] != ["version", "reporter"] or len(rows) != 1:
        raise ReporterError(foreign)
    version, written_by = int(rows[0][0]), rows[0][1]
    if version > SCHEMA_VERSION:
        raise ReporterError(
            f"{path} was written by reporter {written_by}, which is newer than this one ({__version__}); "
            "upgrade reporter, or choose another folder for the results"
        )
    return version


def _statements(present: Iterable[tuple[str, str | None]]) -> Iterable[str]:
    """The statements that bring a file from what is present to the shape of today."""
    known = set(present)
    for table in tables().values():
        if (table.name, None) not in known:
            columns = ", ".join(f'"{column.name}" {column.type}' for column in table.columns)
            yield f"CREATE TABLE {table.name} ({columns})"
        yield f"COMMENT ON TABLE {table.name} IS {quoted(table.comment)}"
        for column in table.columns:
            if (table.name, None) in known and (table.name, column.name) not in known:
                before = RENAMED.get((table.name, column.name))
                if (table.name, before) in known and before:
                    yield f'ALTER TABLE {table.name} RENAME COLUMN "{before}" TO "{column.name}"'
                else:
                    yield f'ALTER TABLE {table.name} ADD COLUMN "{column.name}" {column.type}'
            yield f'COMMENT ON COLUMN {table.name}."{column.name}" IS {quoted(column.comment)}'
    if known:
        yield from (statement for lacking, fill in _FILL.items() if lacking not in known for statement in fill)
    for view in VIEWS.values():  # anew each time: what they read may have changed
        yield view.sql
        yield f"COMMENT ON VIEW {view.name} IS {quoted(view.comment)}"
        for column in view.columns:
            yield f'COMMENT ON COLUMN {view.name}."{column.name}" IS {quoted(column.comment)}'


def _comments(connection: duckdb.DuckDBPyConnection) -> dict[tuple[str, str | None], str | None]:
    """What each table and view (column None) and each column says about itself."""
    tables = connection.execute(
        f"SELECT table_name, NULL, comment FROM duckdb_tables() {_HERE} "
        f"UNION ALL SELECT view_name, NULL, comment FROM duckdb_views() {_HERE} AND NOT internal"
    ).fetchall()
    columns = connection.execute(f"SELECT table_name, column_name, comment FROM duckdb_columns() {_HERE}").fetchall()
    return {(table, column): comment for table, column, comment in tables + columns}


def _place(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        if not path.exists():
            draft.rename(path)


def quoted(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"
