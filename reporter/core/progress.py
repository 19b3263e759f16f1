"""Progress of a run and of its steps: two lines on a terminal, elsewhere a line a minute at most."""

from __future__ import annotations

import io
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any, TextIO

from reporter.core.numbers import counted, duration

REST, TRAINING = "other", "training"


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

    def of(self, what: str) -> float:
        """Return the seconds of a part so far; other threads may ask."""
        running = time.perf_counter() - self._since if self._within[-1][0] == what else 0.0
        return self._spent.get(what, 0.0) + running

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


def terminal_width() -> int | None:
    """Return the columns of the terminal that the output goes to; None where it goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


PACE = 60.0
"""Seconds from one line about progress to the next, where there is no terminal."""
_BAR = 16
_KNOWN_FROM = 0.02  # of a run: before, nothing is said of its time
_DOING = {
    REST: "working",
    "claims": "testing claims",
    "answers": "writing answers",
    "findings": "searching for findings",
    "report": "writing the report",
    "store": "reading and writing results",
}


@dataclass
class _RunningStep:
    """A step that is running, and how much of it is done; ``total`` is 0 where it is unknown."""

    name: str
    unit: str
    total: int
    done: int
    began: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self._before = self.done

    def advance(self, amount: int) -> None:
        self.done += amount

    def tell(self, name: str, done: int, total: int) -> None:
        self.name, self.done, self.total = name, done, total

    @property
    def share(self) -> float:
        return self.done / self.total if self.total else 0.0

    def left(self) -> str:
        """Return how long the rest of it takes, from a tenth on."""
        if not self.unit or self.done - self._before < self.total / 10:
            return ""
        seconds = (time.perf_counter() - self.began) * (self.total - self.done) / (self.done - self._before)
        return f", about {duration(seconds, rough=True)} left"

    def __str__(self) -> str:
        if not self.total:
            return self.name
        return f"{self.name}: {self.done:,} of {self.total:,} {self.unit}".rstrip() + f" ({self.share:.0%})"


@dataclass
class Whole:
    """How much of a run is done: half of it is its cells, the other half the steps that they need.

    Args:
        cells: how many there are.
        done: returns how many of them are done.
        steps: the weight of each step, by name.
        shares: how much of each step is done.
        seconds: returns how long the run took so far.
    """

    cells: int
    done: Callable[[], int]
    steps: Mapping[str, float]
    seconds: Callable[[], float]
    shares: dict[str, float] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1."""
        of_cells, weights = self.done() / max(1, self.cells), sum(self.steps.values())
        if not weights:
            return of_cells
        return (of_cells + sum(self.steps[name] * share for name, share in self.shares.items()) / weights) / 2

    def __str__(self) -> str:
        share, text = self.share, f"{self.done():,} of {counted(self.cells, 'cell')}"
        if share < _KNOWN_FROM:
            return text
        whole = self.seconds() / share
        left = f"about {duration(whole * (1 - share), rough=True)} of {duration(whole, rough=True)} left"
        return f"{text} ({share:.0%} of the run, {left})"


