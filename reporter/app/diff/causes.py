"""Differences in the study files and in the provenance of two sides.

Study files are compared by meaning, key by key: order of keys, comments, quotes and layout do not matter.
``bert: some/id`` equals ``bert: {hub: some/id}``, and an item ``{lens: {…}}`` of a list of names is found by its name.
A key without a value equals a missing key; defaults are not filled in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from reporter.core.json_text import stored_json
from reporter.core.places import TOKEN_SETS
from reporter.study.problems import Location, show_location
from reporter.study.yaml_reader import read_yaml

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Cause:
    """A difference: its path in the study file or its name in the provenance, and both values (None: nothing)."""

    where: str
    a: Any
    b: Any


def spec_changes(a: str | None, b: str | None) -> list[Cause]:
    """Return one change for each key that differs, or a single one if a text cannot be read."""
    if a == b:
        return []
    documents = [read_yaml(text or "") for text in (a, b)]
    readable = [not document.problems and isinstance(document.data, dict) for document in documents]
    if not all(readable):
        states = [
            "a study" if text and good else "not readable" if text else "nothing"
            for good, text in zip(readable, (a, b), strict=True)
        ]
        return [Cause("(the whole study file)", *states)]
    return list(_compare(documents[0].data, documents[1].data, ()))


def _compare(a: Any, b: Any, path: Location) -> Iterator[Cause]:
    if len(path) == 2 and path[0] == "models":
        a, b = ({"hub": side} if isinstance(side, str) else side for side in (a, b))
    if isinstance(a, list) and isinstance(b, list):
        names_a, names_b = _by_name(a), _by_name(b)
        if names_a is None or names_b is None:
            yield from _compare_items(a, b, path)
            return
        shared = [[name for name in names_a if name in names_b], [name for name in names_b if name in names_a]]
        if shared[0] != shared[1]:
            yield Cause(f"{show_location(path)} (order)", *shared)
        a, b = names_a, names_b
    if isinstance(a, dict) and isinstance(b, dict):
        for key in dict.fromkeys([*a, *b]):
            yield from _compare(a.get(key), b.get(key), (*path, key))
    elif _canonical(a) != _canonical(b):
        yield Cause(show_location(path), *("listed" if side == {} else side for side in (a, b)))


def _compare_items(a: list[Any], b: list[Any], path: Location) -> Iterator[Cause]:
    """Align two lists; an inserted or removed item does not change those behind it."""
    texts = [[_canonical(item) for item in side] for side in (a, b)]
    for _, start, stop, other, end in SequenceMatcher(None, texts[0], texts[1], autojunk=False).get_opcodes():
        for i in range(max(stop - start, end - other)):
            first = a[start + i] if start + i < stop else None
            two = b[other + i] if other + i < end else None
            yield from _compare(first, two, (*path, start + i))


def _by_name(items: list[Any]) -> dict[str, Any] | None:
    names: dict[str, Any] = {}
    for item in items:
        name, options = next(iter(item.items())) if isinstance(item, dict) and len(item) == 1 else (item, {})
        if not isinstance(name, str) or name in names:
            return None
        if " " in name and name not in TOKEN_SETS:  # sentences are known by their position
            return None
        names[name] = options or {}
    return names


def _canonical(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)


@dataclass(frozen=True)
class _Recorded:
    """Rows of provenance, in SQL with ``$`` for the side; measurements of the run (seconds, self-test) are left out.

    ``plural`` counts further rows with the same change. ``alone``: a row of one side only is a change too.
    """

    rows: str
    noun: str
    keys: str
    columns: str
    plural: str = ""
    alone: bool = True


_RECORDED = (
    _Recorded(
        "FROM $_models",
        "model",
        "model, checkpoint",
        "source, location, revision, fingerprint, family, role, layers, width, parameters, positions, norm_placement, "
        "last_hidden_state, attention, bos, first_token, sink_rule, precision, device, base, baseline, scores, status, "
        "error",
        "checkpoints",
    ),
    _Recorded(
        "FROM $_corpora",
        "corpus",
        "corpus",
        "source, location, content_hash, texts, words, dropped, labels, status, error",
    ),
    # all metrics of a checkpoint see the same tokens of a corpus; those that compare it count those of both sides
    _Recorded(
        "SELECT model, checkpoint, corpus, max(texts) AS texts, max(tokens) AS tokens, max(sinks) AS sinks, "
        "max(cut_texts) AS cut_texts FROM $_cells WHERE NOT coalesce(contains(inputs, 'compared with'), false) "
        "GROUP BY ALL",
        "input of",
        "model, checkpoint, corpus",
        "texts, tokens, sinks, cut_texts",
        "inputs",
        alone=False,
    ),
    _Recorded(
        "FROM $_cells", "metric", "metric, model, checkpoint, corpus", "options, status, error", "cells", alone=False
    ),
)


def provenance_changes(connection: duckdb.DuckDBPyConnection) -> list[Cause]:
    """Return changes of versions, models, corpora, inputs and metrics.

    A change at several checkpoints of a model, or in several cells of a metric, is listed once, with its first values.
    """
    rows = [connection.execute(f"SELECT versions FROM {side}_studies").fetchone() for side in "ab"]
    versions = [_mapping(row[0] if row else None) for row in rows]
    changes = [Cause(f"version of {name}", a, b) for name, a, b in _differences(*versions)]
    for recorded in _RECORDED:
        groups: dict[tuple[str, str], list[tuple[str, Any, Any]]] = {}
        for subject, place, column, a, b in _differing(connection, recorded):
            groups.setdefault((subject, column), []).append((place, a, b))
        for (subject, column), places in groups.items():
            place, a, b = places[0]
            name = " ".join(filter(None, (recorded.noun, subject, place and f"({place})", column)))
            more = f", and {len(places) - 1} more {recorded.plural}" if len(places) > 1 else ""
            changes.append(Cause(name + more, a, b))
    return changes


def _differing(connection: duckdb.DuckDBPyConnection, recorded: _Recorded) -> Iterator[tuple[str, str, str, Any, Any]]:
    """Yield subject, place, column and both values of each difference; no column if a side lacks the row."""
    keys = recorded.keys
    columns = ", ".join(f"{column} := {column}" for column in recorded.columns.split(", "))
    packed = f"(SELECT {keys}, struct_pack({columns}) AS row_$ FROM ({recorded.rows}))"
    sides = f"{packed.replace('$', 'a')} FULL JOIN {packed.replace('$', 'b')}"
    query = f"FROM {sides} USING ({keys}) SELECT {keys}, row_a, row_b"
    rows = connection.execute(f"{query} WHERE row_a IS DISTINCT FROM row_b ORDER BY ALL").fetchall()
    for subject, *names, a, b in rows:
        place = ", ".join(name for name in names if name != "final")
        if a is None or b is None:
            if recorded.alone:
                yield subject, place, "", *("present" if side else None for side in (a, b))
            continue
        for column, first, two in _differences(a, b):
            if column != "options":
                yield subject, place, column, first, two
                continue
            for option, *values in _differences(_mapping(first), _mapping(two)):
                yield subject, place, f"option {option}", *values


def _differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    return [(key, a.get(key), b.get(key)) for key in dict.fromkeys([*a, *b]) if a.get(key) != b.get(key)]


def _mapping(text: str | None) -> dict[str, Any]:
    try:
        content = stored_json(text or "{}")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
