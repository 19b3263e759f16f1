"""Observables on disk: what leaves when there is no more room, and what must not."""

from __future__ import annotations

import os

import pytest

from reporter.forward.kept import Amount, PassFacts, PassFolder
from reporter.forward.measure import Counts
from reporter.forward.observable import Setting
from reporter.forward.observed import KINDS
from reporter.metrics.base import catalogue
from reporter.models.places import Layout
from reporter.runs.cache import make_room
from reporter.runs.cells import wanted_by


@pytest.fixture
def passes(tmp_path):
    """Three passes of 1000 bytes, the oldest first, none of them touched for hours."""
    found = []
    for age, seed in ((9, 0), (6, 1), (3, 2)):
        kept = PassFolder(tmp_path, {"seed": seed})
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


def keep(kept, name, want):
    """Keep an observable that has seen nothing, as a pass for ``want`` would."""
    layout = Layout(2, 4)
    observable = KINDS[name].empty(Setting(layout, 0, 9, want.size, views=want.views))
    facts = PassFacts({}, layout, Counts(), "cpu", "float32", None)
    kept.finish([(name, observable)], {name: want}, facts)


@pytest.mark.parametrize(
    ("there", "want", "missing"),
    [
        (Amount(8, ("words", "all")), Amount(8, ("words",)), None),
        (Amount(8, ("words", "all")), Amount(4, ("all",)), None),
        (Amount(8, ("words",)), Amount(8, ("no-sinks",)), Amount(8, ("words", "no-sinks"))),
        (Amount(8, ("words",)), Amount(4, ("all",)), Amount(8, ("words", "all"))),
        (Amount(8, ("words",)), Amount(16, ("words",)), Amount(16, ("words",))),
    ],
)
def test_what_is_kept_does_for_fewer_views_and_smaller_samples(tmp_path, there, want, missing):
    kept = PassFolder(tmp_path, {"seed": 0})
    keep(kept, "text_entropy", there)
    assert kept.missing({"text_entropy": want}) == ({} if missing is None else {"text_entropy": missing})
    assert kept.missing({"moments": Amount()}) == {"moments": Amount()}


def test_views_are_asked_of_those_that_tell_them_apart():
    metric = catalogue()["entropy"]
    chosen = [(metric, metric.options(texts=texts), views) for texts, views in ((7, ["all"]), (9, ["words"]))]
    assert wanted_by(chosen) == {"text_entropy": Amount(9, ("words", "all"))}
    other = catalogue()["spectrum"]
    assert {want.views for want in wanted_by([(other, other.options(), ["all"])]).values()} == {()}


def test_what_a_study_keeps_stays_though_the_one_that_made_it_would_not(tmp_path):
    kept, layout = PassFolder(tmp_path, {"seed": 0}), Layout(2, 4)
    wanted = {name: Amount() for name in ("moments", "gram")}
    found = [(name, KINDS[name].empty(Setting(layout, 0, 9, None))) for name in wanted]
    kept.finish(found, wanted, PassFacts({}, layout, Counts(), "cpu", "float32", None), keep="nothing")
    kept.load({"gram": Amount()}, keep="all")
    kept.drop()
    assert kept.missing(wanted) == {"moments": Amount()}
