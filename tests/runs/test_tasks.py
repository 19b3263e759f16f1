"""The same numbers to the last bit, whoever does the ranges of a pass, in whatever order and however often."""

from __future__ import annotations

import io
import random
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.core.progress import Progress
from reporter.forward.kept import Amount, Parts
from reporter.forward.observed import KINDS
from reporter.runs.engines import script
from reporter.runs.planner import plan_study
from reporter.runs.tasks import Worker, parse_share, share

NUMBERS = "SELECT * FROM layer_metrics ORDER BY ALL"
MODELS = "SELECT * FROM models ORDER BY ALL"
ALL = ("metrics: [convergence, {anisotropy: {sample: 64, batches: 2}}, motion]", "metrics: [all]")
SINGLE = ("run: {precision: float32}", "run: {precision: float32, threads: 1}")
WHICH = ["dec", "nested"]
SHARE = """
import os, signal, sys
from pathlib import Path
from reporter.forward import kept as parts
from reporter.runs.planner import plan_study
from reporter.core.progress import Progress
from reporter.runs.studies import offer
from reporter.runs.tasks import Worker, share
from reporter.spec import load_study
from reporter.texts import tokens as ranges, tokens
from reporter.core.threads import given

tokens.SHARD_TEXTS, ranges.RANGE_SHARDS = 5, 2
real = parts.Parts.write

def write(self, of, *rest):
    if of.index == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    real(self, of, *rest)

parts.Parts.write = write
out, progress = Path(sys.argv[2]), Progress()
plan = plan_study(load_study(Path(sys.argv[1]), offer()), out, only=["dec", "nested"], blind=True)
with given(1):
    worker = Worker(plan, out, True, progress)
    share(worker, worker.tasks(), 1, 1, progress)
"""


@pytest.fixture
def small(monkeypatch):
    """Forty texts are four ranges of two shards."""
    monkeypatch.setattr("reporter.texts.tokens.SHARD_TEXTS", 5)
    monkeypatch.setattr("reporter.texts.tokens.RANGE_SHARDS", 2)


@pytest.fixture
def in_one_process(small, study, run, store):
    """The numbers of a run that does all by itself, and what it says of the model."""
    outcome, _ = run(study(ALL, SINGLE), only=WHICH)
    assert outcome.failed == 0
    models = store.records(MODELS)
    assert models[0]["weights"]
    return SimpleNamespace(numbers=store.frame(NUMBERS), models=models)


@pytest.fixture
def anew(out, store):
    """Forget what was measured."""

    def forget():
        import shutil

        store.path.unlink(missing_ok=True)
        shutil.rmtree(out / "cache" / "observables", ignore_errors=True)

    return forget


def worker_of(file, out):
    from reporter.core.threads import given

    plan = plan_study(file, out, only=WHICH, blind=True)
    return Worker(plan, out, True, Progress(io.StringIO())), given(1)


def merged(run, file, monkeypatch):
    """Run a study whose passes are all done: nothing may go through a model."""
    with monkeypatch.context() as patch:
        patch.setattr("reporter.runs.work.load", None)
        outcome, said = run(file, only=WHICH)
    assert outcome.failed == 0, said


