"""Tells a person how far long work has come: a bar on a terminal, one plain line for each finished step elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from reporter.runs.clock import Clock


class Step(Protocol):
    """A step of known length."""

    def advance(self, amount: int) -> None:
        """Say that ``amount`` more units are done."""


class _Silent:
    def advance(self, amount: int) -> None:
        pass


class Progress:
    """Where progress and notes go, and the clock of the run.

    Args:
        stream: standard error by default, so that standard output stays clean.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.clock = Clock()

    def note(self, text: str) -> None:
        """Say one thing."""
        print(text, file=self.stream, flush=True)

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
            yield _Silent()
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
            yield lambda what, done, total: None
        self.note(f"  {name}: {time.perf_counter() - began:.1f} s")


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
