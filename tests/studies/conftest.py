"""The studies that ship, read as a user's."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from reporter.runs.studies import offer
from reporter.spec import StudyFile, load_study

STUDIES = Path(__file__).parents[2] / "studies"


@pytest.fixture(scope="session")
def read() -> Callable[[str], StudyFile]:
    """Return a function that reads a study by its path below ``studies``, without the ending."""
    return cache(lambda name: load_study(STUDIES / f"{name}.yaml", offer()))


@pytest.fixture
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the page, which has tests of its own."""
    monkeypatch.setattr("reporter.runs.runner._report", lambda *_: ())
