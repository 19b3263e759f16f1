"""What the numbers of two sides were made from: versions, models, corpora, options in effect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reporter.diff.spec import Change

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class _Recorded:
    """Rows of provenance: what they are called, by what they are told apart, and what identifies them.

    Columns that were measured on the way (seconds, self-test) say nothing about where numbers came from.
    """

    rows: str  # of one side, '$'
    noun: str
    subject: str
    within: tuple[str, ...]
    columns: tuple[str, ...]
    places: str = ""
    alone: bool = True  # whether a row that only one side has is worth telling; numbers that are not there are counted


_RECORDED = (
    _Recorded(
        "FROM $_models",
        "model",
        "model",
        ("checkpoint",),
        (
            *("source", "location", "revision", "fingerprint", "family", "role", "layers", "width", "parameters"),
            *("positions", "norm_placement", "last_hidden_state", "attention", "bos", "first_token", "sink_rule"),
            *("precision", "device", "base"),
            *("baseline", "scores", "status", "error"),
        ),
        "checkpoints",
    ),
    _Recorded(
        "FROM $_corpora",
        "corpus",
        "corpus",
        (),
        ("source", "location", "content_hash", "texts", "words", "dropped", "labels", "status", "error"),
    ),
    # all metrics of a checkpoint see the same tokens of a corpus; those that compare it count those of both sides
    _Recorded(
        "SELECT model, checkpoint, corpus, max(texts) AS texts, max(tokens) AS tokens, max(sinks) AS sinks, "
        "max(cut_texts) AS cut_texts FROM $_cells WHERE NOT coalesce(contains(inputs, 'pass of the second'), false) "
        "GROUP BY ALL",
        "input of",
        "model",
        ("checkpoint", "corpus"),
        ("texts", "tokens", "sinks", "cut_texts"),
        "inputs",
        alone=False,
    ),
    _Recorded(
        "FROM $_cells",
        "metric",
        "metric",
        ("model", "checkpoint", "corpus"),
        ("options", "status", "error"),
        "cells",
        alone=False,
    ),
)


def provenance_changes(connection: duckdb.DuckDBPyConnection) -> list[Change]:
    """Compare what two sides recorded.

    Args:
        connection: has the views of both sides.

    Returns:
        Versions, models, corpora, inputs and metrics. What differs at several checkpoints of a model, or in several
        cells of a metric, is told once: with its values at the first of them, and how many there are.
    """
    read = [connection.execute(f"SELECT versions FROM {side}_studies").fetchone() for side in "ab"]
    versions = [_mapping(row[0] if row else None) for row in read]
    changes = [Change(f"version of {name}", a, b) for name, a, b in _keys(*versions)]
    for recorded in _RECORDED:
        changes += _changes(connection, recorded)
    return changes


def _changes(connection: duckdb.DuckDBPyConnection, recorded: _Recorded) -> Iterator[Change]:
    found: dict[tuple[str, str], list[tuple[str, Any, Any]]] = {}
    for subject, place, column, a, b in _differing(connection, recorded):
        found.setdefault((subject, column), []).append((place, a, b))
    for (subject, column), places in found.items():
        place, a, b = places[0]
        words = [recorded.noun, subject, "" if place in ("", "final") else f"({place})", column]
        more = f", and {len(places) - 1} more {recorded.places}" if len(places) > 1 else ""
        yield Change(" ".join(word for word in words if word) + more, a, b)


def _differing(connection: duckdb.DuckDBPyConnection, recorded: _Recorded) -> Iterator[tuple[str, str, str, Any, Any]]:
    """Subject, place, column and both values, wherever they differ; no column where one side lacks the whole row."""
    keys = (recorded.subject, *recorded.within)
    sides = [
        f"(SELECT {', '.join(keys)}, struct_pack({', '.join(f'{c} := {c}' for c in recorded.columns)}) AS row_{side} "
        f"FROM ({recorded.rows.replace('$', side)}))"
        for side in "ab"
    ]
    rows = connection.execute(
        f"FROM {sides[0]} FULL JOIN {sides[1]} USING ({', '.join(keys)}) "
        f"SELECT {', '.join(keys)}, row_a, row_b WHERE row_a IS DISTINCT FROM row_b ORDER BY ALL"
    ).fetchall()
    for *key, a, b in rows:
        subject, place = key[0], ", ".join(part for part in key[1:] if part != "final")
        if a is None or b is None:
            if recorded.alone:
                yield subject, place, "", *("there" if side else None for side in (a, b))
            continue
        for column in recorded.columns:
            if column == "options":
                for name, *values in _keys(_mapping(a[column]), _mapping(b[column])):
                    yield subject, place, f"option {name}", *values
            elif a[column] != b[column]:
                yield subject, place, column, a[column], b[column]


def _keys(a: dict[str, Any], b: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for key in dict.fromkeys([*a, *b]):
        if a.get(key) != b.get(key):
            yield key, a.get(key), b.get(key)


def _mapping(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
