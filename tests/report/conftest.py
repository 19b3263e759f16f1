import pytest
from report.reading import read


@pytest.fixture(scope="session")
def whole(reports):
    """The page of the study that has everything."""
    return read(reports / "whole" / "index.html")


@pytest.fixture(scope="session")
def torn(reports):
    """The page of a study with a hostile name and failures, and without claims, findings and answers."""
    return read(reports / "made-up" / "index.html")
