"""Observables on disk: what leaves when there is no more room, and what must not."""

from __future__ import annotations

import os

import pytest

from reporter.runs.kept import Kept, make_room


@pytest.fixture
def passes(tmp_path):
    """Three passes of 1000 bytes, the oldest first, none of them touched for hours."""
    found = []
    for age, seed in ((9, 0), (6, 1), (3, 2)):
        kept = Kept(tmp_path, {"seed": seed})
        with kept.locked("it", pytest.fail):
            (kept.folder / "unfinished-1").mkdir()
            (kept.folder / "unfinished-1" / "x").write_bytes(bytes(1000))
        hours_ago = kept.folder.stat().st_mtime - age * 3600
        os.utime(kept.folder, (hours_ago, hours_ago))
        found.append(kept)
    return found


def test_what_was_not_used_for_longest_leaves_first(passes, tmp_path):
    assert make_room(tmp_path, 3000) == []
    assert make_room(tmp_path, 1000) == [passes[0].folder.name, passes[1].folder.name]
    assert [kept.folder.exists() for kept in passes] == [False, False, True]
    with passes[0].locked("it", pytest.fail):
        assert passes[0].folder.is_dir()


def test_a_pass_that_runs_for_hours_stays(passes, tmp_path):
    running = passes[0]
    with running.locked("it", pytest.fail):
        assert make_room(tmp_path, 1000) == [kept.folder.name for kept in passes[1:]]
        assert (running.folder / "unfinished-1" / "x").exists()
    assert make_room(tmp_path, 0) == [running.folder.name]


def test_there_may_be_nothing_to_make_room_in(tmp_path):
    assert make_room(tmp_path / "nowhere", 0) == []
