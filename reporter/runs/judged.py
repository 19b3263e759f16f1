"""Judges a study once its numbers are stored: tests claims, looks for findings, answers questions, and prints them."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reporter.core.errors import UsageError, describe
from reporter.core.progress import Progress
from reporter.judge.questions import QUESTIONS, STATED, stated
from reporter.judge.questions.question import Answer, answered
from reporter.metrics.base import Definition, Statistic
from reporter.spec import Study
from reporter.store import Store
from reporter.store.rows import as_named, order_of
from reporter.store.schema import Verdict

_CLAIMS = "SELECT * EXCLUDE (study) FROM claims WHERE study = $study ORDER BY number, reading"
_BY_MODEL = "SELECT * EXCLUDE (study) FROM claims_by_model WHERE study = $study"
_LOOKED_AT = "SELECT looked_at FROM studies WHERE study = $study"
_FINDINGS = "SELECT rank, says, value, ci_low, ci_high FROM findings WHERE study = $study ORDER BY rank"


def judge_claims(study: Study, store: Store, progress: Progress, partial: bool = False) -> list[str]:
    """Test the claims of a study, store the verdicts that changed, print them, and return those of tested claims.

    A partial run says nothing of claims whose numbers are missing: their stored rows stay as they are.
    """
    if not study.claims:
        store.replace("claims", study.study, [])
        store.replace("claims_by_model", study.study, [])
        return []
    from reporter.judge.judging import judge

    verdicts = judge(store, study, _statistics(study))
    skipped = {verdict.claim for verdict in verdicts if partial and verdict.verdict == "failed"}
    stored = store.records(_CLAIMS, {"study": study.study})
    numbers = {name: number for number, name in enumerate(study.claims, 1)}
    rows = [
        row | {"detail": json.dumps(row["detail"], ensure_ascii=False)}
        for row in (verdict.record({}, 0) for verdict in verdicts)
    ]
    rows = [row for row in rows if row["claim"] not in skipped]
    rows += [row | {"number": numbers[row["claim"]]} for row in stored if row["claim"] in skipped]
    _replace(store, "claims", study.study, rows, stored)
    stored = store.records(_BY_MODEL, {"study": study.study})
    rows = [row.record({}, 0) for verdict in verdicts if verdict.claim not in skipped for row in verdict.by_model]
    rows += [row for row in stored if row["claim"] in skipped]
    _replace(store, "claims_by_model", study.study, rows, stored)
    tested = [verdict for verdict in verdicts if verdict.reading == 1 and verdict.claim not in skipped]
    for verdict in tested:
        for text in (line(verdict), *more(verdict)):
            progress.note(f"  {text}")
    for verdict in verdicts:
        if verdict.reading > 1 and verdict.verdict == "failed" and verdict.claim not in skipped:
            progress.note(f"  {also(verdict)}")
    for name in sorted(skipped):
        progress.note(f"  claim {name}: not tested, this run measured only a part of the study")
    if tested:
        progress.note(f"{study.study}: {tally(tested)}")
    return [verdict.verdict for verdict in tested]


def line(verdict: Verdict) -> str:
    """Return a verdict as one line."""
    text = f"claim {verdict.claim}: {verdict.verdict}"
    if verdict.verdict == "failed":
        return f"{text}  {verdict.detail['reason']}"
    if verdict.value is not None:
        text += f"  {verdict.value:.4g}"
    if verdict.ci_low is not None and verdict.ci_high is not None:
        text += f" [{verdict.ci_low:.4g}, {verdict.ci_high:.4g}]"
    return text + (f", paper {verdict.paper:g}" if verdict.paper is not None else "")


def also(verdict: Verdict) -> str:
    """Return the line of a claim that could not be tested on another token set, or on a baseline."""
    on = [f"view '{verdict.view}'"] * (verdict.view is not None) + [f"baseline {verdict.baseline}"] * bool(
        verdict.baseline
    )
    return f"claim {verdict.claim} ({', '.join(on)}): not tested there  {verdict.detail['reason']}"


def more(verdict: Verdict) -> list[str]:
    """Return further lines of a verdict: what it takes to decide, and what changes on other token sets."""
    reason = verdict.detail["reason"] if verdict.p is None and verdict.verdict == "inconclusive" else ""
    changes = [change["says"] for change in verdict.detail.get("views", ()) if change["turned"]]
    return [f"  {text}" for text in (reason, verdict.detail.get("power", ""), *changes) if text]


def tally(verdicts: list[Verdict]) -> str:
    """Return how many claims have each verdict."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    words = ", ".join(f"{counts[w]} {w}" for w in ("supported", "refuted", "inconclusive", "failed") if counts[w])
    tested = sum(verdict.p is not None for verdict in verdicts)
    corrected = f"; corrected for {tested} tests" if tested > 1 else ""
    return f"{len(verdicts)} claim{'s' * (len(verdicts) != 1)}: {words}{corrected}"


