"""Tasks: a checkpoint on a range of a corpus, done by any process that sees the folder, without the database.

What a task leaves is a folder of its own that never changes (:mod:`reporter.runs.parts`). So it does no harm that one
is done twice, late, or in another order; ``reporter run`` merges what is there in the order of the ranges.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from reporter.errors import UsageError, describe
from reporter.imports import importing
from reporter.locks import held_if_free, is_live
from reporter.models.load import LoadedModel, load
from reporter.models.pocket import prepare
from reporter.models.states import SavedStates, load_states
from reporter.runs.cache import FOLDERS
from reporter.runs.passes import Passes, wanted_by
from reporter.runs.plan import PRECISIONS, MetricCell, digest, or_raise
from reporter.runs.sizes import size_of
from reporter.runs.work import pick_device
from reporter.texts.ranges import ranges
from reporter.texts.tokens import shards

if TYPE_CHECKING:
    from reporter.models.checkpoint import Checkpoint
    from reporter.runs.feeding import Feeding
    from reporter.runs.kept import Want
    from reporter.runs.plan import Pass, Plan
    from reporter.runs.progress import Progress
    from reporter.texts.ranges import Range

THREADS = 1
"""Of a worker whose study says nothing of ``run.threads``.

How float32 sums are split among threads moves their last bits. So all workers have as many, however many they are.
"""

_LOOK_AGAIN_SECONDS = 1.0


@dataclass(frozen=True)
class Task:
    """A range of a pass; all of it can be sent to another machine.

    Args:
        of: name of the pass.
        checkpoint: name of model and checkpoint, which tasks have in common that need the same weights.
        index: of the range.
        texts: in the range.
        wanted: how much of each observable.
    """

    of: str
    checkpoint: str
    index: int
    texts: int
    wanted: Mapping[str, Want]

    def __str__(self) -> str:
        return f"{self.of}, range {self.index + 1}"


class Worker:
    """Does tasks of a plan in this process.

    Args:
        plan: the plan.
        out: the results folder.
        offline: never ask a hub.
        progress: where a task is shown.
        device: where models run; the study's if left out.
    """

    def __init__(self, plan: Plan, out: Path, offline: bool, progress: Progress, device: str | None = None) -> None:
        self._plan, self._offline, self._progress = plan, offline, progress
        self._run = run = plan.file.study.run
        self._device = cache(lambda: device or pick_device(run.device))
        self._folder = out / "cache" / FOLDERS["pass"]
        self._found = Passes(out / "cache", run.batch_tokens, offline, progress)
        self._passes = {str(of): of for cell in _to_run(plan) for of in cell.passes}
        self._prepared = cache(lambda model: prepare(or_raise(plan.checkpoints[model]), progress))
        self._ranges = cache(lambda name: ranges(shards(self._passes[name].texts)))
        self._loaded: tuple[str, LoadedModel | SavedStates] | None = None
        self._feeding: tuple[object, Feeding] | None = None

    @property
    def threads(self) -> int:
        """How many threads it has."""
        return threads_of(self._plan)

    def wants_gpu(self, there_is: bool) -> bool:
        """Tell whether it runs on a GPU.

        Args:
            there_is: whether there is one.
        """
        asked = self._run.device
        return asked.startswith("cuda") or (asked == "auto" and there_is)

    def memory(self, task: Task) -> int:
        """Return about how many bytes of memory a task takes: the weights, twice while they are read, and 2 GiB."""
        size = size_of(self._passes[task.of].checkpoint)
        return 2 * 2**30 + (int(8 * size.parameters) if size else 0)

    def tasks(self) -> list[Task]:
        """Return the tasks of the plan's passes, those together that need the same weights."""
        by_pass: dict[str, list[MetricCell]] = {}
        for cell in _to_run(self._plan):
            for of in cell.passes:
                by_pass.setdefault(str(of), []).append(cell)
        found: dict[str, list[Task]] = {}
        for name, cells in by_pass.items():
            wanted = wanted_by((cell.metric, cell.options, cell.views) for cell in cells)
            checkpoint = _label(self._passes[name].checkpoint)
            found.setdefault(checkpoint, []).extend(
                Task(name, checkpoint, one.index, one.stop - one.start, wanted) for one in self._ranges(name)
            )
        return [task for tasks in found.values() for task in tasks]

    def is_done(self, task: Task) -> bool:
        """Tell whether what a task leaves is there, in whichever precision would do."""
        of, one = self._passes[task.of], self._ranges(task.of)[task.index]
        ways = [of.settled(precision) for precision in PRECISIONS] if of.precision == "auto" else [of]
        return any(self._has(way, task, one) for way in ways)

    def _has(self, of: Pass, task: Task, one: Range) -> bool:
        missing = self._found.missing(of, task.wanted)
        return not missing or self._found.parts(of, missing).is_done(one)

    @contextmanager
    def leased(self, task: Task) -> Iterator[bool]:
        """Hold the lease of a task while this lasts, if nobody else does; yields whether it is held."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with held_if_free(self._lease(task)) as mine:
            yield mine

    def is_held(self, task: Task) -> bool:
        """Tell whether somebody is at a task."""
        return is_live(self._lease(task))

    def _lease(self, task: Task) -> Path:
        return self._folder / f"{digest({'pass': self._passes[task.of].inputs, 'range': task.index})}.lease"

    def do(self, task: Task) -> Path:
        """Do a task, or find it done; return the folder of what it left.

        Raises:
            ReporterError: the model cannot be trained or loaded, or the pass breaks.
        """
        of, one = self._passes[task.of], self._ranges(task.of)[task.index]
        ready = self._prepared(of.checkpoint.model)
        of = replace(of, checkpoint=next(found for found in ready if found.name == of.checkpoint.name))
        of, chosen = self._found.settled(of, task.wanted, lambda: self._model(of))
        missing = self._found.missing(of, task.wanted)
        parts = self._found.parts(of, missing)
        if not missing or parts.facts(one) is not None:
            return parts.place(one)
        parts.begin()  # from now on others do it in this precision, too
        key = task.of, parts.folder
        if self._feeding is None or self._feeding[0] != key:
            self._feeding = None  # its model may have to go first
            self._feeding = key, self._found.feeding(of, parts.wanted, self._model(of), chosen)
        feeding = self._feeding[1]
        size = feeding.tokens * task.texts // max(1, len(of.texts))
        with self._progress.step(str(task), size, "tokens", parts.tokens(one)) as step:
            fed = feeding.feed(one, parts, step.advance)
        parts.write(one, fed.observables, fed.facts, feeding.called)
        return parts.place(one)

    def _model(self, of: Pass) -> LoadedModel | SavedStates:
        """Return the loaded checkpoint of a pass; the one before is let go of."""
        name = str(of) if of.checkpoint.states else _label(of.checkpoint)
        if self._loaded is None or self._loaded[0] != name:
            self._loaded = self._feeding = None
            with self._progress.clock.within("loading", name), importing():
                if of.checkpoint.states:
                    self._loaded = name, load_states(of.checkpoint, of.texts.name, len(of.texts))
                else:
                    self._loaded = name, load(of.checkpoint, self._device(), self._offline)
        return self._loaded[1]


def share(
    worker: Worker,
    tasks: Sequence[Task],
    number: int,
    of: int,
    progress: Progress,
    stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Do one of several equal shares of some tasks, then what others left or died over, until all are done.

    Args:
        worker: does them.
        tasks: all of them; each share is a run of consecutive ones, so that few weights are loaded twice.
        number: which share, from 1.
        of: how many there are.
        progress: where it is said what failed.
        stopped: asked between tasks whether to end.

    Returns:
        how many tasks failed here; ``reporter run`` tries them once more, and says why.
    """
    start, stop = (len(tasks) * at // of for at in (number - 1, number))
    order = [*tasks[start:stop], *reversed([*tasks[:start], *tasks[stop:]])]
    failed: set[str] = set()
    waiting = False
    while left := [task for task in order if str(task) not in failed and not worker.is_done(task)]:
        at_work = False
        for task in left:
            if stopped():
                return len(failed)
            with worker.leased(task) as mine:
                if not mine or worker.is_done(task):
                    continue
                at_work, waiting = True, False
                try:
                    worker.do(task)
                except Exception as error:  # a task that fails must not take the others down
                    failed.add(str(task))
                    progress.note(f"  failed: {task}: {describe(error)}")
        if not at_work:
            if not waiting:
                progress.note(f"  waiting for {len(left)} {'task' if len(left) == 1 else 'tasks'} that others are at")
            waiting = True
            time.sleep(_LOOK_AGAIN_SECONDS)
    return len(failed)


def threads_of(plan: Plan) -> int:
    """Return how many threads each worker of a plan has."""
    return plan.file.study.run.threads or THREADS


def parse_share(said: str) -> tuple[int, int]:
    """Read ``3/16``. Raises ``UsageError`` for anything else."""
    first, _, second = said.partition("/")
    if first.isdecimal() and second.isdecimal() and 1 <= int(first) <= int(second):
        return int(first), int(second)
    raise UsageError(f"--share {said}: expected which share of how many, such as 3/16 for the third of sixteen")


def orphaned() -> Callable[[], bool]:
    """Return what tells whether the process that started this one has ended since now."""
    parent = os.getppid()
    return lambda: os.getppid() != parent


def _to_run(plan: Plan) -> list[MetricCell]:
    return [cell for cell in plan.cells if isinstance(cell, MetricCell) and cell.state == "run"]


def _label(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.model} {checkpoint.name}"
