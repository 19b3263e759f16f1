"""Run code of other people in child processes, which can be ended: a thread inside a C or Rust call cannot.

A child is a fork. It has every object of its parent, so that results do not change, and starts within milliseconds.
Only Linux can fork a process with threads safely, as PyTorch's data loaders do there by default. On other systems the
same code runs in the process itself, without limits.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from threading import Lock
from typing import Any, Generic, NoReturn, TypeVar

from reporter.core.errors import ReporterError, UsageError, describe, failures, is_out_of_memory
from reporter.core.threads import cores

T = TypeVar("T")
R = TypeVar("R")

CAN_FORK = sys.platform == "linux"
SECONDS = 60.0
"""What a child may take in any case. Machines differ, and may be busy."""
MEMORY = 2 * 2**30
"""Bytes that a child may take in any case, beyond what its parent has."""
_MOST_CPU = 2.0  # of its seconds: it ends a child whose parent was killed
_BYTES = 2**30
_OUT_OF_TIME = {signal.SIGXCPU} if CAN_FORK else set()
_OUT_OF_MEMORY = {signal.SIGABRT, signal.SIGKILL} if CAN_FORK else set()  # of Rust and C++, and of the kernel


@dataclass(frozen=True)
class Limit:
    """The most that a child may take for one item.

    Args:
        what: what it does, in messages: ``the tokenizer``.
        seconds: by the clock.
        memory: bytes beyond the memory of its parent.
        remedy: what the user can do, in messages.
    """

    what: str
    remedy: str
    seconds: float = SECONDS
    memory: float = MEMORY

    def too_slow(self) -> ReporterError:
        """Return the error of a child that did not end."""
        return ReporterError(f"{self.what} did not finish within {self.seconds:.0f} s and was stopped; {self.remedy}")

    def too_large(self) -> ReporterError:
        """Return the error of a child whose memory ran out."""
        return ReporterError(f"{self.what} needs more than {self.memory / _BYTES:.1f} GiB of memory; {self.remedy}")


def in_child(function: Callable[[], R], limit: Limit) -> R:
    """Return the result of a function that runs in a child process; see :func:`in_children`."""
    (result,) = in_children(lambda _: function(), [None], lambda _: limit)
    return result


def in_children(function: Callable[[T], R], items: Sequence[T], limit: Callable[[T], Limit]) -> Iterator[R]:
    """Yield the result of a function for each item, in order; child processes compute them, one for each core.

    What the function changes stays in its child, except for files.

    Args:
        function: computes what can be pickled.
        items: its arguments.
        limit: returns what a child may take for an item.

    Raises:
        ReporterError: an item took too much time or memory, ended its process, or the function failed.
    """
    if not CAN_FORK:
        yield from map(function, items)
        return
    count = min(cores(), len(items))
    children: list[_Child[R]] = []
    try:
        for number in range(count):
            children.append(_Child(function, items[number::count], limit, children))
        for place, item in enumerate(items):
            yield children[place % count].result(limit(item))
    finally:
        for child in children:
            child.end()


class _Child(Generic[R]):
    def __init__(
        self, function: Callable[[T], R], items: Sequence[T], limit: Callable[[T], Limit], others: Sequence[_Child[R]]
    ) -> None:
        self._pipe, writer = Pipe(duplex=False)
        with _no_threads_of_tokenizers():
            self._id = os.fork()
        if self._id == 0:
            for reader in (self._pipe, *(other._pipe for other in others)):
                os.close(reader.fileno())  # so that a child notices when its parent is gone
            _compute(function, items, limit, writer)
        writer.close()

    def result(self, limit: Limit) -> R:
        """Wait for the next result."""
        try:
            if not self._pipe.poll(limit.seconds):
                raise limit.too_slow()
            kind, content = pickle.loads(self._pipe.recv_bytes())  # of our own process
        except (EOFError, ConnectionError):
            raise self._ended(limit) from None
        if kind == "memory":
            raise limit.too_large()
        if kind in ("error", "usage"):
            raise (UsageError if kind == "usage" else ReporterError)(content)
        result: R = content
        return result

    def _ended(self, limit: Limit) -> ReporterError:
        status = os.waitstatus_to_exitcode(os.waitpid(self._id, 0)[1])
        self._id = 0
        if -status in _OUT_OF_TIME:
            return limit.too_slow()
        if -status in _OUT_OF_MEMORY:
            return limit.too_large()
        name = signal.Signals(-status).name if status < 0 else f"exit code {status}"
        return ReporterError(f"{limit.what} crashed ({name}); {limit.remedy}")

    def end(self) -> None:
        """Kill the process, unless it has ended."""
        self._pipe.close()
        if self._id:
            with suppress(ProcessLookupError):
                os.kill(self._id, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self._id, 0)
            self._id = 0


_forking = Lock()


@contextmanager
def _no_threads_of_tokenizers() -> Iterator[None]:
    """Let a fork tokenise in one thread: the threads of the ``tokenizers`` library do not exist in it."""
    name = "TOKENIZERS_PARALLELISM"
    with _forking:
        before = os.environ.get(name)
        os.environ[name] = "false"
        parent = os.getpid()
        try:
            yield
        finally:
            if os.getpid() == parent:
                if before is None:
                    del os.environ[name]
                else:
                    os.environ[name] = before


# The other side: what runs in the child.


def _compute(
    function: Callable[[T], Any], items: Sequence[T], limit: Callable[[T], Limit], pipe: Connection
) -> NoReturn:
    """Send the results of a function, or its first error, and end the process without any clean-up of the parent."""
    try:
        faulthandler.disable()  # the parent says how its child ended
        gc.disable()  # a collection would copy all memory that is shared with the parent
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):  # Rust prints every panic
            os.dup2(nowhere, stream)
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")  # if memory runs out, the child goes first
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        here = pages * os.sysconf("SC_PAGE_SIZE")
        for item in items:
            _restrict(limit(item), here)
            pipe.send_bytes(_answer(function, item))
    finally:
        os._exit(0)


def _answer(function: Callable[[T], Any], item: T) -> bytes:
    try:
        return pickle.dumps(("result", function(item)), protocol=5)
    except ReporterError as error:
        return pickle.dumps(("usage" if isinstance(error, UsageError) else "error", str(error)))
    except failures() as error:
        return pickle.dumps(("memory", "") if is_out_of_memory(error) else ("error", describe(error)))


def _restrict(limit: Limit, here: int) -> None:
    import resource

    most = int(here + limit.memory)
    cpu = int(time.process_time() + _MOST_CPU * limit.seconds) + 1
    for kind, value in ((resource.RLIMIT_AS, most), (resource.RLIMIT_CPU, cpu), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