def write_findings(study: Study, store: Store, progress: Progress) -> int:
    """Store the findings of a study if its numbers changed since the last search, print them, return their number."""
    if not (study.metrics and study.corpora) and not study.sections.get("pairs"):
        store.replace("findings", study.study, [])
        return 0
    counts = [row["looked_at"] for row in store.records(_LOOKED_AT, {"study": study.study})]
    looked_at = counts[0] if counts else None
    if looked_at is None:
        from reporter.judge.questions import find

        try:
            findings = find(store, study)
        except Exception as error:  # a failed search is no reason to lose the run's report
            progress.note(f"{study.study}: findings could not be looked for: {describe(error)}")
            return 0
        looked_at = findings.looked_at
        rows = [row | {"detail": json.dumps(row["detail"], ensure_ascii=False)} for row in findings.rows]
        store.replace("findings", study.study, rows)
        store.put("studies", ["study"], {"study": study.study, "looked_at": looked_at})
    stored = store.records(_FINDINGS, {"study": study.study})
    if stored:
        count = f"{len(stored)} finding{'s' * (len(stored) != 1)}"
        progress.note(f"{study.study}: {count} (exploratory, corrected for {looked_at} tests)")
    for row in stored:
        interval = f"{row['ci_low']:.3g} to {row['ci_high']:.3g}"
        progress.note(f"  {row['says']}  [difference {row['value']:.3g}, {interval}]")
    return len(stored)


def write_answers(store: Store, study: str, progress: Progress) -> None:
    """Answer every question and store the rows that changed; a question that fails takes no other with it."""
    for question in QUESTIONS:
        try:
            (answer,) = _answers(store, study, [question.name])
        except Exception as error:  # a failed answer is no reason to lose the run's report
            progress.note(f"{study}: {question.name!r} could not be answered: {describe(error)}")
            continue
        for name, rows in answer.tables.items():
            stored = store.records(f"SELECT * FROM {name} WHERE study = $study", {"study": study})
            _replace(store, name, study, [dict(row) for row in rows], stored)


def ask(study: str, out: Path, only: Sequence[str] = ()) -> list[Answer]:
    """Return the answers of a study of a results folder, from its numbers as they are now; writes nothing.

    Args:
        study: id of the study.
        out: the results folder.
        only: names of questions; all if empty.

    Raises:
        UsageError: there is no such study or question.
    """
    store, names = Store(out / "results.duckdb"), [question.name for question in (*STATED, *QUESTIONS)]
    for name in only:
        if name not in names:
            raise UsageError(f"there is no question {name!r}; there are: {', '.join(names)}")
    store.require(study)
    answers = stated(_reading(store, study), only or names)
    return [answer for answer in answers if answer.boxes] + _answers(store, study, only or names)


def _statistics(study: Study) -> dict[str, Statistic]:
    from reporter.metrics.base import catalogue

    definitions: list[Definition] = list(catalogue().values())
    if any(study.sections.values()):
        from reporter.metrics.analysis import analyses

        definitions += analyses().values()
    return {f"{definition.name}.{s.name}": s for definition in definitions for s in definition.statistics}


def _reading(store: Store, study: str) -> Callable[[str], list[dict[str, Any]]]:
    return lambda sql: store.records(sql, {"study": study})


def _answers(store: Store, study: str, names: Sequence[str]) -> list[Answer]:
    read = _reading(store, study)
    order = order_of(read("SELECT spec FROM studies WHERE study = $study")[0]["spec"])
    answers = [answered(question, study, read) for question in QUESTIONS if question.name in names]
    return [
        replace(answer, tables={name: as_named(rows, order) for name, rows in answer.tables.items()})
        for answer in answers
    ]


def _replace(
    store: Store, table: str, study: str, rows: Sequence[dict[str, Any]], stored: Sequence[Mapping[str, Any]]
) -> None:
    """Replace the rows of a study if they changed."""
    if _keys(rows) != _keys(stored):
        store.replace(table, study, list(rows))


def _keys(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(json.dumps(dict(row), sort_keys=True, default=str) for row in rows)
