"""Parallel work: many small jobs at once, each with one thread, instead of one small job on all cores.

A product of a few hundred rows takes less time than its threads need to meet. So work of many small parts runs part by
part on all cores, whose number is ``torch.get_num_threads()``: one inside a part, so parts of parts run in sequence.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import cache, cached_property
from threading import Event, RLock
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")

_SPINS = "100000"
"""To wake a thread takes as long as a small product: a study of a decoder of 30 × 576 took 85 s without spins, and 66 s
with them."""

NARROW = 640
"""Width of states up to which an operation has one thread. Beside a busy process a study of a decoder of width 576 took
59 s so, and 120 s with two threads; alone 43 s and 40 s. One of width 384 took 19 and 31 s; alone 16 s both."""
_allowed: ContextVar[int | None] = ContextVar("allowed", default=None)
"""How many parts may run at the same time, where operations have fewer threads than that."""
_over: ContextVar[Event | None] = ContextVar("over", default=None)


class GivenUp(Exception):
    """Raised in a job of :func:`spread` whose result is not needed any more."""


def let_waiting_threads_sleep() -> None:
    """Let threads of OpenMP that wait for one another spin for some milliseconds and then sleep.

    Call this before torch is imported, which reads the setting. A setting of the environment stays.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)


_ARENA_MAX = -8


def let_threads_share_memory() -> None:
    """Let threads take memory from as many arenas of the C library as there are cores, not from eight times as many.

    A thread can only reuse what was freed in its own arena, and threads come and go: all metrics of an encoder of
    6 × 384 took 1.9 GB with the usual number, and 1.3 GB with two. A setting of the environment stays.
    """
    if "MALLOC_ARENA_MAX" not in os.environ:
        with suppress(AttributeError, OSError, TypeError):  # other C libraries have no such setting
            ctypes.CDLL(None).mallopt(_ARENA_MAX, max(2, os.cpu_count() or 1))


@cache
def _libraries(scipy: bool) -> ThreadpoolController:
    """Return the controller of the libraries; made again once SciPy has loaded its own library."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def given(count: int | None) -> Iterator[None]:
    """Let torch, NumPy, SciPy and :func:`spread` use ``count`` threads inside the block; None changes nothing."""
    if count is None:
        yield
        return
    import torch

    usual = torch.get_num_threads()
    with _libraries("scipy.linalg" in sys.modules).limit(limits=count, user_api="blas"):
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(usual)


def single() -> AbstractContextManager[None]:
    """Let torch, NumPy and SciPy use one thread inside the block."""
    return given(1)


@contextmanager
def suited_to(width: int, device: str, tasks: int = 1) -> Iterator[None]:
    """Let operations on states of a width use as many threads as pay inside the block: one, if narrow.

    Threads of one operation wait for each other. That costs little on an idle machine, and a multiple of the time on a
    machine with another busy process. So wide ones have one thread as well where as many tasks as there are cores run
    at the same time. :func:`spread` and :class:`Ahead` still use all cores.
    """
    if device != "cpu" or (width > NARROW and tasks < cores()):
        yield
        return
    token = _allowed.set(cores())
    try:
        with single():
            yield
    finally:
        _allowed.reset(token)


class computed_once(cached_property[R]):
    """A cached property that one thread computes while others wait for it."""

    _computing: ClassVar = RLock()

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> R:  # type: ignore[override]
        """Return the value, which is stored with the instance and does not come here again."""
        with self._computing:
            value: R = super().__get__(instance, owner)
            return value


def cores() -> int:
    """Return how many parts of some work run at the same time: torch's threads, or all cores without torch."""
    if (allowed := _allowed.get()) is not None:
        return allowed
    if "torch" not in sys.modules:
        return os.cpu_count() or 1
    import torch

    return torch.get_num_threads()


def tasks_at_once() -> int:
    """Return how many operations may run at the same time: all cores where each has one thread, else one."""
    import torch

    return cores() if torch.get_num_threads() == 1 else 1


def raise_if_cancelled() -> None:
    """Raise ``GivenUp`` where another job of :func:`spread` failed or Ctrl-C was pressed; long jobs call this often."""
    if (over := _over.get()) is not None and over.is_set():
        raise GivenUp


def spread(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return the results of a function for each item, in order, computed on all cores with one thread for each item.

    Modes of torch and NumPy inside are those of the caller. The first error, in the order of the items, is raised, and
    items that have not begun by then are dropped.
    """
    import torch

    items = list(items)
    count = min(cores(), len(items))
    if count < 2:
        return [function(item) for item in items]
    inferring, learning = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
    over = Event()

    def run(item: T) -> R:
        _over.set(over)
        _allowed.set(1)
        with ExitStack() as modes:  # which hold for a thread, not for the whole process
            modes.enter_context(torch.inference_mode(inferring))
            if not inferring:
                modes.enter_context(torch.set_grad_enabled(learning))
            return function(item)

    with single(), ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        begun = [pool.submit(copy_context().run, run, item) for item in items]
        try:
            return [job.result() for job in begun]
        finally:
            over.set()
            pool.shutdown(cancel_futures=True)


class Ahead(Generic[T, R]):
    """Jobs with one thread each that run on other cores while the caller works on the results of earlier ones.

    ``next`` returns an item and its result, in the order in which items were given. With ``cores`` of 1 each job runs
    when its result is asked for.

    Args:
        function: what is done with each item; several threads call it at the same time.
        cores: how many jobs run at the same time.
    """

    def __init__(self, function: Callable[[T], R], cores: int) -> None:
        import torch

        self._function, self._running = function, deque[tuple[T, Future[R] | None]]()
        self._pool = ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,)) if cores > 1 else None

    def __len__(self) -> int:
        return len(self._running)

    def give(self, item: T) -> None:
        """Have the next item worked on."""
        job = None if self._pool is None else self._pool.submit(copy_context().run, self._alone, item)
        self._running.append((item, job))

    def _alone(self, item: T) -> R:
        _allowed.set(1)
        return self._function(item)

    def next(self) -> tuple[T, R]:
        """Return the oldest item and its result; an error of the job is raised, and the item stays the oldest."""
        item, job = self._running[0]
        result = self._function(item) if job is None else job.result()
        self._running.popleft()
        return item, result

    def take_back(self) -> list[T]:
        """Return all items whose results were not asked for, in their order; their jobs have ended."""
        items = [item for item, _ in self._running]
        for _, job in self._running:
            if job is not None and not job.cancel():
                job.exception()
        self._running.clear()
        return items

    def __enter__(self) -> Ahead[T, R]:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
