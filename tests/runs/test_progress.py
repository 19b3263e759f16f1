"""Where the time of a run goes, and what a log or a terminal shows of work that takes long."""

import io
import re
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


def test_a_log_says_what_is_being_done_once_a_minute_at_most():
    log = io.StringIO()
    progress = Progress(log)
    progress.remind(0)
    assert progress.remind(59) == pytest.approx(1) and log.getvalue() == "  … working\n"
    with progress.clock.within("loading", "m"):
        assert progress.remind(61) == 60
    with progress.step("m × texts", 1000, "tokens", done=200) as advance:
        advance(50)
        with progress.telling("m × mouse") as tell:
            tell("searching", 1, 4)
            progress.remind(121)
        progress.remind(181)
    assert [line for line in log.getvalue().splitlines() if "…" in line][1:] == [
        "  … loading m",
        "  … m × mouse: searching: 1 of 4 (25%)",
        "  … m × texts: 250 of 1,000 tokens (25%)",
    ]
    with progress.reminding():
        running = threading.active_count()
    assert threading.active_count() == running - 1, "the thread that reminds ends with the run"


def test_a_run_says_how_much_of_all_is_done_and_how_long_the_rest_takes(monkeypatch):
    """Passes are half of a run and cells the other half; training before it is no part of what is left."""
    now, done = [1000.0], 0
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(clocks.time, "monotonic", lambda: now[0])
    log = io.StringIO()
    progress = Progress(log)
    with progress.expecting(8, lambda: done, {"a": 3.0, "b": 1.0}):
        with progress.clock.within("training"):
            now[0] += 500
            progress.remind(now[0])
        with progress.step("a", 1000, "tokens") as advance:
            now[0] += 60
            advance(400)
            progress.remind(now[0])
            now[0] += 30
            advance(600)
        for step in ("a", "b"):  # a line for one finished step, since a minute has not passed before the other
            with progress.step(step, 1, "texts"):
                now[0] += 1
        progress.finished("b")
        done = 2
        now[0] += 28
        progress.remind(now[0])
    assert log.getvalue().splitlines() == [
        "  … 0 of 8 cells: training",
        "  … 0 of 8 cells (15% of the run, about 6 min of 7 min left): a: 400 of 1,000 tokens (40%)",
        "  … 2 of 8 cells (62% of the run, about 72 s of 3 min left): working",
    ]


def test_workers_count_as_much_of_the_run_as_the_passes_that_they_do(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: now[0])
    log = io.StringIO()
    progress = Progress(log)
    with progress.expecting(4, lambda: 0, {"a": 3.0, "b": 1.0}):
        for _ in range(2):  # ranges of a pass
            now[0] += 60
            progress.finished("a", 0.5)
        progress.remind(now[0])
        with progress.expecting(4, lambda: 4, {"a": 3.0, "b": 1.0}):
            progress.finished("b")
            progress.remind(now[0] + 100)
    assert log.getvalue().splitlines() == [
        "  … 0 of 4 cells (38% of the run, about 3 min of 5 min left): working",
        "  … 4 of 4 cells (100% of the run, about 1 s of 2 min left): working",
    ]


def test_on_a_terminal_two_lines_of_80_columns_show_the_run_and_the_step(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    progress, name = Progress(terminal), "[m] × " + "wiki" * 20
    with (
        progress.reminding(),
        progress.expecting(12, lambda: 3, {}),
        progress.step(name, 1200, "tokens", 200) as advance,
    ):
        progress.note("a [note] between")
        advance(400)
    shown = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in re.split("[\r\n]", terminal.getvalue())]
    assert "a [note] between" in shown and f"  {name}: 1,200 tokens in 0.0 s" in shown
    bars = [line for line in shown if "━" in line]
    assert any("3 of 12 cells (25% of the run, about " in line for line in bars)
    assert any("[m] × wikiwiki" in line and line.endswith("…") for line in bars) and max(map(len, bars)) <= 80


def test_a_step_alone_has_a_bar_that_leaves_a_line(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    with Progress(terminal).step("[m] × wiki", 1200, "tokens", done=200) as advance:
        advance(400)
    assert "600 of 1,200 tokens" in terminal.getvalue()
    assert "  [m] × wiki: 1,200 tokens in " in terminal.getvalue().splitlines()[-1]
