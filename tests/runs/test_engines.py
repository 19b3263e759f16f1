"""Workers that hang or die do not hold a run up; which engine, and which device, is what was asked for."""

import multiprocessing
import os
import sys
from types import SimpleNamespace

import pytest

from reporter.core.errors import ReporterError, UsageError
from reporter.runs import engines
from reporter.runs.engines import OnRay, Processes, engine_of, script
from reporter.runs.work import pick_device
from reporter.spec.study import RunSpec


class Stopped:
    """A process that was stopped: it exists, ignores SIGTERM, and only SIGKILL ends it."""

    def __init__(self, exitcode_at_start):
        self.calls, self.exitcode, self.exitcode_at_start = [], None, exitcode_at_start

    def start(self):
        self.calls.append("start")
        self.exitcode = self.exitcode_at_start

    def is_alive(self):
        return self.exitcode is None

    def join(self, timeout=None):
        assert timeout is not None or self.exitcode is not None, "would wait for ever"

    def terminate(self):
        self.calls.append("terminate")

    def kill(self):
        self.calls.append("kill")
        self.exitcode = -9


@pytest.mark.parametrize(
    ("exitcode", "done", "ends"),
    [(None, "ab", ["terminate", "kill"]), (None, "", ["terminate", "kill"]), (-9, "a", [])],
)
def test_workers_that_hang_are_ended_and_killed_ones_are_named_and_not_waited_for(monkeypatch, exitcode, done, ends):
    for name, seconds in (("_HUNG_SECONDS", 0.2), ("_LOOK_AGAIN_SECONDS", 0.02), ("_ENDING_SECONDS", 0.02)):
        monkeypatch.setattr(engines, name, seconds)
    notes, processes = [], [Stopped(exitcode), Stopped(exitcode)]
    unstarted = iter(processes)
    context = SimpleNamespace(Process=lambda **_: next(unstarted))
    monkeypatch.setattr("multiprocessing.get_context", lambda _: context)
    worker = SimpleNamespace(is_done=lambda task: task in done, refreshed=lambda _: 0)
    tasks = list(Processes(2).do(None, worker, ["a", "b"], SimpleNamespace(note=notes.append)))
    assert tasks == list(done) and [process.calls for process in processes] == [["start", *ends]] * 2
    named = [f"  worker {number} was ended by SIGKILL; other workers did its tasks" for number in (1, 2)]
    assert [note for note in notes if "SIGKILL" in note] == (named if exitcode else [])
    assert any("do not respond" in note for note in notes) == (not done)


@pytest.mark.parametrize("before", [None, ""])  # any other text has the same effect as 1
def test_no_code_of_the_current_folder_runs_in_a_worker(monkeypatch, tmp_path, before):
    (tmp_path / "multiprocessing.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    if before is not None:
        monkeypatch.setenv("PYTHONSAFEPATH", before)
    with engines._safe_path():
        worker = multiprocessing.get_context("spawn").Process(target=print)
        worker.start()
    worker.join(600)
    assert worker.exitcode == 0 and not (tmp_path / "ran").exists()
    assert os.environ.get("PYTHONSAFEPATH") == before, "the environment is left as it was"


def test_workers_take_the_gpus_of_a_machine_in_turn(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert [engines._gpu("auto", number) for number in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert [engines._gpu(device, 1) for device in ("cuda", "cpu", "cuda:0")] == ["cuda:1", None, None]
    assert [pick_device(device) for device in ("auto", "cpu", "cuda:1")] == ["cuda", "cpu", "cuda:1"]
    with pytest.raises(ReporterError, match="no device 'cuda:2'"):
        pick_device("cuda:2")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert engines._gpu("auto", 0) is None


def test_an_address_is_that_of_a_ray_cluster():
    with pytest.raises(UsageError, match="--engine ray"):
        engine_of(RunSpec(), None, 2, "10.0.0.1:6379")
    assert engine_of(RunSpec(), None, None, None) is None
    assert engine_of(RunSpec(), None, 2, None) == Processes(2)
    on_ray = RunSpec(engine="ray", address="10.0.0.1:6379")
    assert engine_of(on_ray, "local", None, None) is None  # the address of the study is that of its engine


def test_without_ray_its_engine_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    install = r"pip install 'layer-reporter\[ray\]'"
    for run, asked, idle in ((RunSpec(), "ray", True), (RunSpec(engine="ray"), None, False)):
        with pytest.raises(UsageError, match=install):
            engine_of(run, asked, 2, None, idle)
    assert engine_of(RunSpec(engine="ray"), None, 2, None, True) == OnRay(None, 2)  # a finished study, opened elsewhere


def test_a_job_array_has_a_thousand_jobs_at_most(tmp_path):
    text = script("s", tmp_path / "my s.yaml", tmp_path, 3000, ["--gpus=1"], at_once=16)
    assert "#SBATCH --array=1-1000%16" in text and "#SBATCH --requeue" in text
    assert text.endswith(
        f"exec reporter run '{tmp_path}/my s.yaml' --out {tmp_path} --share \"$SLURM_ARRAY_TASK_ID/1000\""
    )
    text = script("s", tmp_path / "s.yaml", tmp_path, 1, [], at_once=1, options=["--set", "run.seed=1"])
    assert f"#   reporter run {tmp_path}/s.yaml --out {tmp_path} --set run.seed=1\n" in text
    assert "--array=1-3%3" in script("s", tmp_path / "s.yaml", tmp_path, 3, [], at_once=64)
