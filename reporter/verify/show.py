"""How a second opinion is written: a table for eyes, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from reporter.store.formats import Result, plain, write
from reporter.verify.verification import Verification

NEVER = (
    "Intervals, floors, differences between corpora, correlations, claims and analyses (journeys, groups, pairs, "
    "clouds, probes, vocabulary) are not measured again."
)
_MOST = 12  # cells that were left out, one by one


def show(found: Verification, form: Literal["table", "json"] = "table") -> str:
    """Write a second opinion.

    Args:
        found: what was measured again.
        form: ``table`` or ``json`` (an object with ``study``, ``passed``, ``cells``, ``deviations``, ``unverified``,
            ``left_out``, ``failed``, ``notes``).

    Returns:
        The text, without a line break at its end.
    """
    return _json(found) if form == "json" else "\n\n".join(_sections(found))


def _rows(found: Verification) -> list[dict[str, Any]]:
    return [{**vars(one), "passed": one.passed} for one in found.deviations.values()]


def _sections(found: Verification) -> Iterator[str]:
    cells = [
        f"  {one['cell']}: {one['texts']:,} texts, {one['tokens']:,} tokens, run in {one['precision']}"
        for one in found.cells
    ]
    yield "\n".join([f"{found.study}: measured again, one text at a time, in float64 NumPy", *cells])
    if found.notes:
        yield "\n".join(f"  {note}" for note in found.notes)
    rows = _rows(found)
    names = ("statistic", "numbers", "largest", "relative", "allowed", "half interval", "stored", "again", "where", "")
    table = [
        (
            row["name"],
            row["numbers"],
            *(_short(row[name]) for name in ("largest", "relative", "allowed", "half")),
            *(f"{row[name]:.9g}" for name in ("stored", "again")),
            row["where"],
            "" if row["passed"] else "DEVIATES",
        )
        for row in rows
    ]
    if table:
        yield _table(names, table)
    if found.unverified:
        skipped = [(name, numbers, reason) for (name, reason), numbers in found.unverified.items()]
        yield "Not verified\n" + _table(("statistic", "numbers", "why"), _grouped(skipped))
    yield NEVER
    if found.left_out:
        lines = [f"  {name}: {why}" for name, why in list(found.left_out.items())[:_MOST]]
        more = len(found.left_out) - _MOST
        lines += [f"  and {more} more; --format json has all"] if more > 0 else []
        yield "\n".join(["Left out", *lines])
    if found.failed:
        yield "\n".join(["Could not be measured again", *(f"  {name}: {why}" for name, why in found.failed.items())])
    yield _verdict(found)


def _grouped(skipped: list[tuple[str, int, str]]) -> list[tuple[Any, ...]]:
    """One line for all floors of a metric, and for all statistics of one that has no second path."""
    found: dict[tuple[str, str], tuple[int, set[str]]] = {}
    for name, numbers, reason in skipped:
        metric, _, statistic = name.partition(".")
        count, statistics = found.get((metric, reason), (0, set()))
        found[metric, reason] = (count + numbers, statistics | {statistic})
    lines = []
    for (metric, reason), (count, statistics) in found.items():
        floors = all(one.endswith("_floor") for one in statistics)
        which = "*_floor" if floors else ", ".join(sorted(statistics)) if len(statistics) < 4 else "*"
        lines.append((f"{metric}.{which}", count, reason))
    return lines


def _short(value: float | None) -> str:
    return "–" if value is None else "0" if value == 0 else f"{value:.1e}"


def _table(names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = write(Result(names, rows, len(rows)), "table").splitlines()[:-1]  # the count of rows is in the last line
    return "\n".join(f"  {line}".rstrip() for line in lines)


def _verdict(found: Verification) -> str:
    numbers = sum(one.numbers for one in found.deviations.values())
    bad = [one.name for one in found.deviations.values() if not one.passed]
    said = f"{numbers:,} numbers of {len(found.deviations)} statistics"
    if bad:
        return f"DEVIATES: {', '.join(bad)} ({said} measured again)"
    if found.failed or not found.deviations:
        return f"NOT VERIFIED: not every cell could be measured again ({said} agree)"
    return f"verified: {said} agree with the second path within what is allowed"


def _json(found: Verification) -> str:
    whole = {
        "study": found.study,
        "passed": found.passed,
        "cells": found.cells,
        "deviations": _rows(found),
        "unverified": [
            {"statistic": name, "numbers": numbers, "why": why} for (name, why), numbers in found.unverified.items()
        ],
        "left_out": found.left_out,
        "failed": found.failed,
        "notes": [*found.notes, NEVER],
    }
    return json.dumps(plain(whole), indent=2, ensure_ascii=False, allow_nan=False)
