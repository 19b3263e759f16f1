import pytest
from report.made_up import SMALL, fill, fill_whole
from report.reading import read_pages

from reporter.judge.comparison import write_comparison
from reporter.report import export, render
from reporter.store import Store

METRICS = ("angular_distance", "anisotropy", "convergence", "intrinsic_dimension", "layer_pairs", "outliers")
METRICS += ("spectrum", "variance")


@pytest.fixture(scope="session")
def whole(reports):
    """The pages of the study that has everything, one after the other."""
    return read_pages(reports / "whole")


@pytest.fixture(scope="session")
def torn(reports):
    """The pages of a study with a hostile name and failures, and without claims, findings and answers."""
    return read_pages(reports / "made-up")


@pytest.fixture(scope="session")
def drawn(once):
    """A results folder with a study of null baselines, all sites and some metrics, and what its pages would show."""

    def make(folder):
        write_comparison(fill_whole(folder / "results.duckdb", types=400, ranks=96, metrics=METRICS), "whole")

    folder = once("drawn", make)
    return folder, export.read_study("whole", folder)


@pytest.fixture
def written(tmp_path):
    """Returns a function that fills a small study once, writes its pages as its key ``report`` says, and reads them."""
    database = tmp_path / "results.duckdb"

    def write(report="", looked_at=None, **study):
        store = Store(database) if database.exists() else fill(database, **SMALL | study)
        spec = {"study": "made-up", "spec": f"study: made-up\n{report}", "looked_at": looked_at}
        store.put("studies", ("study",), spec)
        render(database, tmp_path)
        return read_pages(tmp_path / "made-up")

    return write
