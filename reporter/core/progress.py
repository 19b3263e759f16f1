"""Progress of long work: a bar on a terminal; elsewhere a line for each finished step, and one after half a minute."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import TextIO

REST = "other"


class Clock:
    """Seconds of wall time by kind of work; work inside other work counts once, as the inner kind.

    Its parts are those of the main thread, so they add up to the whole.
    """

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}
        self._within = [(REST, "")]
        self._since = time.perf_counter()

    @contextmanager
    def within(self, what: str, detail: str = "") -> Iterator[None]:
        """Count the time inside the block as ``what``; progress also names what it is done ``detail``."""
        self._note()
        self._within.append((what, detail))
        try:
            yield
        finally:
            self._note()
            self._within.pop()

    @property
    def doing(self) -> str:
        """The part that time is counted for at this moment."""
        return " ".join(self._within[-1]).rstrip()

    def take(self, what: str, seconds: float) -> None:
        """Count some of the seconds since the innermost ``within`` began as ``what`` instead."""
        self._add(self._within[-1][0], -seconds)
        self._add(what, seconds)

    def spent(self, before: Mapping[str, float] | None = None) -> dict[str, float]:
        """Return the seconds of each part so far, or since ``before``, the longest first and the rest last."""
        self._note()
        parts = {what: seconds - (before or {}).get(what, 0.0) for what, seconds in self._spent.items()}
        positive = {what: seconds for what, seconds in parts.items() if seconds > 0}
        return dict(sorted(positive.items(), key=lambda part: (part[0] == REST, -part[1])))

    def line(self) -> str:
        """Return in one line where the time went; parts of less than half a percent are among the rest."""
        parts = self.spent()
        whole = sum(parts.values())
        small = [what for what, seconds in parts.items() if what != REST and seconds < whole / 200]
        if small:
            parts[REST] = parts.pop(REST, 0.0) + sum(parts.pop(what) for what in small)
        shares = (f"{what} {seconds:.1f} s ({seconds / whole:.0%})" for what, seconds in parts.items())
        return f"{whole:.1f} s: {', '.join(shares)}"

    def _note(self) -> None:
        now = time.perf_counter()
        self._add(self._within[-1][0], now - self._since)
        self._since = now

    def _add(self, what: str, seconds: float) -> None:
        self._spent[what] = self._spent.get(what, 0.0) + seconds


QUIET = 30.0
"""Seconds without a line after which a line says that work goes on."""


@dataclass
class _RunningStep:
    """A step that is running, and how much of it is done; ``total`` is 0 where it is unknown."""

    name: str
    unit: str
    total: int
    done: int
    show: Callable[[_RunningStep], None] = lambda doing: None

    def advance(self, amount: int) -> None:
        self.done += amount
        self.show(self)

    def tell(self, name: str, done: int, total: int) -> None:
        self.name, self.done, self.total = name, done, total
        self.show(self)

    def __str__(self) -> str:
        if not self.total:
            return self.name
        return f"{self.name}: {self.done:,} of {self.total:,} {self.unit}".rstrip() + f" ({self.done / self.total:.0%})"


class Progress:
    """Shows progress and notes on a stream, by default standard error, and has the clock of the run."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr or io.StringIO()  # a service may have closed it
        self.clock = Clock()
        self._doing: _RunningStep | None = None
        self._said = time.monotonic()

    def note(self, text: str) -> None:
        """Print a line."""
        with suppress(OSError):  # a full disk behind a log must not end the work
            print(text, file=self.stream, flush=True)
        self._said = time.monotonic()

    @contextmanager
    def reminding(self) -> Iterator[None]:
        """Print inside the block, where there is no bar, what is being done after half a minute without a line."""
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
        """Print what is being done if half a minute passed without a line; return the seconds until the next call."""
        if (left := self._said + QUIET - now) > 0:
            return left
        self.note(f"  … {self._doing or self.clock.doing}")
        return QUIET

    @contextmanager
    def step(self, name: str, total: int, unit: str, done: int = 0) -> Iterator[Callable[[int], None]]:
        """Show a step of ``total`` units while it runs, with its speed and the time left; then its duration.

        It yields a function that counts units as done.

        Args:
            name: of the step.
            total: how many units it has.
            unit: their name.
            done: how many of them were done before.
        """
        with self._shown(_RunningStep(name, unit, total, done)) as doing:
            began = time.perf_counter()
            yield doing.advance
        seconds = time.perf_counter() - began
        speed = f", {(total - done) / seconds:,.0f} a second" if seconds > 1 else ""
        self.note(f"  {name}: {total:,} {unit} in {seconds:.1f} s{speed}")

    @contextmanager
    def telling(self, name: str) -> Iterator[Callable[[str, int, int], None]]:
        """Show work whose parts are not known before; yields a function of part, amount done and amount in all.

        On success the duration of the whole is printed.
        """
        with self._shown(_RunningStep(name, "", 0, 0)) as doing:
            began = time.perf_counter()
            yield lambda part, done, total: doing.tell(f"{name}: {part}", done, total)
        self.note(f"  {name}: {time.perf_counter() - began:.1f} s")

    @contextmanager
    def _shown(self, doing: _RunningStep) -> Iterator[_RunningStep]:
        if self.stream.isatty():
            with _bar(doing, self.stream):
                yield doing
            return
        before, self._doing = self._doing, doing
        try:
            yield doing
        finally:
            self._doing = before


@contextmanager
def _bar(doing: _RunningStep, stream: TextIO) -> Iterator[None]:
    from rich import progress as rich
    from rich.console import Console
    from rich.markup import escape
    from rich.text import Text

    class _DoneColumn(rich.ProgressColumn):
        """Shows the amount done and the rate per second."""

        def render(self, task: rich.Task) -> Text:
            speed = f", {task.speed:,.0f} a second" if task.speed else ""
            return Text(f"{task.completed:,.0f} of {doing.total:,} {doing.unit}{speed}" if doing.unit else "")

    text, bar, share = rich.TextColumn("  {task.description}"), rich.BarColumn(), rich.TaskProgressColumn()
    columns = (text, bar, share, _DoneColumn(), rich.TimeRemainingColumn())
    with rich.Progress(*columns, console=Console(file=stream), transient=True) as bars:
        task = bars.add_task(escape(doing.name), total=doing.total or None, completed=doing.done)

        def show(doing: _RunningStep) -> None:
            if bars.tasks[0].description != escape(doing.name):
                bars.reset(task, description=escape(doing.name))
            bars.update(task, completed=doing.done, total=doing.total)

        doing.show = show
        yield
