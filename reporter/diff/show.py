"""How a comparison is written: a summary for eyes, everything as CSV or JSON for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from reporter.diff.comparison import Comparison
from reporter.diff.page import page
from reporter.diff.spec import Change
from reporter.store.formats import Result, plain, write

MOST = 20
"""Rows of a list of changes in the format for eyes."""
_LONG, _LEAD = 60, 20
_TOGETHER = ("change", "metric", "model", "corpus")


def show(found: Comparison, form: Literal["table", "csv", "json", "html"] = "table", most: int = MOST) -> str:
    """Write a comparison.

    Args:
        found: what differs.
        form: ``table`` (a summary and the largest changes), ``csv`` (one row for each change), ``json`` (an object with
            the keys ``a``, ``b``, ``spec``, ``provenance``, ``summary``, ``numbers``, ``verdicts``) or ``html`` (a page
            that needs nothing beside it: the same as the table, and profiles of both sides).
        most: how many rows of each list the table or the page shows.

    Returns:
        The text, without a line break at its end.
    """
    if form == "json":
        return _json(found)
    if form == "html":
        return page(found, list(_sections(found, most)))
    if form == "csv":
        return write(_flat(found), "csv")
    return "\n\n".join(_sections(found, most))


def _sections(found: Comparison, most: int) -> Iterator[str]:
    yield f"A  {found.a}\nB  {found.b}"
    yield _changes("Spec", found.spec, most, "the study files say the same")
    yield _changes("Provenance", found.provenance, most, "the same models, corpora, options and versions")
    counts = {
        name: sum(row[place] for row in found.summary.rows) for place, name in enumerate(found.summary.columns) if place
    }
    yield f"Numbers: {', '.join(f'{number:,} {name}' for name, number in counts.items() if number) or 'none'}" + (
        "\n" + _table(_without_zeros(found.summary)) if found.numbers.rows else ""
    )
    yield from _numbers(found.numbers, counts["with interval"], most)
    if found.verdicts.rows:
        yield _listed("Verdicts", found.verdicts, most)
    else:
        yield "Verdicts: none is another one"


def _numbers(numbers: Result, with_interval: int, most: int) -> Iterator[str]:
    change, interval = numbers.columns.index("change"), numbers.columns.index("interval")
    moved = [row for row in numbers.rows if row[change] == "moved"]
    lists = (
        (
            f"Moved beyond their intervals (of {with_interval:,}; by chance 1 in 20 does, where texts or seeds differ)",
            [row for row in moved if row[interval] is not None],
            {"change", "relative"},
        ),
        (
            "Moved, without an interval",
            [row for row in moved if row[interval] is None],
            {"change", "interval", "intervals"},
        ),
        (
            "Became or was NULL",
            [row for row in numbers.rows if row[change].endswith("NULL")],
            {"delta", "interval", "intervals", "relative"},
        ),
    )
    for title, rows, drop in lists:
        if rows:
            yield _listed(title, _without(Result(numbers.columns, rows, len(rows)), drop), most)
    if lonely := _lonely(numbers):
        yield _listed("Only on one side", Result((*_TOGETHER, "numbers"), lonely, len(lonely)), most)


def _lonely(numbers: Result) -> list[tuple[Any, ...]]:
    """How many numbers only one side has, by metric, model and corpus: they come in hundreds."""
    places = [numbers.columns.index(name) for name in _TOGETHER]
    keys = (tuple(row[place] for place in places) for row in numbers.rows if row[0].startswith("only"))
    return [(*key, count) for key, count in Counter(keys).items()]


def _changes(title: str, changes: Sequence[Change], most: int, otherwise: str) -> str:
    if not changes:
        return f"{title}: {otherwise}"
    rows = [(change.where, *_cells(change.a, change.b)) for change in changes]
    return _listed(title, Result(("where", "A", "B"), rows, len(rows)), most)


def _cells(a: Any, b: Any) -> tuple[str, str]:
    """What both sides say, as a study file would; of long texts the part from where they differ."""
    said = [_said(a), _said(b)]
    pairs = enumerate(zip(*said, strict=False))
    common = next((place for place, (one, other) in pairs if one != other), min(map(len, said)))
    if common > _LEAD and max(map(len, said)) > _LONG:
        said = [f"…{text[common - _LEAD :]}" for text in said]
    return said[0], said[1]


def _said(value: Any) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)


def _listed(title: str, result: Result, most: int) -> str:
    shown = _without(Result(result.columns, result.rows[:most], result.total), _empty(result.rows[:most], result))
    rest = f", the first {most:,}; --most or --format csv shows more" if result.total > most else ""
    return f"{title}: {result.total:,}{rest}\n{_table(shown)}"


def _empty(rows: Sequence[tuple[Any, ...]], result: Result) -> set[str]:
    """Columns that say nothing here."""
    return {name for place, name in enumerate(result.columns) if all(row[place] is None for row in rows)}


def _without_zeros(summary: Result) -> Result:
    return _without(
        summary, {name for i, name in enumerate(summary.columns) if i and not any(row[i] for row in summary.rows)}
    )


def _without(result: Result, names: set[str]) -> Result:
    kept = [place for place, name in enumerate(result.columns) if name not in names]
    rows = [tuple(row[place] for place in kept) for row in result.rows]
    return Result(tuple(result.columns[place] for place in kept), rows, result.total)


def _table(result: Result) -> str:
    lines = write(result, "table").splitlines()[:-1]  # the count of rows stands in the heading
    return "\n".join(f"  {line}" for line in lines)


def _flat(found: Comparison) -> Result:
    """Every change as a row of one table; columns that do not apply are empty."""
    names = found.numbers.columns[1:]
    columns = ("part", "change", "where", *names)
    rows: list[tuple[Any, ...]] = []
    for part, changes in (("spec", found.spec), ("provenance", found.provenance)):
        for change in changes:
            kind = "only in B" if change.a is None else "only in A" if change.b is None else "changed"
            values = {"a": change.a, "b": change.b}
            rows.append((part, kind, change.where, *(values.get(name) for name in names)))
    rows += [("numbers", row[0], None, *row[1:]) for row in found.numbers.rows]
    for verdict in found.verdicts.rows:
        values = dict(zip(found.verdicts.columns, verdict, strict=True))
        where = values["claim"] + (f" ({values['baseline']})" if values["baseline"] else "")
        rows.append(("verdicts", "changed", where, *(values.get(name) for name in names)))
    return Result(columns, rows, len(rows))


def _json(found: Comparison) -> str:
    whole = {
        "a": str(found.a),
        "b": str(found.b),
        **{name: [vars(change) for change in getattr(found, name)] for name in ("spec", "provenance")},
        **{
            name: [dict(zip(result.columns, row, strict=True)) for row in result.rows]
            for name, result in (("summary", found.summary), ("numbers", found.numbers), ("verdicts", found.verdicts))
        },
    }
    lines = []
    for name, value in whole.items():
        if isinstance(value, list) and value:
            items = ",\n    ".join(json.dumps(plain(item), ensure_ascii=False, allow_nan=False) for item in value)
            lines.append(f'  "{name}": [\n    {items}\n  ]')
        else:
            lines.append(f'  "{name}": {json.dumps(value, ensure_ascii=False)}')
    return "{\n" + ",\n".join(lines) + "\n}"