class Progress:
    """Shows progress and notes on a stream, by default standard error, and has the clock of the run."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr or io.StringIO()  # a service may have closed it
        self.clock = Clock()
        self._whole: Whole | None = None
        self._doing: _RunningStep | None = None
        self._shown = -math.inf  # when the last line about progress was printed
        self._live: Any = None

    def note(self, text: str) -> None:
        """Print a line."""
        with suppress(OSError):  # a full disk behind a log must not end the work
            if self._live is not None:
                self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                print(text, file=self.stream, flush=True)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Take the lines about progress off the terminal inside the block, where something else is printed."""
        if self._live is None:
            yield
            return
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()

    @contextmanager
    def expecting(self, cells: int, done: Callable[[], int], steps: Mapping[str, float]) -> Iterator[None]:
        """Show, inside the block, how much of a run is done and how long the rest takes; training does not count.

        Args:
            cells: how many cells the run has.
            done: returns how many of them are done.
            steps: the weight of each step that they need, by name.

        Inside of another such block only ``done`` is taken over: workers did steps before the cells are computed.
        """
        if self._whole is not None:
            self._whole.done = done
            yield
            return
        began, trained = time.perf_counter(), self.clock.of(TRAINING)

        def seconds() -> float:
            return time.perf_counter() - began - (self.clock.of(TRAINING) - trained)

        self._whole = Whole(cells, done, steps, seconds)
        try:
            yield
        finally:
            self._whole = None

    def finished(self, step: str, share: float = 1.0) -> None:
        """Count a step of the run, or a further share of it, as done, also one that was done before."""
        if self._whole and step in self._whole.steps:
            self._whole.shares[step] = min(1.0, share + self._whole.shares.get(step, 0.0))

    @contextmanager
    def reminding(self) -> Iterator[None]:
        """Show inside the block what is being done: always on a terminal, elsewhere a line a minute."""
        if self.stream.isatty():
            with self._on_terminal():
                yield
            return
        over = Event()

        def remind() -> None:
            wait = PACE
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
        """Print what is being done if a minute passed without a line; return the seconds until the next call."""
        if (left := self._shown + PACE - now) > 0:
            return left
        self._say(f"  … {self._now()}", now)
        return PACE

    @contextmanager
    def step(self, name: str, total: int, unit: str, done: int = 0) -> Iterator[Callable[[int], None]]:
        """Show a step of ``total`` units while it runs; then its duration.

        It yields a function that counts units as done.

        Args:
            name: of the step.
            total: how many units it has.
            unit: their name.
            done: how many of them were done before.
        """
        with self._running(_RunningStep(name, unit, total, done)) as doing:

            def advance(amount: int) -> None:
                doing.advance(amount)
                if self._whole and name in self._whole.steps:
                    self._whole.shares[name] = doing.share

            yield advance
        seconds = time.perf_counter() - doing.began
        speed = f", {(total - done) / seconds:,.0f} a second" if seconds > 1 else ""
        self._finish(
            f"{name}: {total:,} {unit} in {seconds:.1f} s{speed}", bool(self._whole and name in self._whole.steps)
        )

    @contextmanager
    def telling(self, name: str) -> Iterator[Callable[[str, int, int], None]]:
        """Show work whose parts are not known before; yields a function of part, amount done and amount in all.

        On success the duration of the whole is printed.
        """
        with self._running(_RunningStep(name, "", 0, 0)) as doing:
            yield lambda part, done, total: doing.tell(f"{name}: {part}", done, total)
        self._finish(f"{name}: {time.perf_counter() - doing.began:.1f} s", self._whole is not None)

    @contextmanager
    def _running(self, doing: _RunningStep) -> Iterator[_RunningStep]:
        before, self._doing = self._doing, doing
        try:
            with self._on_terminal():
                if self._live is not None:
                    self._live.refresh()
                yield doing
        finally:
            self._doing = before

    def _finish(self, text: str, of_many: bool) -> None:
        """Print that a step is done; in a log one of the many steps of a run only if it is time for a line."""
        now = time.monotonic()
        if self.stream.isatty() or not of_many:
            self.note(f"  {text}")
        elif now >= self._shown + PACE:
            self._say(f"  {text}; {self._whole}", now)

    def _say(self, text: str, now: float) -> None:
        self.note(text)
        self._shown = now

    def _now(self) -> str:
        """Return what is being done and how much of the run, or else of the step, is done."""
        if self._whole is not None:
            return f"{self._whole}: {self._doing or self._part()}"
        return self._part() if self._doing is None else f"{self._doing}{self._doing.left()}"

    def _part(self) -> str:
        what, _, detail = self.clock.doing.partition(" ")
        return f"{_DOING.get(what, what)} {detail}".rstrip()

    @contextmanager
    def _on_terminal(self) -> Iterator[None]:
        if self._live is not None or not self.stream.isatty():
            yield
            return
        from rich.console import Console
        from rich.live import Live

        with Live(
            get_renderable=self._lines, console=Console(file=self.stream), refresh_per_second=4, transient=True
        ) as self._live:
            try:
                yield
            finally:
                self._live.refresh()
                self._live = None

    def _lines(self) -> Any:
        """Return what a terminal shows: a line for the run, one for what is being done; none is wrapped."""
        from rich.text import Text

        lines = []
        for part in (self._whole, self._doing):
            if part is not None:
                filled = round(part.share * _BAR)
                bar = Text.assemble("  ", ("━" * filled, "bar.complete"), ("━" * (_BAR - filled), "bar.back"), " ")
                left = part.left() if isinstance(part, _RunningStep) and self._whole is None else ""
                lines.append(bar.append(f"{part}{left}"))
        if self._doing is None:
            lines.append(Text(f"  {self._part()}"))
        shown = Text("\n", no_wrap=True, overflow="ellipsis").join(lines)
        shown.no_wrap, shown.overflow = True, "ellipsis"
        return shown
