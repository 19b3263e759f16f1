"""The same numbers to the last bit, whoever does the ranges of a pass, in whatever order and however often."""

import io
import shutil
from types import SimpleNamespace

import pytest
from runs.conftest import MODELS, NUMBERS, ONE_THREAD, ONLY
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.core.progress import Progress
from reporter.core.threads import given as threads
from reporter.forward.kept import Amount, Parts
from reporter.forward.observed import KINDS
from reporter.forward.passes import ReadyPass
from reporter.models.load import load
from reporter.runs.cache import entries
from reporter.runs.planner import plan_study
from reporter.runs.tasks import Worker, parse_share, share


@pytest.fixture
def forget(out, store):
    """Return a function that forgets what was measured."""

    def remove():
        store.path.unlink(missing_ok=True)
        shutil.rmtree(out / "cache" / "observables", ignore_errors=True)

    return remove


@pytest.fixture
def worker(study, out):
    """Return a function that makes a worker for a study, by default for the ranges of one pass."""

    def make(file=None, only=ONLY, log=None):
        plan = plan_study(file or study(ONE_THREAD), out, only=only, blind=True)
        return Worker(plan, out, True, Progress(log or io.StringIO()))

    return make


def do_all(worker, number=1, of=1, *rest, log=None):
    with threads(1):
        return share(worker, worker.tasks(), number, of, Progress(log or io.StringIO()), *rest)


def test_shares_in_any_order_and_twice_give_the_numbers_of_one_process(
    of_one_process, small, study, run, store, out, worker, monkeypatch
):
    file = study(ONE_THREAD, metrics="[all]")
    for number, done in ((3, [False, False, True, True]), (1, [True, False, True, True]), (2, [True] * 4)):
        one = worker(file)
        tasks = one.tasks()
        assert [(task.index, task.texts) for task in tasks] == [(0, 10), (1, 10), (2, 10), (3, 10)]
        left = iter([False] * (len(tasks) * number // 3 - len(tasks) * (number - 1) // 3))
        # each ends where it would go on with what is another's
        assert do_all(one, number, 3, lambda left=left: next(left, True)) == 0
        assert [one.is_done(task) for task in tasks] == done
    ranges = {path: path.stat().st_ino for path in (out / "cache").glob("observables/*/unfinished-*/range-*")}
    assert len(ranges) == 4
    late = worker(file)
    with threads(1), monkeypatch.context() as patch:  # as if it had begun before
        patch.setattr("reporter.forward.kept.Parts.facts", lambda self, of: None)
        late.do(tasks[1])
    assert {path: path.stat().st_ino for path in ranges} == ranges
    with monkeypatch.context() as patch:  # all passes are done: nothing may go through a model
        patch.setattr("reporter.runs.work.load", None)
        outcome, log = run(file, only=ONLY)
    assert outcome.failed == 0, log
    assert of_one_process.frame(NUMBERS).equals(store.frame(NUMBERS))
    assert of_one_process.records(MODELS) == store.records(MODELS)
    store.path.unlink()  # what the cache holds has its name without the database, too
    assert ("pass", "dec final × nested") in {(entry.kind, entry.of) for entry in entries(out, store)}


def test_processes_of_one_machine_leave_nothing_to_the_run(study, run, store, forget):
    file, only = study(ONE_THREAD), [*ONLY, "motion"]
    run(file, only=only)
    alone = store.frame(NUMBERS)
    forget()
    outcome, log = run(file, only=only, workers=2)
    assert outcome.failed == 0 and "1 task for workers of 1 thread each" in log and "tokens in" not in log
    assert len(alone) and alone.equals(store.frame(NUMBERS))
    store.path.unlink()
    assert "workers" not in run(file, only=only, workers=2)[1], "all is measured: none is needed"


def test_a_finished_task_is_not_done_again_and_one_load_serves_all_corpora(small, worker, monkeypatch):
    loads = []
    monkeypatch.setattr("reporter.runs.tasks.load", lambda *given: loads.append(given[0].name) or load(*given))
    first, late = worker(only=["dec"]), worker(only=["dec"])
    tasks = first.tasks()
    assert len({task.of for task in tasks}) == 2
    assert first.memory(tasks[0]) > 2 * 2**30 + 8 * 1000, "the weights, twice"
    places = [first.do(task) for task in tasks]
    assert [late.do(task) for task in tasks] == places and loads == ["final"]


def test_a_worker_that_waits_for_another_prints_it_once_and_does_nothing_twice(small, worker, monkeypatch):
    one, other, log, unfinished = worker(), worker(), io.StringIO(), []
    tasks = one.tasks()

    def pause(_):
        unfinished.append([task.index for task in tasks if not one.is_done(task)])
        if len(unfinished) == 2:
            other.do(tasks[0])

    monkeypatch.setattr("reporter.runs.tasks.time", SimpleNamespace(sleep=pause))
    with other.locked(tasks[0]) as held:
        assert held and one.refreshed(tasks[0]) and do_all(one, 1, 2, log=log) == 0, "and it helps the other share"
    assert unfinished == [[0], [0]]
    assert log.getvalue().count("waiting for 1 task of other workers") == 1


def test_a_task_that_fails_is_reported_and_leaves_the_others(small, worker, monkeypatch):
    real, log, one = ReadyPass.feed, io.StringIO(), worker()
    tasks = one.tasks()

    def feed(self, shard, *rest):
        if shard.index == 1:
            raise RuntimeError("no luck")
        return real(self, shard, *rest)

    monkeypatch.setattr(ReadyPass, "feed", feed)
    assert do_all(one, log=log) == 1
    assert [one.is_done(task) for task in tasks] == [True, False, True, True]
    assert f"failed: {tasks[1]}: " in log.getvalue() and "no luck" in log.getvalue()


def test_saved_states_are_tasks_as_well(study, run, store, forget, given, worker, monkeypatch):
    file, only = study(given, ONE_THREAD), ["given"]
    assert run(file, only=only)[0].failed == 0
    alone = store.frame(NUMBERS)
    forget()
    assert do_all(worker(file, only)) == 0
    monkeypatch.setattr("reporter.runs.work.load_states", None)
    assert run(file, only=only)[0].failed == 0 and alone.equals(store.frame(NUMBERS))


def test_a_range_resumes_at_its_last_saved_shard_which_goes_with_the_range(small, out, worker, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("reporter.forward.passes.MOST_SAVING", float("inf"))
    monkeypatch.setattr("reporter.forward.passes.SAVE_EVERY", 0)
    log = io.StringIO()
    first, second = worker(), worker(log=log)
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
    file = study(ONE_THREAD)
    run(file, only=["dec"])
    alone = store.frame(NUMBERS)
    forget()
    outcome, log = run(file, only=["dec"], engine="ray", workers=2)
    assert outcome.failed == 0 and "tokens in" not in log
    assert alone.equals(store.frame(NUMBERS))


def test_a_share_is_one_of_several(tmp_path):
    assert parse_share("3/16") == (3, 16) and parse_share("2/2") == (2, 2)
    for text in ("0/3", "4/3", "3", "a/b"):
        result = CliRunner().invoke(app, ["run", str(tmp_path / "none.yaml"), "--share", text])
        assert result.exit_code == 2 and "such as 3/16" in result.output
