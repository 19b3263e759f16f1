"""Prints a comparison as text or Markdown, or everything as JSON for programs."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from reporter.app.diff import Comparison
from reporter.app.diff.causes import Cause
from reporter.core.numbers import compared, counted, short, with_sign
from reporter.core.places import place
from reporter.judge.facts import with_analyses
from reporter.metrics.base import Statistic
from reporter.store.formats import Result, indented_table, plain, write

_LONG, _LEAD = 60, 20
Form = Literal["table", "markdown", "json"]


def show(comparison: Comparison, form: Form = "table", most: int = 20) -> str:
    """Return a comparison as text without a line break at its end; lists have at most ``most`` rows, but in JSON."""
    if form == "json":
        return _json(comparison)
    sections = [f"A  {comparison.a}\nB  {comparison.b}" if form == "table" else f"`{comparison.a}` → `{comparison.b}`"]
    for heading, text, result in _sections(comparison, most):
        title = f"{heading}: " * bool(heading) if form == "table" else f"### {heading}\n\n" * bool(heading)
        sections.append(f"{title}{text}{_rows(result, form) if result else ''}")
    return "\n\n".join(sections)


def _rows(result: Result, form: Form) -> str:
    if form == "markdown":
        return "\n\n" + write(result, "markdown").rstrip()
    return f"\n{indented_table(result)}"  # the heading has the number of rows


Section = tuple[str, str, Result | None]
"""A heading (empty for a caution), a sentence, and a table."""


def _sections(comparison: Comparison, most: int) -> Iterator[Section]:
    both = " | ".join(dict.fromkeys(filter(None, (comparison.a.model, comparison.b.model))))
    for title, changes, otherwise in (
        ("Study file", comparison.spec, "no difference"),
        ("Provenance", comparison.provenance, "models, corpora, options and versions are equal"),
    ):
        rows: list[tuple[Any, ...]] = [
            (_subject(change.where, both), *_values(change))
            for change in changes
            if not both or not change.where.endswith((" revision", " fingerprint"))  # two models always differ there
        ]
        changed = Result(("where", "A", "B"), rows, len(rows))
        yield _listed(title, changed, most) if rows else (title, otherwise, None)
    for note in comparison.notes:
        yield "", note, None
    summary = comparison.summary
    counts = {name: sum(row[i] for row in summary.rows) for i, name in enumerate(summary.columns) if i}
    total = ", ".join(f"{number:,} {name}" for name, number in counts.items() if number)
    zeros = {name for name, number in counts.items() if not number}
    yield "Numbers", total or "none", _without(summary, zeros) if comparison.numbers.rows else None
    yield from _changes(comparison, both, most)
    if comparison.verdicts.rows:
        yield _listed("Verdicts", comparison.verdicts, most)
    elif not both:
        yield "Verdicts", "none changed", None


def _subject(where: str, both: str) -> str:
    """Return what a change is about, without the names of two models that it is always about."""
    for name in (f" of {both}", f" {both}", f"{both}, ") if both else ():
        where = where.replace(name, "")
    return where


def _changes(comparison: Comparison, both: str, most: int) -> Iterator[Section]:
    differs, verb = ("Different", "differs") if both else ("Changed", "changed")
    by_chance = ". Intervals are 95 %, not corrected: chance alone gives 1 in 20 numbers."
    for title, header, with_interval, note in (
        (f"{differs} beyond their intervals", "beyond its interval", True, by_chance),
        (f"{differs}, without an interval", "", False, ""),
    ):
        if rows := list(_profiles(comparison, with_interval)):
            extent = (f"{verb} {header}".strip(), "by up to", "texts")
            columns = ("statistic", "name", "model", "checkpoint", "corpus", "token set", *extent)
            listed = _without(Result(columns, rows, len(rows)), {"model", "checkpoint"} if both else set())
            yield _listed(title, listed, most, counted(len(rows), "statistic"), note)
    numbers = comparison.numbers
    for title, prefix, names in (
        ("NULL on one side", "NULL", ("change", "metric", "statistic", "model", "corpus")),
        ("Only on one side", "only", ("change", "metric", "model", "corpus")),
    ):
        places = [numbers.columns.index(name) for name in names]
        groups = Counter(tuple(row[i] for i in places) for row in numbers.rows if row[places[0]].startswith(prefix))
        if groups:
            rows = [(*group, count) for group, count in groups.items()]
            listed = Result((*names, "numbers"), rows, len(rows))
            yield _listed(title, _without(listed, {"model"} if both else set()), most)


def _profiles(comparison: Comparison, with_interval: bool) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each statistic that changed: its names, at how many layers, by how much, and which interval."""
    statistics = with_analyses()
    profiles = comparison.profiles
    any_paired = any("paired" in row for row in profiles.rows)
    for row in (dict(zip(profiles.columns, values, strict=True)) for values in profiles.rows):
        if row["with_interval"] != with_interval:
            continue
        name = f"{row['metric']}.{row['statistic']}"
        statistic = statistics.get(name.removesuffix("_floor"))
        title = statistic.title + ", chance level" * name.endswith("_floor") if statistic else row["statistic"]
        checkpoint = None if row["checkpoint"] == "final" else row["checkpoint"]
        extent = (*_extent(row, statistic, comparison.blocks), row["texts"] if any_paired else None)
        yield title, name if statistic else row["metric"], row["model"], checkpoint, row["corpus"], row["view"], *extent


