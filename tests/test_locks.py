from __future__ import annotations

import os
import threading

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
