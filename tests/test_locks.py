from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from reporter import locks
from reporter.locks import held, held_if_free


@pytest.fixture
def taken(tmp_path):
    """Return a lock that another thread holds, and what lets go of it."""
    path, has_it, let_go = tmp_path / "lock", threading.Event(), threading.Event()

    def hold():
        with held(path, "first"):
            has_it.set()
            let_go.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert has_it.wait(30)
    yield path, let_go
    let_go.set()
    thread.join()


def test_who_waits_is_told_once_for_whom(taken, monkeypatch):
    path, let_go = taken
    monkeypatch.setattr(locks, "SAY_AFTER_SECONDS", 0.01)
    said = []

    def waiting(text):
        said.append(text)
        let_go.set()

    with held(path, "second", waiting):
        assert len(said) == 1
        assert f"second: waiting for process {os.getpid()} on " in said[0]


def test_a_free_lock_is_taken_without_a_word(tmp_path):
    for _ in range(2):
        with held(tmp_path / "lock", "it", pytest.fail):
            pass


def test_only_a_free_lock_is_taken_at_once(taken, tmp_path):
    with held_if_free(taken[0]) as mine:
        assert not mine
    with held_if_free(tmp_path / "other") as mine:
        assert mine


def left_by(path, **said):
    """Write the lease of a process that is not this one."""
    with locks.take(path).kept():
        whole = json.loads(path.read_text())
    path.write_text(json.dumps(whole | said))


def test_what_a_dead_process_of_this_machine_held_is_free_at_once(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    began = locks._began(gone.pid)
    gone.wait()
    left_by(tmp_path / "lock", token="other", pid=gone.pid, began=began)
    with held_if_free(tmp_path / "lock") as mine:
        assert mine


def test_another_machine_is_believed_for_a_minute_after_its_last_heartbeat(tmp_path):
    path = tmp_path / "lock"
    left_by(path, token="other", machine="another")
    with held_if_free(path) as mine:
        assert not mine
    an_hour_ago = time.time() - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))
    with held_if_free(path) as mine:
        assert mine
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("off", [-7200, 7200])
def test_a_clock_two_hours_off_changes_nothing(tmp_path, monkeypatch, off):
    path = tmp_path / "lock"
    left_by(path, token="other", machine="another")
    real = time.time
    monkeypatch.setattr(locks.time, "time", lambda: real() + off)
    with held_if_free(path) as mine:
        assert not mine
    two_minutes_ago = real() - 120
    os.utime(path, (two_minutes_ago, two_minutes_ago))
    with held_if_free(path) as mine:
        assert mine


def test_a_heartbeat_changes_the_time_alone(tmp_path):
    path = tmp_path / "lock"
    with held(path, "it"):
        said = path.read_bytes()
        os.utime(path, (0, 0))
        locks._touch(path)
        assert path.read_bytes() == said and abs(time.time() - path.stat().st_mtime) < 60


def test_who_is_stopped_is_taken_over_and_takes_nothing_back(tmp_path):
    path, hold = tmp_path / "lock", "import sys, time; from pathlib import Path; from reporter import locks\n"
    hold += "locks.HEARTBEAT_SECONDS = 0.1\nwith locks.held(Path(sys.argv[1]), 'it'): print(flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", hold, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout.readline()
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            with held_if_free(path) as mine:
                assert not mine  # it may go on, as a process does whose machine was busy
            ten_minutes_ago = time.time() - 2 * locks.HUNG_SECONDS
            os.utime(path, (ten_minutes_ago, ten_minutes_ago))
            with held_if_free(path) as mine:
                assert mine
                process.send_signal(signal.SIGCONT)
                process.communicate("\n", timeout=30)
                assert locks.is_live(path)
        finally:
            process.kill()


def test_who_touches_its_lease_is_not_taken_over(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(locks, "HUNG_SECONDS", 1.0)
    monkeypatch.setattr(locks, "_heart", locks._Heart())
    with held(tmp_path / "lock", "it"):
        time.sleep(1.5)
        assert locks.is_live(tmp_path / "lock")


@pytest.mark.parametrize("left", ["unfinished-left.lock", "unfinished-left"])
def test_what_a_killed_process_was_making_goes_with_its_lock(tmp_path, left):
    left_by(tmp_path / "unfinished-left.lock", machine="another")
    an_hour_ago = time.time() - 3600
    os.utime(tmp_path / "unfinished-left.lock", (an_hour_ago, an_hour_ago))
    if left == "unfinished-left":
        (tmp_path / left).mkdir()
    with locks.workplace(tmp_path):
        assert not list(tmp_path.glob("unfinished-left*"))


def test_who_was_taken_over_takes_nothing_from_the_other(tmp_path):
    path = tmp_path / "lock"
    with held(path, "it"):
        left = json.loads(path.read_text())
        path.write_text(json.dumps(left | {"token": "other"}))
    assert json.loads(path.read_text())["token"] == "other"
