import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from reporter.core import files as locks
from reporter.core.files import held, held_if_free, lock_at, unfinished_folder

HOLD = """
import sys
from pathlib import Path
from reporter.core import files as locks
locks.REFRESH_SECONDS, locks.STALE_SECONDS = 0.1, 1.0
with locks.held(Path(sys.argv[1]), 'it'):
    print(flush=True)
    input()
"""


@pytest.fixture
def taken(tmp_path):
    """Return a lock that another thread holds, and the event that lets go of it."""
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


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(locks, "REFRESH_SECONDS", 0.1)
    monkeypatch.setattr(locks, "STALE_SECONDS", 1.0)


def is_free(lock):
    with held_if_free(lock) as mine:
        return mine


def left_by(path, pid, host=None):
    """Write the lock of another process."""
    with held(path, "it"):
        text = path.read_text()
    name = next(line for line in text.splitlines() if line.startswith("host="))
    text = text.replace(f"pid={os.getpid()}\n", f"pid={pid}\n").replace(name, f"host={host}" if host else name)
    path.write_text(text)


def test_who_waits_is_told_once_for_whom(taken, monkeypatch):
    path, let_go = taken
    monkeypatch.setattr(locks, "WAIT_SECONDS", 0.01)
    messages = []

    def waiting(text):
        messages.append(text)
        let_go.set()

    with held(path, "second", waiting):
        assert len(messages) == 1
        assert f"second: waiting for process {os.getpid()} on " in messages[0]


def test_a_free_lock_is_taken_without_a_word(tmp_path):
    for _ in range(2):
        with held(tmp_path / "lock", "it", pytest.fail):
            pass
    assert list(tmp_path.iterdir()) == []


def test_only_a_free_lock_is_taken_at_once(taken, tmp_path):
    assert not is_free(lock_at(taken[0]))
    assert is_free(lock_at(tmp_path / "other"))


def test_what_a_dead_process_of_this_machine_held_is_free_at_once(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left_by(tmp_path / "lock", gone.pid)
    assert is_free(lock_at(tmp_path / "lock"))


@pytest.mark.parametrize("off", [-7200, 7200])
def test_another_machine_is_believed_until_its_lock_was_not_refreshed_for_a_while(
    tmp_path, monkeypatch, impatient, off
):
    path = tmp_path / "lock"
    left_by(path, 1, "another")
    real = time.time
    monkeypatch.setattr(locks.time, "time", lambda: real() + off)  # clocks of machines differ
    lock = lock_at(path)
    assert not is_free(lock)
    time.sleep(0.6)
    os.utime(path)
    assert not is_free(lock)
    time.sleep(0.6)
    assert not is_free(lock)
    time.sleep(0.6)
    assert is_free(lock)
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_was_left_days_ago_is_free_at_first_sight(tmp_path):
    path = tmp_path / "lock"
    left_by(path, 1, "another")
    two_days_ago = time.time() - 2 * locks.ABANDONED_SECONDS
    os.utime(path, (two_days_ago, two_days_ago))
    assert is_free(lock_at(path))


@pytest.mark.parametrize("waits", [True, False])
def test_who_was_killed_before_it_wrote_its_name_is_taken_over(tmp_path, impatient, waits):
    path = tmp_path / "lock"
    path.touch()
    lock = lock_at(path)
    assert not is_free(lock)
    if waits:
        with held(path, "it", lambda _: None):
            pass
    else:
        time.sleep(1.2)
        assert is_free(lock)


@pytest.fixture
def holder(tmp_path, impatient):
    """A process that holds the lock until it reads a line."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_who_is_suspended_is_taken_over_and_takes_nothing_back(tmp_path, holder):
    path = tmp_path / "lock"
    holder.send_signal(signal.SIGSTOP)
    os.waitpid(holder.pid, os.WUNTRACED)
    assert not is_free(lock_at(path))  # it may go on, as a process does whose machine was busy
    with held(path, "it", lambda _: None):
        mine = path.read_text()
        holder.send_signal(signal.SIGCONT)
        holder.communicate("\n", timeout=30)
        assert path.read_text() == mine
    assert holder.returncode == 0


def test_who_refreshes_its_lock_is_not_taken_over(tmp_path, holder):
    lock = lock_at(tmp_path / "lock")
    for _ in range(4):
        assert not is_free(lock)
        time.sleep(0.6)


@pytest.mark.parametrize("left", ["unfinished-left.lock", "unfinished-left"])
def test_what_a_killed_process_was_making_goes_with_its_lock(tmp_path, left):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left_by(tmp_path / "unfinished-left.lock", gone.pid)
    if left == "unfinished-left":
        (tmp_path / left).mkdir()
    with unfinished_folder(tmp_path):
        assert not list(tmp_path.glob("unfinished-left*"))
    assert list(tmp_path.iterdir()) == []