def _extent(row: Mapping[str, Any], statistic: Statistic | None, blocks: tuple[int, int] | None) -> tuple[str, str]:
    """Say at how many layers a statistic changed and by how much: ``at 5 of 7 layers``, ``+0.12 (layer 3: …)``."""
    step = statistic is not None and statistic.per == "step"
    unit = f" {statistic.unit}" if statistic is not None and statistic.unit else ""
    gap = row["delta"], row["ci_low"], row["ci_high"]
    b, a, delta = compared((row["b"], None, None), (row["a"], None, None), gap)
    delta, ends = f"{with_sign(row['delta'], delta)}{unit}", f"{a} → {b}"
    if row["layer"] is None or row["site"] == "final":
        return ("after the final norm" if row["site"] else "as a whole"), f"{delta} ({ends})"
    if row["layer_b"] is not None:
        where, kind = f"layers {row['layer']} and {row['layer_b']}", "pairs of layers"
    elif blocks:
        where, kind = f"depth {short(row['layer'] / min(blocks))}", "depths"
    else:
        where, kind = place(row["layer"], step), "blocks" if step else "layers"
    site = " after attention" * (row["site"] == "attention")
    if row["compared"] == 1:
        return f"at {where}{site}", f"{delta} ({ends})"
    return f"at {row['changed']} of {row['compared']} {kind}{site}", f"{delta} ({where}: {ends})"


def _values(change: Cause) -> list[str]:
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


def _listed(title: str, result: Result, most: int, count: str = "", note: str = "") -> Section:
    rows = result.rows[:most]
    rest = f", the first {most:,} shown; for more use --most N or --format json" if result.total > most else ""
    empty = {name for i, name in enumerate(result.columns) if all(row[i] is None for row in rows)}
    return (
        title,
        f"{count or f'{result.total:,}'}{rest}{note}",
        _without(Result(result.columns, rows, result.total), empty),
    )


def _without(result: Result, names: set[str]) -> Result:
    kept = [i for i, name in enumerate(result.columns) if name not in names]
    rows: Sequence[tuple[Any, ...]] = [tuple(row[i] for i in kept) for row in result.rows]
    return Result(tuple(result.columns[i] for i in kept), list(rows), result.total)


def _json(comparison: Comparison) -> str:
    whole: dict[str, Any] = {"a": str(comparison.a), "b": str(comparison.b)}
    for name in ("spec", "provenance"):
        whole[name] = [plain(vars(change)) for change in getattr(comparison, name)]
    for name in ("summary", "numbers", "profiles", "verdicts"):
        result = getattr(comparison, name)
        whole[name] = [plain(dict(zip(result.columns, row, strict=True))) for row in result.rows]
    whole["notes"] = comparison.notes
    return json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False)
