"""Results folders with a few numbers each."""

import shutil
from pathlib import Path

import duckdb
import pytest

from reporter.app.diff import compare
from reporter.store.schema import find_table

SPEC = "study: s\nmodels: {bert: some/bert}\nmetrics: [motion, anisotropy]\n"


def number(statistic, layer, value, low=None, high=None, **more):
    """A row of layer_metrics, of the model that :func:`fill` writes unless another is named."""
    place = {"model": "bert", "checkpoint": "final", "corpus": "wiki", "metric": "motion", "view": "text tokens"}
    place |= {"site": "block", "layer": layer, "statistic": statistic}
    return ("layer_metrics", place | {"value": value, "ci_low": low, "ci_high": high} | more)


def fill(place, empty, numbers=(), study="s", spec=SPEC, model=None, options="{}", versions='{"torch": "2.13.0"}'):
    """Write a study into a results folder: numbers are (statistic, layer, value, low, high)."""
    if not place.exists():
        place.mkdir()
        shutil.copy(empty, place)
    bert = {"model": "bert", "checkpoint": "final", "status": "done"}
    facts = bert | {"position": 1, "is_last": True, "revision": "aa", "layers": 4} | (model or {})
    rows = [("studies", {"spec": spec, "versions": versions}), ("corpora", {"corpus": "wiki", "content_hash": "ab"})]
    rows += [("models", facts), ("cells", bert | {"corpus": "wiki", "metric": "motion", "options": options})]
    insert(place, *rows, *(number(*values) for values in numbers), study=study)
    return place


@pytest.fixture
def few_tables(monkeypatch):
    """Compare profiles and eigenvalues alone: reading a hundred empty tables takes most of a comparison."""
    monkeypatch.setattr("reporter.app.diff.numbers.tables", lambda: {"spectra": find_table("spectra")})


@pytest.fixture
def folder(tmp_path, empty):
    return lambda name, *numbers, **options: fill(tmp_path / name, empty, *numbers, **options)


@pytest.fixture
def sides(folder):
    """Two equal results folders, the old and the new one."""
    return folder("old"), folder("new")


def insert(folder, *rows, study="s"):
    """Put rows (table, values) of a study into a folder's database."""
    with duckdb.connect(str(folder / "results.duckdb")) as connection:
        connection.begin()
        for table, values in rows:
            row = {"study": study} | values
            names = ", ".join(f'"{name}"' for name in row)
            connection.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(row))})", [*row.values()])
        connection.commit()


def alter(folder, *statements):
    with duckdb.connect(str(folder / "results.duckdb")) as connection:
        connection.execute("; ".join(statements))


def compared(old, new):
    """What differs between the only studies of two folders."""
    return compare(f"{old}:", f"{new}:", Path("x"))


def records(result):
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]
