"""Compare two studies, two runs of a study or two of its models: study files, provenance, numbers and verdicts."""

from dataclasses import dataclass
from pathlib import Path

from reporter.app.diff.causes import Cause, provenance_changes, spec_changes
from reporter.app.diff.numbers import number_changes, size_notes, verdict_changes
from reporter.app.diff.sides import DiffSide, block_counts, find_sides, side_by_side
from reporter.store.formats import Result
from reporter.store.opening import apart

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """Differences between two sides, from causes to consequences.

    ``summary`` counts the numbers of each metric by their change. ``numbers`` has each number that changed, is NULL on
    one side, or is on one side only, the largest change first. ``profiles`` counts the changed layers of each
    statistic. ``verdicts`` has each claim whose verdict changed. ``blocks`` are the numbers of blocks of two models of
    different depth, whose numbers are compared at equal relative depth. ``notes`` are cautions.
    """

    a: DiffSide
    b: DiffSide
    spec: list[Cause]
    provenance: list[Cause]
    summary: Result
    numbers: Result
    profiles: Result
    verdicts: Result
    blocks: tuple[int, int] | None
    notes: list[str]

    @property
    def has_consequences(self) -> bool:
        """Whether a number changed, came or went, or a verdict changed."""
        return bool(self.numbers.rows or self.verdicts.rows)


def compare(a: str, b: str, out: Path) -> Comparison:
    """Compare two sides, each ``STUDY`` of the folder ``out``, ``STUDY:MODEL``, ``FOLDER:STUDY`` or ``FOLDER:``.

    Raises:
        UsageError: a side does not exist, or both are the same.
        ReporterError: a file cannot be read.
    """
    return apart(lambda: _compare(a, b, out), [Path(side.rpartition(":")[0] or out) for side in (a, b)])


def _compare(a: str, b: str, out: Path) -> Comparison:
    sides = find_sides(a, b, out)
    with side_by_side(sides) as connection:
        specs = [connection.execute(f"SELECT spec FROM {side}_studies").fetchone() for side in "ab"]
        blocks = block_counts(connection) if sides[0].model else None
        summary, numbers, profiles = number_changes(connection, blocks)
        return Comparison(
            *sides,
            spec=spec_changes(*(row[0] if row else None for row in specs)),
            provenance=provenance_changes(connection),
            summary=summary,
            numbers=numbers,
            profiles=profiles,
            verdicts=verdict_changes(connection),
            blocks=blocks,
            notes=[*(_depth_note(*blocks) if blocks else ()), *size_notes(connection)],
        )


def _depth_note(a: int, b: int) -> list[str]:
    return [
        f"A has {a} blocks and B {b}: profiles are compared at the {min(a, b) + 1} relative depths of the shallower "
        "model, with the numbers of the deeper one interpolated. Tables about single layers or blocks are left out."
    ]
