"""Texts from a file with one JSON object on each line (also gzipped)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from reporter.errors import ReporterError
from reporter.texts.chat import written
from reporter.texts.columns import require_column
from reporter.texts.record import Record
from reporter.texts.utf8 import lines


def read_json_lines(path: Path, column: str | None, label: str | None, chat: bool = False) -> Iterator[Record]:
    """Yield the values of a key; an object without it, or with null, has no text. Blank lines are skipped.

    Args:
        path: the file.
        column: the key that holds the texts.
        label: the key that holds the labels, or None; numbers and booleans are taken as they are written.
        chat: whether each value is a conversation, which is kept as JSON.

    Raises:
        ReporterError: the file cannot be read, a line is no JSON object, a text is no string, or a key is
            nowhere.
    """
    keys: dict[str, None] = {}  # in order of appearance: objects need not have the same keys
    for number, line in enumerate(lines(path), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        row = _parse(line, where)
        if column is None:
            require_column(None, list(row), str(path))
        keys.update(dict.fromkeys(row))
        value = row.get(str(column))
        yield Record(written(value, where) if chat else _text(value, str(column), where), _label(row, label, where))
    if keys:
        require_column(column, list(keys), str(path))
        if label is not None:
            require_column(label, list(keys), str(path), "label")


def _parse(line: str, where: str) -> dict[str, object]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ReporterError(f"{where}: not valid JSON ({error})") from error
    if not isinstance(row, dict):
        raise ReporterError(f'{where}: expected a JSON object such as {{"text": "…"}}, got {line.strip()[:40]}')
    return row


def _text(value: object, column: str, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise ReporterError(f"{where}: '{column}' is not text but {json.dumps(value)[:40]}")


def _label(row: dict[str, object], label: str | None, where: str) -> str | None:
    value = None if label is None else row.get(label)
    if isinstance(value, dict | list):
        raise ReporterError(f"{where}: the label '{label}' is not one value but {json.dumps(value)[:40]}")
    return value if value is None or isinstance(value, str) else json.dumps(value)
