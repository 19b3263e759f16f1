"""Compare two studies, two runs of a study or two of its models: study files, provenance, numbers and verdicts."""

from dataclasses import dataclass
from pathlib import Path

from reporter.app.diff.causes import Change, provenance_changes, spec_changes
from reporter.app.diff.numbers import number_changes, size_notes, verdict_changes
from reporter.app.diff.sides import Side, find_sides, side_by_side
from reporter.store.formats import Result

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """Differences between two sides, from causes to consequences.

    ``summary`` counts the numbers of each metric by their change. ``numbers`` has each number that moved, became or was
    NULL, or is on one side only, the largest move first. ``verdicts`` has each claim whose verdict changed.
    ``notes`` are cautions.
    """

    a: Side
    b: Side
    spec: list[Change]
    provenance: list[Change]
    summary: Result
    numbers: Result
    verdicts: Result
    notes: list[str]

    @property
    def has_consequences(self) -> bool:
        """Whether a number moved, came or went, or a verdict changed."""
        return bool(self.numbers.rows or self.verdicts.rows)


def compare(a: str, b: str, out: Path) -> Comparison:
    """Compare two sides, each ``STUDY`` of the folder ``out``, ``STUDY:MODEL``, ``FOLDER:STUDY`` or ``FOLDER:``.

    Raises:
        UsageError: a side does not exist, or both are the same.
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
            notes=size_notes(connection),
        )
