"""The studies that ship, read as a user's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reporter.metrics.registry import catalogue, statistics
from reporter.spec import StudyFile, load_study

STUDIES = Path(__file__).parents[2] / "studies"


@pytest.fixture(scope="session")
def read() -> Callable[[str], StudyFile]:
    """Return a function that reads a study by its path below ``studies``, without the ending."""
    known: dict[str, StudyFile] = {}

    def get(name: str) -> StudyFile:
        if name not in known:
            options = {metric.name: metric.options for metric in catalogue().values()}
            known[name] = load_study(STUDIES / f"{name}.yaml", options, statistics())
        return known[name]

    return get
