"""Where the time goes: parts of a run add up to the whole, and what is inside other work counts once."""

from __future__ import annotations

import io
import json
import threading

import pytest

from reporter.core import progress as clocks
from reporter.core.progress import Clock, Progress


@pytest.fixture
def now(monkeypatch):
    """A watch that moves when it is told to."""
    at = [0.0]
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: at[0])

    def pass_(seconds):
        at[0] += seconds

    return pass_


def test_inner_work_counts_as_what_it_is(now):
    clock = Clock()
    now(1)
    with clock.within("observables"):
        now(10)
        clock.take("forward", 7)
        with clock.within("store"):
            now(3)
        now(2)
    now(0.5)
    assert clock.spent() == {"forward": 7, "observables": 5, "store": 3, "other": 1.5}
    assert clock.line() == "16.5 s: forward 7.0 s (42%), observables 5.0 s (30%), store 3.0 s (18%), other 1.5 s (9%)"


def test_what_takes_next_to_nothing_is_among_the_rest(now):
    clock = Clock()
    for what, seconds in (("metrics", 90.0), ("planning", 0.3), ("training", 0.1), ("claims", 0.6)):
        with clock.within(what):
            now(seconds)
    now(9)
    assert clock.line() == "100.0 s: metrics 90.0 s (90%), claims 0.6 s (1%), other 9.4 s (9%)"
    assert clock.spent()["planning"] == pytest.approx(0.3)


def test_what_fails_is_counted_too(now):
    clock = Clock()
    with pytest.raises(ZeroDivisionError), clock.within("metrics"):
        now(2)
        raise ZeroDivisionError
    now(1)
    assert clock.spent() == {"metrics": 2, "other": 1}


def test_somebody_who_asks_is_told_of_what(now):
    clock = Clock()
    with clock.within("loading", "bert final"):
        assert clock.doing == "loading bert final"
        with clock.within("store"):
            now(1)
            assert clock.doing == "store"
        assert clock.doing == "loading bert final"
    assert clock.doing == "other"
    assert clock.spent() == {"store": 1}


def test_since_a_moment_before(now):
    clock = Clock()
    with clock.within("metrics"):
        now(2)
    before = clock.spent()
    with clock.within("metrics"):
        now(3)
    assert clock.spent(before) == {"metrics": 3}


def test_a_run_says_and_keeps_where_its_time_went(study, run, store):
    _, said = run(study())
    parts = json.loads(store.frame("SELECT timings FROM studies")["timings"][0])
    assert {"forward", "observables", "metrics", "store", "loading", "tokenising"} <= set(parts)
    assert sum(parts.values()) == pytest.approx(store.frame("SELECT seconds FROM studies")["seconds"][0], abs=0.2)
    assert said.splitlines()[-1].startswith("where the time went, of ")
    assert " tokens in " in said
    _, again = run(study())
    assert "where the time went" not in again


def test_a_step_says_how_fast_it_was(now, monkeypatch):
    said = io.StringIO()
    with Progress(said).step("m × texts", 1000, "tokens", done=200):
        now(4)
    assert said.getvalue() == "  m × texts: 1,000 tokens in 4.0 s, 200 a second\n"


def test_a_log_is_told_every_half_minute_what_is_being_done():
    said = io.StringIO()
    progress = Progress(said)
    last = progress._said
    assert progress.remind(last + 29) == pytest.approx(1) and not said.getvalue()
    with progress.clock.within("loading"):
        assert progress.remind(last + 31) == 30
    with progress.step("m × texts", 1000, "tokens", done=200) as advance:
        advance(50)
        progress.remind(progress._said + 30)
        with progress.telling("m × mouse") as tell:
            tell("searching", 1, 4)
            progress.remind(progress._said + 30)
        progress.remind(progress._said + 30)
    lines = [line for line in said.getvalue().splitlines() if "…" in line]
    assert lines == [
        "  … loading",
        "  … m × texts: 250 of 1,000 tokens (25%)",
        "  … m × mouse: searching: 1 of 4 (25%)",
        "  … m × texts: 250 of 1,000 tokens (25%)",
    ]


def test_the_watch_ends_with_the_run():
    progress = Progress(io.StringIO())
    with progress.reminding():
        inside = threading.active_count()
    assert threading.active_count() == inside - 1
