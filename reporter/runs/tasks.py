"""Tasks: a checkpoint on a range of a corpus, done by any process that sees the results folder, without the database.

A task leaves a folder that never changes (:mod:`reporter.forward.kept`). So a task may be done twice, late, or in any
order; ``reporter run`` merges the folders in the order of the ranges.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from reporter.core.errors import UsageError, describe, failures
from reporter.core.imports import importing
from reporter.core.locks import held_if_free, lock_at
from reporter.core.numbers import counted
from reporter.core.progress import Progress
from reporter.core.threads import given
from reporter.forward.inputs import FOLDERS, PRECISIONS, Pass, size_of
from reporter.forward.kept import Amount
from reporter.forward.passes import Passes, ReadyPass
from reporter.models.checkpoint import Checkpoint
from reporter.models.load import LoadedModel, load
from reporter.models.model_folder import fingerprint
from reporter.models.states import SavedStates, load_states
from reporter.models.toy.training import prepare
from reporter.runs.cells import wanted_by
from reporter.runs.plan import MetricCell, Plan, or_raise
from reporter.runs.work import pick_device
from reporter.study import StudyFile
from reporter.texts.tokens import ranges, shards

THREADS = 1
"""Threads of a worker where the study has no ``run.threads``.

The last bits of float32 sums depend on how they are split among threads, so all workers have as many.
"""

_LOOK_AGAIN_SECONDS = 1.0


@dataclass(frozen=True)
class Task:
    """A range of a pass, which can be sent to another machine.

    Args:
        of: name of the pass.
        checkpoint: name of model and checkpoint: tasks with the same name need the same weights.
        index: of the range.
        texts: how many texts the range has.
        wants: how much of each observable.
    """

    of: str
    checkpoint: str
    index: int
    texts: int
    wants: Mapping[str, Amount]

    def __str__(self) -> str:
        return f"{self.of}, range {self.index + 1}"


class Worker:
    """Does tasks of a plan in this process; models run on ``device``, or else where the study says."""

    def __init__(self, plan: Plan, out: Path, offline: bool, progress: Progress, device: str | None = None) -> None:
        self._plan, self._offline, self._progress, self.threads = plan, offline, progress, threads_of(plan)
        self._run = run = plan.file.study.run
        self._device = cache(lambda: device or pick_device(run.device))
        self._folder = out / "cache" / FOLDERS["pass"]
        self._kept = Passes(out / "cache", run.batch_tokens, offline, progress)
        self._passes = plan.passes
        self._prepared = cache(lambda model: prepare(or_raise(plan.checkpoints[model]), progress))
        self._ranges = cache(lambda name: ranges(shards(self._passes[name].texts)))
        self._lock = cache(lock_at)
        self._loaded: tuple[str, LoadedModel | SavedStates] | None = None
        self._feeding: tuple[object, ReadyPass] | None = None

    def wants_gpu(self, there_is: bool) -> bool:
        """Return whether it runs on a GPU, where the machine has one or not."""
        return self._run.device.startswith("cuda") or (self._run.device == "auto" and there_is)

    def memory(self, task: Task) -> int:
        """Return an estimate of a task's memory in bytes: the weights, twice while they are read, and 2 GiB."""
        size = size_of(self._passes[task.of].checkpoint)
        return 2 * 2**30 + (int(8 * size.parameters) if size else 0)

    def tasks(self) -> list[Task]:
        """Return the tasks of the plan's passes, those together that need the same weights."""
        by_pass: dict[str, list[MetricCell]] = {}
        for cell in self._plan.to_measure:
            for forward_pass in cell.passes:
                by_pass.setdefault(str(forward_pass), []).append(cell)
        by_checkpoint: dict[str, list[Task]] = {}
        for name, cells in by_pass.items():
            wants = wanted_by((cell.metric, cell.options, cell.views) for cell in cells)
            checkpoint = _label(self._passes[name].checkpoint)
            by_checkpoint.setdefault(checkpoint, []).extend(
                Task(name, checkpoint, part.index, part.stop - part.start, wants) for part in self._ranges(name)
            )
        return [task for tasks in by_checkpoint.values() for task in tasks]

    def is_done(self, task: Task) -> bool:
        """Return whether the result of a task exists, in any precision that the study allows."""
        forward_pass, part = self._passes[task.of], self._ranges(task.of)[task.index]
        for way in map(forward_pass.settled, PRECISIONS):
            folder = self._kept.folder(way)
            missing = folder.missing(task.wants)
            if not missing or folder.parts(missing).is_done(part):
                return True
        return False

    @contextmanager
    def locked(self, task: Task) -> Iterator[bool]:
        """Hold the lock of a task inside the block unless another worker holds it; yields whether it is held."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with held_if_free(self._lock(self._lock_file(task))) as mine:
            yield mine

    def refreshed(self, task: Task) -> int:
        """Return when the lock of a task was refreshed last, in nanoseconds; 0 while no worker holds it."""
        try:
            return self._lock_file(task).stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _lock_file(self, task: Task) -> Path:
        name = fingerprint({"pass": self._passes[task.of].inputs, "range": task.index})
        return self._folder / f"{name}.lock"

    def do(self, task: Task) -> Path:
        """Do a task unless it is done, and return the folder of its result.

        Raises:
            ReporterError: the model cannot be trained or loaded, or the pass fails.
        """
        forward_pass, part = self._passes[task.of], self._ranges(task.of)[task.index]
        ready = self._prepared(forward_pass.checkpoint.model)
        forward_pass = replace(
            forward_pass, checkpoint=next(ckpt for ckpt in ready if ckpt.name == forward_pass.checkpoint.name)
        )
        forward_pass, chosen = self._kept.settled(forward_pass, task.wants, lambda: self._model(forward_pass))
        folder = self._kept.folder(forward_pass)
        missing = folder.missing(task.wants)
        parts = folder.parts(missing)
        if not missing or parts.facts(part) is not None:
            return parts.place(part)
        parts.begin()  # from now on other workers use this precision, too
        key = task.of, parts.folder
        if self._feeding is None or self._feeding[0] != key:
            self._feeding = None  # its model may have to go first
            model = self._model(forward_pass)
            self._feeding = key, ReadyPass(forward_pass, parts.wanted, model, chosen, self._kept)
        feeding = self._feeding[1]
        size = feeding.tokens * task.texts // max(1, len(forward_pass.texts))
        with self._progress.step(str(task), size, "tokens", parts.tokens(part)) as advance:
            observables, facts, _ = feeding.feed(part, parts, advance)
        parts.write(part, observables, facts, feeding.called)
        return parts.place(part)

    def _model(self, forward_pass: Pass) -> LoadedModel | SavedStates:
        name = str(forward_pass) if forward_pass.checkpoint.states else _label(forward_pass.checkpoint)
        if self._loaded is None or self._loaded[0] != name:
            self._loaded = self._feeding = None
            with self._progress.clock.within("loading", name), importing():
                if forward_pass.checkpoint.states:
                    self._loaded = name, load_states(forward_pass.checkpoint, forward_pass.texts)
                else:
                    self._loaded = name, load(forward_pass.checkpoint, self._device(), self._offline)
        return self._loaded[1]


def share(
    worker: Worker,
    tasks: Sequence[Task],
    number: int,
    total: int,
    progress: Progress,
    stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Do a share of some tasks, then unfinished or abandoned tasks of other shares; return how many failed here.

    ``reporter run`` tries failed tasks again and reports why.

    Args:
        worker: does them.
        tasks: all of them; a share is consecutive, so that few weights are loaded twice.
        number: which share, from 1.
        total: how many shares there are.
        progress: where failures are shown.
        stopped: called between tasks; returns whether to end.
    """
    start, stop = (len(tasks) * part // total for part in (number - 1, number))
    order = [*tasks[start:stop], *reversed([*tasks[:start], *tasks[stop:]])]
    failed: set[str] = set()
    waiting = False
    while left := [task for task in order if str(task) not in failed and not worker.is_done(task)]:
        at_work = False
        for task in left:
            if stopped():
                return len(failed)
            with worker.locked(task) as mine:
                if not mine or worker.is_done(task):
                    continue
                at_work, waiting = True, False
                try:
                    worker.do(task)
                except failures() as error:  # a task that fails must not take the others down
                    failed.add(str(task))
                    progress.note(f"  failed: {task}: {describe(error)}")
        if not at_work:
            if not waiting:
                progress.note(f"  waiting for {counted(len(left), 'task')} of other workers")
            waiting = True
            time.sleep(_LOOK_AGAIN_SECONDS)
    return len(failed)


def threads_of(plan: Plan) -> int:
    """Return how many threads each worker of a plan has."""
    return plan.file.study.run.threads or THREADS


def do_share(file: StudyFile, out: Path, number: int, total: int, *, offline: bool, progress: Progress) -> int:
    """Do a share of the tasks of a study for a later run to merge; return how many tasks failed.

    Args:
        file: the study.
        out: the results folder, which all workers see; the database stays closed.
        number: which share, from 1.
        total: how many shares there are.
        offline: never ask a hub.
        progress: where progress is shown.
    """
    from reporter.runs.planner import plan_study

    plan = plan_study(file, out, offline=offline, blind=True)
    with progress.reminding(), given(threads_of(plan)):
        worker = Worker(plan, out, offline, progress)
        tasks = worker.tasks()
        left = sum(not worker.is_done(task) for task in tasks)
        progress.note(f"{file.study.study}: {counted(len(tasks), 'task')}, {left} to do, share {number}/{total}")
        return share(worker, tasks, number, total, progress)


def parse_share(which: str) -> tuple[int, int]:
    """Read ``3/16``. Raises ``UsageError`` for anything else."""
    first, _, second = which.partition("/")
    if first.isdecimal() and second.isdecimal() and 1 <= int(first) <= int(second):
        return int(first), int(second)
    raise UsageError(f"--share {which}: expected I/N, such as 3/16 for share 3 of 16")


def _label(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.model} {checkpoint.name}"
