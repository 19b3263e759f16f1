"""The same numbers to the last bit, whoever does the ranges of a pass, in whatever order and however often."""

import io
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from runs.conftest import STUDY
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.core.progress import Progress
from reporter.core.threads import given as threads
from reporter.forward.kept import Amount, Parts
from reporter.forward.observed import KINDS
from reporter.forward.passes import ReadyPass
from reporter.models.load import load
from reporter.runs.planner import plan_study
from reporter.runs.runner import run_studies
from reporter.runs.studies import offer
from reporter.runs.tasks import Worker, parse_share, share
from reporter.spec import load_study
from reporter.store import Store

NUMBERS = "SELECT * FROM layer_metrics ORDER BY ALL"
MODELS = "SELECT * FROM models ORDER BY ALL"
ALL = ("metrics: [convergence, {anisotropy: {sample: 64, batches: 2}}, motion]", "metrics: [all]")
SINGLE = ("run: {precision: float32}", "run: {precision: float32, threads: 1}")
ONLY = ["dec", "nested"]
SHARE = """
import os, signal, sys
from pathlib import Path
from reporter.forward import kept as parts
from reporter.runs.planner import plan_study
from reporter.core.progress import Progress
from reporter.runs.studies import offer
from reporter.runs.tasks import Worker, share
from reporter.spec import load_study
from reporter.texts import tokens
from reporter.core.threads import given

tokens.SHARD_TEXTS, tokens.RANGE_SHARDS = 5, 2
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


def small_ranges(patch):
    patch.setattr("reporter.texts.tokens.SHARD_TEXTS", 5)
    patch.setattr("reporter.texts.tokens.RANGE_SHARDS", 2)


@pytest.fixture
def small(monkeypatch):
    """Forty texts are four ranges of two shards."""
    small_ranges(monkeypatch)


@pytest.fixture(scope="module")
def of_one_process(finished, tmp_path_factory):
    """The numbers of a run that does all by itself, and what it stores of the model."""
    folder = tmp_path_factory.mktemp("one-process")
    shutil.copytree(finished / "cache" / "models", folder / "results" / "cache" / "models")
    path = folder / "tiny.yaml"
    path.write_text(STUDY.replace(*ALL).replace(*SINGLE), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        small_ranges(patch)
        patch.setattr("reporter.runs.runner._report", lambda *_: ())
        quiet = Progress(io.StringIO())
        assert run_studies([load_study(path, offer())], folder / "results", only=ONLY, progress=quiet).failed == 0
    store = Store(folder / "results" / "results.duckdb")
    models = store.records(MODELS)
    assert models[0]["weights"]
    return SimpleNamespace(numbers=store.frame(NUMBERS), models=models)


@pytest.fixture
def forget(out, store):
    """Return a function that forgets what was measured."""

    def remove():
        store.path.unlink(missing_ok=True)
        shutil.rmtree(out / "cache" / "observables", ignore_errors=True)

    return remove


def worker_of(file, out, only=ONLY, log=None):
    return Worker(plan_study(file, out, only=only, blind=True), out, True, Progress(log or io.StringIO()))


def do_all(worker, tasks=None, number=1, of=1, *rest, log=None):
    with threads(1):
        return share(worker, tasks or worker.tasks(), number, of, Progress(log or io.StringIO()), *rest)


def test_shares_in_any_order_and_twice_give_the_numbers_of_one_process(
    of_one_process, small, study, run, store, out, monkeypatch
):
    file = study(ALL, SINGLE)
    for number in (3, 1, 2):
        worker = worker_of(file, out)
        tasks = worker.tasks()
        assert [(task.index, task.texts) for task in tasks] == [(0, 10), (1, 10), (2, 10), (3, 10)]
        left = iter([False] * (len(tasks) * number // 3 - len(tasks) * (number - 1) // 3))
        # each ends where it would go on with what is another's
        assert do_all(worker, tasks, number, 3, lambda left=left: next(left, True)) == 0
    ranges = {path: path.stat().st_ino for path in (out / "cache").glob("observables/*/unfinished-*/range-*")}
    assert len(ranges) == 4
    late = worker_of(file, out)
    with threads(1), monkeypatch.context() as patch:  # as if it had begun before
        patch.setattr("reporter.forward.kept.Parts.facts", lambda self, of: None)
        late.do(tasks[1])
    assert {path: path.stat().st_ino for path in ranges} == ranges
    with monkeypatch.context() as patch:  # all passes are done: nothing may go through a model
        patch.setattr("reporter.runs.work.load", None)
        outcome, log = run(file, only=ONLY)
    assert outcome.failed == 0, log
    assert of_one_process.numbers.equals(store.frame(NUMBERS))
    assert of_one_process.models == store.records(MODELS)


def test_a_worker_that_was_killed_and_a_torn_file_change_nothing(of_one_process, small, study, run, store, out, caplog):
    file = study(ALL, SINGLE)
    command = [sys.executable, "-c", SHARE, str(file.path), str(out)]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    torn = next((out / "cache").glob("observables/*/unfinished-*/range-*/moments.safetensors"))
    torn.write_bytes(torn.read_bytes()[:-7])
    worker = worker_of(file, out)
    assert sum(worker.is_done(task) for task in worker.tasks()) == 2
    assert do_all(worker) == 0
    outcome, _ = run(file, only=ONLY)  # which finds what is torn, and measures that range once more
    assert outcome.failed == 0 and f"{torn.parent} is damaged" in caplog.text
    assert of_one_process.numbers.equals(store.frame(NUMBERS))
    assert of_one_process.models == store.records(MODELS)
    assert not list((out / "cache").glob("observables/*/unfinished-*"))
    assert not list((out / "cache").glob("observables/*.lock"))


def test_processes_of_one_machine_leave_nothing_to_the_run(study, run, store, forget):
    file, only = study(SINGLE), ["dec", "motion"]
    run(file, only=only)
    alone = store.frame(NUMBERS)
    forget()
    outcome, log = run(file, only=only, workers=2)
    assert outcome.failed == 0 and "2 tasks for workers of 1 thread each" in log
    assert "tokens in" not in log
    assert len(alone) and alone.equals(store.frame(NUMBERS))


def test_a_run_after_workers_that_did_all_starts_none(small, study, run, out):
    file = study(SINGLE)
    assert do_all(worker_of(file, out)) == 0
    outcome, log = run(file, only=ONLY, workers=2)
    assert outcome.failed == 0 and outcome.computed > 0 and "workers" not in log


def test_a_finished_task_is_not_done_again_and_one_load_serves_all_corpora(small, study, out, monkeypatch):
    loads = []
    monkeypatch.setattr("reporter.runs.tasks.load", lambda *given: loads.append(given[0].name) or load(*given))
    worker = worker_of(study(SINGLE), out, ["dec"])
    tasks = worker.tasks()
    assert len({task.of for task in tasks}) == 2
    places = [worker.do(task) for task in tasks]
    late = worker_of(study(SINGLE), out, ["dec"])
    assert [late.do(task) for task in tasks] == places and loads == ["final"]


def test_a_worker_that_waits_for_another_prints_it_once_and_does_nothing_twice(small, study, out, monkeypatch):
    file, log = study(SINGLE), io.StringIO()
    worker, other = worker_of(file, out), worker_of(file, out)
    tasks = worker.tasks()
    with other.locked(tasks[0]) as held:
        assert held and worker.refreshed(tasks[0])
        unfinished = []

        def pause(_):
            unfinished.append([task.index for task in tasks if not worker.is_done(task)])
            if len(unfinished) == 2:
                other.do(tasks[0])

        monkeypatch.setattr("reporter.runs.tasks.time", SimpleNamespace(sleep=pause))
        assert do_all(worker, tasks, log=log) == 0
    assert unfinished == [[0], [0]]
    assert log.getvalue().count("waiting for 1 task of other workers") == 1


def test_a_task_that_fails_is_reported_and_leaves_the_others(small, study, out, monkeypatch):
    real, log = ReadyPass.feed, io.StringIO()

    def feed(self, shard, *rest):
        if shard.index == 1:
            raise RuntimeError("no luck")
        return real(self, shard, *rest)

    monkeypatch.setattr(ReadyPass, "feed", feed)
    worker = worker_of(study(SINGLE), out)
    tasks = worker.tasks()
    assert do_all(worker, tasks, log=log) == 1
    assert [worker.is_done(task) for task in tasks] == [True, False, True, True]
    assert f"failed: {tasks[1]}: " in log.getvalue() and "no luck" in log.getvalue()


def test_saved_states_are_tasks_as_well(study, run, store, out, forget, given, monkeypatch):
    file, only = study(given, SINGLE), ["given"]
    assert run(file, only=only)[0].failed == 0
    alone = store.frame(NUMBERS)
    forget()
    worker = worker_of(file, out, only)
    assert share(worker, worker.tasks(), 1, 1, Progress(io.StringIO())) == 0
    monkeypatch.setattr("reporter.runs.work.load_states", None)
    assert run(file, only=only)[0].failed == 0 and alone.equals(store.frame(NUMBERS))


def test_a_range_resumes_at_its_last_saved_shard_which_goes_with_the_range(small, study, out, monkeypatch):
    monkeypatch.setattr("reporter.forward.passes.MOST_SAVING", float("inf"))
    monkeypatch.setattr("reporter.forward.passes.SAVE_EVERY", 0)

    def killed(*_):
        raise KeyboardInterrupt

    file, log = study(SINGLE), io.StringIO()
    first, second = worker_of(file, out), worker_of(file, out, log=log)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("reporter.forward.kept.Parts.write", killed)
        first.do(first.tasks()[0])
    (saved,) = (out / "cache").glob("observables/*/unfinished-*/shard-*")
    second.do(second.tasks()[0])
    assert "resuming after 5 texts" in log.getvalue() and not saved.exists()


def test_ranges_of_another_version_are_not_merged_with_those_of_this_one(tmp_path, monkeypatch):
    amounts = {"moments": Amount(), "gram": Amount()}
    Parts.of(tmp_path, amounts).begin()
    begun = Parts.of(tmp_path, {"gram": Amount()})
    assert begun.begun and begun.wanted == amounts  # those that have more will do
    (begun.folder / "wanted.json").write_text("{")
    assert not Parts.of(tmp_path, {"gram": Amount()}).begun
    Parts.of(tmp_path, amounts).begin()
    (begun.folder / "wanted.json").unlink()
    monkeypatch.setattr(KINDS["gram"], "version", KINDS["gram"].version + 1)
    Parts.of(tmp_path, amounts).begin()
    monkeypatch.undo()
    assert not Parts.of(tmp_path, {"gram": Amount()}).begun


@pytest.mark.slow
@pytest.mark.ray
def test_a_ray_cluster_leaves_nothing_to_the_run(study, run, store, forget):
    pytest.importorskip("ray")
    file = study(SINGLE)
    run(file, only=["dec"])
    alone = store.frame(NUMBERS)
    forget()
    outcome, log = run(file, only=["dec"], engine="ray", workers=2)
    assert outcome.failed == 0 and "tokens in" not in log
    assert alone.equals(store.frame(NUMBERS))


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0"])
def test_a_share_is_one_of_several(text, tmp_path):
    result = CliRunner().invoke(app, ["run", str(tmp_path / "none.yaml"), "--share", text])
    assert result.exit_code == 2 and "such as 3/16" in result.output
    assert parse_share("3/16") == (3, 16)
