"""What names a cell, and what the store remembers about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple


class CellName(NamedTuple):
    """A cell inside its study."""

    model: str
    checkpoint: str
    corpus: str
    metric: str


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
