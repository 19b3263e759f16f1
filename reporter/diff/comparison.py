"""Everything that differs between two sides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from reporter.diff.numbers import number_changes, profiles_that_moved, verdict_changes
from reporter.diff.provenance import provenance_changes
from reporter.diff.side import Side, find_sides, side_by_side
from reporter.diff.spec import Change, spec_changes
from reporter.store.formats import Result


@dataclass(frozen=True)
class Comparison:
    """What differs, from causes to consequences.

    Args:
        a: the first side.
        b: the second side.
        spec: what the study files say differently.
        provenance: what the numbers were made from.
        summary: how many numbers of each metric are the same, within their intervals, moved, gone…
        numbers: each number that moved, became or was NULL, or is on one side only; the largest moves first.
        verdicts: each claim whose verdict is another one.
        profiles: profiles over layers in which a number moved, see :func:`profiles_that_moved`.
    """

    a: Side
    b: Side
    spec: list[Change]
    provenance: list[Change]
    summary: Result
    numbers: Result
    verdicts: Result
    profiles: Result

    @property
    def consequences(self) -> bool:
        """Whether any number moved, came or went, or any verdict is another one."""
        return bool(self.numbers.rows or self.verdicts.rows)


def compare(a: str, b: str, out: Path) -> Comparison:
    """Compare two studies, or two runs of one.

    Args:
        a: ``STUDY`` of the results folder ``out``, ``FOLDER:STUDY`` or ``FOLDER:``.
        b: the other side, likewise.
        out: the results folder of bare ids.

    Raises:
        UsageError: a side is not there, or both are the same.
        ReporterError: a file cannot be read.
    """
    sides = find_sides(a, b, out)
    with side_by_side(sides) as connection:
        specs = [connection.execute(f"SELECT spec FROM {side}_studies").fetchone() for side in "ab"]
        summary, numbers = number_changes(connection)
        return Comparison(
            *sides,
            spec=spec_changes(*(row[0] if row else None for row in specs)),
            provenance=provenance_changes(connection),
            summary=summary,
            numbers=numbers,
            verdicts=verdict_changes(connection),
            profiles=profiles_that_moved(connection),
        )
