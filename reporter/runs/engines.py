"""Engines: which processes do the tasks of a plan. The run itself does every task that no engine did."""

from __future__ import annotations

import io
import multiprocessing
import os
import shlex
import signal
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.core.errors import ReporterError, UsageError, first_line
from reporter.core.imports import build, check_installed, optional
from reporter.core.numbers import counted
from reporter.core.progress import Progress
from reporter.core.threads import given
from reporter.runs.plan import Plan
from reporter.study.study import RunSpec

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from reporter.runs.tasks import Task, Worker

MOST_JOBS = 1000  # of a Slurm array, as clusters usually allow
_LOOK_AGAIN_SECONDS = 0.5
_HUNG_SECONDS = 300.0  # without a finished task or a refreshed lock
_ENDING_SECONDS = 10.0  # for a worker to end when nothing is left to do, or when it is terminated
_TRIES = 3  # of a task whose Ray actor or machine died
_RAY = "the engine ray"


@dataclass(frozen=True)
class Job:
    """The input of a process on another machine; it sees the study's file and the results folder there too."""

    path: Path
    text: str
    out: Path
    offline: bool

    def plan(self) -> Plan:
        """Read the study and make its plan, without the database."""
        from reporter.runs.planner import plan_study
        from reporter.runs.studies import read_text

        return plan_study(read_text(self.path, self.text), self.out, offline=self.offline, blind=True)

    def worker(self, stack: ExitStack, gpu: int | None = None) -> Worker:
        """Return a worker for the job in this process, with its threads until the stack closes.

        Args:
            stack: closes when the worker ends.
            gpu: the number of the worker, which picks its GPU; None where another program picks it.
        """
        from reporter.runs.tasks import Worker, threads_of

        plan = self.plan()
        stack.enter_context(given(threads_of(plan)))
        device = None if gpu is None else _gpu(plan.file.study.run.device, gpu)
        return Worker(plan, self.out, self.offline, Progress(io.StringIO()), device)


@dataclass(frozen=True)
class Processes:
    """Several processes of this machine; on a machine with GPUs they take the GPUs in turn."""

    count: int

    def do(self, job: Job, worker: Worker, tasks: Sequence[Task], progress: Progress) -> Iterator[Task]:
        """Start processes that each do a share and then help the others; yield each task when it is done."""
        count = min(self.count, len(tasks))
        context = multiprocessing.get_context("spawn")
        started = [
            context.Process(target=_work, args=(job, list(tasks), number, count), daemon=True)
            for number in range(1, count + 1)
        ]
        with _safe_path():
            for process in started:
                process.start()
        try:
            left, refreshed, since = list(tasks), [0], time.monotonic()
            while left:
                over = not any(process.is_alive() for process in started)
                done = [task for task in left if worker.is_done(task)]
                yield from done
                left = [task for task in left if task not in done]
                if over:
                    break
                before, refreshed = refreshed, [worker.refreshed(task) for task in left]
                if done or refreshed != before:
                    since = time.monotonic()
                elif time.monotonic() - since > _HUNG_SECONDS:
                    progress.note("  the workers do not respond and are ended; this process does the remaining tasks")
                    break
                time.sleep(_LOOK_AGAIN_SECONDS)
            _note_ends(started, progress)
        finally:
            for process in started:
                if process.is_alive():
                    process.terminate()
                process.join(_ENDING_SECONDS)
                if process.is_alive():  # it hangs, or is suspended
                    process.kill()
                    process.join()


@contextmanager
def _safe_path() -> Iterator[None]:
    """Start processes that import nothing from the current folder, which may hold files of other people."""
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
    until = time.monotonic() + _ENDING_SECONDS  # the workers find that all tasks are done
    for number, process in enumerate(started, 1):
        process.join(max(0.0, until - time.monotonic()))
        if process.exitcode and process.exitcode < 0:
            name = signal.Signals(-process.exitcode).name
            progress.note(f"  worker {number} was ended by {name}; other workers did its tasks")


