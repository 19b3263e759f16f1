"""The results of all studies: one file, opened for the moment of a read or a commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.errors import no_study
from reporter.store.connection import WAIT_SECONDS
from reporter.store.file import DatabaseFile
from reporter.store.keys import CellKey, CellName, CellRecord, StudyRecord, part_in_sql
from reporter.store.rows import as_frame, as_records, clean_row, key_of, numbers_of
from reporter.store.schema import Cell, find_table, number_tables
from reporter.table import Table

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

_WAIT = 2.0  # seconds of work that may wait to be written
_LONG = 10_000  # rows from which on it pays to look for texts that come again

Numbers = Mapping[str, Sequence[dict[str, Any]]]  # cleaned rows by table


class Store:
    """The database file of a results folder.

    The file is made by the first write. Nothing is held open between calls, so runs, readers and other
    programs can take turns; every write is one transaction, so a killed process leaves all of it or nothing.
    """

    def __init__(
        self, path: Path, wait_seconds: float = WAIT_SECONDS, waiting: Callable[[str], None] | None = None
    ) -> None:
        """Names the file; nothing is opened yet.

        Args:
            path: The database file.
            wait_seconds: How long to wait while another process has it open.
            waiting: Told in one sentence when there is a wait of more than 2 s; default: a logged warning.
        """
        self.path = path
        self._file = DatabaseFile(path, wait_seconds, waiting)
        self._together = False
        self._since = 0.0  # when cells were written last
        self._cells: dict[CellKey, tuple[dict[str, Any], Numbers]] = {}

    @contextmanager
    def together(self) -> Iterator[None]:
        """Writes the cells that are committed inside a few at a time: once they took two seconds, and at the end.

        Opening the file, and rewriting the last part of each table, takes longer than the numbers of one cell. What
        is read inside may lack them; a process that is killed loses two seconds of work with them.

        Yields:
            Nothing.

        Raises:
            ReporterError: The file cannot be written.
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
        values: pd.DataFrame | Sequence[Mapping[str, Any]] = (),
        more: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    ) -> None:
        """Stores a cell and its numbers, in place of what was known of that cell; :meth:`together` may hold it back.

        Args:
            cell: A row of ``cells``; mappings and lists in it become JSON.
            values: Rows of ``layer_metrics``; what names the cell (study, model, checkpoint, corpus, metric)
                may be left out. A number that could not be computed is None, its reason in the cell's row.
            more: Rows of the other tables of numbers, by table.

        Raises:
            ValueError: NaN or infinity, an unknown column, a number given twice or belonging to another cell.
            ReporterError: The file cannot be written.
        """
        row = clean_row(Cell.table, cell)
        key = key_of(row)
        if row.get("status") not in {"done", "failed"}:
            raise ValueError(f"cell {tuple(key)} has status {row.get('status')!r}, not 'done' or 'failed'")
        numbers = {
            name: numbers_of(table := find_table(name), key, as_records(table, rows))
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
        """Writes cells in one transaction."""
        rows: dict[str, list[dict[str, Any]]] = {Cell.table.name: [row for row, _ in cells.values()]}
        for _, numbers in cells.values():
            for name, of_cell in numbers.items():
                rows.setdefault(name, []).extend(of_cell)
        frames = {name: as_frame(find_table(name), found) for name, found in rows.items() if found}
        with self._file.writing() as connection:
            for key in cells:
                _delete_cell(connection, key)
            for name, frame in frames.items():
                connection.append(name, frame, by_name=True)

    def put(self, name: str, key: Sequence[str], row: Mapping[str, Any]) -> None:
        """Updates the row with this key, or inserts it; columns of an existing row that are not given stay.

        Args:
            name: A table: ``models``, ``corpora`` or ``studies``.
            key: The columns that tell its rows apart.
            row: Values by column, the key's among them; mappings and lists become JSON.

        Raises:
            ValueError: An unknown table or column, NaN or infinity, or a missing key.
            ReporterError: The file cannot be written.
        """
        self.put_all(name, key, [row])

    def put_all(self, name: str, key: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
        """Updates or inserts several rows like :meth:`put`, in one transaction."""
        cleaned = [clean_row(find_table(name), row) for row in rows]
        keys = [_values(name, key, row) for row in cleaned]
        if not cleaned:
            return
        where = _is(key)
        with self._file.writing() as connection:
            for row, values in zip(cleaned, keys, strict=True):
                rest = [column for column in row if column not in key]
                found = connection.execute(f"SELECT 1 FROM {name} WHERE {where}", values).fetchone()
                if not found:
                    _insert(connection, name, row)
                elif rest:
                    settings = ", ".join(f'"{column}" = ?' for column in rest)
                    given = [row[column] for column in rest]
                    connection.execute(f"UPDATE {name} SET {settings} WHERE {where}", given + values)

    def replace(self, name: str, study: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Stores all rows that a table has of a study, in place of those that were there.

        Args:
            name: A table, such as ``correlations``.
            study: The study.
            rows: Its rows; ``study`` may be left out.

        Raises:
            ValueError: An unknown table or column, or NaN or infinity.
            ReporterError: The file cannot be written.
        """
        table = find_table(name)
        cleaned = [clean_row(table, {"study": study, **row}) for row in rows]
        if not cleaned and not self._rows(f"SELECT 1 FROM {name} WHERE study = ? LIMIT 1", [study]):
            return
        with self._file.writing() as connection:
            connection.execute(f"DELETE FROM {name} WHERE study = ?", [study])
            if cleaned:
                connection.append(name, as_frame(table, cleaned), by_name=True)

    def prune(self, study: str, keep: Collection[tuple[str, ...]]) -> int:
        """Drops what a study no longer has: cells with their numbers, models and corpora.

        Args:
            study: The study.
            keep: Its cells of today: (model, checkpoint, corpus, metric).

        Returns:
            How many cells were dropped.

        Raises:
            ReporterError: The file cannot be written.
        """
        if not self._file.exists():
            return 0
        kept = sorted({tuple(cell) for cell in keep})
        counts: list[int] = []
        name = f"({', '.join(CellName._fields)})"
        with self._file.writing() as connection:
            connection.execute(
                "CREATE TEMP TABLE kept (model VARCHAR, checkpoint VARCHAR, corpus VARCHAR, metric VARCHAR)"
            )
            if kept:
                connection.executemany("INSERT INTO kept VALUES (?, ?, ?, ?)", kept)
            numbers = [
                f"{table.name} WHERE ({', '.join(part_in_sql(table, part) for part in CellName._fields)}) "
                "NOT IN (FROM kept)"
                for table in number_tables().values()
            ]
            for gone in (
                f"cells WHERE {name} NOT IN (FROM kept)",
                *numbers,
                "models WHERE (model, checkpoint) NOT IN (SELECT model, checkpoint FROM kept)",
                "corpora WHERE corpus NOT IN (SELECT corpus FROM kept)",
                "corpus_texts WHERE corpus NOT IN (SELECT corpus FROM kept)",
            ):
                dropped = connection.execute(f"DELETE FROM {gone} AND study = ?", [study]).fetchall()
                counts.append(int(dropped[0][0]))
        return counts[0]

    def cells(self, study: str) -> dict[CellName, CellRecord]:
        """Reads what is known of a study's cells.

        Args:
            study: The study.

        Returns:
            A record by (model, checkpoint, corpus, metric); empty where there is no file or no such study.

        Raises:
            ReporterError: The file cannot be read.
        """
        rows = self._rows(
            "SELECT model, checkpoint, corpus, metric, fingerprint, status, error, inputs FROM cells WHERE study = ?",
            [study],
        )
        return {CellName(*row[:4]): CellRecord(*row[4:]) for row in rows}

    def studies(self) -> list[str]:
        """Reads which studies there are.

        Returns:
            Their ids, in alphabetical order.
        """
        return [study for (study,) in self._rows("SELECT study FROM studies ORDER BY study", [])]

    def require(self, study: str) -> None:
        """Raises where a study did not run.

        Args:
            study: The study.

        Raises:
            UsageError: It is not there; the message names those that are.
        """
        if study not in (known := self.studies()):
            raise no_study(study, self.path, known)

    def study(self, study: str) -> StudyRecord | None:
        """Reads what is known of a study.

        Args:
            study: The study.

        Returns:
            Its record; None where it never ran.

        Raises:
            ReporterError: The file cannot be read.
        """
        rows = self._rows("SELECT spec_hash, finished FROM studies WHERE study = ?", [study])
        return StudyRecord(*rows[0]) if rows else None

    def find(self, *fingerprints: str) -> dict[str, CellKey]:
        """Looks for numbers that were computed before, in any study.

        Args:
            fingerprints: Hashes of everything the numbers depend on.

        Returns:
            The name of the latest finished cell with each of them that has one.

        Raises:
            ReporterError: The file cannot be read.
        """
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
        """Gives the numbers of cells to others, in place of what was known of those, in one transaction.

        Numbers that compare two sides are not copied: a cell that has such is computed again.

        Args:
            copies: (study, model, checkpoint, corpus, metric) of each cell to copy, and the new cell's name with
                further columns of ``cells`` (such as ``why`` or ``finished``) that shall differ from the source's.
            numbers: Columns of the numbers that are no part of a cell (``step``, ``role``) and shall differ.

        Returns:
            For each whether it was copied; False where the source has gone meanwhile.

        Raises:
            ValueError: An unknown column, or a cell copied to itself.
            ReporterError: The file cannot be written.
        """
        own = [clean_row(Cell.table, to) for _, to in copies]
        moves = [(CellKey(*source), key_of(row)) for (source, _), row in zip(copies, own, strict=True)]
        for origin, key in moves:
            if key == origin:
                raise ValueError(f"cell {tuple(key)} cannot be copied to itself")
        if not self._file.exists():
            return [False] * len(copies)
        with self._file.writing() as connection:
            rows = [_row(connection, "cells", origin) for origin, _ in moves]
            done = [row is not None and row["status"] == "done" for row in rows]
            for (_, key), row, changed, there in zip(moves, rows, own, done, strict=True):
                if row is not None and there:
                    _delete_cell(connection, key)
                    _insert(connection, "cells", row | changed)
            _copy_numbers(connection, [move for move, there in zip(moves, done, strict=True) if there], numbers or {})
        return done

    def copy_row(self, name: str, source: Sequence[str], to: Mapping[str, Any]) -> bool:
        """Gives one row's values to another key of the same table, in place of the row that is there.

        Args:
            name: A table: ``models`` or ``corpora``.
            source: The key of the row to copy: (study, model, checkpoint) or (study, corpus).
            to: The new key, and further columns whose values shall differ from the source's.

        Returns:
            Whether it was copied; False when the source is not there.

        Raises:
            ValueError: An unknown table or column, or a missing key.
            ReporterError: The file cannot be written.
        """
        changed = clean_row(find_table(name), to)
        columns = find_table(name).key
        key = _values(name, columns, changed)
        if not self._file.exists():
            return False
        with self._file.writing() as connection:
            row = _row(connection, name, source)
            if row is None:
                return False
            connection.execute(f"DELETE FROM {name} WHERE {_is(columns)}", key)
            _insert(connection, name, row | changed)
        return True

    def frame(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Reads with one of reporter's own queries; foreign SQL belongs into :func:`reporter.store.query`.

        Args:
            query: SQL that reads.
            parameters: Values for its ``?`` or ``$name``.

        Returns:
            The result; columns named as in the query.

        Raises:
            UsageError: There are no results yet.
            ReporterError: The file cannot be read.
        """
        with self.reading() as read:
            return read(query, parameters)

    @contextmanager
    def reading(self) -> Iterator[Callable[..., pd.DataFrame]]:
        """Opens the file once for several queries, which then see the same state; writers wait meanwhile.

        Yields:
            A function like :meth:`frame`.

        Raises:
            UsageError: There are no results yet.
            ReporterError: The file cannot be read.
        """
        with self._file.reading() as connection:

            def read(query: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> pd.DataFrame:
                return _shared_texts(connection.execute(query, parameters).df())

            yield read

    def records(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Reads like :meth:`frame`, without pandas, whose import takes longer than most queries.

        Args:
            query: SQL that reads.
            parameters: Values for its ``?`` or ``$name``.

        Returns:
            A mapping by column for each row; NULL is None.

        Raises:
            UsageError: There are no results yet.
            ReporterError: The file cannot be read.
        """
        with self._file.reading() as connection:
            found = connection.execute(query, parameters)
            columns = [column[0] for column in found.description]
            return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]

    def _rows(self, query: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
        """A small result; none where there is no file yet."""
        return [tuple(row.values()) for row in self.records(query, parameters)] if self._file.exists() else []


def _shared_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep each text of a long column once: names of models and statistics stand in every row, as texts of their own.

    A report holds the rows of all its charts at one time; with 100,000 rows each these texts are most of its memory.
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
    """The condition that a row has a given key."""
    return " AND ".join(f'"{column}" = ?' for column in columns)


def _values(name: str, columns: Sequence[str], row: Mapping[str, Any]) -> list[Any]:
    missing = [column for column in columns if row.get(column) is None]
    if missing:
        raise ValueError(f"a row of {name} needs {', '.join(missing)}")
    return [row[column] for column in columns]


def _row(connection: duckdb.DuckDBPyConnection, name: str, key: Sequence[Any]) -> dict[str, Any] | None:
    found = connection.execute(f"SELECT * FROM {name} WHERE {_is(find_table(name).key)}", list(key))
    columns = [column[0] for column in found.description]
    row = found.fetchone()
    return None if row is None else dict(zip(columns, row, strict=True))


def _delete_cell(connection: duckdb.DuckDBPyConnection, key: CellKey) -> None:
    known = f"SELECT 1 FROM cells WHERE {_of_cell(Cell.table)}"
    if connection.execute(known, list(key)).fetchone() is None:  # no cell, no numbers: both come in one transaction
        return
    for table in (Cell.table, *number_tables().values()):
        connection.execute(f"DELETE FROM {table.name} WHERE {_of_cell(table)}", list(key))


def _copy_numbers(
    connection: duckdb.DuckDBPyConnection, moves: Sequence[tuple[CellKey, CellKey]], changed: Mapping[str, Any]
) -> None:
    """Give the numbers of cells to others that have none; a statement for each table, whatever the number of cells.

    Args:
        connection: may write.
        moves: whose, and to whom.
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


def _of_cell(table: Table) -> str:
    """The condition that a row of a table belongs to a cell."""
    return " AND ".join(f"{part_in_sql(table, part)} = ?" for part in CellKey._fields)


def _insert(connection: duckdb.DuckDBPyConnection, name: str, row: Mapping[str, Any]) -> None:
    columns = ", ".join(f'"{column}"' for column in row)
    marks = ", ".join("?" for _ in row)
    connection.execute(f"INSERT INTO {name} ({columns}) VALUES ({marks})", list(row.values()))
