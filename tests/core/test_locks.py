import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from reporter.core import locks
from reporter.core.locks import held, held_if_free, lock_at, unfinished_folder

HOLD = """
import sys
from pathlib import Path
from reporter.core import locks
locks.REFRESH_SECONDS, locks.STALE_SECONDS = 0.1, 1.0
with locks.held(Path(sys.argv[1]), 'it'):
    print(flush=True)
    input()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lock"


@pytest.fixture
def impatient(monkeypatch):
    for name, seconds in (("REFRESH_SECONDS", 0.1), ("STALE_SECONDS", 1.0)):
        monkeypatch.setattr(locks, name, seconds)


def is_free(lock):
    with held_if_free(lock) as mine:
        return mine


def left_by(path, host=None):
    """Write the lock of a process that has ended, or of one on another machine."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with held(path, "it"):
        text = path.read_text().replace(f"pid={os.getpid()}\n", f"pid={gone.pid}\n")
    path.write_text(re.sub("host=.*", f"host={host}", text) if host else text)


def test_who_waits_is_told_once_for_whom_and_a_free_lock_is_taken_without_a_word(path, monkeypatch):
    monkeypatch.setattr(locks, "WAIT_SECONDS", 0.01)
    has_it, let_go, messages = threading.Event(), threading.Event(), []

    def hold():
        with held(path, "first", pytest.fail):
            has_it.set()
            let_go.wait(30)

    def waiting(text):
        messages.append(text)
        let_go.set()

    thread = threading.Thread(target=hold)
    thread.start()
    assert has_it.wait(30) and not is_free(lock_at(path))
    with held(path, "second", waiting):
        assert len(messages) == 1
        assert f"second: waiting for process {os.getpid()} on " in messages[0]
    thread.join()
    assert is_free(lock_at(path)) and not path.exists()


def test_what_a_dead_process_of_this_machine_held_and_what_was_left_days_ago_is_free_at_first_sight(path):
    for host, age in ((None, 0), ("another", 2 * locks.ABANDONED_SECONDS)):
        left_by(path, host)
        os.utime(path, (time.time() - age,) * 2)
        assert is_free(lock_at(path))


@pytest.mark.parametrize("off", [-7200, 7200])
def test_another_machine_is_believed_until_its_lock_was_not_refreshed_for_a_while(path, monkeypatch, impatient, off):
    left_by(path, "another")
    real = time.time
    monkeypatch.setattr(locks.time, "time", lambda: real() + off)  # clocks of machines differ
    lock = lock_at(path)
    assert not is_free(lock)
    time.sleep(0.6)
    os.utime(path)
    for free in (False, False, True):
        assert is_free(lock) == free
        time.sleep(0 if free else 0.6)
    assert not path.exists()


@pytest.mark.parametrize("waits", [True, False])
def test_who_was_killed_before_it_wrote_its_name_is_taken_over(path, impatient, waits):
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
def holder(path, impatient):
    """A process that holds the lock until it reads a line."""
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_who_refreshes_its_lock_is_left_alone_and_who_is_suspended_takes_nothing_back(path, holder):
    lock = lock_at(path)
    for _ in range(4):
        assert not is_free(lock)
        time.sleep(0.6)
    holder.send_signal(signal.SIGSTOP)
    os.waitpid(holder.pid, os.WUNTRACED)
    assert not is_free(lock_at(path))  # it may go on, as a process does whose machine was busy
    with held(path, "it", lambda _: None):
        mine = path.read_text()
        holder.send_signal(signal.SIGCONT)
        holder.communicate("\n", timeout=30)
        assert path.read_text() == mine
    assert holder.returncode == 0


LEFT = f"unfinished-{'0' * 32}"


@pytest.mark.parametrize("folder", [True, False])
def test_what_a_killed_process_was_making_goes_with_its_lock(tmp_path, folder):
    left_by(tmp_path / f"{LEFT}.lock")
    if folder:
        (tmp_path / LEFT).mkdir()
    with unfinished_folder(tmp_path):
        assert not list(tmp_path.glob(f"{LEFT}*"))
    assert list(tmp_path.iterdir()) == []
