"""Rows of the tables: how a cell is named, which values may be stored, and the order in which readers see rows.

A number that could not be computed is None, never NaN.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from reporter.core.table import Table
from reporter.study.yaml_reader import read_yaml

if TYPE_CHECKING:
    import pandas as pd

Row = TypeVar("Row", bound=Mapping[str, Any])

_INTEGERS = {"INTEGER", "BIGINT"}
_PLAIN = {"DOUBLE": float, "INTEGER": int, "BIGINT": int, "BOOLEAN": bool, "VARCHAR": str}
_FRAME_TYPES = {
    "DOUBLE": "Float64",
    "INTEGER": "Int64",
    "BIGINT": "Int64",
    "TIMESTAMP": "datetime64[us]",
    "BOOLEAN": "boolean",
    "SMALLINT[]": "object",
}


class CellName(NamedTuple):
    """A cell inside its study."""

    model: str
    checkpoint: str
    corpus: str
    metric: str

    def __str__(self) -> str:
        return " × ".join(self)


class CellKey(NamedTuple):
    """A cell anywhere in the database."""

    study: str
    model: str
    checkpoint: str
    corpus: str
    metric: str


@dataclass(frozen=True)
class CellRecord:
    """A cell that ran.

    Args:
        fingerprint: hash of everything its numbers depend on.
        status: ``done`` or ``failed``.
        error: why it failed; None where it did not.
        inputs: JSON object, what the fingerprint is a hash of part by part, to say why a cell must run again.
    """

    fingerprint: str | None
    status: str
    error: str | None
    inputs: str | None


def joined(a: str, b: str) -> str:
    """Return the name of two sides of a comparison: ``a | b``, or ``a`` where both are equal."""
    return a if a == b else f"{a} | {b}"


def part_in_sql(table: Table, part: str) -> str:
    """Return SQL for a part of a row's cell: ``study``, ``model``, ``checkpoint``, ``corpus`` or ``metric``."""
    match table.holding(part):
        case (column,):
            return column
        case (a, b):  # as ``joined`` does
            return f"CASE WHEN {a} = {b} THEN {a} ELSE {a} || ' | ' || {b} END"
        case _:
            return f"'{table.fixed[part]}'"


def cell_in_sql(table: Table) -> str:
    """Return SQL for the whole name of a row's cell."""
    return ", ".join(part_in_sql(table, part) for part in CellKey._fields)


