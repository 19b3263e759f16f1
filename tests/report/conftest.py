import pytest
from report.reading import read_pages


@pytest.fixture(scope="session")
def whole(reports):
    """The pages of the study that has everything, one after the other."""
    return read_pages(reports / "whole")


@pytest.fixture(scope="session")
def torn(reports):
    """The pages of a study with a hostile name and failures, and without claims, findings and answers."""
    return read_pages(reports / "made-up")
