"""Workers that hang or die do not hold a run up; which engine, and which device, is what was asked for."""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reporter.core.errors import ReporterError, UsageError
from reporter.runs import engines
from reporter.runs.engines import Processes, engine_of
from reporter.runs.work import pick_device
from reporter.spec.study import RunSpec


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


class Killed(Stopped):
    """A process that the kernel killed, such as for memory."""

    def start(self) -> None:
        super().start()
        self.exitcode = -9


@pytest.mark.parametrize("others_did_it", [True, False])
def test_workers_that_hang_are_ended(monkeypatch: pytest.MonkeyPatch, others_did_it: bool) -> None:
    made: list[Stopped] = []
    monkeypatch.setattr(engines, "_HUNG_SECONDS", 0.2)
    monkeypatch.setattr(engines, "_LOOK_AGAIN_SECONDS", 0.02)
    monkeypatch.setattr(engines, "_ENDING_SECONDS", 0.02)

    def process(**given: object) -> Stopped:
        made.append(Stopped(**given))
        return made[-1]

    monkeypatch.setattr("multiprocessing.get_context", lambda _: SimpleNamespace(Process=process))
    worker: Any = SimpleNamespace(is_done=lambda _: others_did_it, refreshed=lambda _: 0)
    said: list[str] = []
    tasks, job, progress = ["a", "b"], None, SimpleNamespace(note=said.append)
    do: Any = Processes(2).do
    assert list(do(job, worker, tasks, progress)) == (tasks if others_did_it else [])
    assert [one.told for one in made] == [["start", "terminate", "kill"]] * 2
    assert any("hang" in line for line in said) != others_did_it


def test_workers_that_were_killed_are_named_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiprocessing.get_context", lambda _: SimpleNamespace(Process=Killed))
    worker: Any = SimpleNamespace(is_done=lambda task: task == "a", refreshed=lambda _: 0)
    said: list[str] = []
    do: Any = Processes(2).do
    assert list(do(None, worker, ["a", "b"], SimpleNamespace(note=said.append))) == ["a"]
    assert said == [f"  worker {number} was ended by SIGKILL; other workers did its tasks" for number in (1, 2)]


@pytest.mark.parametrize("before", [None, "0"])
def test_the_environment_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    if before is not None:
        monkeypatch.setenv("PYTHONSAFEPATH", before)
    with engines._safe_path():
        assert os.environ["PYTHONSAFEPATH"] == "1"
    assert os.environ.get("PYTHONSAFEPATH") == before


def test_no_code_of_the_current_folder_runs_in_a_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "multiprocessing.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    with engines._safe_path():
        worker = multiprocessing.get_context("spawn").Process(target=print)
        worker.start()
    worker.join(30)
    assert worker.exitcode == 0 and not (tmp_path / "ran").exists()


def test_workers_take_the_gpus_of_a_machine_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert [engines._gpu("auto", number) for number in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert [engines._gpu(asked, 1) for asked in ("cuda", "cpu", "cuda:0")] == ["cuda:1", None, None]
    assert [pick_device(asked) for asked in ("auto", "cpu", "cuda:1")] == ["cuda", "cpu", "cuda:1"]
    with pytest.raises(ReporterError, match="no device 'cuda:2'"):
        pick_device("cuda:2")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert engines._gpu("auto", 0) is None


def test_an_address_is_that_of_a_ray_cluster() -> None:
    with pytest.raises(UsageError, match="--engine ray"):
        engine_of(RunSpec(), None, 2, "10.0.0.1:6379")
    assert engine_of(RunSpec(), None, None, None) is None
    assert engine_of(RunSpec(), None, 2, None) == Processes(2)
    on_ray = RunSpec(engine="ray", address="10.0.0.1:6379")
    assert engine_of(on_ray, "local", None, None) is None  # the address of the study is that of its engine


def test_without_ray_its_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    engine: Any = engine_of(RunSpec(), "ray", 2, None)
    with pytest.raises(ReporterError, match=r"pip install 'reporter\[ray\]'"):
        list(engine.do(None, None, [], None))