def clean_row(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with plain Python values that DuckDB takes; mappings and lists become JSON text.

    Raises:
        ValueError: an unknown column, a value of the wrong type, or NaN or infinity.
    """
    types = table.types
    if unknown := sorted(row.keys() - types.keys()):
        raise ValueError(f"table {table.name} has no column {', '.join(unknown)}; it has {', '.join(types)}")
    cleaned = dict(row)
    for name, value in row.items():
        kind = types[name]
        if type(value) is not _PLAIN.get(kind) or (isinstance(value, float) and not math.isfinite(value)):  # rarely
            cleaned[name] = _clean(table.name, name, kind, value, row)
    return cleaned


def as_frame(table: Table, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return cleaned rows as a frame, which DuckDB appends in one go; a column that no row has is left out."""
    import pandas as pd

    text = pd.StringDtype("python")
    return pd.DataFrame(
        {
            column.name: pd.Series([row.get(column.name) for row in rows], dtype=_FRAME_TYPES.get(column.type, text))
            for column in table.columns
            if any(column.name in row for row in rows)
        }
    )


def key_of(row: Mapping[str, Any]) -> CellKey:
    """Return the cell of a row. Raises ``ValueError`` where a part of its name is missing."""
    missing = [part for part in CellKey._fields if not row.get(part)]
    if missing:
        raise ValueError(f"a cell has no {', '.join(missing)}; set each of them")
    return CellKey(*(row[part] for part in CellKey._fields))


def _cell_of(table: Table, study: str, row: Mapping[str, Any]) -> CellKey:
    parts: dict[str, Any] = {"study": row.get("study", study)}
    for part in CellName._fields:
        sides = [row.get(column) for column in table.holding(part)] or [table.fixed.get(part)]
        parts[part] = None if None in sides else joined(str(sides[0]), str(sides[-1]))
    return key_of(parts)


def numbers_of(table: Table, key: CellKey, records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the cleaned rows of a cell's numbers, each with the columns that the cell's name fills.

    Raises:
        ValueError: a number comes twice, belongs to another cell or cannot be stored.
    """
    holding = {part: table.holding(part) for part in CellKey._fields}
    filled = {columns[0]: getattr(key, part) for part, columns in holding.items() if len(columns) == 1}
    within = [column for column in table.key if column not in CellKey._fields]
    naming = ["study", *(column for part in CellName._fields for column in holding[part])]
    rows: list[dict[str, Any]] = []
    places: set[tuple[Any, ...]] = set()
    checked: set[tuple[Any, ...]] = set()  # rows name their cell in few ways
    for record in records:
        row = {**filled, **clean_row(table, record)}
        name = tuple(row.get(column) for column in naming)
        if name not in checked:
            if (cell := _cell_of(table, key.study, row)) != key:
                raise ValueError(f"a number of cell {tuple(cell)} was given for cell {tuple(key)}")
            checked.add(name)
        place = tuple(row.get(column) for column in within)
        if place in places:
            raise ValueError(f"{dict(zip(within, place, strict=True))} occurs twice in cell {tuple(key)}")
        places.add(place)
        rows.append(row)
    return rows


def _clean(table: str, name: str, kind: str, value: Any, row: Mapping[str, Any]) -> Any:
    if value is None:
        return None
    try:
        if kind == "DOUBLE":
            if not math.isfinite(number := float(value)):
                raise ValueError("not a finite number; return None with a reason for a number that cannot be computed")
            return number
        if kind in _INTEGERS:
            if not math.isfinite(value) or int(value) != value:
                raise ValueError("not a whole number")
            return int(value)
        if kind == "SMALLINT[]":
            return [int(number) for number in value]
        if kind == "TIMESTAMP":
            if not isinstance(value, datetime):
                raise TypeError("not a datetime")
            return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        if kind == "BOOLEAN":
            if type(value).__name__ not in {"bool", "bool_"}:  # NumPy's own, too
                raise TypeError("neither true nor false")
            return bool(value)
        if isinstance(value, Mapping | list | tuple):
            return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)
        if not isinstance(value, str):
            raise TypeError("not text")
        return str(value)
    except (TypeError, ValueError) as problem:
        where = ", ".join(f"{k}={v!r}" for k, v in row.items() if isinstance(v, str | int) and k != name)
        raise ValueError(f"{table}.{name} = {value!r}: {problem} (row: {where[:300]})") from problem


@lru_cache(maxsize=4)
def spec_of(text: str | None) -> Mapping[str, Any]:
    """Return the stored text of a study as a mapping; empty if it can no longer be read. Each answer asks for it."""
    document = read_yaml(text or "")
    return document.data if not document.problems and isinstance(document.data, dict) else {}


def texts_are_fixed(spec: str | None) -> bool:
    """Tell whether a study says that its texts are no sample of others (``texts: fixed``)."""
    return spec_of(spec).get("texts") == "fixed"


def order_of(spec: str | None) -> dict[str, list[str]]:
    """Return the names of models, corpora, groups and concepts of pairs in the order of a study file.

    Args:
        spec: the text of the file; no names where it cannot be read any more.
    """
    whole = spec_of(spec)
    sections = {key: whole.get(key) for key in ("models", "corpora", "groups", "pairs")}
    parts = {key: part if isinstance(part, dict) else {} for key, part in sections.items()}
    parts["pairs"] = {name: None for pairs in parts["pairs"].values() if isinstance(pairs, dict) for name in pairs}
    return {key: [str(name) for name in part] for key, part in parts.items()}


def in_order(rows: Iterable[Row], column: str, names: Sequence[str]) -> list[Row]:
    """Return rows in the order of the study file, unknown names last.

    A null baseline comes after its model, a share of a corpus (``tweets.joy``) after the whole.

    Args:
        rows: of models or of corpora.
        column: which of their columns has the name.
        names: the names in the order of the file.
    """
    positions = {name: number for number, name in enumerate(names)}

    def position(row: Row) -> int:
        name = str(row["base"] if row.get("baseline") else row.get(column))
        return positions.get(name, positions.get(name.rpartition(".")[0], len(positions)))

    return sorted(rows, key=position)


def as_named(rows: Iterable[Row], order: Mapping[str, Sequence[str]]) -> list[Row]:
    """Return rows by model and then by corpus, in the order that :func:`order_of` returned."""
    return in_order(in_order(rows, "corpus", order["corpora"]), "model", order["models"])
