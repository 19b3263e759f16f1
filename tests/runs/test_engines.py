"""Workers that hang do not hold a run up."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
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
def test_workers_that_hang_are_ended(monkeypatch: pytest.MonkeyPatch, others_did_it: bool) -> None:
    made: list[Stopped] = []
    monkeypatch.setattr(locks, "HUNG_SECONDS", 0.2)
    monkeypatch.setattr(engines, "_LOOK_AGAIN_SECONDS", 0.02)
    monkeypatch.setattr(engines, "_ENDING_SECONDS", 0.02)

    def process(**given: object) -> Stopped:
        made.append(Stopped(**given))
        return made[-1]

    monkeypatch.setattr("multiprocessing.get_context", lambda _: SimpleNamespace(Process=process))
    worker: Any = SimpleNamespace(is_done=lambda _: others_did_it, is_held=lambda _: False)
    said: list[str] = []
    tasks, job, progress = ["a", "b"], None, SimpleNamespace(note=said.append)
    do: Any = Processes(2).do
    assert list(do(job, worker, tasks, progress)) == (tasks if others_did_it else [])
    assert [one.told for one in made] == [["start", "terminate", "kill"]] * 2
    assert any("hang" in line for line in said) != others_did_it


def test_no_code_of_the_current_folder_runs_in_a_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "multiprocessing.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    with engines._safe_path():
        worker = multiprocessing.get_context("spawn").Process(target=print)
        worker.start()
    worker.join(30)
    assert worker.exitcode == 0 and not (tmp_path / "ran").exists()
