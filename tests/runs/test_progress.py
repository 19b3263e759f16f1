"""Where the time of a run goes, and what a log or a terminal shows of work that takes long."""

import io
import json
import threading

import pytest
from runs.conftest import ONLY, select

from reporter.core import progress as clocks
from reporter.core.progress import Clock, Progress


@pytest.fixture
def wait(monkeypatch):
    """Return a function that moves the clock; it stands still otherwise."""
    now = [0.0]
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: now[0])

    def advance(seconds):
        now[0] += seconds

    return advance


def test_inner_work_counts_as_what_it_is(wait):
    clock = Clock()
    wait(1)
    with clock.within("observables"):
        wait(10)
        clock.take("forward", 7)
        with clock.within("store"):
            wait(3)
        wait(2)
    wait(0.5)
    assert clock.spent() == {"forward": 7, "observables": 5, "store": 3, "other": 1.5}
    assert clock.line() == "16.5 s: forward 7.0 s (42%), observables 5.0 s (30%), store 3.0 s (18%), other 1.5 s (9%)"


def test_work_that_fails_counts_and_time_can_be_counted_from_a_moment_on(wait):
    clock = Clock()
    with pytest.raises(ZeroDivisionError), clock.within("metrics"):
        wait(2)
        raise ZeroDivisionError
    wait(1)
    before = clock.spent()
    assert before == {"metrics": 2, "other": 1}
    with clock.within("metrics"):
        wait(3)
    assert clock.spent(before) == {"metrics": 3}


def test_a_run_prints_and_stores_where_its_time_went(study, run, store):
    _, log = run(study(), only=ONLY)
    ((timings, seconds),) = select(store, "SELECT timings, seconds FROM studies")
    parts = json.loads(timings)
    assert {"forward", "observables", "metrics", "store", "loading", "tokenising"} <= set(parts)
    assert sum(parts.values()) == pytest.approx(seconds, abs=0.2, rel=0.2)
    assert log.splitlines()[-1].startswith("total time ") and " tokens in " in log
    assert "total time" not in run(study(), only=ONLY)[1]


def test_a_log_names_every_half_minute_what_is_being_done():
    log = io.StringIO()
    progress = Progress(log)
    last = progress._said
    assert progress.remind(last + 29) == pytest.approx(1) and not log.getvalue()
    with progress.clock.within("loading"):
        assert progress.remind(last + 31) == 30
    with progress.step("m × texts", 1000, "tokens", done=200) as advance:
        advance(50)
        progress.remind(progress._said + 30)
        with progress.telling("m × mouse") as tell:
            tell("searching", 1, 4)
            progress.remind(progress._said + 30)
        progress.remind(progress._said + 30)
    assert [line for line in log.getvalue().splitlines() if "…" in line] == [
        "  … loading",
        "  … m × texts: 250 of 1,000 tokens (25%)",
        "  … m × mouse: searching: 1 of 4 (25%)",
        "  … m × texts: 250 of 1,000 tokens (25%)",
    ]
    with progress.reminding():
        running = threading.active_count()
    assert threading.active_count() == running - 1, "the thread that reminds ends with the run"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return Terminal()


def test_a_step_on_a_terminal_is_a_bar_that_goes_and_leaves_a_line(terminal):
    with Progress(terminal).step("[m] × wiki", 1200, "tokens", done=200) as advance:
        advance(400)
    output = terminal.getvalue()
    assert "[m] × wiki" in output and "600 of 1,200 tokens" in output and "50%" in output
    assert "  [m] × wiki: 1,200 tokens in " in output.splitlines()[-1]


def test_a_terminal_shows_no_end_of_a_step_that_fails_and_no_reminder(terminal):
    with pytest.raises(ValueError, match="x"), Progress(terminal).step("m", 5, "texts"):
        raise ValueError("x")
    assert " texts in " not in terminal.getvalue()
    before = terminal.getvalue()
    with Progress(terminal).reminding():
        pass
    assert terminal.getvalue() == before
