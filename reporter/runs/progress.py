"""Tells a person how far long work has come: a bar on a terminal; elsewhere a plain line for each finished step.

Where nothing was said for half a minute, a line says what is being done.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Protocol, TextIO

from reporter.runs.clock import Clock


class Step(Protocol):
    """A step of known length."""

    def advance(self, amount: int) -> None:
        """Say that ``amount`` more units are done."""


QUIET = 30.0
"""Seconds after which somebody who reads a log is told that work goes on."""


@dataclass
class _Doing:
    """What is being done, how much of it there is and how much of it is done; ``total`` is 0 where nobody knows."""

    name: str
    unit: str
    total: int
    done: int

    def advance(self, amount: int) -> None:
        self.done += amount

    def __str__(self) -> str:
        if not self.total:
            return self.name
        return f"{self.name}: {self.done:,} of {self.total:,} {self.unit}".rstrip() + f" ({self.done / self.total:.0%})"


class Progress:
    """Where progress and notes go, and the clock of the run.

    Args:
        stream: standard error by default, so that standard output stays clean.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.clock = Clock()
        self._doing: _Doing | None = None
        self._said = time.monotonic()

    def note(self, text: str) -> None:
        """Say one thing."""
        print(text, file=self.stream, flush=True)
        self._said = time.monotonic()

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Say inside, where there is no bar to see, what is being done whenever nothing was said for half a minute."""
        if self.stream.isatty():
            yield
            return
        over = Event()

        def remind() -> None:
            wait = QUIET
            while not over.wait(wait):
                wait = self.remind(time.monotonic())

        watch = Thread(target=remind, daemon=True)
        watch.start()
        try:
            yield
        finally:
            over.set()
            watch.join()

    def remind(self, now: float) -> float:
        """Say what is being done if nothing was said for half a minute; return after how many seconds to ask again.

        Args:
            now: the time, as ``time.monotonic`` has it.
        """
        if (left := self._said + QUIET - now) > 0:
            return left
        self.note(f"  … {self._doing or self.clock.doing}")
        return QUIET

    @contextmanager
    def step(self, name: str, total: int, unit: str, done: int = 0) -> Iterator[Step]:
        """Show one step while it runs: how much of it is done, how fast, and the time left; then its duration.

        Args:
            name: of the step.
            total: how many units it has.
            unit: their name.
            done: how many of them were done before.
        """
        began = time.perf_counter()
        if self.stream.isatty():
            with _bar(name, total, unit, done, self.stream) as bar:
                yield bar
        else:
            with self._now(_Doing(name, unit, total, done)) as doing:
                yield doing
        seconds = time.perf_counter() - began
        self.note(f"  {name}: {total:,} {unit} in {seconds:.1f} s" + _speed(total - done, seconds))

    @contextmanager
    def telling(self, name: str) -> Iterator[Callable[[str, int, int], None]]:
        """Show work whose parts are found out on the way; yields what is told part, amount done, amount in all.

        On success the duration of the whole is printed.
        """
        began = time.perf_counter()
        if self.stream.isatty():
            with _parts(name, self.stream) as tell:
                yield tell
        else:
            with self._now(_Doing(name, "", 0, 0)) as doing:

                def tell(what: str, done: int, total: int) -> None:
                    doing.name, doing.done, doing.total = f"{name}: {what}", done, total

                yield tell
        self.note(f"  {name}: {time.perf_counter() - began:.1f} s")

    @contextmanager
    def _now(self, doing: _Doing) -> Iterator[_Doing]:
        before, self._doing = self._doing, doing
        try:
            yield doing
        finally:
            self._doing = before


def _speed(amount: int, seconds: float) -> str:
    return f", {amount / seconds:,.0f} a second" if seconds > 1 else ""


@contextmanager
def _parts(name: str, stream: TextIO) -> Iterator[Callable[[str, int, int], None]]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("  {task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(file=stream), transient=True) as bars:
        task = bars.add_task(escape(name), total=None)
        said = ""

        def tell(what: str, done: int, total: int) -> None:
            nonlocal said
            if what != said:
                said = what
                bars.reset(task, description=f"{escape(name)}: {escape(what)}")
            bars.update(task, completed=done, total=total)

        yield tell


@contextmanager
def _bar(name: str, total: int, unit: str, done: int, stream: TextIO) -> Iterator[Step]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, ProgressColumn, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars
    from rich.text import Text

    class _Done(ProgressColumn):
        """How much is done, and how much of it in a second."""

        def render(self, task: Task) -> Text:
            speed = f", {task.speed:,.0f} a second" if task.speed else ""
            return Text(f"{task.completed:,.0f} of {total:,} {unit}{speed}")

    columns = (TextColumn("  {task.description}"), BarColumn(), TaskProgressColumn(), _Done(), TimeRemainingColumn())
    with Bars(*columns, console=Console(file=stream), transient=True) as bars:
        task = bars.add_task(escape(name), total=total, completed=done)

        class _Bar:
            def advance(self, amount: int) -> None:
                bars.advance(task, amount)

        yield _Bar()
