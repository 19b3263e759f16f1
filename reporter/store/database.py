"""The results of all studies: one file, opened for the moment of a read or a commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.core.errors import no_results, no_study
from reporter.store.checking import IN_USE
from reporter.store.database_file import DatabaseFile
from reporter.store.rows import CellKey, CellName, CellRecord, as_frame, clean_row, key_of, numbers_of, part_in_sql
from reporter.store.schema import CellRow, find_table, number_tables

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

_WAIT = 2.0  # seconds of work that may wait to be written
_LONG = 10_000  # rows from which on it pays to look for texts that come again

Numbers = Mapping[str, Sequence[dict[str, Any]]]  # cleaned rows by table


class Store:
    """The database file of a results folder.

    The first write makes the file. Nothing is held open between calls, so runs, readers and other programs can take
    turns; every write is one transaction, so a killed process leaves all of it or nothing. Methods raise
    ``ReporterError`` where the file cannot be read or written, and ``ValueError`` for a value or a column that does not
    fit its table.

    Args:
        path: the database file; nothing is opened yet.
        waiting: called with a message when another process has the file open for more than 2 s; by default a warning
            is logged.
    """

    def __init__(self, path: Path, waiting: Callable[[str], None] | None = None) -> None:
        self.path = path
        self._file = DatabaseFile(path, waiting)
        self._together = False
        self._since = 0.0  # when cells were written last
        self._cells: dict[CellKey, tuple[dict[str, Any], Numbers]] = {}

    @contextmanager
    def together(self) -> Iterator[None]:
        """Write the cells that are committed inside the block a few at a time: every two seconds, and at the end.

        To open the file, and to rewrite the last part of each table, takes longer than the numbers of one cell. A
        reader inside the block may miss the last cells; a process that is killed loses two seconds of work.
        """
        before, self._together = self._together, True
        if not before:
            self._since = time.monotonic()
        try:
            yield
        finally:
            self._together = before
            if not before:
                self._write_waiting()

    def commit_cell(
        self,
        cell: Mapping[str, Any],
        values: Sequence[Mapping[str, Any]] = (),
        more: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    ) -> None:
        """Store a cell and its numbers, in place of its earlier ones; :meth:`together` may hold it back.

        Args:
            cell: a row of ``cells``; mappings and lists in it become JSON.
            values: rows of ``layer_metrics``, without the name of the cell; a number that could not be computed is
                None.
            more: rows of the other tables of numbers, by table.
        """
        row = clean_row(CellRow.table, cell)
        key = key_of(row)
        if row.get("status") not in {"done", "failed"}:
            raise ValueError(f"cell {tuple(key)} has status {row.get('status')!r}; expected 'done' or 'failed'")
        numbers = {
            name: numbers_of(find_table(name), key, rows)
            for name, rows in {"layer_metrics": values, **(more or {})}.items()
        }
        if not self._together:
            self._write({key: (row, numbers)})
            return
        self._cells[key] = row, numbers
        if time.monotonic() - self._since >= _WAIT:
            self._write_waiting()

    def _write_waiting(self) -> None:
        if self._cells:
            self._write(self._cells)
            self._cells, self._since = {}, time.monotonic()

    def _write(self, cells: Mapping[CellKey, tuple[dict[str, Any], Numbers]]) -> None:
        rows: dict[str, list[dict[str, Any]]] = {CellRow.table.name: [row for row, _ in cells.values()]}
        for _, numbers in cells.values():
            for name, of_cell in numbers.items():
                rows.setdefault(name, []).extend(of_cell)
        frames = {name: as_frame(find_table(name), of_table) for name, of_table in rows.items() if of_table}
        with self._file.writing() as connection:
            _delete_cells(connection, cells)
            for name, frame in frames.items():
                connection.append(name, frame, by_name=True)

    def put(self, name: str, key: Sequence[str], row: Mapping[str, Any]) -> None:
        """Update the row with this key, or insert it; columns of an existing row that are not given stay.

        Args:
            name: a table: ``models``, ``corpora`` or ``studies``.
            key: the columns that identify a row.
            row: values by column, those of the key among them; mappings and lists become JSON.
        """
        self.put_all(name, key, [row])

    def put_all(self, name: str, key: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
        """Update or insert several rows like :meth:`put`, in one transaction."""
        cleaned = [clean_row(find_table(name), row) for row in rows]
        for row in cleaned:
            if missing := [column for column in key if row.get(column) is None]:
                raise ValueError(f"a row of {name} has no {', '.join(missing)}")
        if cleaned:
            with self._file.writing() as connection:
                for row in cleaned:
                    _put(connection, name, key, row)

    def replace(self, name: str, study: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Store all rows that a table has of a study, in place of the earlier ones; ``study`` may be left out.

        Nothing is written where they are the same: pages would be older than the database.
        """
        table = find_table(name)
        cleaned = [clean_row(table, {"study": study, **row}) for row in rows]
        columns = ", ".join(f'"{column}"' for column in table.types)
        stored = self._rows(f"SELECT {columns} FROM {name} WHERE study = ?", [study])
        if sorted(map(repr, stored)) == sorted(repr(tuple(map(row.get, table.types))) for row in cleaned):
            return
        with self._file.writing() as connection:
            connection.execute(f"DELETE FROM {name} WHERE study = ?", [study])
            if cleaned:
                connection.append(name, as_frame(table, cleaned), by_name=True)

    def prune(self, study: str, keep: Collection[tuple[str, ...]]) -> int:
        """Drop what a study no longer has: cells with their numbers, models and corpora; return how many cells.

        Args:
            study: the study.
            keep: its cells of today: (model, checkpoint, corpus, metric).
        """
        if not self.path.exists():
            return 0
        kept = sorted({tuple(cell) for cell in keep})
        name = ", ".join(CellName._fields)
        gone = {"cells": f"({name}) NOT IN (FROM kept)"}
        for table in number_tables().values():
            parts = ", ".join(part_in_sql(table, part) for part in CellName._fields)
            gone[table.name] = f"({parts}) NOT IN (FROM kept)"
        gone["models"] = "(model, checkpoint) NOT IN (SELECT model, checkpoint FROM kept)"
        gone |= dict.fromkeys(("corpora", "corpus_texts"), "corpus NOT IN (SELECT corpus FROM kept)")
        with self._file.writing() as connection:
            connection.execute(f"CREATE TEMP TABLE kept ({name.replace(',', ' VARCHAR,')} VARCHAR)")
            if kept:
                connection.executemany("INSERT INTO kept VALUES (?, ?, ?, ?)", kept)
            counts = {
                table: connection.execute(f"DELETE FROM {table} WHERE {gone[table]} AND study = ?", [study]).fetchall()
                for table in gone.keys() & _filled(connection)
            }
        return int(counts["cells"][0][0]) if "cells" in counts else 0

    def cells(self, study: str) -> dict[CellName, CellRecord]:
        """Return the cells of a study that ran; empty where there is no file or no such study."""
        rows = self._rows(
            "SELECT model, checkpoint, corpus, metric, fingerprint, status, error, inputs FROM cells WHERE study = ?",
            [study],
        )
        return {CellName(*row[:4]): CellRecord(*row[4:]) for row in rows}

    def studies(self) -> list[str]:
        """Return the ids of all studies, in alphabetical order."""
        return [study for (study,) in self._rows("SELECT study FROM studies ORDER BY study", [])]

    def require(self, study: str) -> None:
        """Raise ``UsageError``, which names the studies, where there is no such study."""
        if not self.path.exists():
            raise no_results(self.path)
        if study not in (studies := self.studies()):
            raise no_study(study, self.path, studies)

    def has_finished(self, study: str, spec_hash: str) -> bool:
        """Return whether the last run of a study had the text with this SHA-256, and has ended."""
        query = "SELECT 1 FROM studies WHERE study = ? AND spec_hash = ? AND finished IS NOT NULL"
        return bool(self._rows(query, [study, spec_hash]))

    def find(self, *fingerprints: str) -> dict[str, CellKey]:
        """Return the latest finished cell, of any study, with each of these fingerprints that has one."""
        rows = self._rows(
            f"SELECT fingerprint, {', '.join(CellKey._fields)} FROM cells "
            "WHERE list_contains(?, fingerprint) AND status = 'done' "
            "ORDER BY finished NULLS FIRST, study DESC, model DESC, checkpoint DESC, corpus DESC, metric DESC",
            [list(fingerprints)],
        )
        return {row[0]: CellKey(*row[1:]) for row in rows}

    def copy_cells(
        self, copies: Sequence[tuple[Sequence[str], Mapping[str, Any]]], numbers: Mapping[str, Any] | None = None
    ) -> list[bool]:
        """Give the numbers of cells to others, in place of their earlier ones, in one transaction.

        Numbers that compare two sides are not copied: a cell that has such is computed again.

        Args:
            copies: (study, model, checkpoint, corpus, metric) of each cell to copy, and the new cell's name with
                further columns of ``cells`` (such as ``why`` or ``finished``) that differ from the source's.
            numbers: columns of the numbers that are no part of a cell (``step``, ``role``) and differ.

        Returns:
            For each whether it was copied; False where the source has gone meanwhile.
        """
        rows = [clean_row(CellRow.table, to) for _, to in copies]
        moves = [(CellKey(*source), key_of(row)) for (source, _), row in zip(copies, rows, strict=True)]
        for source, key in moves:
            if key == source:
                raise ValueError(f"cell {tuple(key)} cannot be copied to itself")
        if not self.path.exists():
            return [False] * len(copies)
        with self._file.writing() as connection:
            cell = f"SELECT * FROM cells WHERE {_is(CellKey._fields)} AND status = 'done'"
            before = [_fetched(connection.execute(cell, list(source))) for source, _ in moves]
            done = [move for move, stored in zip(moves, before, strict=True) if stored]
            _delete_cells(connection, [key for _, key in done])
            for stored, row in zip(before, rows, strict=True):
                for source_row in stored:
                    _put(connection, "cells", CellKey._fields, source_row | row)
            _copy_numbers(connection, done, numbers or {})
        return [bool(stored) for stored in before]

    def copy_model(self, source: Sequence[str], to: Mapping[str, Any]) -> None:
        """Give the values of a row of ``models``, if there is such a row, to another one.

        Args:
            source: the study, model and checkpoint of the row to copy.
            to: those of the other row, and further columns whose values differ from the source's.
        """
        key = find_table("models").key
        rows = self.records(f"SELECT * FROM models WHERE {_is(key)}", list(source))
        self.put_all("models", key, [row | dict(to) for row in rows])

    def frame(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Return the rows of one of reporter's own queries; for foreign SQL use :func:`reporter.store.query`.

        Args:
            query: SQL that reads.
            parameters: values for its ``?`` or ``$name``.

        Raises:
            UsageError: there are no results yet.
        """
        with self.reading() as read:
            return read(query, parameters)

    def kept_open(self) -> AbstractContextManager[None]:
        """Keep the file open between the queries inside a block, see :meth:`DatabaseFile.kept_open`."""
        return self._file.kept_open()

    @contextmanager
    def reading(self) -> Iterator[Callable[..., pd.DataFrame]]:
        """Open the file once for several queries, which then see the same state; yields a function like :meth:`frame`.

        Raises:
            UsageError: there are no results yet.
        """
        with self._file.reading() as connection:

            def read(query: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> pd.DataFrame:
                return _shared_texts(connection.execute(query, parameters).df())

            yield read

    def records(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return rows like :meth:`frame`, as mappings by column in which NULL is None.

        They come without pandas, whose import takes longer than most queries.
        """
        with self._file.reading() as connection:
            return _fetched(connection.execute(query, parameters))

    def _rows(self, query: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self.records(query, parameters)] if self.path.exists() else []


def _shared_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep each text of a long column once: names of models and statistics come again in every row.

    A report holds the rows of all its charts at the same time; with 100,000 rows each these texts are most of its
    memory.
    """
    if len(frame) < _LONG:
        return frame
    import pandas as pd

    for name, dtype in frame.dtypes.items():
        if isinstance(dtype, pd.StringDtype):
            codes, texts = pd.factorize(frame[name])
            frame[name] = texts.take(codes, allow_fill=True)  # -1 is what is missing
    return frame


def _is(columns: Iterable[str]) -> str:
    return " AND ".join(f'"{column}" = ?' for column in columns)


def _fetched(cursor: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    columns = [column[0] for column in cursor.description]
    return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]


def _delete_cells(connection: duckdb.DuckDBPyConnection, keys: Iterable[CellKey]) -> None:
    cell = "SELECT 1 FROM cells WHERE " + _is(CellKey._fields)
    stored = [key for key in keys if connection.execute(cell, list(key)).fetchone()]
    if not stored:  # no cell, no numbers: both come in one transaction
        return
    columns = [list(values) for values in zip(*stored, strict=True)]
    given = ", ".join("unnest(?)" for _ in columns)
    for name in _filled(connection) & {"cells", *number_tables()}:
        parts = ", ".join(part_in_sql(find_table(name), part) for part in CellKey._fields)
        connection.execute(f"DELETE FROM {name} WHERE ({parts}) IN (SELECT {given})", columns)


def _filled(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Return the tables that have had rows before this transaction: most never have any, and each DELETE takes time."""
    rows = connection.execute(f"SELECT table_name FROM duckdb_tables() {IN_USE} AND estimated_size > 0").fetchall()
    return {name for (name,) in rows}


def _copy_numbers(
    connection: duckdb.DuckDBPyConnection, moves: Sequence[tuple[CellKey, CellKey]], changed: Mapping[str, Any]
) -> None:
    """Give the numbers of cells to others that have none; one statement for each table.

    Args:
        connection: may write.
        moves: from which cell to which.
        changed: columns that tables without them ignore.
    """
    if not moves:
        return
    parts = [f"{end}_{part}" for end in ("source", "target") for part in CellKey._fields]
    connection.execute(f"CREATE OR REPLACE TEMP TABLE moves ({', '.join(f'{part} VARCHAR' for part in parts)})")
    connection.executemany(f"INSERT INTO moves VALUES ({', '.join('?' * len(parts))})", [[*a, *b] for a, b in moves])
    for table in number_tables().values():
        holding = {part: table.holding(part) for part in CellKey._fields}
        if any(len(columns) > 1 for columns in holding.values()):
            continue
        replaced = [f'target_{part} AS "{column}"' for part, columns in holding.items() for column in columns]
        given = {column: value for column, value in changed.items() if column in table.types}
        replaced += [f'? AS "{column}"' for column in given]
        whose = " AND ".join(f"{part_in_sql(table, part)} = source_{part}" for part in CellKey._fields)
        connection.execute(
            f"INSERT INTO {table.name} SELECT {table.name}.* REPLACE ({', '.join(replaced)}) "
            f"FROM {table.name} JOIN moves ON {whose}",
            list(given.values()),
        )
    connection.execute("DROP TABLE moves")


def _put(connection: duckdb.DuckDBPyConnection, name: str, key: Sequence[str], row: Mapping[str, Any]) -> None:
    """Update the row with this key, or insert it."""
    given = ", ".join(f'? AS "{column}"' for column in row)
    columns = ", ".join(f'"{column}"' for column in key)
    connection.execute(
        f"MERGE INTO {name} USING (SELECT {given}) AS given USING ({columns}) "
        "WHEN MATCHED THEN UPDATE BY NAME WHEN NOT MATCHED THEN INSERT BY NAME",
        list(row.values()),
    )
