"""What may enter a table: known columns, right types, finite numbers. A missing number is None, never NaN."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from reporter.store.keys import CellKey, CellName, part_of
from reporter.table import Table

if TYPE_CHECKING:
    import pandas as pd

_INTEGERS = {"INTEGER", "BIGINT"}
_PLAIN = {"DOUBLE": float, "INTEGER": int, "BIGINT": int, "BOOLEAN": bool, "VARCHAR": str}
_FRAME_TYPES = {
    "DOUBLE": "Float64",
    "INTEGER": "Int64",
    "BIGINT": "Int64",
    "TIMESTAMP": "datetime64[us]",
    "BOOLEAN": "boolean",
}


def clean_row(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """Checks one row before it is stored.

    Args:
        table: The table it goes to.
        row: Values by column; columns may be missing. Mappings and lists become JSON text.

    Returns:
        The same columns with plain Python values that DuckDB takes as they are.

    Raises:
        ValueError: An unknown column, a value of the wrong type, or NaN or infinity.
    """
    types = table.types
    if unknown := sorted(row.keys() - types.keys()):
        raise ValueError(f"table {table.name} has no column {', '.join(unknown)}; it has {', '.join(types)}")
    cleaned = dict(row)
    for name, value in row.items():
        kind = types[name]
        if type(value) is not _PLAIN.get(kind) or (
            isinstance(value, float) and not math.isfinite(value)
        ):  # almost never
            cleaned[name] = _clean(table.name, name, kind, value, row)
    return cleaned


def as_records(table: Table, values: pd.DataFrame | Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Turns numbers in either form into one mapping per row.

    Args:
        table: The table they go to.
        values: Mappings, or a frame. In a frame's plain float column a missing number cannot be told from
            NaN: it stays NaN (and is refused later), but in a column of whole numbers it is read as missing.

    Returns:
        One new mapping per row.
    """
    if isinstance(values, Sequence):
        return [dict(row) for row in values]
    import pandas as pd

    # pandas turns a column of whole numbers into floats as soon as one row has no such number.
    whole = {column.name for column in table.columns if column.type in _INTEGERS}
    columns: dict[str, list[Any]] = {}
    for name in values.columns:
        column = values[name]
        items = column.astype(object).tolist()
        if isinstance(column.dtype, pd.api.extensions.ExtensionDtype) or name in whole:
            gone = column.isna()
            items = [None if missing else item for item, missing in zip(items, gone, strict=True)]
        columns[str(name)] = items
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def as_frame(table: Table, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Packs cleaned rows into a frame that DuckDB appends in one go.

    Args:
        table: The table they go to.
        rows: Cleaned rows; a missing column is NULL.

    Returns:
        A frame with every column of the table, in its order, in types that know missing values.
    """
    import pandas as pd

    text = pd.StringDtype("python")
    return pd.DataFrame(
        {
            column.name: pd.Series([row.get(column.name) for row in rows], dtype=_FRAME_TYPES.get(column.type, text))
            for column in table.columns
        }
    )


def key_of(row: Mapping[str, Any]) -> CellKey:
    """Reads which cell a row belongs to.

    Args:
        row: A row of ``cells`` or ``layer_metrics``.

    Returns:
        The cell's key.

    Raises:
        ValueError: A part of the key is missing.
    """
    missing = [part for part in CellKey._fields if not row.get(part)]
    if missing:
        raise ValueError(f"a cell needs {', '.join(missing)}")
    return CellKey(*(row[part] for part in CellKey._fields))


def cell_of(table: Table, study: str, row: Mapping[str, Any]) -> CellKey:
    """Reads which cell a number belongs to, also where it compares two sides.

    Args:
        table: Its table.
        study: Its study, where the row does not say.
        row: A row of that table.

    Returns:
        The cell's key.

    Raises:
        ValueError: A part of the key is missing.
    """
    parts = {part: part_of(table, part, row) for part in CellName._fields}
    return key_of({"study": row.get("study", study), **parts})


def numbers_of(table: Table, key: CellKey, records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Checks that numbers belong to a cell and that none comes twice, and names the cell in each.

    Args:
        table: A table of numbers.
        key: The cell.
        records: Its rows; columns that the cell's own name fills may be missing.

    Returns:
        Cleaned rows with the whole key.

    Raises:
        ValueError: A number comes twice, belongs to another cell or cannot be stored.
    """
    filled = named(table, key)
    told = [column for column in table.key if column not in CellKey._fields]
    naming = ["study", *(column for part in CellName._fields for column in table.holding(part))]
    rows: list[dict[str, Any]] = []
    seen: set[tuple[Any, ...]] = set()
    ours: set[tuple[Any, ...]] = set()  # rows name their cell in few ways
    for record in records:
        row = {**filled, **clean_row(table, record)}
        who = tuple(row.get(column) for column in naming)
        if who not in ours:
            if (cell := cell_of(table, key.study, row)) != key:
                raise ValueError(f"a number of {tuple(cell)} was given for cell {tuple(key)}")
            ours.add(who)
        which = tuple(row.get(part) for part in told)
        if which in seen:
            raise ValueError(f"{dict(zip(told, which, strict=True))} comes twice in cell {tuple(key)}")
        seen.add(which)
        rows.append(row)
    return rows


def named(table: Table, key: CellKey) -> dict[str, str]:
    """Returns the columns that a cell's name fills; which side is which of two that are compared, it does not say."""
    holding = {part: table.holding(part) for part in CellKey._fields}
    return {columns[0]: getattr(key, part) for part, columns in holding.items() if len(columns) == 1}


def _clean(table: str, name: str, kind: str, value: Any, row: Mapping[str, Any]) -> Any:
    """One value as DuckDB shall see it."""
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return None
    try:
        if kind == "DOUBLE":
            number = float(value)
            if not math.isfinite(number):
                raise ValueError("a number that could not be computed is stored as None, with a reason")
            return number
        if kind in _INTEGERS:
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError("not a whole number")
            if int(value) != value:
                raise ValueError("not a whole number")
            return int(value)
        if kind == "TIMESTAMP":
            return _utc(value)
        if kind == "BOOLEAN":
            return _truth(value)
        return _text(value)
    except (TypeError, ValueError) as problem:
        where = ", ".join(f"{k}={v!r}" for k, v in row.items() if isinstance(v, str | int) and k != name)
        raise ValueError(f"{table}.{name} = {value!r}: {problem} (row: {where[:300]})") from problem


def _truth(value: Any) -> bool:
    if isinstance(value, bool) or type(value).__name__ in {"bool", "bool_"}:  # NumPy's own, too
        return bool(value)
    raise TypeError("neither true nor false")


def _utc(value: Any) -> datetime:
    if not isinstance(value, datetime):
        raise TypeError("not a datetime")
    return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value


def _text(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)
    raise TypeError("not a text")
