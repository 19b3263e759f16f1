"""What contradicts itself in databases that are to be merged: both values, and who says them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reporter.store.keys import CellKey, part_in_sql
from reporter.store.schema import Corpus, Model
from reporter.table import Table

if TYPE_CHECKING:
    import duckdb

SAME = 1e-5
"""Relative difference up to which one cell has the same number on two machines: rounding and threads make that."""
SMALLEST = 1e-3
"""Numbers below this size are compared as if they had it: what is left of a cancellation is rounding."""
_CELL = ", ".join(CellKey._fields)
_SHOWN = 16


@dataclass(frozen=True)
class Conflict:
    """Two folders that say different things of one thing.

    Args:
        about: what they speak of: a model, a corpus or a cell.
        what: what of it differs.
        values: each side's folder and what it says; the side that is taken comes first where that is decided.
        decided: whether a folder that was preferred decides it.
        more: how many further numbers of the same cell differ.
    """

    about: str
    what: str
    values: tuple[tuple[str, str], ...]
    decided: bool = False
    more: int = 0

    def __str__(self) -> str:
        said = ", ".join(f"{value} in {folder}" for folder, value in self.values)
        more = f" (and {self.more} more of this cell)" if self.more else ""
        return f"{self.about}: {self.what} is {said}{more}" + ("; the first is taken" if self.decided else "")


def different_items(
    connection: duckdb.DuckDBPyConnection, name: str, what: str, names: Sequence[str], prefer: int | None
) -> list[Conflict]:
    """Find models, or corpora, that are not the same in two sources under one name.

    Makes the table ``out_NAME``: whose of them are left out because another source is preferred, and
    ``disputed_NAME``: which of them are in a conflict.

    Args:
        connection: with the table ``all_NAME``: source, key, ``identity`` and status.
        name: ``models`` or ``corpora``.
        what: what their identity is one of.
        names: what the sources are called.
        prefer: the source that decides.
    """
    columns = (Model if name == "models" else Corpus).table.key
    key = ", ".join(columns)
    done = f"SELECT * FROM all_{name} WHERE status = 'done' AND identity IS NOT NULL"
    connection.execute(
        f"CREATE TEMP TABLE disputed_{name} AS SELECT {key} FROM ({done}) GROUP BY ALL "
        "HAVING count(DISTINCT identity) > 1"
    )
    ours = f"SELECT * FROM ({done}) WHERE source = {-1 if prefer is None else prefer}"
    connection.execute(
        f"CREATE TEMP TABLE out_{name} AS SELECT theirs.* FROM all_{name} AS theirs "
        f"JOIN ({ours}) AS ours USING ({key}) "
        f"WHERE theirs.identity IS DISTINCT FROM ours.identity AND ({key}) IN (FROM disputed_{name})"
    )
    rows = connection.execute(
        f"SELECT {key}, list({{'source': source, 'says': identity}} ORDER BY source) FROM ({done}) "
        f"WHERE ({key}) IN (FROM disputed_{name}) GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    found = []
    for *parts, sides in rows:
        study, item = parts[0], " ".join(f"'{part}'" for part in parts[1:])
        about = f"study '{study}', {'model' if name == 'models' else 'corpus'} {item}"
        found.append(_conflict(about, f"the hash of its {what}", sides, names, prefer))
    return found


def different_cells(connection: duckdb.DuckDBPyConnection, names: Sequence[str], prefer: int | None) -> list[Conflict]:
    """Find cells that two sources computed from different things, other than a model or corpus that is named already.

    Args:
        connection: with the tables ``all_cells``, ``disputed_models`` and ``disputed_corpora``.
        names: what the sources are called.
        prefer: the source that decides.
    """
    rows = connection.execute(
        f"SELECT {_CELL}, list({{'source': source, 'says': fingerprint, 'inputs': inputs}} ORDER BY source) "
        "FROM all_cells AS c WHERE status = 'done' AND fingerprint IS NOT NULL "
        "AND NOT EXISTS (SELECT 1 FROM disputed_models AS d WHERE d.study = c.study "
        "AND list_contains(string_split(c.model, ' | '), d.model) "
        "AND list_contains(string_split(c.checkpoint, ' | '), d.checkpoint)) "
        "AND NOT EXISTS (SELECT 1 FROM disputed_corpora AS d WHERE d.study = c.study "
        "AND list_contains(string_split(c.corpus, ' | '), d.corpus)) "
        "GROUP BY ALL HAVING count(DISTINCT fingerprint) > 1 ORDER BY ALL"
    ).fetchall()
    found = []
    for *key, sides in rows:
        read = [json.loads(side["inputs"] or "{}") for side in sides]
        parts = [part for part in sorted(set().union(*read)) if len({_said(one.get(part)) for one in read}) > 1]
        part = parts[0] if parts else ""
        if part:
            sides = [side | {"says": _said(one.get(part))} for side, one in zip(sides, read, strict=True)]
        what = f"'{part}', which its numbers depend on," if part else "the hash of what its numbers depend on"
        found.append(_conflict(_cell(key), what, sides, names, prefer, max(0, len(parts) - 1)))
    return found


def compare_numbers(
    connection: duckdb.DuckDBPyConnection,
    table: Table,
    columns: Mapping[int, Set[str]],
    names: Sequence[str],
    prefer: int | None,
) -> list[Conflict]:
    """Find cells that two sources computed from the same things, and whose numbers differ beyond rounding.

    Where the preferred source has such a cell, ``chosen_cells`` takes it from there.

    Args:
        connection: with the tables ``all_cells`` and ``chosen_cells``.
        table: a table of numbers.
        columns: the columns that each source has of it.
        names: what the sources are called.
        prefer: the source that decides.
    """
    pairs = connection.execute(
        "SELECT DISTINCT c.source, a.source FROM chosen_cells AS c JOIN all_cells AS a "
        f"USING ({_CELL}, fingerprint, status) WHERE status = 'done' AND a.source != c.source ORDER BY ALL"
    ).fetchall()
    found: list[Conflict] = []
    for ours, theirs in pairs:
        if ours not in columns or theirs not in columns:
            continue
        there = [column for column in table.columns if column.name in columns[ours] & columns[theirs]]
        rest = [column for column in there if not column.key]
        differs = [_differs(column.name, column.type) for column in rest]
        cell = ", ".join(f'{part_in_sql(table, part)} AS "_{part}"' for part in CellKey._fields)
        shared = (
            f"SELECT {_CELL} FROM chosen_cells AS c JOIN all_cells AS a USING ({_CELL}, fingerprint, status) "
            f"WHERE status = 'done' AND c.source = {ours} AND a.source = {theirs}"
        )
        parts = ", ".join(part_in_sql(table, part) for part in CellKey._fields)
        a, b = (
            f"(SELECT *, {cell}, true AS there FROM source_{i}.{table.name} "
            f"WHERE ({parts}) IN (SELECT ({_CELL}) FROM ({shared})))"
            for i in (ours, theirs)
        )
        on = " AND ".join(f'a."{key}" IS NOT DISTINCT FROM b."{key}"' for key in table.key)
        both = "".join(f', a."{column.name}" AS a_{n}, b."{column.name}" AS b_{n}' for n, column in enumerate(rest))
        keys = ", ".join(f'coalesce(a."{key}", b."{key}") AS "{key}"' for key in table.key)
        of_cell = ", ".join(f'coalesce(a."_{part}", b."_{part}") AS "_{part}"' for part in CellKey._fields)
        names_of_cell = ", ".join(f'"_{part}"' for part in CellKey._fields)
        order = ", ".join(f'"{key}"' for key in table.key)
        rows = connection.execute(
            f"SELECT *, count(*) OVER (PARTITION BY {names_of_cell}) FROM (SELECT {of_cell}, "
            f"a.there AS in_a, b.there AS in_b, {keys}{both} FROM {a} AS a FULL JOIN {b} AS b ON {on} "
            f"WHERE {' OR '.join(['a.there IS NULL', 'b.there IS NULL', *differs])}) "
            f"QUALIFY row_number() OVER (PARTITION BY {names_of_cell} ORDER BY {order}) = 1 ORDER BY ALL"
        ).fetchall()
        for row in rows:
            key, (in_a, in_b), rest_of = row[:5], row[5:7], row[7 : 7 + len(table.key)]
            pairs_of = list(zip(row[7 + len(table.key) : -1 : 2], row[8 + len(table.key) : -1 : 2], strict=True))
            what, said = _first_difference(table, rest_of, rest, pairs_of, (in_a, in_b))
            sides = [{"source": i, "says": text} for i, text in zip((ours, theirs), said, strict=True)]
            decided = prefer in (ours, theirs)
            if decided:
                connection.execute(
                    f"UPDATE chosen_cells SET source = ? WHERE ({_CELL}) = (?, ?, ?, ?, ?)", [prefer, *key]
                )
            found.append(_conflict(_cell(key), what, sides, names, prefer, row[-1] - 1))
    return found


def _differs(name: str, type: str) -> str:
    a, b = f'a."{name}"', f'b."{name}"'
    if type != "DOUBLE":
        return f"{a} IS DISTINCT FROM {b}"
    return f"({a} IS NULL) != ({b} IS NULL) OR abs({a} - {b}) > {SAME} * greatest(abs({a}), abs({b}), {SMALLEST})"


def _first_difference(
    table: Table, key: Sequence[Any], columns: Sequence[Any], values: Sequence[tuple[Any, Any]], there: Sequence[Any]
) -> tuple[str, tuple[str, str]]:
    """Return what differs first between two rows, in words, and what each of them says."""
    cell = {name for part in CellKey._fields for name in table.holding(part)}
    where = ", ".join(
        f"{name} {value}" for name, value in zip(table.key, key, strict=True) if name not in cell and value is not None
    )
    of = f"{table.name} ({where})" if where else table.name
    if None in there:
        return f"a row of {of}", tuple("missing" if one is None else "there" for one in there)  # type: ignore[return-value]
    for column, (a, b) in zip(columns, values, strict=True):
        differ = (
            a != b if column.type != "DOUBLE" or None in (a, b) else (abs(a - b) > SAME * max(abs(a), abs(b), SMALLEST))
        )
        if differ:
            return f"{column.name} of {of}", (_said(a), _said(b))
    raise AssertionError("two rows that differ in nothing")


def _conflict(
    about: str, what: str, sides: Sequence[Mapping[str, Any]], names: Sequence[str], prefer: int | None, more: int = 0
) -> Conflict:
    ordered = sorted(sides, key=lambda side: (side["source"] != prefer, side["source"]))
    values = tuple((names[side["source"]], _short(side["says"])) for side in ordered)
    return Conflict(about, what, values, bool(ordered and ordered[0]["source"] == prefer), more)


def _cell(key: Sequence[str]) -> str:
    return f"study '{key[0]}', cell {' × '.join(key[1:])}"


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _short(text: str) -> str:
    """A hash is told from another one by its beginning."""
    return text if len(text) <= _SHOWN or not text.isalnum() else f"{text[:_SHOWN]}…"
