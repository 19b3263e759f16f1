"""The main job: run what the plans say, then write the report."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from reporter.build import build
from reporter.claims.correlations import write_correlations
from reporter.imports import importing
from reporter.runs.answers import write_answers
from reporter.runs.beginning import begin, is_known
from reporter.runs.cache import CACHE_BYTES, FOLDERS, make_room
from reporter.runs.claims import judge_claims
from reporter.runs.engines import engine_of, have_done
from reporter.runs.findings import write_findings
from reporter.runs.over_models import write_over_models
from reporter.runs.plan import Plan
from reporter.runs.planner import plan_study
from reporter.runs.progress import Progress
from reporter.runs.records import now, study_row
from reporter.runs.series import write_same_weights
from reporter.store import Store

if TYPE_CHECKING:
    from reporter.runs.engines import Engine
    from reporter.spec import StudyFile


Strict = Literal["refuted", "inconclusive"]
"""Which verdicts count in a strict run: refuted claims, or those that were not decided, too."""


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
        strict: whether a claim that was refuted, or could not be tested, counts; ``inconclusive``: one that was not
            decided, too.
        undecided: claims that were not decided.
    """

    computed: int
    cached: int
    failed: int
    pages: tuple[Path, ...]
    refuted: int = 0
    untested: int = 0
    strict: Strict | None = None
    undecided: int = 0

    @property
    def exit_code(self) -> int:
        """0 if every cell is done, 1 if some failed; of a strict run 3 if a claim was refuted, 1 if one is untested."""
        if self.strict and (self.refuted or (self.strict == "inconclusive" and self.undecided)):
            return 3
        return 1 if self.failed or (self.strict and self.untested) else 0


def run_studies(
    files: Sequence[StudyFile],
    out: Path,
    *,
    only: Sequence[str] = (),
    force: bool = False,
    offline: bool = False,
    strict: Strict | None = None,
    ahead: bool = False,
    workers: int | None = None,
    engine: str | None = None,
    address: str | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Run studies one after the other and write their report.

    Args:
        files: valid studies.
        out: the results folder.
        only: names of models, corpora or metrics, to run a part of the studies.
        force: compute cells that are done, too.
        offline: never ask a hub.
        strict: make the outcome's exit code 3 if a claim was refuted, and 1 if one could not be tested; of
            ``inconclusive`` 3 if one was not decided, too.
        ahead: begin with what a run needs that computes, several things at one time; starts a process for one of them.
        workers: processes, or Ray actors, that do the passes; as the studies say if left out.
        engine: ``local`` or ``ray``; as the studies say if left out.
        address: of a Ray cluster; as the studies say if left out.
        progress: where progress is shown; standard error by default.

    Raises:
        UsageError: if ``only`` names what is not in a study, or leaves no cell of it.
        ReporterError: if results cannot be written.
    """
    progress = progress or Progress()
    with progress.awake():
        if ahead:
            begin(files, out, progress, force)
        with progress.clock.within("planning"):
            plans = [plan_study(file, out, offline=offline, force=force, only=only) for file in files]
        engines = {file.study.study: engine_of(file.study.run, engine, workers, address) for file in files}
        counts, words, pages = [], [], list[Path]()
        for plan in plans:
            name = plan.file.study.study
            counts.append(_run(plan, out, offline, progress, engines[name]))
            store = Store(out / "results.duckdb", waiting=progress.note)
            for said in write_same_weights(store, name):
                progress.note(f"  {said}")
            with progress.clock.within("claims"):
                write_over_models(store, name)
                words += judge_claims(plan.file.study, store, progress, plan.partial)
            with progress.clock.within("answers"):
                write_answers(store, name, progress)
            with progress.clock.within("findings"):  # those about concepts read the answers
                write_findings(plan.file.study, store, progress)
            # as soon as a study is done: a run that is killed leaves the pages of those that were finished
            with progress.clock.within("report"):
                pages += _report(out, plan.file, progress)
        computed, cached, failed = (sum(numbers) for numbers in zip(*counts, strict=True))
        for page in (out / "index.html", *(out / plan.file.study.study / "index.html" for plan in plans)):
            if len(plans) > 1 and page.exists():
                os.utime(page)  # later studies moved the database on, of which earlier pages show nothing
        if computed:
            progress.note(f"where the time went, of {progress.clock.line()}")
        written = tuple(dict.fromkeys(pages))
        refuted, untested, undecided = (words.count(word) for word in ("refuted", "failed", "inconclusive"))
        return Outcome(computed, cached, failed, written, refuted, untested, strict, undecided)


def _run(
    plan: Plan, out: Path, offline: bool, progress: Progress, engine: Engine | None = None
) -> tuple[int, int, int]:
    """Run one plan; return how many cells were computed, cached and failed."""
    name, store = plan.file.study.study, Store(out / "results.duckdb", waiting=progress.note)
    cached = plan.count("cached")
    if cached == len(plan.cells) and is_known(plan.file, store):
        progress.note(f"{name}: nothing to compute, all {cached} cells are done")
        return 0, cached, 0
    began, before = time.perf_counter(), progress.clock.spent()
    said = f"{name}: {plan.count('run')} cells to compute, {cached} done already"
    progress.note(said + (f", {plan.count('failed')} cannot run" if plan.count("failed") else ""))
    for hint in plan.hints():
        progress.note(f"  {hint}")
    store.put("studies", ["study"], study_row(plan.file, started=now(), finished=None, looked_at=None))

    with progress.clock.within("loading"), importing():
        from reporter.runs.work import work  # brings torch: not needed where everything is done

    if engine is not None:
        have_done(engine, plan, out, offline, progress)
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


def _report(out: Path, file: StudyFile, progress: Progress) -> list[Path]:
    """Render a study's pages where one is older than the database, by another build, or is to look otherwise."""
    database, study = out / "results.duckdb", file.study.study
    pages = [out / "index.html", out / study / "index.html"]
    if not _looks_otherwise(file, out / study) and all(_is_current(page, database) for page in pages):
        progress.note(f"the report is up to date: {pages[-1]}")
        return []
    began = time.perf_counter()
    with importing():
        from reporter.report import render

        written = render(database, out, [study])
    progress.note(f"report: {pages[-1]} ({time.perf_counter() - began:.1f} s)")
    return written


def _looks_otherwise(file: StudyFile, folder: Path) -> bool:
    """Copy a study's own templates and stylesheet beside its pages; tell whether they are others than before."""
    if not any(_look(file)) and not (folder / "look").exists():
        return False  # most studies: nothing heavy is imported where nothing is to do
    from reporter.report.look import keep_look

    return keep_look(file.study.study, *_look(file), folder)


def _look(file: StudyFile) -> tuple[Path | None, Path | None]:
    """Return the folder of a study's own templates and its stylesheet; paths in a study start from its own folder."""
    said = file.study.report
    return tuple(path and file.folder / path for path in (said.templates, said.style))  # type: ignore[return-value]


def _is_current(page: Path, database: Path) -> bool:
    if not page.exists() or page.stat().st_mtime < database.stat().st_mtime:
        return False
    with page.open("rb") as file:
        return f'content="reporter {build()}"'.encode() in file.read(1000)
