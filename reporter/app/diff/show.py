"""Prints a comparison as text or Markdown, or everything as JSON for programs."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from reporter.app.diff import Comparison
from reporter.app.diff.causes import Change
from reporter.store.formats import Result, plain, write

_LONG, _LEAD = 60, 20
_GROUP = ("change", "metric", "model", "corpus")
Form = Literal["table", "markdown", "json"]


def show(comparison: Comparison, form: Form = "table", most: int = 20) -> str:
    """Return a comparison as text without a line break at its end; lists have at most ``most`` rows, but in JSON."""
    if form == "json":
        return _json(comparison)
    sections = [f"A  {comparison.a}\nB  {comparison.b}" if form == "table" else f"`{comparison.a}` → `{comparison.b}`"]
    for heading, result in _sections(comparison, most):
        title = heading if form == "table" else f"### {heading}"
        sections.append(f"{title}{_rows(result, form) if result else ''}")
    return "\n\n".join(sections)


def _rows(result: Result, form: Form) -> str:
    if form == "markdown":
        return "\n\n" + write(result, "markdown").rstrip()
    lines = write(result, "table").splitlines()[:-1]  # the heading has the number of rows
    return "".join(f"\n  {line}" for line in lines)


def _sections(comparison: Comparison, most: int) -> Iterator[tuple[str, Result | None]]:
    for title, changes, otherwise in (
        ("Spec", comparison.spec, "the study files are equal"),
        ("Provenance", comparison.provenance, "the same models, corpora, options and versions"),
    ):
        rows: list[tuple[Any, ...]] = [(change.where, *_values(change)) for change in changes]
        changed = Result(("where", "A", "B"), rows, len(rows))
        yield _listed(title, changed, most) if rows else (f"{title}: {otherwise}", None)
    summary = comparison.summary
    counts = {name: sum(row[i] for row in summary.rows) for i, name in enumerate(summary.columns) if i}
    total = ", ".join(f"{number:,} {name}" for name, number in counts.items() if number)
    zeros = {name for name, number in counts.items() if not number}
    yield f"Numbers: {total or 'none'}", _without(summary, zeros) if comparison.numbers.rows else None
    yield from _moves(comparison.numbers, counts["with interval"], most)
    for note in comparison.notes:
        yield note, None
    if comparison.verdicts.rows:
        yield _listed("Verdicts", comparison.verdicts, most)
    else:
        yield "Verdicts: none changed", None


def _moves(numbers: Result, with_interval: int, most: int) -> Iterator[tuple[str, Result]]:
    change, interval = numbers.columns.index("change"), numbers.columns.index("interval")
    moved = [row for row in numbers.rows if row[change] == "moved"]
    by_chance = f"(of {with_interval:,}; by chance 1 in 20 does, where texts or seeds differ)"
    lists = {
        f"Moved beyond their intervals {by_chance}": (
            [row for row in moved if row[interval] is not None],
            {"change", "relative"},
        ),
        "Moved, without an interval": (
            [row for row in moved if row[interval] is None],
            {"change", "interval", "intervals"},
        ),
        "Became or was NULL": (
            [row for row in numbers.rows if row[change].endswith("NULL")],
            {"delta", "interval", "intervals", "relative"},
        ),
    }
    for title, (rows, hidden) in lists.items():
        if rows:
            yield _listed(title, _without(Result(numbers.columns, rows, len(rows)), hidden), most)
    places = [numbers.columns.index(name) for name in _GROUP]
    groups = Counter(tuple(row[i] for i in places) for row in numbers.rows if row[change].startswith("only"))
    if groups:
        rows = [(*group, count) for group, count in groups.items()]
        yield _listed("Only on one side", Result((*_GROUP, "numbers"), rows, len(rows)), most)


def _values(change: Change) -> list[str]:
    """Return both values of a change; long ones begin shortly before they differ."""
    texts = [
        "–" if value is None else value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)
        for value in (change.a, change.b)
    ]
    pairs = enumerate(zip(*texts, strict=False))
    common = next((i for i, (x, y) in pairs if x != y), min(map(len, texts)))
    if common > _LEAD and max(map(len, texts)) > _LONG:
        return [f"…{text[common - _LEAD :]}" for text in texts]
    return texts


def _listed(title: str, result: Result, most: int) -> tuple[str, Result]:
    rows = result.rows[:most]
    rest = f", the first {most:,}; --most N or --format json shows more" if result.total > most else ""
    empty = {name for i, name in enumerate(result.columns) if all(row[i] is None for row in rows)}
    return f"{title}: {result.total:,}{rest}", _without(Result(result.columns, rows, result.total), empty)


def _without(result: Result, names: set[str]) -> Result:
    kept = [i for i, name in enumerate(result.columns) if name not in names]
    rows: Sequence[tuple[Any, ...]] = [tuple(row[i] for i in kept) for row in result.rows]
    return Result(tuple(result.columns[i] for i in kept), list(rows), result.total)


def _json(comparison: Comparison) -> str:
    whole: dict[str, Any] = {"a": str(comparison.a), "b": str(comparison.b)}
    for name in ("spec", "provenance"):
        whole[name] = [plain(vars(change)) for change in getattr(comparison, name)]
    for name in ("summary", "numbers", "verdicts"):
        result = getattr(comparison, name)
        whole[name] = [plain(dict(zip(result.columns, row, strict=True))) for row in result.rows]
    whole["notes"] = comparison.notes
    return json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False)
