"""Looks for findings once the numbers of a study are there, stores them and says them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from reporter.errors import describe

if TYPE_CHECKING:
    from reporter.runs.progress import Progress
    from reporter.spec import Study
    from reporter.store import Store

_KNOWN = "SELECT looked_at FROM studies WHERE study = $study"
_ROWS = "SELECT rank, says, value, ci_low, ci_high FROM findings WHERE study = $study ORDER BY rank"


def write_findings(study: Study, store: Store, progress: Progress) -> int:
    """Store the findings of a study, where its numbers changed since they were last looked for, and say them.

    Args:
        study: the study, whose numbers are there.
        store: the database.
        progress: where they are said.

    Returns:
        how many there are.
    """
    if not (study.metrics and study.corpora) and not study.sections.get("pairs"):
        store.replace("findings", study.study, [])
        return 0
    known = [row["looked_at"] for row in store.records(_KNOWN, {"study": study.study})]
    looked_at = known[0] if known else None
    if looked_at is None:
        from reporter.findings import find

        try:
            found = find(store, study)
        except Exception as error:  # what nobody asked for is no reason to lose the run's report
            progress.note(f"{study.study}: findings could not be looked for: {describe(error)}")
            return 0
        looked_at = found.looked_at
        rows = [row | {"detail": json.dumps(row["detail"], ensure_ascii=False)} for row in found.rows]
        store.replace("findings", study.study, rows)
        store.put("studies", ["study"], {"study": study.study, "looked_at": looked_at})
    stored = store.records(_ROWS, {"study": study.study})
    if stored:
        progress.note(f"{study.study}: {heading(len(stored), looked_at)}")
    for row in stored:
        progress.note(f"  {line(row)}")
    return len(stored)


def heading(found: int, looked_at: int) -> str:
    """Return what findings are, in words."""
    return f"{found} finding{'s' * (found != 1)} (exploratory, corrected for {looked_at} questions)"


def line(row: dict[str, Any]) -> str:
    """Return a finding as one line for people."""
    return f"{row['says']}  [difference {row['value']:.3g}, {row['ci_low']:.3g} to {row['ci_high']:.3g}]"
