"""Which cell a row of numbers belongs to: for each part of the cell's name, where the row has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from reporter.store.keys import joined


class PartOfName(Protocol):
    """One part of a cell's name: model, checkpoint, corpus or metric."""

    @property
    def sql(self) -> str:
        """The part, computed from a row's columns."""

    def fill(self, row: Mapping[str, Any], part: str) -> dict[str, Any]:
        """Return the columns that a row lacks and that the name fills."""

    def of(self, row: Mapping[str, Any]) -> Any:
        """Return the part as a row has it."""


@dataclass(frozen=True)
class Own:
    """A column that holds the part."""

    column: str

    @property
    def sql(self) -> str:
        """The column."""
        return self.column

    def fill(self, row: Mapping[str, Any], part: str) -> dict[str, Any]:
        """Return the column, where the row lacks it."""
        return {} if self.column in row else {self.column: part}

    def of(self, row: Mapping[str, Any]) -> Any:
        """Return its value."""
        return row.get(self.column)


@dataclass(frozen=True)
class Fixed:
    """A part that is the same for all rows of a table, and so has no column."""

    part: str

    @property
    def sql(self) -> str:
        """The part as an SQL string."""
        return f"'{self.part}'"

    def fill(self, row: Mapping[str, Any], part: str) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def of(self, row: Mapping[str, Any]) -> Any:
        """Return the part."""
        return self.part


@dataclass(frozen=True)
class Paired:
    """Two columns, ``<stem>_a`` and ``<stem>_b``, that name the two sides of a comparison."""

    stem: str

    @property
    def sql(self) -> str:
        """What :func:`reporter.store.keys.joined` does."""
        a, b = f"{self.stem}_a", f"{self.stem}_b"
        return f"CASE WHEN {a} = {b} THEN {a} ELSE {a} || ' | ' || {b} END"

    def fill(self, row: Mapping[str, Any], part: str) -> dict[str, Any]:
        """Return nothing: a row must say both sides."""
        return {}

    def of(self, row: Mapping[str, Any]) -> Any:
        """Return both sides, joined."""
        a, b = row.get(f"{self.stem}_a"), row.get(f"{self.stem}_b")
        return None if a is None or b is None else joined(a, b)


@dataclass(frozen=True)
class CellColumns:
    """The four parts of a cell's name.

    Args:
        model: name of the model, or of both.
        checkpoint: name of the checkpoint.
        corpus: name of the corpus, or of what stands in its place.
        metric: name of the metric or analysis.
    """

    model: PartOfName = Own("model")
    checkpoint: PartOfName = Own("checkpoint")
    corpus: PartOfName = Own("corpus")
    metric: PartOfName = Own("metric")

    @property
    def parts(self) -> tuple[PartOfName, ...]:
        """The parts in the order of a cell's name."""
        return (self.model, self.checkpoint, self.corpus, self.metric)

    @property
    def sql(self) -> tuple[str, ...]:
        """The parts as SQL."""
        return tuple(part.sql for part in self.parts)

    @property
    def one_side(self) -> bool:
        """Whether rows can be given to another cell by changing columns alone."""
        return not any(isinstance(part, Paired) for part in self.parts)
