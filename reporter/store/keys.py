"""What names a cell, and what the store remembers about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from reporter.table import Table


class CellName(NamedTuple):
    """A cell inside its study."""

    model: str
    checkpoint: str
    corpus: str
    metric: str

    def __str__(self) -> str:
        return " × ".join(self)


class CellKey(NamedTuple):
    """A cell anywhere in the database."""

    study: str
    model: str
    checkpoint: str
    corpus: str
    metric: str


def joined(a: str, b: str) -> str:
    """Return how a cell that compares two sides is named: ``a | b``, or ``a`` where both are the same."""
    return a if a == b else f"{a} | {b}"


def part_in_sql(table: Table, part: str) -> str:
    """Return a part of the name of the cell that a row belongs to, computed from the row's columns.

    Args:
        table: the row's.
        part: ``model``, ``checkpoint``, ``corpus`` or ``metric``.
    """
    match table.holding(part):
        case (column,):
            return column
        case (a, b):  # as ``joined`` does
            return f"CASE WHEN {a} = {b} THEN {a} ELSE {a} || ' | ' || {b} END"
        case _:
            return f"'{table.fixed[part]}'"


def part_of(table: Table, part: str, row: Mapping[str, Any]) -> Any:
    """Return a part of the name of the cell that a row belongs to; None where the row does not say it."""
    told: list[Any] = [row.get(column) for column in table.holding(part)]
    if not told:
        return table.fixed[part]
    return None if None in told else joined(told[0], told[-1])


@dataclass(frozen=True)
class CellRecord:
    """What is known about a cell that ran.

    Attributes:
        fingerprint: Hash of everything its numbers depend on.
        status: ``done`` or ``failed``.
        error: Why it failed; None where it did not.
        inputs: JSON object, what the fingerprint is a hash of part by part, to say why a cell must run again.
    """

    fingerprint: str | None
    status: str
    error: str | None
    inputs: str | None


@dataclass(frozen=True)
class StudyRecord:
    """What is known about a study that ran.

    Attributes:
        spec_hash: SHA-256 of its spec at the last run.
        finished: End of the last run, UTC; None where it still runs or was killed.
    """

    spec_hash: str | None
    finished: datetime | None
