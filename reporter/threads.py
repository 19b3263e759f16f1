"""How the cores are shared: many small jobs side by side, each with one thread, instead of one small job on all cores.

A product or an eigenproblem of a few hundred rows is done sooner than the threads that were to share it have met, and
on a busy machine they spin while they wait for one another. So work that falls into many small parts is spread over the
cores part by part. How many cores there are is what torch was told (``torch.get_num_threads()``): inside a part that is
one, so that parts of parts run one after the other.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")

_SPINS = 100_000
"""How often a thread looks for the others before it sleeps: some milliseconds. Being woken takes as long as
a small product: a study of a decoder of 30 × 576 took 85 s where threads slept at once, and 66 s with this."""
_RUNNING = Path("/proc/loadavg")  # says how many threads run at this moment, of all processes

_over: ContextVar[Event | None] = ContextVar("over", default=None)


class GivenUp(Exception):
    """What others wait for no longer: a job that was begun beside them ends with it."""


def let_waiting_threads_sleep() -> None:
    """Let threads of OpenMP that wait for one another spin for a moment and then sleep; at once on a busy machine.

    There those that spin keep the others from working that they wait for. It is read when torch is loaded, so call this
    before; what the environment says already stays.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        os.environ.setdefault("GOMP_SPINCOUNT", "0" if _is_busy() else str(_SPINS))


def _is_busy() -> bool:
    """Return whether other processes keep half of the cores at work; where the system does not tell, they do not."""
    half = (os.cpu_count() or 1) / 2
    try:
        if _others() < half:
            return False
        time.sleep(0.005)  # one that happens to run for a moment is no work
        return _others() >= half
    except (OSError, ValueError, IndexError):
        return False


def _others() -> int:
    return int(_RUNNING.read_text().split()[3].partition("/")[0]) - 1  # without this one


@cache
def _libraries(scipy: bool) -> ThreadpoolController:
    """Return what sets the threads of linear algebra; looked for again once SciPy has brought its own."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def given(count: int | None) -> Iterator[None]:
    """Let torch, the linear algebra of NumPy and SciPy, and :func:`spread` use so many threads.

    Args:
        count: how many; as many as they use by themselves (one for each core that this process may use) if None.
    """
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
    """Let torch, and the linear algebra of NumPy and SciPy, use one thread."""
    return given(1)


def go_on() -> None:
    """Do nothing, unless what :func:`spread` does this for has ended; called now and then by jobs that take long.

    Raises:
        GivenUp: if another job failed, or somebody pressed Ctrl-C: nobody waits for this one.
    """
    if (over := _over.get()) is not None and over.is_set():
        raise GivenUp


def spread(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return what a function makes of each item, in their order, computed on all cores, each item with one thread.

    What a function makes of an item must not depend on the others. Gains where most of the time is spent outside of
    Python. Gradients, and the handling of floating-point errors, are as where it was called.

    Args:
        function: what is done.
        items: with what.

    Raises:
        Exception: what the function raised for the first item for which it did; items not begun by then are left.
    """
    import torch

    items = list(items)
    cores = min(torch.get_num_threads(), len(items))
    if cores < 2:
        return [function(item) for item in items]
    inferring, learning = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
    over = Event()

    def job(item: T) -> R:
        _over.set(over)
        with ExitStack() as modes:  # which hold for a thread, not for the whole process
            modes.enter_context(torch.inference_mode(inferring))
            if not inferring:
                modes.enter_context(torch.set_grad_enabled(learning))
            return function(item)

    with single(), ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        begun = [pool.submit(copy_context().run, job, item) for item in items]
        try:
            return [one.result() for one in begun]
        finally:
            over.set()
            pool.shutdown(cancel_futures=True)
