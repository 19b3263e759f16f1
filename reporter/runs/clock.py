"""Where the time of a run goes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

REST = "other"


class Clock:
    """Seconds of wall time by what they went into; work inside other work counts once, as what it is itself.

    Its parts are those of the main thread, which waits for work that it spreads: they add up to the whole.
    """

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}
        self._within = [REST]
        self._of = [""]
        self._since = time.perf_counter()

    @contextmanager
    def within(self, what: str, of: str = "") -> Iterator[None]:
        """Count what happens inside as ``what``; somebody who asks is told what it is done ``of``, too."""
        self._note()
        self._within.append(what)
        self._of.append(of)
        try:
            yield
        finally:
            self._note()
            self._within.pop()
            self._of.pop()

    @property
    def doing(self) -> str:
        """What the time goes into at this moment."""
        return f"{self._within[-1]} {self._of[-1]}".rstrip()

    def take(self, what: str, seconds: float) -> None:
        """Count some of the seconds since the innermost ``within`` began as ``what`` instead."""
        self._add(self._within[-1], -seconds)
        self._add(what, seconds)

    def spent(self, before: Mapping[str, float] | None = None) -> dict[str, float]:
        """Return the seconds of each part so far, or since ``before``, the longest first and the rest last."""
        self._note()
        parts = {what: seconds - (before or {}).get(what, 0.0) for what, seconds in self._spent.items()}
        known = {what: seconds for what, seconds in parts.items() if seconds > 0}
        return dict(sorted(known.items(), key=lambda part: (part[0] == REST, -part[1])))

    def line(self) -> str:
        """Say where the time went, in one line; parts of less than half a percent are among the rest."""
        parts = self.spent()
        whole = sum(parts.values())
        small = [what for what, seconds in parts.items() if what != REST and seconds < whole / 200]
        if small:
            rest = parts.pop(REST, 0.0)
            parts[REST] = rest + sum(parts.pop(what) for what in small)
        said = (f"{what} {seconds:.1f} s ({seconds / whole:.0%})" for what, seconds in parts.items())
        return f"{whole:.1f} s: {', '.join(said)}"

    def _note(self) -> None:
        now = time.perf_counter()
        self._add(self._within[-1], now - self._since)
        self._since = now

    def _add(self, what: str, seconds: float) -> None:
        self._spent[what] = self._spent.get(what, 0.0) + seconds