def _work(job: Job, tasks: Sequence[Task], number: int, total: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent process reports the interrupt
    from reporter.runs.tasks import share

    parent = os.getppid()
    with ExitStack() as stack:
        worker = job.worker(stack, number - 1)
        share(worker, tasks, number, total, Progress(io.StringIO()), lambda: os.getppid() != parent)


def _gpu(device: str, number: int) -> str | None:
    import torch

    if device in ("auto", "cuda") and torch.cuda.is_available():
        return f"cuda:{number % torch.cuda.device_count()}"
    return None


@dataclass(frozen=True)
class OnRay:
    """A Ray cluster; every machine must see the study's folder and the results folder under the same path.

    Args:
        address: of its head, such as ``10.0.0.1:6379``, or ``auto`` for the cluster of this machine; None starts a
            cluster of this machine alone and stops it afterwards.
        workers: the most actors; None for as many as the cluster has room for.
    """

    address: str | None = None
    workers: int | None = None

    def do(self, job: Job, worker: Worker, tasks: Sequence[Task], progress: Progress) -> Iterator[Task]:
        """Yield each task when an actor has done it."""
        ray = optional("ray", "ray", _RAY)
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address is None:
            options["include_dashboard"] = False
        try:
            ray.init(address=self.address, **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            problem = "cannot start Ray on this machine"
            if self.address is not None:
                problem = f"cannot connect to a Ray cluster at {self.address}; start it, or correct --address"
            raise ReporterError(f"{problem}: {first_line(error)}") from None
        try:
            if differences := _differences(ray):
                progress.note(f"  software differs between machines, so numbers may differ: {'. '.join(differences)}")
            yield from _Cluster(ray, job, worker, self.workers, progress).do(tasks)
        finally:
            ray.shutdown()


class _Cluster:
    """Gives tasks to actors: each keeps the weights of one checkpoint while there are tasks for them."""

    def __init__(self, ray: Any, job: Job, worker: Worker, most: int | None, progress: Progress) -> None:
        self._ray, self._job, self._worker, self._most, self._progress = ray, job, worker, most, progress
        self._actor = ray.remote(_Actor)
        self._on_gpus = worker.wants_gpu(ray.cluster_resources().get("GPU", 0) > 0)
        self._waiting: dict[str, deque[Task]] = {}  # by checkpoint
        self._running: dict[Any, tuple[Any, Task]] = {}  # by what Ray returns: the actor and its task
        self._deaths: Counter[str] = Counter()

    def do(self, tasks: Sequence[Task]) -> Iterator[Task]:
        for task in tasks:
            self._waiting.setdefault(task.checkpoint, deque()).append(task)
        while self._waiting or self._running:
            while self._waiting and len(self._running) < self._room():
                self._start()
            (ready,), _ = self._ray.wait(list(self._running), num_returns=1)
            actor, task = self._running.pop(ready)
            try:
                self._ray.get(ready)
            except self._ray.exceptions.RayActorError:  # its machine died, or its process
                self._retried(task)
                continue
            except self._ray.exceptions.RayTaskError as error:
                self._progress.note(f"  failed: {task}: {first_line(error.cause)}")
            else:
                yield task
            if task.checkpoint in self._waiting:
                self._give(actor, task.checkpoint)
            else:
                self._ray.kill(actor)  # its weights make room for others

    def _room(self) -> int:
        resources = self._ray.cluster_resources()
        room = int(resources.get("GPU", 0)) if self._on_gpus else int(resources.get("CPU", 0) // self._worker.threads)
        return max(1, min(room, self._most or room))

    def _start(self) -> None:
        actors = Counter(task.checkpoint for _, task in self._running.values())
        name = max(self._waiting, key=lambda name: len(self._waiting[name]) / (1 + actors[name]))
        largest = max((node["Resources"].get("memory", 0) for node in self._ray.nodes() if node["Alive"]), default=0)
        actor = self._actor.options(
            max_restarts=0,
            num_cpus=self._worker.threads,
            num_gpus=1 if self._on_gpus else 0,
            memory=int(min(self._worker.memory(self._waiting[name][0]), largest / 2)),
        )
        self._give(actor.remote(self._job), name)

    def _give(self, actor: Any, checkpoint: str) -> None:
        task = self._waiting[checkpoint].popleft()
        if not self._waiting[checkpoint]:
            del self._waiting[checkpoint]
        self._running[actor.do.remote(task)] = (actor, task)

    def _retried(self, task: Task) -> None:
        self._deaths[str(task)] += 1
        if self._deaths[str(task)] > _TRIES:
            raise ReporterError(f"{task}: its actor died {self._deaths[str(task)]} times; see Ray's logs for the cause")
        self._progress.note(f"  {task}: its actor died; another actor takes over")
        self._waiting.setdefault(task.checkpoint, deque()).append(task)


class _Actor:
    """Does tasks on the machine that Ray chooses. States never travel: an actor leaves files."""

    def __init__(self, job: Job) -> None:
        self._worker = job.worker(ExitStack())

    def do(self, task: Task) -> str:
        return str(self._worker.do(task))


def _versions() -> dict[str, str]:
    from reporter.runs.records import versions

    return versions() | {"reporter": build()}


def _differences(ray: Any) -> list[str]:
    """Return for each machine with other versions than this one its name and these versions."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here, differences = _versions(), []
    for node in ray.nodes():
        if node["Alive"]:
            on_node = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            remote = ray.remote(_versions).options(num_cpus=0, scheduling_strategy=on_node)
            versions = ray.get(remote.remote())
            differ = [
                f"{name} {versions.get(name, 'missing')}, here {number}"
                for name, number in here.items()
                if versions.get(name) != number
            ]
            if differ:
                differences.append(f"{node['NodeManagerHostname']} has {'; '.join(differ)}")
    return differences


def engine_of(
    run: RunSpec, engine: str | None, workers: int | None, address: str | None, idle: bool = False
) -> Processes | OnRay | None:
    """Return the engine that a call or else a study asks for; None: this process does all tasks.

    Args:
        run: the section of the study.
        engine: ``local`` or ``ray``, as the call asks.
        workers: how many processes or actors the call asks for.
        address: of a Ray cluster, as the call asks.
        idle: whether the study has nothing to compute, so that its own engine may be missing.

    Raises:
        UsageError: an address is given to an engine other than Ray, or Ray is not installed.
    """
    name, count = engine or run.engine, workers or run.workers
    address = address or (run.address if name == run.engine else None)  # a study's address is for its own engine
    if name == "ray":
        if engine or not idle:
            check_installed("ray", "ray", _RAY)
        return OnRay(address, count)
    if address is not None:
        raise UsageError(
            f"the address {address} is for Ray only; add --engine ray, or `engine: ray` under `run` in the study"
        )
    return None if count is None else Processes(count)


def have_done(engine: Processes | OnRay, plan: Plan, out: Path, offline: bool, progress: Progress) -> None:
    """Have an engine do the tasks of a plan, and show its progress.

    Raises:
        ReporterError: the engine cannot be reached.
    """
    from reporter.runs.tasks import Task, Worker, threads_of

    worker = Worker(plan, out, offline, progress)
    tasks, texts_of = list[Task](), Counter[str]()
    for task in (every := worker.tasks()):
        texts_of[task.of] += task.texts
    for task in every:
        if worker.is_done(task):
            progress.finished(task.of, task.texts / texts_of[task.of])
        else:
            tasks.append(task)
    if not tasks:
        return
    progress.note(f"  {counted(len(tasks), 'task')} for workers of {counted(threads_of(plan), 'thread')} each")
    job = Job(plan.file.path.resolve(), plan.file.text, out.resolve(), offline)
    with progress.clock.within("workers"), progress.step("passes", sum(t.texts for t in tasks), "texts") as advance:
        for task in engine.do(job, worker, tasks, progress):
            advance(task.texts)
            progress.finished(task.of, task.texts / texts_of[task.of])


def job_array(plan: Plan, spec: Path, out: Path, sets: Sequence[str], *, offline: bool, at_once: int) -> str:
    """Return a script for ``sbatch`` that does the unfinished tasks of a plan.

    Args:
        plan: what would run.
        spec: the file of the study.
        out: the results folder, which all machines see.
        sets: overrides of the study, as KEY=VALUE.
        offline: whether workers never ask a hub.
        at_once: the most jobs that run at the same time.
    """
    from reporter.runs.tasks import Worker

    worker = Worker(plan, out, offline, Progress())
    tasks = sum(not worker.is_done(task) for task in worker.tasks())
    options = [*(part for change in sets for part in ("--set", change)), *(["--offline"] if offline else [])]
    needs = [f"--cpus-per-task={worker.threads}", *(["--gpus=1"] if worker.wants_gpu(False) else [])]
    return script(plan.file.study.study, spec, out, tasks, needs, at_once=at_once, options=options)


def script(
    study: str, spec: Path, out: Path, tasks: int, needs: Sequence[str], *, at_once: int, options: Sequence[str] = ()
) -> str:
    """Return a script for ``sbatch``; a job that is killed, requeued or started twice changes no number.

    Args:
        study: id of the study.
        spec: its file.
        out: the results folder.
        tasks: how many tasks are to be done.
        needs: what each job asks Slurm for.
        at_once: the most jobs that run at the same time.
        options: further options of ``reporter run``.
    """
    jobs = max(1, min(tasks, MOST_JOBS))
    command = f"reporter run {shlex.join([str(spec.resolve()), '--out', str(out.resolve()), *options])}"
    settings = [f"--job-name=reporter-{study}", f"--array=1-{jobs}%{max(1, min(at_once, jobs))}", *needs]
    settings += ["--requeue", "--open-mode=append", "--output=reporter-%A_%a.log"]
    return "\n".join(
        [
            "#!/bin/bash",
            f"# Study {study}: {counted(tasks, 'task')} to do. Submit this with sbatch. When all jobs have ended, run:",
            f"#   {command}",
            *(f"#SBATCH {setting}" for setting in settings),
            # exec: the signal that comes before the end reaches reporter, which then unlocks its task
            f'exec {command} --share "$SLURM_ARRAY_TASK_ID/{jobs}"',
        ]
    )
