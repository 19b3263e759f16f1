"""Tasks on a Ray cluster: an actor for each checkpoint's weights, which leaves files and returns their paths.

Every machine must see the study's folder and the results folder under the same path. States never travel: Ray's object
store holds paths. An actor or a machine that dies costs what it was at, which another one goes on with.
"""

from __future__ import annotations

import io
import platform
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from reporter.build import build
from reporter.errors import ReporterError, first_line
from reporter.imports import optional

if TYPE_CHECKING:
    from reporter.runs.engines import Job
    from reporter.runs.progress import Progress
    from reporter.runs.tasks import Task, Worker

_TRIES = 3  # of a task whose actor or machine died


@dataclass(frozen=True)
class OnRay:
    """A Ray cluster.

    Args:
        address: of its head, such as ``10.0.0.1:6379``, or ``auto`` for one that runs on this machine; a cluster of
            this machine alone is started, and stopped, if left out.
        workers: actors at most; as many as the cluster has room for if left out.
    """

    address: str | None = None
    workers: int | None = None

    def do(self, job: Job, worker: Worker, tasks: Sequence[Task], progress: Progress) -> Iterator[Task]:
        """Yield each task as an actor has done it."""
        ray = optional("ray", "ray", "the engine ray")
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
        if self.address is not None:
            quiet.pop("include_dashboard")
        try:
            ray.init(address=self.address, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            said = first_line(error)
            raise ReporterError(f"no Ray cluster at {self.address or 'this machine'}: {said}") from None
        try:
            for said in _differences(ray):
                progress.note(f"  {said}")
            yield from _Cluster(ray, job, worker, self.workers, progress).do(tasks)
        finally:
            ray.shutdown()


class _Cluster:
    """Gives tasks to actors: each has the weights of one checkpoint while there are tasks for them.

    Args:
        ray: the package.
        job: what actors must know.
        worker: knows what a task needs.
        most: actors at most.
        progress: where notes go.
    """

    def __init__(self, ray: Any, job: Job, worker: Worker, most: int | None, progress: Progress) -> None:
        self._ray, self._job, self._worker, self._most, self._progress = ray, job, worker, most, progress
        self._actor = ray.remote(_Actor)
        self._on_gpus = worker.wants_gpu(ray.cluster_resources().get("GPU", 0) > 0)
        self._running: dict[Any, tuple[Any, Task]] = {}
        self._lost: dict[str, int] = {}

    def do(self, tasks: Sequence[Task]) -> Iterator[Task]:
        """Yield each task when it is done."""
        waiting: dict[str, deque[Task]] = {}
        for task in tasks:
            waiting.setdefault(task.checkpoint, deque()).append(task)
        while waiting or self._running:
            while waiting and len(self._running) < self._room():
                self._start(waiting)
            (ready,), _ = self._ray.wait(list(self._running), num_returns=1)
            actor, task = self._running.pop(ready)
            try:
                self._ray.get(ready)
            except self._ray.exceptions.RayActorError:  # its machine died, or its process
                self._again(task, waiting)
                continue
            except self._ray.exceptions.RayTaskError as error:
                self._progress.note(f"  failed: {task}: {first_line(error.cause)}")
            else:
                yield task
            if queue := waiting.get(task.checkpoint):
                self._give(actor, queue, waiting)
            else:
                self._ray.kill(actor)  # its weights make room for others

    def _room(self) -> int:
        """Return how many actors the cluster has room for now, one at least."""
        there = self._ray.cluster_resources()
        room = int(there.get("GPU", 0)) if self._on_gpus else int(there.get("CPU", 0) // self._worker.threads)
        return max(1, min(room, self._most or room))

    def _start(self, waiting: dict[str, deque[Task]]) -> None:
        """Start an actor for the weights that most tasks wait for, by actor that has them."""
        at: dict[str, int] = {}
        for _, task in self._running.values():
            at[task.checkpoint] = at.get(task.checkpoint, 0) + 1
        name = max(waiting, key=lambda name: len(waiting[name]) / (1 + at.get(name, 0)))
        needs: dict[str, Any] = {"num_cpus": self._worker.threads, "num_gpus": 1 if self._on_gpus else 0}
        largest = max((node["Resources"].get("memory", 0) for node in self._ray.nodes() if node["Alive"]), default=0)
        needs["memory"] = int(min(self._worker.memory(waiting[name][0]), largest / 2))
        actor = self._actor.options(max_restarts=0, **needs).remote(self._job)
        self._give(actor, waiting[name], waiting)

    def _give(self, actor: Any, queue: deque[Task], waiting: dict[str, deque[Task]]) -> None:
        task = queue.popleft()
        if not queue:
            del waiting[task.checkpoint]
        self._running[actor.do.remote(task)] = (actor, task)

    def _again(self, task: Task, waiting: dict[str, deque[Task]]) -> None:
        name = str(task)
        tries = self._lost[name] = self._lost.get(name, 0) + 1
        if tries > _TRIES:
            raise ReporterError(f"{task}: the actor that was at it died {tries} times; see Ray's logs for why")
        self._progress.note(f"  {task}: its actor died; another one goes on")
        waiting.setdefault(task.checkpoint, deque()).append(task)


class _Actor:
    """Does tasks on whichever machine Ray puts it."""

    def __init__(self, job: Job) -> None:
        from reporter.runs.progress import Progress
        from reporter.runs.tasks import Worker, threads_of
        from reporter.threads import given

        plan = job.plan()
        self._threads = ExitStack()
        self._threads.enter_context(given(threads_of(plan)))
        self._worker = Worker(plan, job.out, job.offline, Progress(io.StringIO()))

    def do(self, task: Task) -> str:
        """Do a task and return where it left what it left."""
        return str(self._worker.do(task))


def _versions() -> dict[str, str]:
    """Return the versions that numbers may hang on."""
    found = {"python": platform.python_version(), "reporter": build()}
    for name in ("torch", "transformers"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _differences(ray: Any) -> list[str]:
    """Say in one sentence which machines have other versions than this one."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ask = ray.remote(_versions)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    found = {}
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        found[ask.options(num_cpus=0, scheduling_strategy=there).remote()] = node["NodeManagerHostname"]
    here, said = _versions(), []
    for asked, host in found.items():
        there = ray.get(asked)
        differ = [
            f"{name} {there.get(name, 'missing')}, here {of}" for name, of in here.items() if there.get(name) != of
        ]
        if differ:
            said.append(f"{host} has {'; '.join(differ)}")
    return [f"versions differ, and numbers may: {'. '.join(said)}"] if said else []
