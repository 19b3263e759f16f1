"""The main job: run what the plans say, then write the report."""

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Literal

from reporter.core.artifacts import make_room
from reporter.core.errors import ReporterError
from reporter.core.files import require_folder
from reporter.core.imports import build, importing
from reporter.core.numbers import counted
from reporter.core.progress import Progress
from reporter.forward.inputs import FOLDERS
from reporter.judge.questions.models import write_correlations
from reporter.models.resolve import resolve
from reporter.runs.cache import CACHE_BYTES, is_fed
from reporter.runs.engines import OnRay, Processes, engine_of, have_done
from reporter.runs.plan import Plan, cells_text
from reporter.runs.planner import plan_study
from reporter.runs.records import now, spec_hash, study_row
from reporter.runs.registered import record
from reporter.runs.whole import derive
from reporter.store import Store
from reporter.study import StudyFile
from reporter.study.models import PathModel, StatesModel
from reporter.texts import Texts


def begin(files: Sequence[StudyFile], out: Path, progress: Progress, force: bool = False) -> None:
    """Prepare a run that will compute: import its modules while other cores hash weights and join the pages' script.

    To import torch and transformers takes seconds on one core. A run without this does the same work later.

    Args:
        files: valid studies; with none that is new, changed or unfinished, nothing is done.
        out: the results folder.
        progress: shows a wait for the database; its clock counts the time as loading.
        force: what is done is computed again, too.
    """
    store = Store(out / "results.duckdb", waiting=progress.note)
    if not force and all(is_known(file, store) for file in files):
        return
    with progress.clock.within("loading"), importing():
        # a daemon: who gives up waits for no hash
        hashing = Thread(target=_hash_weights, args=(files, out / "cache"), daemon=True)
        hashing.start()
        from reporter.report.templating import begin_script

        begin_script()
        import reporter.runs.work  # noqa: F401

        hashing.join()


def is_known(file: StudyFile, store: Store) -> bool:
    """Return whether the database holds exactly this text of the study and its last run has ended."""
    return store.has_finished(file.study.study, spec_hash(file))


def _hash_weights(files: Sequence[StudyFile], cache: Path) -> None:
    for file in files:
        for name, spec in file.study.models.items():
            if isinstance(spec, PathModel | StatesModel):
                with suppress(Exception):
                    resolve(name, spec, file.folder, cache, texts=_no_texts, offline=True)


def _no_texts(corpus: str) -> Texts:
    raise ReporterError(f"a model in a folder needs no texts of '{corpus}'")


Strict = Literal["refuted", "inconclusive"]
"""Which verdicts count in a strict run: refuted claims, or undecided ones, too."""


