"""Tests the claims of a study after its numbers are there, stores the verdicts and says them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reporter.claims import Verdict
    from reporter.metrics.base import Definition, Statistic
    from reporter.runs.progress import Progress
    from reporter.spec import Study
    from reporter.store import Store

_ROWS = "SELECT * EXCLUDE (study) FROM claims WHERE study = $study ORDER BY number, reading"
_BY_MODEL = "SELECT * EXCLUDE (study) FROM claims_by_model WHERE study = $study"


def judge_claims(study: Study, store: Store, progress: Progress, partial: bool = False) -> list[str]:
    """Test the claims of a study, store the verdicts where they changed, and say them, one a line.

    A run of a part of the study says nothing of claims whose numbers are not there: what the database holds of these
    stays as it is.

    Args:
        study: the study, whose numbers are there.
        store: the database.
        progress: where they are said.
        partial: whether only a part of it was run.

    Returns:
        the verdict of each claim that was tested.
    """
    if not study.claims:
        store.replace("claims", study.study, [])
        store.replace("claims_by_model", study.study, [])
        return []
    from reporter.claims import judge, rows_of

    found = judge(store, study, _statistics(study))
    known = store.records(_ROWS, {"study": study.study})
    rows = [row | {"detail": json.dumps(row["detail"], ensure_ascii=False)} for row in rows_of(found)]
    skipped = {v.claim for v in found if partial and v.verdict == "failed"}
    if skipped:
        numbers = {name: number for number, name in enumerate(study.claims, 1)}
        kept = [row | {"number": numbers[row["claim"]]} for row in known if row["claim"] in skipped]
        rows = [row for row in rows if row["claim"] not in skipped] + kept
    if _key(rows) != _key(known):
        store.replace("claims", study.study, rows)
    by_model = [asdict(row) for verdict in found if verdict.claim not in skipped for row in verdict.by_model]
    models = store.records(_BY_MODEL, {"study": study.study})
    by_model += [row for row in models if row["claim"] in skipped]
    if _key(by_model) != _key(models):
        store.replace("claims_by_model", study.study, by_model)
    said = [verdict for verdict in found if verdict.reading == 1 and verdict.claim not in skipped]
    for verdict in said:
        for text in (line(verdict), *more(verdict)):
            progress.note(f"  {text}")
    for verdict in found:
        if verdict.reading > 1 and verdict.verdict == "failed" and verdict.claim not in skipped:
            progress.note(f"  {also(verdict)}")
    for name in sorted(skipped):
        progress.note(f"  claim {name}: not tested, this run measured only a part of the study")
    if said:
        progress.note(f"{study.study}: {tally(said)}")
    return [verdict.verdict for verdict in said]


def line(verdict: Verdict) -> str:
    """Return a verdict as one line for people."""
    text = f"claim {verdict.claim}: {verdict.verdict}"
    if verdict.verdict == "failed":
        return f"{text}  {verdict.detail['reason']}"
    if verdict.value is not None:
        text += f"  {verdict.value:.4g}"
    if verdict.ci_low is not None and verdict.ci_high is not None:
        text += f" [{verdict.ci_low:.4g}, {verdict.ci_high:.4g}]"
    return text + (f", paper {verdict.paper:g}" if verdict.paper is not None else "")


def also(verdict: Verdict) -> str:
    """Say of another view, or a baseline, that the claim could not be tested there."""
    on = [f"view '{verdict.view}'"] * (verdict.view is not None) + [f"baseline {verdict.baseline}"] * bool(
        verdict.baseline
    )
    return f"claim {verdict.claim} ({', '.join(on)}): not tested there  {verdict.detail['reason']}"


def more(verdict: Verdict) -> list[str]:
    """Return what else people should know at once: what it takes to decide, and what other views turn over."""
    reason = verdict.detail["reason"] if verdict.p is None and verdict.verdict == "inconclusive" else ""
    changes = [change["says"] for change in verdict.detail.get("views", ()) if change["turned"]]
    return [f"  {text}" for text in (reason, verdict.detail.get("power", ""), *changes) if text]


def _statistics(study: Study) -> dict[str, Statistic]:
    """Return what is known of each statistic that the study may claim, those of analyses where it has any."""
    from reporter.metrics.registry import catalogue

    definitions: list[Definition] = list(catalogue().values())
    if any(study.sections.values()):
        from reporter.analyses.registry import analyses

        definitions += analyses().values()
    return {f"{definition.name}.{s.name}": s for definition in definitions for s in definition.statistics}


def tally(verdicts: list[Verdict]) -> str:
    """Return how many claims there are and what became of them."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    words = ", ".join(f"{counts[w]} {w}" for w in ("supported", "refuted", "inconclusive", "failed") if counts[w])
    tested = sum(verdict.p is not None for verdict in verdicts)
    corrected = f"; corrected for {tested} tests" if tested > 1 else ""
    return f"{len(verdicts)} claim{'s' * (len(verdicts) != 1)}: {words}{corrected}"


def _key(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)
