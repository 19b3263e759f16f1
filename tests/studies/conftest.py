"""The studies that ship, read as a user's."""

from functools import cache
from pathlib import Path

import pytest

from reporter.runs.studies import offer
from reporter.study import load_study

STUDIES = Path(__file__).parents[2] / "studies"


@cache
def read(name):
    """Return a study by its path below ``studies``, without the ending."""
    return load_study(STUDIES / f"{name}.yaml", offer())


@pytest.fixture(autouse=True, scope="module")
def no_report():
    """Leave out the page, which has tests of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reporter.runs.runner._report", lambda *_: ())
        yield
