"""What two processes, a killed process and many commits do to the file."""

import logging
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import duckdb
import pytest
from store.conftest import cell, numbers, records

from reporter.core.errors import ReporterError
from reporter.store import Store, database, database_file, opening

COMMIT_LOOP = """
import sys
from pathlib import Path
import reporter.metrics
from reporter.store import Store
store, model, count = Store(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
for i in range(count):
    key = dict(study="s", model=model, checkpoint=f"step{i}", corpus="wiki", metric="motion", status="done")
    number = dict(view="text tokens", statistic="norm", site="block", value=float(i))
    store.commit_cell(key, [number | dict(layer=layer) for layer in range(13)])
    print(i, flush=True)
"""

HOLD = "import sys, duckdb; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.readline()"


def start(code, *arguments):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def held(store):
    """Another process that has the file of the store open for writing until its input ends."""
    with start(HOLD, store.path) as holder:
        assert holder.stdout.readline() == "open\n"
        yield holder
        holder.stdin.close()


def test_two_writers_lose_nothing_and_count_nothing_twice(store):
    writers = [start(COMMIT_LOOP, store.path, model, 5) for model in ("bert", "gpt2")]
    while any(writer.poll() is None for writer in writers):
        counts = [len(store.cells("s")) for _ in range(2)]  # a reader gets in between
        assert counts[0] <= counts[1]
        time.sleep(0.1)
    for writer in writers:
        assert (writer.communicate()[0].split(), writer.returncode) == ([str(i) for i in range(5)], 0)
    assert len(store.cells("s")) == 10
    counts = "SELECT count(*), count(DISTINCT (model, checkpoint, layer)) FROM layer_metrics"
    assert records(store, counts) == [(130, 130)]


def test_replacing_one_cell_does_not_grow_the_file(store):
    sizes = []
    for i in range(12):
        store.commit_cell(cell(), numbers(layers=400, value=i / 3))
        sizes.append(store.path.stat().st_size)
    assert max(sizes[6:]) <= max(sizes[:6]) * 1.1
    assert records(store, "SELECT count(*) FROM layer_metrics") == [(401,)]
    assert [file.name for file in store.path.parent.iterdir()] == ["results.duckdb"]


def test_whoever_comes_second_waits_and_says_so_once(held, store, monkeypatch):
    monkeypatch.setattr(opening, "_SAY_AFTER_SECONDS", 0.05)
    said = []
    patient = Store(store.path, lambda line: said.append(line) or threading.Timer(0.3, held.stdin.close).start())
    patient.commit_cell(cell(study="t"))
    assert said == [f"results.duckdb is in use by another process (PID {held.pid}); waiting"]
    assert len(store.cells("t")) == 1


@pytest.mark.parametrize("use", ["read", "write"])
def test_the_wait_is_logged_where_nobody_listens_and_ends(held, store, use, monkeypatch, caplog):
    monkeypatch.setattr(opening, "_SAY_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(opening, "WAIT_SECONDS", 0.1)
    hasty, holder = Store(store.path), rf"in use by another process \(PID {held.pid}\)"
    with caplog.at_level(logging.WARNING), pytest.raises(ReporterError, match=f"has been {holder} for 0.1 s"):
        hasty.cells("s") if use == "read" else hasty.commit_cell(cell())
    (message,) = caplog.messages
    assert f"(PID {held.pid}); waiting" in message


@pytest.mark.parametrize("turn", [40, 1000])
def test_patience_is_with_one_holder_and_begins_anew_with_the_next(store, monkeypatch, turn):
    waits, said = [], []

    def busy(_):
        if sum(waits) <= 100:
            holder = f"{1 + sum(waits) // turn:.0f}"
            raise duckdb.IOException(f"Could not set lock on file: it is held in python (PID {holder})")

    monkeypatch.setattr(opening, "time", SimpleNamespace(monotonic=lambda: sum(waits), sleep=waits.append))
    too_long = pytest.raises(ReporterError, match=r"in use by another process \(PID 1\) for 60 s")
    with nullcontext() if turn == 40 else too_long:
        opening.attach(SimpleNamespace(execute=busy), store.path, "results", True, waiting=said.append)
    assert said == ["results.duckdb is in use by another process (PID 1); waiting"]


def test_an_open_connection_of_this_process_is_named(store):
    store.commit_cell(cell(), numbers())
    with duckdb.connect(str(store.path)), pytest.raises(ReporterError, match="already open in this process; close"):
        store.cells("s")


def test_a_file_that_is_kept_open_is_closed_by_a_write_and_after_a_while(store, monkeypatch):
    store.commit_cell(cell(), numbers())
    attach, opened = opening.attach, []
    monkeypatch.setattr(opening, "attach", lambda *args: opened.append(args[1]) or attach(*args))
    with store.kept_open():
        assert [len(store.cells("s")) for _ in range(2)] == [1, 1] and len(opened) == 1
        store.commit_cell(cell(checkpoint="step1"), numbers())
        assert len(store.cells("s")) == 2 and len(opened) == 3
        monkeypatch.setattr(database_file, "_KEPT_SECONDS", -1.0)
        assert len(store.cells("s")) == 2 and len(opened) == 4
    with duckdb.connect(store.path):  # which it could not be while it is attached
        pass


def test_threads_of_one_process_take_turns(store):
    def work(name):
        store.commit_cell(cell(model=name), numbers())
        return store.cells("s")

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(work, "abcdefghi"))  # raises what one of them raised
    assert len(store.cells("s")) == 9


def test_an_interrupted_commit_leaves_the_old_numbers(store, monkeypatch):
    store.commit_cell(cell(), numbers())

    def stop(*given):
        delete(*given)
        raise KeyboardInterrupt

    delete = database._delete_cells
    monkeypatch.setattr(database, "_delete_cells", stop)
    with pytest.raises(KeyboardInterrupt):
        store.commit_cell(cell(fingerprint="f2"), numbers(layers=9))
    assert store.cells("s")[("bert", "final", "wiki", "motion")].fingerprint == "f1"
    assert records(store, "SELECT count(*) FROM layer_metrics") == [(5,)]