@dataclass(frozen=True)
class RunOutcome:
    """The result of a run.

    Args:
        computed: cells computed, or taken over from another study.
        cached: cells that were done already.
        failed: cells that failed.
        pages: the report's pages that were written; empty if they were up to date.
        refuted: claims that were refuted.
        untested: claims that could not be tested.
        strict: whether refuted and untested claims count in the exit code; ``inconclusive``: undecided ones, too.
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
    measured: Callable[[int], None] | None = None,
    progress: Progress | None = None,
) -> RunOutcome:
    """Run studies one after the other and write their report.

    Args:
        files: valid studies.
        out: the results folder.
        only: names of models, corpora or metrics, to run a part of the studies.
        force: compute cells that are done, too.
        offline: never ask a hub.
        strict: which verdicts count in the exit code of the outcome.
        ahead: prepare a run that will compute, see :func:`begin`; this starts a process.
        workers: processes, or Ray actors, that do the passes; as the studies say if left out.
        engine: ``local`` or ``ray``; as the studies say if left out.
        address: of a Ray cluster; as the studies say if left out.
        measured: called with the number of cells that were computed when a study's numbers and answers are stored,
            before its pages are written; it may print.
        progress: where progress is shown; standard error by default.

    Raises:
        UsageError: if ``only`` names what is not in a study, or leaves no cell of it, or ``out`` cannot be written.
        ReporterError: if results cannot be written.
    """
    progress = progress or Progress()
    with progress.reminding():
        if ahead:
            begin(files, out, progress, force)
        with progress.clock.within("planning"):
            plans = [plan_study(file, out, offline=offline, force=force, only=only) for file in files]
        require_folder(out, create=False)
        _require_inputs(plans)
        require_folder(out)
        _require_free_places(plans, out)
        engines = {
            plan.file.study.study: engine_of(plan.file.study.run, engine, workers, address, not plan.count("run"))
            for plan in plans
        }
        counts, words, pages = [], [], list[Path]()
        for plan in plans:
            name = plan.file.study.study
            counts.append(_run(plan, out, offline, progress, engines[name]))
            store = Store(out / "results.duckdb", waiting=progress.note)
            record(plan.file, store)
            with store.kept_open():
                words += derive(plan.file.study, store, progress, plan.partial)
            if measured is not None:
                with progress.silent():
                    measured(counts[-1][0])
            # as soon as a study is done: a run that is killed leaves the pages of those that were finished
            with progress.clock.within("report"):
                pages += _report(out, plan.file, progress)
        computed, cached, failed = (sum(numbers) for numbers in zip(*counts, strict=True))
        for page in (out / "index.html", *(out / plan.file.study.study / "index.html" for plan in plans)):
            if len(plans) > 1 and page.exists():
                os.utime(page)  # later studies moved the database on, of which earlier pages show nothing
        if computed:
            progress.note(f"total time {progress.clock.line()}")
        written = tuple(dict.fromkeys(pages))
        refuted, untested, undecided = (words.count(word) for word in ("refuted", "failed", "inconclusive"))
        return RunOutcome(computed, cached, failed, written, refuted, untested, strict, undecided)


def _require_inputs(plans: Sequence[Plan]) -> None:
    """Raise ``ReporterError`` for a study of which nothing can be measured, before anything is written."""
    for plan in plans:
        if plan.cells and plan.count("failed") == len(plan.cells):
            whys = list(dict.fromkeys(cell.why for cell in plan.cells))
            more = f" (and {len(whys) - 1} more; see `reporter plan`)" if len(whys) > 1 else ""
            raise ReporterError(f"{plan.file.study.study}: nothing can be measured: {whys[0]}{more}")


def _require_free_places(plans: Sequence[Plan], out: Path) -> None:
    """Raise ``UsageError`` where files of others are in the way of the report, before anything is measured."""
    files = [plan.file for plan in plans if plan.count("run")]
    if files:
        from reporter.report.site import require_free_places

        require_free_places(out, {file.study.study: any(_look(file)) for file in files})


def _run(
    plan: Plan, out: Path, offline: bool, progress: Progress, engine: Processes | OnRay | None = None
) -> tuple[int, int, int]:
    """Run one plan; return how many cells were computed, cached and failed."""
    name, store = plan.file.study.study, Store(out / "results.duckdb", waiting=progress.note)
    cached = plan.count("cached")
    if cached == len(plan.cells) and is_known(plan.file, store):
        progress.note(f"{name}: nothing to compute, {counted(cached, 'cell')} cached")
        return 0, cached, 0
    began, before = time.perf_counter(), progress.clock.spent()
    cannot = f", {plan.count('failed')} cannot run" if plan.count("failed") else ""
    progress.note(f"{name}: {cells_text(len(plan.cells))}: {plan.count('run')} to compute, {cached} cached{cannot}")
    for hint in plan.hints():
        progress.note(f"  {hint}")
    store.put("studies", ["study"], study_row(plan.file, started=now(), finished=None, looked_at=None))
    record(plan.file, store)  # what is registered before there are numbers

    with progress.clock.within("loading"), importing():
        from reporter.runs.work import weights_of, work  # brings torch: not needed where everything is done

    with progress.expecting(plan.count("run"), lambda: 0, weights_of(plan)):
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
        make_room(out / "cache" / FOLDERS[kind], CACHE_BYTES, is_fed)
    lost = f", {failed} failed" if failed else ""
    progress.note(f"{name}: {counted(computed, 'cell')} computed in {seconds:.1f} s, {cached} cached{lost}")
    return computed, cached, failed


def _report(out: Path, file: StudyFile, progress: Progress) -> list[Path]:
    """Write a study's pages where one is older than the database, of another build, or has another design."""
    database, study = out / "results.duckdb", file.study.study
    pages = [out / "index.html", out / study / "index.html"]
    if not _has_new_look(file, out) and all(_is_current(page, database) for page in pages):
        progress.note(f"the report is up to date: {pages[-1]}")
        return []
    began = time.perf_counter()
    with importing():
        from reporter.report import render

        written = render(database, out, [study])
    progress.note(f"report: {pages[-1]} ({time.perf_counter() - began:.1f} s)")
    return written


def _has_new_look(file: StudyFile, out: Path) -> bool:
    if not any(_look(file)) and not (out / file.study.study / "look").exists():
        return False  # most studies: nothing heavy is imported where nothing is to do
    from reporter.report.look import keep_look

    return keep_look(file.study.study, *_look(file), out)


def _look(file: StudyFile) -> tuple[Path | None, Path | None]:
    paths = file.study.report.templates, file.study.report.style
    return tuple(path and file.folder / path for path in paths)  # type: ignore[return-value]


def _is_current(page: Path, database: Path) -> bool:
    if not page.exists() or page.stat().st_mtime < database.stat().st_mtime:
        return False
    with page.open("rb") as file:
        return f'content="reporter {build()}"'.encode() in file.read(1000)
