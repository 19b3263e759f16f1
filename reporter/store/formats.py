"""How a query's result is written: a table for eyes, CSV and JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Literal

Format = Literal["table", "csv", "json"]

TABLE_ROWS = 1000
_CELL_CHARACTERS = 60


@dataclass(frozen=True)
class Result:
    """What a query returned.

    Attributes:
        columns: Names of the columns.
        rows: Rows of plain Python values.
        total: How many rows there were; more than ``rows`` holds when the format shows only some.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    total: int


def write(result: Result, form: Format) -> str:
    """Writes a result.

    Args:
        result: The result.
        form: ``table``, ``csv`` or ``json``.

    Returns:
        The text, without a line break at its end.
    """
    if form == "csv":
        return "\r\n".join(_csv_line(row) for row in [result.columns, *result.rows])
    if form == "json":
        return _json(result)
    return _table(result)


def _table(result: Result) -> str:
    """Aligned columns; numbers to the right with 6 significant digits, long texts cut, NULL spelled out."""
    from rich.cells import cell_len  # the width in terminal cells, which wide letters fill two of

    head = [_visible(name) for name in result.columns]
    body = [[_shown(value) for value in row] for row in result.rows]
    right = [
        any(_is_number(row[i]) for row in result.rows)
        and all(row[i] is None or _is_number(row[i]) for row in result.rows)
        for i in range(len(head))
    ]
    widths = [max(map(cell_len, column)) for column in zip(head, *body, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = []
        for cell, width, to_the_right in zip(cells, widths, right, strict=True):
            blank = " " * (width - cell_len(cell))
            padded.append(blank + cell if to_the_right else cell + blank)
        return "  ".join(padded).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(head), rule, *map(line, body), _count(result)])


def _count(result: Result) -> str:
    if len(result.rows) < result.total:
        return f"({len(result.rows):,} of {result.total:,} rows; --format csv or json gives all)"
    return f"({result.total:,} {'row' if result.total == 1 else 'rows'})"


def _shown(value: Any) -> str:
    """A value in a table's cell."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | Decimal):
        return f"{value:.6g}"
    text = _visible(_text(value))
    return text if len(text) <= _CELL_CHARACTERS else text[: _CELL_CHARACTERS - 1] + "…"


def _visible(text: str) -> str:
    """Spells out what would move the cursor, change colours or hide text in a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _csv_line(row: Iterable[Any]) -> str:
    """One record after RFC 4180. NULL is an empty field, an empty text is ``""``."""
    fields = [_csv_field(value) for value in row]
    # A lone empty field would be an empty line, which readers skip.
    return '""' if fields == [""] else ",".join(fields)


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    text = _text(value)
    if text == "" or any(c in text for c in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def _json(result: Result) -> str:
    """An array of objects, one per line; of two columns with one name the second gets a number."""
    names: list[str] = []
    for name in result.columns:
        unique, number = name, 1
        while unique in names:
            unique, number = f"{name}_{number}", number + 1
        names.append(unique)
    objects = [
        json.dumps(dict(zip(names, map(plain, row), strict=True)), ensure_ascii=False, allow_nan=False)
        for row in result.rows
    ]
    return "[\n  " + ",\n  ".join(objects) + "\n]" if objects else "[]"


def plain(value: Any) -> Any:
    """Returns a value that JSON knows; NaN and infinity, which it does not know, become null."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, dict):
        return {_text(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return _text(value)


def _text(value: Any) -> str:
    """A value as text that loses nothing: floats with all their digits, times as ISO 8601."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict | list | tuple):
        return json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
    return str(value)
