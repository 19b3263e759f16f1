"""Engines: who does the tasks of a plan. This process does what no engine did, in the order of the study."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from reporter import locks
from reporter.errors import UsageError

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from reporter.runs.plan import Plan
    from reporter.runs.progress import Progress
    from reporter.runs.tasks import Task, Worker
    from reporter.spec.run import RunSpec

_LOOK_AGAIN_SECONDS = 0.5
_ENDING_SECONDS = 10.0  # for a worker to end when nothing is left to do, or when it is told to


@dataclass(frozen=True)
class Job:
    """What a process on another machine must know to do tasks; folders are where it sees them, too.

    Args:
        path: the study's file, from the root.
        text: its text.
        out: the results folder, from the root.
        offline: never ask a hub.
    """

    path: Path
    text: str
    out: Path
    offline: bool

    @classmethod
    def of(cls, plan: Plan, out: Path, offline: bool) -> Job:
        """Return the job of a plan."""
        return cls(plan.file.path.resolve(), plan.file.text, out.resolve(), offline)

    def plan(self) -> Plan:
        """Read the study and make its plan, the database closed."""
        from reporter.runs.planner import plan_study
        from reporter.runs.studies import read_text

        return plan_study(read_text(self.path, self.text), self.out, offline=self.offline, blind=True)


class Engine(Protocol):
    """Does tasks somewhere."""

    def do(self, job: Job, worker: Worker, tasks: Sequence[Task], progress: Progress) -> Iterator[Task]:
        """Yield each task as it is done; those that fail or are lost are left out.

        Args:
            job: what other processes must know.
            worker: knows what is done.
            tasks: what is to be done.
            progress: where notes go.

        Raises:
            ReporterError: the engine cannot be reached.
        """


@dataclass(frozen=True)
class Processes:
    """Several processes of this machine; on a machine with GPUs they take them in turn.

    Args:
        count: how many.
    """

    count: int

    def do(self, job: Job, worker: Worker, tasks: Sequence[Task], progress: Progress) -> Iterator[Task]:
        """Do shares in processes that take over from one another, and yield what is found done."""
        count = min(self.count, len(tasks))
        context = multiprocessing.get_context("spawn")
        started = [
            context.Process(target=_work, args=(job, list(tasks), number, count), daemon=True)
            for number in range(1, count + 1)
        ]
        with _safe_path():
            for one in started:
                one.start()
        try:
            left, stirred = list(tasks), time.monotonic()
            while left:
                over = not any(one.is_alive() for one in started)
                done = [task for task in left if worker.is_done(task)]
                yield from done
                left = [task for task in left if task not in done]
                if over:
                    break
                if done or any(worker.is_held(task) for task in left):
                    stirred = time.monotonic()
                elif time.monotonic() - stirred > locks.HUNG_SECONDS:
                    progress.note("  the workers hang and are ended; this process does what they left")
                    break
                time.sleep(_LOOK_AGAIN_SECONDS)
            _note_ends(started, progress)
        finally:
            for one in started:
                if one.is_alive():
                    one.terminate()
                one.join(_ENDING_SECONDS)
                if one.is_alive():  # it hangs, or was stopped
                    one.kill()
                    one.join()


@contextmanager
def _safe_path() -> Iterator[None]:
    """Have processes that are started import nothing from the current folder, which a stranger may have filled."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def _note_ends(started: Sequence[BaseProcess], progress: Progress) -> None:
    until = time.monotonic() + _ENDING_SECONDS  # they see that all is done
    for number, one in enumerate(started, 1):
        one.join(max(0.0, until - time.monotonic()))
        if one.exitcode and one.exitcode < 0:
            name = signal.Signals(-one.exitcode).name
            progress.note(f"  worker {number} was ended by {name}; others did what it left")


def _work(job: Job, tasks: Sequence[Task], number: int, of: int) -> None:
    """Do a share in a process of its own, without a word: who started it says how far the work has come."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # who started it says that it was interrupted
    from reporter.runs.progress import Progress
    from reporter.runs.tasks import Worker, orphaned, share, threads_of
    from reporter.threads import given

    plan, progress = job.plan(), Progress(io.StringIO())
    with given(threads_of(plan)):
        worker = Worker(plan, job.out, job.offline, progress, _gpu(plan.file.study.run.device, number - 1))
        share(worker, tasks, number, of, progress, orphaned())
    sys.stdout.flush()
    os._exit(0)  # the driver looks at files, and tries what failed once more


def _gpu(asked: str, number: int) -> str | None:
    import torch

    if asked in ("auto", "cuda") and torch.cuda.is_available():
        return f"cuda:{number % torch.cuda.device_count()}"
    return None


def engine_of(run: RunSpec, engine: str | None, workers: int | None, address: str | None) -> Engine | None:
    """Return the engine that a call or a study asks for; None: this process does all by itself.

    Args:
        run: what the study says.
        engine: what the call says; as ``run.engine`` if left out.
        workers: the same, as ``run.workers``.
        address: the same, as ``run.address``.

    Raises:
        UsageError: what is asked for does not go together.
    """
    name, many = engine or run.engine, workers or run.workers
    at = address or (run.address if name == run.engine else None)  # the address of a study is that of its own engine
    if name == "ray":
        from reporter.runs.on_ray import OnRay

        return OnRay(at, many)
    if at is not None:
        raise UsageError(f"an address ({at}) is that of a Ray cluster: write --engine ray, or run.engine: ray")
    return None if many is None else Processes(many)


def have_done(engine: Engine, plan: Plan, out: Path, offline: bool, progress: Progress) -> None:
    """Have an engine do the tasks of a plan, and show how far it has come.

    Args:
        engine: does them.
        plan: the plan.
        out: the results folder.
        offline: never ask a hub.
        progress: where it is shown.

    Raises:
        ReporterError: the engine cannot be reached.
    """
    from reporter.runs.tasks import Worker, threads_of

    worker = Worker(plan, out, offline, progress)
    tasks = [task for task in worker.tasks() if not worker.is_done(task)]
    if not tasks:
        return
    threads = threads_of(plan)
    many = "1 thread" if threads == 1 else f"{threads} threads"
    progress.note(f"  {len(tasks)} {'task' if len(tasks) == 1 else 'tasks'} for workers of {many} each")
    with progress.clock.within("workers"), progress.step("passes", sum(t.texts for t in tasks), "texts") as step:
        for task in engine.do(Job.of(plan, out, offline), worker, tasks, progress):
            step.advance(task.texts)
