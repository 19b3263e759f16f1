"""Where the time of a run goes, and what a log or a terminal shows of work that takes long."""

import io
import threading

import pytest

from reporter.core import progress as clocks
from reporter.core.progress import Clock, Progress


def test_inner_work_counts_as_what_it_is_also_where_it_fails(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: now[0])

    def wait(seconds):
        now[0] += seconds

    clock = Clock()
    wait(1)
    with clock.within("observables"):
        wait(10)
        clock.take("forward", 7)
        with pytest.raises(ZeroDivisionError), clock.within("store"):
            wait(3)
            raise ZeroDivisionError
        wait(2)
    before = clock.spent()
    wait(0.5)
    assert clock.spent() == {"forward": 7, "observables": 5, "store": 3, "other": 1.5}
    assert clock.line() == "16.5 s: forward 7.0 s (42%), observables 5.0 s (30%), store 3.0 s (18%), other 1.5 s (9%)"
    assert clock.spent(before) == {"other": 0.5}


def test_a_log_names_every_half_minute_what_is_being_done():
    log = io.StringIO()
    progress = Progress(log)
    last = progress._said
    assert progress.remind(last + 29) == pytest.approx(1) and not log.getvalue()
    with progress.clock.within("loading"):
        assert progress.remind(last + 31) == 30
    with progress.step("m × texts", 1000, "tokens", done=200) as advance:
        advance(50)
        with progress.telling("m × mouse") as tell:
            tell("searching", 1, 4)
            progress.remind(progress._said + 30)
        progress.remind(progress._said + 30)
    assert [line for line in log.getvalue().splitlines() if "…" in line] == [
        "  … loading",
        "  … m × mouse: searching: 1 of 4 (25%)",
        "  … m × texts: 250 of 1,000 tokens (25%)",
    ]
    with progress.reminding():
        running = threading.active_count()
    assert threading.active_count() == running - 1, "the thread that reminds ends with the run"


def test_a_step_on_a_terminal_is_a_bar_that_leaves_a_line(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    with Progress(terminal).step("[m] × wiki", 1200, "tokens", done=200) as advance:
        advance(400)
    assert "600 of 1,200 tokens" in terminal.getvalue()
    assert "  [m] × wiki: 1,200 tokens in " in terminal.getvalue().splitlines()[-1]
