"""A store in a folder of its own, a small cell to put into it, and a filled database that is only read."""

import shutil

import duckdb
import pytest

from reporter.store import Store

CELL = {"study": "s", "model": "bert", "checkpoint": "final", "corpus": "wiki", "metric": "motion"}


@pytest.fixture
def fresh(tmp_path):
    """A store whose file and folder do not exist yet."""
    return Store(tmp_path / "results" / "results.duckdb")


@pytest.fixture
def store(fresh, empty):
    fresh.path.parent.mkdir()
    shutil.copyfile(empty, fresh.path)
    return fresh


def cell(**changes):
    return CELL | {"fingerprint": "f1", "status": "done"} | changes


def numbers(layers=4, **changes):
    """One number for each layer."""
    row, rows = {"role": "encoder", "view": "text tokens", "statistic": "norm", "n": 7}, []
    for layer in range(layers + 1):
        at = {"site": "block" if layer else "embedding", "layer": layer, "depth": layer / layers}
        rows.append(row | at | {"value": 0.1 * layer} | changes)
    return rows


def alter(path, sql):
    """Change a file as another program would."""
    with duckdb.connect(str(path)) as connection:
        connection.execute(sql)


def records(store, sql):
    """The rows of a query as tuples."""
    return [tuple(row.values()) for row in store.records(sql)]


@pytest.fixture(scope="module")
def filled(tmp_path_factory, empty):
    """A database with a study of one cell, alone in its folder, that no test may change."""
    path = tmp_path_factory.mktemp("filled") / "results.duckdb"
    shutil.copyfile(empty, path)
    Store(path).put("studies", ["study"], {"study": "s", "spec": "study: s", "views": ["text tokens"]})
    Store(path).commit_cell(cell(), numbers())
    return path
