"""The main job: run what the plans say, then write the report."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reporter.build import build
from reporter.claims.correlations import write_correlations
from reporter.runs.answers import write_answers
from reporter.runs.cache import CACHE_BYTES, FOLDERS, make_room
from reporter.runs.claims import judge_claims
from reporter.runs.over_models import write_over_models
from reporter.runs.plan import Plan
from reporter.runs.planner import plan_study
from reporter.runs.progress import Progress
from reporter.runs.records import now, spec_hash, study_row
from reporter.store import Store

if TYPE_CHECKING:
    from reporter.spec import StudyFile


@dataclass(frozen=True)
class Outcome:
    """What became of a run.

    Args:
        computed: cells computed, or taken over from another study.
        cached: cells that were done already.
        failed: cells that failed.
        pages: the report's pages that were written; empty if they were up to date.
        refuted: claims that were refuted.
        untested: claims that could not be tested.
        strict: whether a claim that was refuted, or could not be tested, counts.
    """

    computed: int
    cached: int
    failed: int
    pages: tuple[Path, ...]
    refuted: int = 0
    untested: int = 0
    strict: bool = False

    @property
    def exit_code(self) -> int:
        """0 if every cell is done, 1 if some failed; of a strict run 3 if a claim was refuted, 1 if one is untested."""
        if self.strict and self.refuted:
            return 3
        return 1 if self.failed or (self.strict and self.untested) else 0


def run_studies(
    files: Sequence[StudyFile],
    out: Path,
    *,
    only: Sequence[str] = (),
    force: bool = False,
    offline: bool = False,
    strict: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Run studies one after the other and write their report.

    Args:
        files: valid studies.
        out: the results folder.
        only: names of models, corpora or metrics, to run a part of the studies.
        force: compute cells that are done, too.
        offline: never ask a hub.
        strict: make the outcome's exit code 3 if a claim was refuted, and 1 if one could not be tested.
        progress: where progress is shown; standard error by default.

    Raises:
        UsageError: if ``only`` names nothing in a study.
        ReporterError: if results cannot be written.
    """
    progress = progress or Progress()
    with progress.clock.within("planning"):
        plans = [plan_study(file, out, offline=offline, force=force, only=only) for file in files]
    counts, words = [], []
    for plan in plans:
        counts.append(_run(plan, out, offline, progress))
        store = Store(out / "results.duckdb", waiting=progress.note)
        with progress.clock.within("claims"):
            write_over_models(store, plan.file.study.study)
            words += judge_claims(plan, store, progress)
            write_answers(store, plan.file.study.study)
    computed, cached, failed = (sum(numbers) for numbers in zip(*counts, strict=True))
    with progress.clock.within("report"):
        pages = _report(out, [plan.file.study.study for plan in plans], progress)
    if computed:
        progress.note(f"where the time went, of {progress.clock.line()}")
    return Outcome(computed, cached, failed, pages, words.count("refuted"), words.count("failed"), strict)


def _run(plan: Plan, out: Path, offline: bool, progress: Progress) -> tuple[int, int, int]:
    """Run one plan; return how many cells were computed, cached and failed."""
    name, store = plan.file.study.study, Store(out / "results.duckdb", waiting=progress.note)
    cached = plan.count("cached")
    if cached == len(plan.cells) and _is_known(plan, store):
        progress.note(f"{name}: nothing to compute, all {cached} cells are done")
        return 0, cached, 0
    began, before = time.perf_counter(), progress.clock.spent()
    said = f"{name}: {plan.count('run')} cells to compute, {cached} done already"
    progress.note(said + (f", {plan.count('failed')} cannot run" if plan.count("failed") else ""))
    for hint in plan.hints():
        progress.note(f"  {hint}")
    store.put("studies", ["study"], study_row(plan.file, started=now(), finished=None))

    with progress.clock.within("loading"):
        from reporter.runs.work import work  # brings torch: not needed where everything is done

    computed, failed = work(plan, out, store, offline, progress)
    if not plan.partial:
        store.prune(name, [tuple(cell.key) for cell in plan.cells])
    write_correlations(store, name)
    seconds = time.perf_counter() - began
    numbers = {"cells_run": computed, "cells_cached": cached, "cells_failed": failed}
    timings = json.dumps({what: round(spent, 3) for what, spent in progress.clock.spent(before).items()})
    store.put("studies", ["study"], study_row(plan.file, finished=now(), seconds=seconds, timings=timings, **numbers))
    for kind in ("pass", "tokens"):
        make_room(out / "cache" / FOLDERS[kind], CACHE_BYTES)
    said = f"{name}: {computed} cells computed, {cached} done already"
    progress.note(said + (f", {failed} failed" if failed else "") + f"; {seconds:.1f} s")
    return computed, cached, failed


def _is_known(plan: Plan, store: Store) -> bool:
    """Tell whether the database holds this very text of the study and its last run came to its end."""
    known = store.study(plan.file.study.study)
    return known is not None and known.spec_hash == spec_hash(plan.file) and known.finished is not None


def _report(out: Path, studies: list[str], progress: Progress) -> tuple[Path, ...]:
    """Render the report where a page is older than the database, or by another build of reporter."""
    database = out / "results.duckdb"
    pages = [out / "index.html", *(out / study / "index.html" for study in studies)]
    if all(_is_current(page, database) for page in pages):
        progress.note(f"the report is up to date: {pages[-1]}")
        return ()
    from reporter.report import render

    began = time.perf_counter()
    written = tuple(render(database, out, studies))
    progress.note(f"report: {pages[-1]} ({time.perf_counter() - began:.1f} s)")
    return written


def _is_current(page: Path, database: Path) -> bool:
    if not page.exists() or page.stat().st_mtime < database.stat().st_mtime:
        return False
    with page.open("rb") as file:
        return f'content="reporter {build()}"'.encode() in file.read(1000)
