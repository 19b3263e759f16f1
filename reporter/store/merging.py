"""Joins the databases of several results folders by what their numbers were made from.

A cell's fingerprint is the hash of the weights, texts, options and definition that its numbers depend on, so it tells
whether two folders measured the same. What both have comes once; what contradicts itself is named, and nothing is
written before somebody has decided.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from reporter.errors import ReporterError, UsageError
from reporter.store.conflicts import Conflict, compare_numbers, different_cells, different_items
from reporter.store.connection import attached, opened
from reporter.store.keys import CellKey, part_in_sql
from reporter.store.schema import SCHEMA_VERSION, Cell, Corpus, CorpusText, Model, Study, number_tables, tables
from reporter.store.shape import complete, create_file, quoted, version_of
from reporter.table import Table

if TYPE_CHECKING:
    import duckdb

DATABASE = "results.duckdb"
_CELL = ", ".join(CellKey._fields)


@dataclass(frozen=True)
class Merged:
    """What came of a merge.

    Args:
        folders: what the column ``cells.folder`` calls each of them, in its order.
        cells: how many the merged database has.
        twice: of these, how many more than one folder had.
        joined: studies that more than one folder has, whose claims, findings, answers and means over models are yet to
            be computed from all numbers.
        studies: from which database the text of each study is.
        notes: what people should know, in sentences.
        conflicts: what contradicts itself; nothing was written unless a folder was preferred.
    """

    folders: tuple[str, ...]
    cells: int
    twice: int
    joined: tuple[str, ...]
    studies: Mapping[str, Path]
    notes: tuple[str, ...]
    conflicts: tuple[Conflict, ...]

    @property
    def undecided(self) -> list[Conflict]:
        """The conflicts that keep it from being written."""
        return [conflict for conflict in self.conflicts if not conflict.decided]


def merge_databases(target: Path, sources: Sequence[Path], prefer: Path | None = None) -> Merged:
    """Fill a new database with every cell of several ones, once; the result does not depend on their order.

    Of a cell that several have with one fingerprint the latest one that is done is taken. Rows that are computed over
    a whole study are taken over where one database alone has the study.

    Args:
        target: the database to write, in a folder of its own.
        sources: the databases to join; nothing is written into them.
        prefer: the one whose side is taken where two contradict each other.

    Returns:
        What came of it; with conflicts that ``prefer`` does not decide, nothing was written.

    Raises:
        UsageError: a source is missing or named twice, or the preferred one is none of them.
        ReporterError: a file cannot be read or written, or a newer reporter wrote it.
    """
    ordered = _ordered(sources, prefer)
    preferred = None if prefer is None else [one.resolve() for one in ordered].index(prefer.resolve())
    import duckdb

    with (
        TemporaryDirectory(prefix="merge-", dir=target.parent) as drafts,
        attached(
            {f"source_{i}": _current(path, Path(drafts) / str(i)) for i, path in enumerate(ordered)}
        ) as connection,
    ):
        try:
            connection.execute(f"SET temp_directory = {quoted(str(target.parent / 'spill'))}")
            merging = _Merging(connection, ordered, preferred)
            found = merging.read()
            if not found.undecided:
                create_file(target)
                connection.execute(f"ATTACH {quoted(str(target))} AS target (READ_WRITE)")
                merging.write()
                connection.execute("DETACH target")
        except duckdb.Error as problem:
            raise ReporterError(f"the folders cannot be merged: {' '.join(str(problem).split())[:300]}") from problem
    return found


class _Merging:
    """Several attached databases, ``source_0``, ``source_1``, …, on their way into ``target``."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, paths: Sequence[Path], prefer: int | None) -> None:
        self._connection, self._paths, self._prefer = connection, paths, prefer
        self._names = _labels(paths)
        self._present: list[dict[str, list[str]]] = []
        self._notes: list[str] = []
        for i, path in enumerate(paths):
            connection.execute(f"USE source_{i}")
            if not version_of(connection, path):
                raise UsageError(f"{path}: holds no study yet; run `reporter run STUDY` first")
            self._present.append(self._tables_of(i))
        connection.execute("USE memory")

    def read(self) -> Merged:
        """Decide which source each cell, model and corpus is taken from, and what contradicts itself."""
        self._gather(Cell.table, "fingerprint, inputs, status, finished")
        self._gather(Model.table, "fingerprint AS identity, status")
        self._gather(Corpus.table, "content_hash AS identity, status")
        self._gather(Study.table, "sha256(spec) AS identity, finished")
        conflicts = [
            *different_items(self._connection, "models", "weights", self._names, self._prefer),
            *different_items(self._connection, "corpora", "texts", self._names, self._prefer),
        ]
        self._leave_out()
        conflicts += different_cells(self._connection, self._names, self._prefer)
        self._choose()
        for table in number_tables().values():
            conflicts += compare_numbers(self._connection, table, self._columns(table), self._names, self._prefer)
        self._notes += self._foreign() + self._texts_of_studies()
        [(cells, twice)] = self._connection.execute(
            "SELECT count(*), count(*) FILTER (known > 1) FROM chosen_cells"
        ).fetchall()
        joined = self._connection.execute(
            "SELECT study FROM all_studies GROUP BY study HAVING count(*) > 1 ORDER BY study"
        ).fetchall()
        texts = self._connection.execute("SELECT study, source FROM chosen_studies ORDER BY study").fetchall()
        return Merged(
            tuple(self._names),
            cells,
            twice,
            tuple(study for (study,) in joined),
            {study: self._paths[source] for study, source in texts},
            tuple(self._notes),
            tuple(conflicts),
        )

    def write(self) -> None:
        """Copy what was chosen, in an order that does not depend on how sources were named."""
        numbers = number_tables()
        for name, table in tables().items():
            if name == "schema_version":
                continue
            for i in range(len(self._names)):
                if name not in self._present[i]:
                    continue
                columns = [c.name for c in table.columns if c.name in self._present[i][name]]
                listed = ", ".join(f'"{column}"' for column in columns)
                given, into = listed, listed
                if table is Cell.table:
                    plain = [column for column in columns if column != "folder"]
                    into = ", ".join(f'"{column}"' for column in [*plain, "folder"])
                    before = "folder" if "folder" in columns else "NULL"
                    label = quoted(self._names[i])
                    given = ", ".join([*(f'"{c}"' for c in plain), f"concat_ws('/', {label}, {before})"])
                elif table is Study.table:
                    alone = "study IN (SELECT study FROM all_studies GROUP BY study HAVING count(*) = 1)"
                    given = given.replace('"looked_at"', f"CASE WHEN {alone} THEN looked_at END")
                self._connection.execute(
                    f"INSERT INTO target.{name} ({into}) SELECT {given} FROM source_{i}.{name} AS rows "
                    f"WHERE {_wanted(table, i, name in numbers)}"
                )

    def _tables_of(self, i: int) -> dict[str, list[str]]:
        rows = self._connection.execute(
            "SELECT table_name, list(column_name ORDER BY column_index) FROM duckdb_columns() "
            "SEMI JOIN duckdb_tables() USING (database_name, table_oid) "  # views have columns, too
            "WHERE database_name = ? AND NOT internal GROUP BY table_name",
            [f"source_{i}"],
        ).fetchall()
        return dict(rows)

    def _columns(self, table: Table) -> dict[int, set[str]]:
        """The columns of a table that each source has; a source without the table is left out."""
        return {i: set(there[table.name]) for i, there in enumerate(self._present) if table.name in there}

    def _gather(self, table: Table, more: str) -> None:
        """Make the table ``all_NAME``: the key of each row of every source, and what is compared."""
        union = " UNION ALL ".join(
            f"SELECT {i} AS source, {', '.join(table.key)}, {more} FROM source_{i}.{table.name}"
            for i in range(len(self._names))
        )
        self._connection.execute(f"CREATE TEMP TABLE all_{table.name} AS {union}")

    def _leave_out(self) -> None:
        """Drop what was measured on a model or a corpus that another folder's side was preferred to."""
        for name, keys in (("models", ("model", "checkpoint")), ("corpora", ("corpus",))):
            of_cell = " AND ".join(f"list_contains(string_split(c.{key}, ' | '), o.{key})" for key in keys)
            self._connection.execute(
                f"DELETE FROM all_cells AS c WHERE EXISTS (SELECT 1 FROM out_{name} AS o "
                f"WHERE o.source = c.source AND o.study = c.study AND {of_cell})"
            )
            self._connection.execute(
                f"DELETE FROM all_{name} AS c WHERE EXISTS (SELECT 1 FROM out_{name} AS o "
                f"WHERE o.source = c.source AND o.study = c.study AND {' AND '.join(f'o.{k} = c.{k}' for k in keys)})"
            )

    def _choose(self) -> None:
        """Make the tables ``chosen_NAME``: from which source each row is taken."""
        first = "false" if self._prefer is None else f"source = {self._prefer}"
        # a preferred side decides only where fingerprints differ: elsewhere the order of arguments would matter
        differs = f"count(DISTINCT fingerprint) FILTER (status = 'done') OVER (PARTITION BY {_CELL}) > 1"
        for table, order in (
            (Cell.table, "status = 'done' DESC, (differs AND preferred) DESC, finished DESC NULLS LAST, source"),
            (Model.table, "coalesce(status = 'done', false) DESC, source"),
            (Corpus.table, "coalesce(status = 'done', false) DESC, source"),
            (Study.table, "finished DESC NULLS LAST, identity DESC, source"),
        ):
            key = ", ".join(table.key)
            flags = f"{differs} AS differs, {first} AS preferred" if table is Cell.table else ""
            self._connection.execute(
                f"CREATE TEMP TABLE chosen_{table.name} AS SELECT *, count(*) OVER (PARTITION BY {key}) AS known "
                f"FROM (SELECT *{', ' + flags if flags else ''} FROM all_{table.name}) "
                f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {order}) = 1"
            )

    def _foreign(self) -> list[str]:
        known = tables().keys()
        return [
            f"{name}: its table {table} is of a plug-in that is not here, and was left out"
            for name, there in zip(self._names, self._present, strict=True)
            for table in sorted(there.keys() - known)
        ]

    def _texts_of_studies(self) -> list[str]:
        rows = self._connection.execute(
            "SELECT s.study, c.source, list(s.source ORDER BY s.source) FROM all_studies AS s "
            "JOIN chosen_studies AS c USING (study) GROUP BY s.study, c.source "
            "HAVING count(DISTINCT s.identity) > 1 ORDER BY s.study"
        ).fetchall()
        return [
            f"study '{study}' is not the same text in {', '.join(self._names[i] for i in among)}; that of "
            f"{self._names[latest]}, which ran last, stands"
            for study, latest, among in rows
        ]


