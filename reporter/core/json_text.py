"""JSON of other people and programs: read without surprises, or refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reporter.core.errors import ReporterError, first_line

MOST_DEEP = 100
"""Lists and mappings inside each other, in YAML and JSON of other people; a study needs seven, a tokenizer ten."""


def parse_json(text: str) -> Any:
    """Return the value of a JSON text of other people.

    Raises:
        ValueError: it is no JSON, or nested so deeply that Python could not walk through it.
    """
    too_deep = f"lists and mappings are nested more than {MOST_DEEP} deep"
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError(too_deep) from None
    if max(text.count("["), text.count("{")) * 2 > MOST_DEEP:
        level, depth = [content], 0
        while level := [value for value in level if isinstance(value, dict | list)]:
            depth += 1
            if depth > MOST_DEEP:
                raise ValueError(too_deep)
            level = [inner for value in level for inner in (value.values() if isinstance(value, dict) else value)]
    return content


def stored_json(text: str | None) -> Any:
    """Return the value of JSON that a database holds; None for NULL.

    Raises:
        ReporterError: another program wrote it, and it is no JSON or nested very deeply.
    """
    try:
        return None if text is None else parse_json(text)
    except ValueError as error:
        raise ReporterError(f"the database was changed by another program: a value is no JSON ({error})") from None


def require_json(path: Path, remedy: str) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        ReporterError: there is none, or it cannot be read; the message ends with the remedy.
    """
    try:
        content = parse_json(path.read_text("utf-8"))
    except OSError as error:
        raise ReporterError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, MemoryError) as error:
        raise ReporterError(f"cannot read {path}: {first_line(error)}; {remedy}") from error
    if not isinstance(content, dict):
        raise ReporterError(f"cannot read {path}: it is no JSON object; {remedy}")
    return content


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; None where there is none, or it cannot be read."""
    try:
        return require_json(path, "")
    except ReporterError:
        return None