def own_part(worker, tasks, number, of):
    """Do one share with a worker of its own, which ends where it would go on with what is another's."""
    left = [len(tasks) * number // of - len(tasks) * (number - 1) // of]

    def over():
        left[0] -= 1
        return left[0] < 0

    assert share(worker, tasks, number, of, Progress(io.StringIO()), over) == 0


def test_shares_in_any_order_and_twice_are_those_of_one_process(
    in_one_process, anew, study, run, store, out, monkeypatch
):
    file = study(ALL, SINGLE)
    for of in (2, 3):
        anew()
        for number in random.Random(of).sample(range(1, of + 1), of):
            worker, threads = worker_of(file, out)
            tasks = worker.tasks()
            assert [(task.index, task.texts) for task in tasks] == [(0, 10), (1, 10), (2, 10), (3, 10)]
            with threads:
                own_part(worker, tasks, number, of)
        whole = {path: path.stat().st_ino for path in (out / "cache").glob("observables/*/unfinished-*/range-*")}
        assert len(whole) == 4
        late, threads = worker_of(file, out)
        with threads, monkeypatch.context() as patch:  # as if it had begun before
            patch.setattr("reporter.forward.kept.Parts.facts", lambda self, of: None)
            late.do(tasks[of % 2])
        assert {path: path.stat().st_ino for path in whole} == whole
        merged(run, file, monkeypatch)
        assert in_one_process.numbers.equals(store.frame(NUMBERS))
        assert in_one_process.models == store.records(MODELS)


def test_a_worker_that_was_killed_and_a_torn_file_change_nothing(
    in_one_process, anew, study, run, store, out, monkeypatch, caplog
):
    anew()
    file = study(ALL, SINGLE)
    command = [sys.executable, "-c", SHARE, str(file.path), str(out)]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    torn = next((out / "cache").glob("observables/*/unfinished-*/range-*/moments.safetensors"))
    torn.write_bytes(torn.read_bytes()[:-7])
    worker, threads = worker_of(file, out)
    with threads:
        assert sum(worker.is_done(task) for task in worker.tasks()) == 2
        assert share(worker, worker.tasks(), 1, 1, Progress(io.StringIO())) == 0
    outcome, _ = run(file, only=WHICH)  # which finds what is torn, and measures that range once more
    assert outcome.failed == 0 and f"{torn.parent} is damaged" in caplog.text
    assert in_one_process.numbers.equals(store.frame(NUMBERS))
    assert in_one_process.models == store.records(MODELS)
    assert not list((out / "cache").glob("observables/*/unfinished-*"))
    assert not list((out / "cache").glob("observables/*.lock"))


def test_processes_of_one_machine_leave_nothing_to_the_run(study, run, store, out, anew):
    file = study(SINGLE)
    run(file, only=["dec"])
    alone = store.frame(NUMBERS)
    anew()
    outcome, said = run(file, only=["dec"], workers=2)
    assert outcome.failed == 0 and "2 tasks for workers of 1 thread each" in said
    assert "tokens in" not in said
    assert alone.equals(store.frame(NUMBERS))


def test_where_workers_did_all_a_run_starts_none(small, study, run, out):
    file = study(SINGLE)
    worker, threads = worker_of(file, out)
    with threads:
        assert share(worker, worker.tasks(), 1, 1, Progress(io.StringIO())) == 0
    outcome, said = run(file, only=WHICH, workers=2)
    assert outcome.failed == 0 and outcome.computed > 0 and "workers" not in said


def test_a_task_that_is_done_is_found_and_one_load_serves_all_corpora(small, study, out, monkeypatch):
    from reporter.models.load import load

    loads = []
    monkeypatch.setattr("reporter.runs.tasks.load", lambda *given: loads.append(given[0].name) or load(*given))
    plan = plan_study(study(SINGLE), out, only=["dec"], blind=True)
    worker = Worker(plan, out, True, Progress(io.StringIO()))
    tasks = worker.tasks()
    assert len({task.of for task in tasks}) == 2
    places = [worker.do(task) for task in tasks]
    late = Worker(plan, out, True, Progress(io.StringIO()))
    assert [late.do(task) for task in tasks] == places and loads == ["final"]


def test_who_waits_for_another_says_so_once_and_does_nothing_twice(small, study, out, monkeypatch):
    file, said = study(SINGLE), io.StringIO()
    worker, threads = worker_of(file, out)
    other, _ = worker_of(file, out)
    tasks = worker.tasks()
    with threads, other.locked(tasks[0]) as held:
        assert held and worker.refreshed(tasks[0])
        looked = []

        def pause(_):
            looked.append([task.index for task in tasks if not worker.is_done(task)])
            if len(looked) == 2:
                other.do(tasks[0])

        monkeypatch.setattr("reporter.runs.tasks.time", SimpleNamespace(sleep=pause))
        assert share(worker, tasks, 1, 1, Progress(said)) == 0
    assert looked == [[0], [0]]
    assert said.getvalue().count("waiting for 1 task of other workers") == 1


def test_a_task_that_fails_is_told_and_leaves_the_others(small, study, out, monkeypatch):
    from reporter.forward.passes import ReadyPass

    real, said = ReadyPass.feed, io.StringIO()

    def feed(self, one, *rest):
        if one.index == 1:
            raise RuntimeError("no luck")
        return real(self, one, *rest)

    monkeypatch.setattr(ReadyPass, "feed", feed)
    worker, threads = worker_of(study(SINGLE), out)
    tasks = worker.tasks()
    with threads:
        assert share(worker, tasks, 1, 1, Progress(said)) == 1
    assert [worker.is_done(task) for task in tasks] == [True, False, True, True]
    assert f"failed: {tasks[1]}: " in said.getvalue() and "no luck" in said.getvalue()


def test_saved_states_are_tasks_as_well(study, run, store, out, anew, given, monkeypatch):
    file = study(given, SINGLE)
    assert run(file, only=["given"])[0].failed == 0
    alone = store.frame(NUMBERS)
    anew()
    worker = Worker(plan_study(file, out, only=["given"], blind=True), out, True, Progress(io.StringIO()))
    assert share(worker, worker.tasks(), 1, 1, Progress(io.StringIO())) == 0
    monkeypatch.setattr("reporter.runs.work.load_states", None)
    assert run(file, only=["given"])[0].failed == 0 and alone.equals(store.frame(NUMBERS))


def test_what_a_worker_saved_of_a_range_is_gone_on_with_and_goes_with_the_range(small, study, out, monkeypatch):
    monkeypatch.setattr("reporter.forward.passes.MOST_SAVING", float("inf"))
    monkeypatch.setattr("reporter.forward.passes.SAVE_EVERY", 0)

    def killed(*_):
        raise KeyboardInterrupt

    file, said = study(SINGLE), io.StringIO()
    plan = plan_study(file, out, only=WHICH, blind=True)
    first, second = Worker(plan, out, True, Progress(io.StringIO())), Worker(plan, out, True, Progress(said))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("reporter.forward.kept.Parts.write", killed)
        first.do(first.tasks()[0])
    saved = list((out / "cache").glob("observables/*/unfinished-*/shard-*"))
    assert len(saved) == 1
    second.do(second.tasks()[0])
    assert "going on after 5 texts" in said.getvalue() and not saved[0].exists()


def test_ranges_of_another_version_are_not_merged_with_those_of_this_one(tmp_path, monkeypatch):
    wanted = {"moments": Amount(), "gram": Amount()}
    Parts.of(tmp_path, wanted).begin()
    begun = Parts.of(tmp_path, {"gram": Amount()})
    assert begun.begun and begun.wanted == wanted  # those that have more will do
    (begun.folder / "wanted.json").write_text("{")
    assert not Parts.of(tmp_path, {"gram": Amount()}).begun
    Parts.of(tmp_path, wanted).begin()
    (begun.folder / "wanted.json").unlink()
    monkeypatch.setattr(KINDS["gram"], "version", KINDS["gram"].version + 1)
    Parts.of(tmp_path, wanted).begin()
    monkeypatch.undo()
    assert not Parts.of(tmp_path, {"gram": Amount()}).begun


@pytest.mark.slow
@pytest.mark.ray
def test_a_ray_cluster_leaves_nothing_to_the_run(study, run, store, out, anew):
    pytest.importorskip("ray")
    file = study(SINGLE)
    run(file, only=["dec"])
    alone = store.frame(NUMBERS)
    anew()
    outcome, said = run(file, only=["dec"], engine="ray", workers=2)
    assert outcome.failed == 0 and "tokens in" not in said
    assert alone.equals(store.frame(NUMBERS))


@pytest.mark.ray
def test_one_sentence_says_which_machines_have_other_versions():
    pytest.importorskip("ray")
    from reporter.runs import engines

    here = engines._versions()
    assert set(here) == {"python", "reporter", "torch", "transformers"}
    found = {"one": here, "two": here | {"torch": "1.0"}, "three": here, "gone": None}

    hosts = dict(zip(("a" * 56, "b" * 56, "c" * 56, "d" * 56), found, strict=True))
    cluster = SimpleNamespace(  # in the place of the package ray
        nodes=lambda: [
            {"NodeID": node, "NodeManagerHostname": host, "Alive": host != "gone"} for node, host in hosts.items()
        ],
        remote=lambda function: SimpleNamespace(
            options=lambda **said: SimpleNamespace(remote=lambda: said["scheduling_strategy"].node_id)
        ),
        get=lambda node: found[hosts[node]],
    )
    assert engines._differences(cluster) == [f"two has torch 1.0, here {here['torch']}"]


def test_a_job_array_has_a_thousand_jobs_at_most(tmp_path):
    found = script("s", tmp_path / "my s.yaml", tmp_path, 3000, ["--gpus=1"], at_once=16)
    assert "#SBATCH --array=1-1000%16" in found and "#SBATCH --requeue" in found
    assert found.endswith(
        f"exec reporter run '{tmp_path}/my s.yaml' --out {tmp_path} --share \"$SLURM_ARRAY_TASK_ID/1000\""
    )
    said = script("s", tmp_path / "s.yaml", tmp_path, 1, [], at_once=1, options=["--set", "run.seed=1"])
    assert f"#   reporter run {tmp_path}/s.yaml --out {tmp_path} --set run.seed=1\n" in said
    assert "--array=1-3%3" in script("s", tmp_path / "s.yaml", tmp_path, 3, [], at_once=64)


@pytest.mark.parametrize("said", ["0/3", "4/3", "3", "a/b", "1/0"])
def test_a_share_is_one_of_several(said, tmp_path):
    done = CliRunner().invoke(app, ["run", str(tmp_path / "none.yaml"), "--share", said])
    assert done.exit_code == 2 and "such as 3/16" in done.output
    assert parse_share("3/16") == (3, 16)