def _wanted(table: Table, source: int, numbers: bool) -> str:
    """The condition that a row of a source is taken."""
    if numbers or table is Cell.table:
        parts = ", ".join(part_in_sql(table, part) for part in CellKey._fields)
        return f"({parts}) IN (SELECT ({_CELL}) FROM chosen_cells WHERE source = {source})"
    for kept in (Model.table, Corpus.table, Study.table):
        if table is kept:
            key = ", ".join(table.key)
            return f"({key}) IN (SELECT ({key}) FROM chosen_{table.name} WHERE source = {source})"
    if table is CorpusText.table:
        return f"(study, corpus) IN (SELECT (study, corpus) FROM chosen_corpora WHERE source = {source})"
    return f"study IN (SELECT study FROM all_studies GROUP BY study HAVING count(*) = 1 AND max(source) = {source})"


def _current(path: Path, draft: Path) -> Path:
    """Return a database in today's shape: the file itself, or of an older reporter's a completed copy."""
    with opened(path, read_only=True) as connection:
        if version_of(connection, path) in (0, SCHEMA_VERSION):
            return path
        shutil.copyfile(path, draft)
    with opened(draft, read_only=False) as connection:
        complete(connection, path)
    return draft


def _ordered(sources: Sequence[Path], prefer: Path | None) -> list[Path]:
    """Check what is to be merged, and put it into an order of its own."""
    for path in sources:
        if not path.is_file():
            raise UsageError(f"{path}: no results there")
    resolved = [path.resolve() for path in sources]
    for path in sources:
        if resolved.count(path.resolve()) > 1:
            raise UsageError(f"{path} is named twice")
    if prefer is not None and prefer.resolve() not in resolved:
        raise UsageError(f"{prefer} is not among what is merged, so it cannot be preferred")
    return sorted(sources, key=lambda path: path.resolve())


def _labels(paths: Sequence[Path]) -> list[str]:
    """Name each folder by as many of its last names as tell it from the others; nothing of the machine beyond."""
    folders = [path.resolve().parent if path.name == DATABASE else path.resolve() for path in paths]
    for names in range(1, max(len(folder.parts) for folder in folders) + 1):
        labels = ["/".join(folder.parts[-names:]) for folder in folders]
        if len(set(labels)) == len(labels):
            break
    return labels
