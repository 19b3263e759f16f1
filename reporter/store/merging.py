"""Join the databases of several results folders by what their numbers were computed from.

The fingerprint of a cell is the hash of the weights, texts, options and definition that its numbers depend on. So it
tells whether two folders measured the same. Each cell is copied once; contradictions are reported, and nothing is
written before a preferred folder decides them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.core.confined import quoted
from reporter.core.errors import ReporterError, UsageError
from reporter.core.json_text import stored_json
from reporter.core.table import Column, Table
from reporter.store.checking import require_version, table_columns
from reporter.store.making import create_file
from reporter.store.opening import attach, attached
from reporter.store.rows import CellKey, cell_in_sql, part_in_sql
from reporter.store.schema import CellRow, CorpusRow, CorpusText, Model, StudyRow, number_tables, tables

if TYPE_CHECKING:
    import duckdb

DATABASE = "results.duckdb"
SAME = 1e-5
"""Relative difference up to which a cell has the same number on two machines: rounding and threads cause it."""
SMALLEST = 1e-3
"""Numbers below this size are compared as if they had it: what is left of a cancellation is rounding."""
_CELL = ", ".join(CellKey._fields)
_SHOWN = 16
_OF_CELL = {  # how a cell names the models and corpora of its one or two sides
    "models": "list_contains(string_split(c.model, ' | '), o.model) "
    "AND list_contains(string_split(c.checkpoint, ' | '), o.checkpoint)",
    "corpora": "list_contains(string_split(c.corpus, ' | '), o.corpus)",
}


@dataclass(frozen=True)
class Conflict:
    """Two folders that contradict each other.

    Args:
        about: the model, the corpus or the cell.
        what: what of it differs.
        values: each side's folder and value; the side that is taken comes first where that is decided.
        decided: whether the preferred folder decides it.
        more: how many further numbers of the same cell differ.
    """

    about: str
    what: str
    values: tuple[tuple[str, str], ...]
    decided: bool = False
    more: int = 0

    def __str__(self) -> str:
        sides = ", ".join(f"{value} in {folder}" for folder, value in self.values)
        more = f" (and {self.more} more differences in this cell)" if self.more else ""
        return f"{self.about}: {self.what} is {sides}{more}" + ("; the first value is used" if self.decided else "")


@dataclass(frozen=True)
class Merged:
    """The result of a merge.

    Args:
        folders: the names of the folders in the column ``cells.folder``.
        cells: how many the merged database has.
        twice: how many of these more than one folder had.
        joined: studies that more than one folder has, whose claims, findings, answers and means over models must be
            computed again from all numbers.
        studies: from which database the text of each study is.
        notes: sentences for the user.
        conflicts: contradictions; nothing was written unless a folder was preferred.
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
        """The conflicts that keep the database from being written."""
        return [conflict for conflict in self.conflicts if not conflict.decided]


def merge_databases(target: Path, sources: Sequence[Path], prefer: Path | None = None) -> Merged:
    """Fill a new database with every cell of several ones, once; the result does not depend on their order.

    Of equal cells the latest one that is done is taken. Rows that are computed over a whole study are taken over where
    one database alone has the study.

    Args:
        target: the database to write, in a folder of its own; not written while a conflict is undecided.
        sources: the databases to join; nothing is written into them.
        prefer: the source that is taken where two contradict each other.

    Raises:
        UsageError: a source is missing or named twice, or the preferred one is none of them.
        ReporterError: a file cannot be read or written, or another version of reporter wrote it.
    """
    import duckdb

    ordered = _ordered(sources, prefer)
    preferred = None if prefer is None else [path.resolve() for path in ordered].index(prefer.resolve())
    with attached({f"source_{i}": path for i, path in enumerate(ordered)}, target) as connection:
        try:
            merging = _Merging(connection, ordered, preferred)
            merged = merging.read()
            if not merged.undecided:
                create_file(target)
                attach(connection, target, "target", read_only=False)
                merging.write()
                connection.execute("DETACH target")
        except duckdb.Error as problem:
            raise ReporterError(f"cannot merge the folders: {' '.join(str(problem).split())[:300]}") from problem
    return merged


