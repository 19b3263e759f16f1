"""What a run shows on a terminal of work that takes long; lines of other streams are tests of the clock."""

from __future__ import annotations

import io

import pytest

from reporter.core.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return Terminal()


def test_a_step_is_a_bar_that_goes_and_leaves_a_line(terminal: Terminal) -> None:
    with Progress(terminal).step("[m] × wiki", 1200, "tokens", done=200) as advance:
        advance(400)
    shown = terminal.getvalue()
    assert "[m] × wiki" in shown and "600 of 1,200 tokens" in shown and "50%" in shown
    assert shown.splitlines()[-1].endswith("  [m] × wiki: 1,200 tokens in 0.0 s")


def test_parts_that_are_found_on_the_way_are_a_bar_each(terminal: Terminal) -> None:
    with Progress(terminal).telling("journeys") as tell:
        tell("text [1]", 1, 4)
        tell("text [1]", 3, 4)
        tell("text 2", 1, 2)
    shown = terminal.getvalue()
    assert "journeys: text 2" in shown and "50%" in shown
    assert shown.splitlines()[-1].endswith("  journeys: 0.0 s")


def test_a_step_that_fails_leaves_no_line_that_says_it_was_done(terminal: Terminal) -> None:
    with pytest.raises(ValueError, match="x"), Progress(terminal).step("m", 5, "texts"):
        raise ValueError("x")
    assert "in 0.0 s" not in terminal.getvalue()


def test_a_terminal_needs_no_reminder(terminal: Terminal) -> None:
    with Progress(terminal).reminding():
        pass
    assert terminal.getvalue() == ""
