"""Tells a person how far long work has come: a bar on a terminal, one plain line for each finished step elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO


class Step(Protocol):
    """A step of known length."""

    def advance(self, amount: int) -> None:
        """Say that ``amount`` more units are done."""


class _Silent:
    def advance(self, amount: int) -> None:
        pass


class Progress:
    """Where progress and notes go.

    Args:
        stream: standard error by default, so that standard output stays clean.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr

    def note(self, text: str) -> None:
        """Say one thing."""
        print(text, file=self.stream, flush=True)

    @contextmanager
    def step(self, name: str, total: int, unit: str) -> Iterator[Step]:
        """Show one step while it runs; on success its duration is printed."""
        began = time.perf_counter()
        if self.stream.isatty():
            with _bar(name, total, unit, self.stream) as bar:
                yield bar
        else:
            yield _Silent()
        self.note(f"  {name}: {total:,} {unit} in {time.perf_counter() - began:.1f} s")

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
def _bar(name: str, total: int, unit: str, stream: TextIO) -> Iterator[Step]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("  {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(file=stream), transient=True) as bars:
        task = bars.add_task(escape(name), total=total)

        class _Bar:
            def advance(self, amount: int) -> None:
                bars.advance(task, amount)

        yield _Bar()