def _ordered(sources: Sequence[Path], prefer: Path | None) -> list[Path]:
    for path in sources:
        if not path.is_file():
            raise UsageError(f"{path} does not exist; name folders that `reporter run` wrote")
    resolved = [path.resolve() for path in sources]
    for path in sources:
        if resolved.count(path.resolve()) > 1:
            raise UsageError(f"{path} is named twice; name each folder once")
    if prefer is not None and prefer.resolve() not in resolved:
        raise UsageError(f"--prefer: {prefer} is not one of the folders to merge")
    return sorted(sources, key=lambda path: path.resolve())


def _labels(paths: Sequence[Path]) -> list[str]:
    """Return short names of the folders: as many of their last parts as tell them apart."""
    folders = [path.resolve().parent if path.name == DATABASE else path.resolve() for path in paths]
    for names in range(1, max(len(folder.parts) for folder in folders) + 1):
        labels = ["/".join(folder.parts[-names:]) for folder in folders]
        if len(set(labels)) == len(labels):
            break
    return labels


class _Merging:
    """Several attached databases, ``source_0``, ``source_1``, …, on their way into ``target``."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, paths: Sequence[Path], prefer: int | None) -> None:
        self._connection, self._paths, self._prefer = connection, paths, prefer
        self._names = _labels(paths)
        for i, path in enumerate(paths):
            connection.execute(f"USE source_{i}")
            if not require_version(connection, path):
                raise UsageError(f"{path} has no study yet; run `reporter run STUDY` first")
        connection.execute("USE memory")
        self._columns = [table_columns(connection, f"source_{i}") for i in range(len(paths))]

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._connection.execute(sql).fetchall()
        return rows

    def read(self) -> Merged:
        """Choose the source of each cell, model and corpus, and find the contradictions."""
        self._gather(CellRow.table, "fingerprint, inputs, status, finished")
        self._gather(Model.table, "fingerprint AS identity, status")
        self._gather(CorpusRow.table, "content_hash AS identity, status")
        self._gather(StudyRow.table, "sha256(spec) AS identity, finished, first_number")
        conflicts = [*self._different_items(Model.table, "weights"), *self._different_items(CorpusRow.table, "texts")]
        conflicts += self._different_cells()
        self._choose()
        for table in number_tables().values():
            conflicts += self._different_numbers(table)
        [(cells, twice)] = self._rows("SELECT count(*), count(*) FILTER (known > 1) FROM chosen_cells")
        joined = self._rows("SELECT study FROM all_studies GROUP BY study HAVING count(*) > 1 ORDER BY study")
        texts = self._rows("SELECT study, source FROM chosen_studies ORDER BY study")
        return Merged(
            tuple(self._names),
            cells,
            twice,
            tuple(study for (study,) in joined),
            {study: self._paths[source] for study, source in texts},
            (*self._unknown_tables(), *self._different_texts()),
            tuple(conflicts),
        )

    def write(self) -> None:
        """Copy what was chosen, source by source."""
        alone = "study IN (SELECT study FROM all_studies GROUP BY study HAVING count(*) = 1)"
        for name, table in tables().items():
            for i, columns_of in enumerate(self._columns):
                if name == "schema_version" or name not in columns_of:
                    continue
                columns = [column.name for column in table.columns if column.name in columns_of[name]]
                values = {column: f'"{column}"' for column in columns}
                if table is CellRow.table:
                    values["folder"] = f"concat_ws('/', {quoted(self._names[i])}, folder)"
                elif table is StudyRow.table:
                    values["looked_at"] = f"CASE WHEN {alone} THEN looked_at END"
                    values["first_number"] = "(SELECT min(first_number) FROM all_studies WHERE study = rows.study)"
                into = ", ".join(f'"{column}"' for column in values)
                self._connection.execute(
                    f"INSERT INTO target.{name} ({into}) SELECT {', '.join(values.values())} "
                    f"FROM source_{i}.{name} AS rows WHERE {_chosen(table, i)}"
                )

    def _gather(self, table: Table, more: str) -> None:
        union = " UNION ALL ".join(
            f"SELECT {i} AS source, {', '.join(table.key)}, {more} FROM source_{i}.{table.name}"
            for i in range(len(self._names))
        )
        self._connection.execute(f"CREATE TEMP TABLE all_{table.name} AS {union}")

    def _choose(self) -> None:
        """Make the tables ``chosen_NAME``: from which source each row is taken."""
        first = "false" if self._prefer is None else f"source = {self._prefer}"
        # a preferred side decides only where fingerprints differ: elsewhere the order of arguments would matter
        differs = f"count(DISTINCT fingerprint) FILTER (status = 'done') OVER (PARTITION BY {_CELL}) > 1"
        done = "coalesce(status = 'done', false) DESC, source"
        for table, order in (
            (CellRow.table, "status = 'done' DESC, (differs AND preferred) DESC, finished DESC NULLS LAST, source"),
            (Model.table, done),
            (CorpusRow.table, done),
            (StudyRow.table, "finished DESC NULLS LAST, identity DESC, source"),
        ):
            key = ", ".join(table.key)
            flags = f", {differs} AS differs, {first} AS preferred" if table is CellRow.table else ""
            self._connection.execute(
                f"CREATE TEMP TABLE chosen_{table.name} AS SELECT *, count(*) OVER (PARTITION BY {key}) AS known "
                f"FROM (SELECT *{flags} FROM all_{table.name}) "
                f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {order}) = 1"
            )

    def _unknown_tables(self) -> list[str]:
        return [
            f"{name}: the table {table} belongs to a plug-in that is not installed here, and was left out"
            for name, columns_of in zip(self._names, self._columns, strict=True)
            for table in sorted(columns_of.keys() - tables().keys())
        ]

    def _different_texts(self) -> list[str]:
        rows = self._rows(
            "SELECT s.study, c.source, list(s.source ORDER BY s.source) FROM all_studies AS s "
            "JOIN chosen_studies AS c USING (study) GROUP BY s.study, c.source "
            "HAVING count(DISTINCT s.identity) > 1 ORDER BY s.study"
        )
        return [
            f"the file of study '{study}' differs between {', '.join(self._names[i] for i in among)}; the version in "
            f"{self._names[latest]}, which ran last, is kept"
            for study, latest, among in rows
        ]

    def _different_items(self, table: Table, what: str) -> list[Conflict]:
        """Find models, or corpora, that differ between sources under one name, and drop those that are not preferred.

        Makes the table ``disputed_NAME`` of their keys.
        """
        key, name = ", ".join(table.key), table.name
        done = f"SELECT * FROM all_{name} WHERE status = 'done' AND identity IS NOT NULL"
        self._connection.execute(
            f"CREATE TEMP TABLE disputed_{name} AS SELECT {key} FROM ({done}) GROUP BY ALL "
            "HAVING count(DISTINCT identity) > 1"
        )
        rows = self._rows(
            f"SELECT {key}, list({{'source': source, 'value': identity}} ORDER BY source) FROM ({done}) "
            f"WHERE ({key}) IN (FROM disputed_{name}) GROUP BY ALL ORDER BY ALL"
        )
        if self._prefer is not None:
            self._connection.execute(
                f"CREATE TEMP TABLE out_{name} AS SELECT theirs.* FROM all_{name} AS theirs "
                f"JOIN (SELECT * FROM ({done}) WHERE source = {self._prefer}) AS ours USING ({key}) "
                f"WHERE theirs.identity IS DISTINCT FROM ours.identity AND ({key}) IN (FROM disputed_{name})"
            )
            same_item = " AND ".join(f"o.{part} = c.{part}" for part in table.key)
            for rows_of, condition in (("cells", f"o.study = c.study AND {_OF_CELL[name]}"), (name, same_item)):
                self._connection.execute(
                    f"DELETE FROM all_{rows_of} AS c WHERE EXISTS "
                    f"(SELECT 1 FROM out_{name} AS o WHERE o.source = c.source AND {condition})"
                )
        kinds = ("model", "checkpoint") if name == "models" else ("corpus",)
        return [
            self._conflict(
                ", ".join(f"{kind} '{part}'" for kind, part in zip(("study", *kinds), parts, strict=True)),
                f"the hash of its {what}",
                sides,
            )
            for *parts, sides in rows
        ]

    def _different_cells(self) -> list[Conflict]:
        """Find cells that two sources computed from different things, other than a disputed model or corpus."""
        disputed = " ".join(
            f"AND NOT EXISTS (SELECT 1 FROM disputed_{name} AS o WHERE o.study = c.study AND {condition})"
            for name, condition in _OF_CELL.items()
        )
        rows = self._rows(
            f"SELECT {_CELL}, list({{'source': source, 'value': fingerprint, 'inputs': inputs}} ORDER BY source) "
            f"FROM all_cells AS c WHERE status = 'done' AND fingerprint IS NOT NULL {disputed} "
            "GROUP BY ALL HAVING count(DISTINCT fingerprint) > 1 ORDER BY ALL"
        )
        conflicts = []
        for *key, sides in rows:
            inputs = [stored_json(side["inputs"] or "{}") for side in sides]
            parts = [
                part
                for part in sorted(set().union(*inputs))
                if len({_text(side_inputs.get(part)) for side_inputs in inputs}) > 1
            ]
            what = "the fingerprint"
            if parts:
                what = f"the input '{parts[0]}'"
                sides = [
                    side | {"value": _text(side_inputs.get(parts[0]))}
                    for side, side_inputs in zip(sides, inputs, strict=True)
                ]
            conflicts.append(self._conflict(_cell(key), what, sides, max(0, len(parts) - 1)))
        return conflicts

    def _different_numbers(self, table: Table) -> list[Conflict]:
        """Find cells that two sources computed from the same things, and whose numbers differ beyond rounding.

        Where the preferred source has such a cell, ``chosen_cells`` takes it from there.
        """
        pairs = self._rows(
            "SELECT DISTINCT c.source, a.source FROM chosen_cells AS c JOIN all_cells AS a "
            f"USING ({_CELL}, fingerprint, status) WHERE status = 'done' AND a.source != c.source ORDER BY ALL"
        )
        conflicts: list[Conflict] = []
        for ours, theirs in pairs:
            shared = [set(self._columns[i].get(table.name, ())) for i in (ours, theirs)]
            if all(shared):
                for row in self._rows(_differences_sql(table, shared[0] & shared[1], ours, theirs)):
                    conflicts.append(self._of_numbers(table, row, ours, theirs))
        return conflicts

    def _of_numbers(self, table: Table, row: Sequence[Any], ours: int, theirs: int) -> Conflict:
        parts = len(CellKey._fields)
        key, (in_ours, in_theirs, column, count, *values) = row[:parts], row[parts : parts + 6]
        places = [
            f"{name} {value}"
            for name, value in zip(table.key, row[parts + 6 :], strict=True)
            if value is not None and not any(name in table.holding(part) for part in CellKey._fields)
        ]
        rows = f"{table.name} ({', '.join(places)})" if places else table.name
        what = f"{column} of {rows}"
        if None in (in_ours, in_theirs):
            what, values = f"a row of {rows}", ["present" if is_in else "missing" for is_in in (in_ours, in_theirs)]
        if self._prefer in (ours, theirs):
            self._connection.execute(
                f"UPDATE chosen_cells SET source = ? WHERE ({_CELL}) = (?, ?, ?, ?, ?)", [self._prefer, *key]
            )
        sides = [{"source": source, "value": value} for source, value in zip((ours, theirs), values, strict=True)]
        return self._conflict(_cell(key), what, sides, count - 1)

    def _conflict(self, about: str, what: str, sides: Sequence[Mapping[str, Any]], more: int = 0) -> Conflict:
        ordered = sorted(sides, key=lambda side: (side["source"] != self._prefer, side["source"]))
        values = tuple((self._names[side["source"]], _shortened(_text(side["value"]))) for side in ordered)
        return Conflict(about, what, values, ordered[0]["source"] == self._prefer, more)


def _chosen(table: Table, source: int) -> str:
    """Return the SQL condition for the rows of a table that are taken from a source."""
    for kept in (Model.table, CorpusRow.table, StudyRow.table):
        if table is kept:
            key = ", ".join(table.key)
            return f"({key}) IN (SELECT ({key}) FROM chosen_{table.name} WHERE source = {source})"
    if table is CorpusText.table:
        return f"(study, corpus) IN (SELECT (study, corpus) FROM chosen_corpora WHERE source = {source})"
    if table is CellRow.table or table.name in number_tables():
        return f"({cell_in_sql(table)}) IN (SELECT ({_CELL}) FROM chosen_cells WHERE source = {source})"
    return f"study IN (SELECT study FROM all_studies GROUP BY study HAVING count(*) = 1 AND max(source) = {source})"


def _differences_sql(table: Table, columns: Set[str], ours: int, theirs: int) -> str:
    """Return SQL for the first difference of each cell whose rows differ between two sources.

    Its columns: the name of the cell, whether each source has the row, the name of the first column that differs, how
    many rows of the cell differ, both values as text, and the key of the row.
    """
    rest = [column for column in table.columns if column.name in columns and not column.key]
    cell = ", ".join(f'{part_in_sql(table, part)} AS "_{part}"' for part in CellKey._fields)
    cells = (
        f"SELECT ({_CELL}) FROM chosen_cells AS c JOIN all_cells AS a USING ({_CELL}, fingerprint, status) "
        f"WHERE status = 'done' AND c.source = {ours} AND a.source = {theirs}"
    )
    a, b = (
        f"(SELECT *, {cell}, true AS present FROM source_{source}.{table.name} "
        f"WHERE ({cell_in_sql(table)}) IN ({cells}))"
        for source in (ours, theirs)
    )
    on = " AND ".join(f'a."{key}" IS NOT DISTINCT FROM b."{key}"' for key in table.key)
    names = ", ".join(f'"_{part}"' for part in CellKey._fields)
    named = (*table.key, *(f"_{part}" for part in CellKey._fields))
    both = ", ".join(f'coalesce(a."{name}", b."{name}") AS "{name}"' for name in named)
    keys = ", ".join(f'"{key}"' for key in table.key)
    first = " ".join(f"WHEN {_differs(column)} THEN {{}}" for column in rest)
    column, left, right = (
        f"CASE {first.format(*values)} END" if rest else "NULL"
        for values in (
            [quoted(column.name) for column in rest],
            [f'a."{column.name}"::VARCHAR' for column in rest],
            [f'b."{column.name}"::VARCHAR' for column in rest],
        )
    )
    differ = " OR ".join(["a.present IS NULL", "b.present IS NULL", *map(_differs, rest)])
    return (
        f"SELECT {names}, in_a, in_b, what, count(*) OVER (PARTITION BY {names}), value_a, value_b, {keys} "
        f"FROM (SELECT {both}, a.present AS in_a, b.present AS in_b, {column} AS what, {left} AS value_a, "
        f"{right} AS value_b FROM {a} AS a FULL JOIN {b} AS b ON {on} WHERE {differ}) "
        f"QUALIFY row_number() OVER (PARTITION BY {names} ORDER BY {keys}) = 1 ORDER BY ALL"
    )


def _differs(column: Column) -> str:
    a, b = f'a."{column.name}"', f'b."{column.name}"'
    if column.type != "DOUBLE":
        return f"{a} IS DISTINCT FROM {b}"
    return f"({a} IS NULL) != ({b} IS NULL) OR abs({a} - {b}) > {SAME} * greatest(abs({a}), abs({b}), {SMALLEST})"


def _cell(key: Sequence[str]) -> str:
    return f"study '{key[0]}', cell {' × '.join(key[1:])}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN or not text.isalnum() else f"{text[:_SHOWN]}…"
