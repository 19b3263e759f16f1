"""The studies that ship, read as a user's."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reporter.runs.studies import offer
from reporter.spec import StudyFile, load_study

STUDIES = Path(__file__).parents[2] / "studies"


@pytest.fixture(scope="session")
def read() -> Callable[[str], StudyFile]:
    """Return a function that reads a study by its path below ``studies``, without the ending."""
    known: dict[str, StudyFile] = {}

    def get(name: str) -> StudyFile:
        if name not in known:
            known[name] = load_study(STUDIES / f"{name}.yaml", offer())
        return known[name]

    return get
