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
from reporter.study.study import RunSpec


class Stopped:
    """A process that was stopped: it exists, ignores SIGTERM, and only SIGKILL ends it."""

    def __init__(self, exitcode):
        self.calls, self.exitcode = [], exitcode

    def start(self):
        assert os.environ["PYTHONSAFEPATH"], "it would import from the current folder"
        self.calls.append("start")

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
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: SimpleNamespace(Process=lambda **_: next(unstarted)))
    worker = SimpleNamespace(is_done=lambda task: task in done, refreshed=lambda _: 0)
    tasks = list(Processes(2).do(None, worker, ["a", "b"], SimpleNamespace(note=notes.append)))
    assert tasks == list(done) and [process.calls for process in processes] == [["start", *ends]] * 2
    named = [f"  worker {number} was ended by SIGKILL; other workers did its tasks" for number in (1, 2)]
    assert [note for note in notes if "SIGKILL" in note] == (named if exitcode else [])
    assert any("do not respond" in note for note in notes) == (not done)


def test_no_code_of_the_current_folder_runs_in_a_worker(monkeypatch, tmp_path):
    (tmp_path / "multiprocessing.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    with engines._safe_path():
        worker = multiprocessing.get_context("spawn").Process(target=print)
        worker.start()
    worker.join(600)
    assert worker.exitcode == 0 and not (tmp_path / "ran").exists()
    assert "PYTHONSAFEPATH" not in os.environ, "the environment is left as it was"


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


def test_the_engine_is_that_of_the_call_or_of_the_study_and_without_ray_it_says_what_to_install(monkeypatch):
    assert engine_of(RunSpec(), None, None, None) is None
    assert engine_of(RunSpec(), None, 2, None) == Processes(2)
    on_ray = RunSpec(engine="ray", address="10.0.0.1:6379")
    assert engine_of(on_ray, "local", None, None) is None  # the address of the study is that of its engine
    monkeypatch.setitem(sys.modules, "ray", None)
    assert engine_of(on_ray, None, 2, None, True) == OnRay(on_ray.address, 2)  # a finished study, opened elsewhere
    install = r"pip install 'layer-reporter\[ray\]'"
    for wrong, message in (
        ((RunSpec(), None, 2, "10.0.0.1:6379"), "--engine ray"),
        ((RunSpec(), "ray", 2, None, True), install),
        ((on_ray, None, 2, None), install),
    ):
        with pytest.raises(UsageError, match=message):
            engine_of(*wrong)


def test_a_job_array_has_a_thousand_jobs_at_most(tmp_path):
    path, command = tmp_path / "my s.yaml", f"reporter run '{tmp_path}/my s.yaml' --out {tmp_path}"
    text = script("s", path, tmp_path, 3000, ["--gpus=1"], at_once=16)
    assert "#SBATCH --array=1-1000%16" in text and "#SBATCH --requeue" in text
    assert text.endswith(f'exec {command} --share "$SLURM_ARRAY_TASK_ID/1000"')
    text = script("s", path, tmp_path, 3, [], at_once=64, options=["--set", "run.seed=1"])
    assert "--array=1-3%3" in text and f"#   {command} --set run.seed=1\n" in text
