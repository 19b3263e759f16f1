"""Workers that hang do not hold a run up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reporter import locks
from reporter.runs import engines
from reporter.runs.engines import Processes


class Stopped:
    """A process that was stopped: it is there, minds no SIGTERM, and only SIGKILL ends it."""

    def __init__(self, **_: object) -> None:
        self.exitcode: int | None = None
        self.told: list[str] = []

    def start(self) -> None:
        self.told.append("start")

    def is_alive(self) -> bool:
        return self.exitcode is None

    def join(self, timeout: float | None = None) -> None:
        assert timeout is not None or self.exitcode is not None, "would wait for ever"

    def terminate(self) -> None:
        self.told.append("terminate")

    def kill(self) -> None:
        self.told.append("kill")
        self.exitcode = -9


@pytest.mark.parametrize("others_did_it", [True, False])
def test_workers_that_hang_are_ended(monkeypatch, others_did_it):
    made: list[Stopped] = []
    monkeypatch.setattr(locks, "HUNG_SECONDS", 0.2)
    monkeypatch.setattr(engines, "_LOOK_AGAIN_SECONDS", 0.02)
    monkeypatch.setattr(engines, "_ENDING_SECONDS", 0.02)
    context = SimpleNamespace(Process=lambda **given: made.append(Stopped(**given)) or made[-1])
    monkeypatch.setattr(engines.multiprocessing, "get_context", lambda _: context)
    worker: Any = SimpleNamespace(is_done=lambda _: others_did_it, is_held=lambda _: False)
    said: list[str] = []
    tasks, job, progress = ["a", "b"], None, SimpleNamespace(note=said.append)
    do: Any = Processes(2).do
    assert list(do(job, worker, tasks, progress)) == (tasks if others_did_it else [])
    assert [one.told for one in made] == [["start", "terminate", "kill"]] * 2
    assert any("hang" in line for line in said) != others_did_it
