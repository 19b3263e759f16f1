"""Results folders with a few numbers each."""

import shutil
from pathlib import Path

import duckdb
import pytest

from reporter.app.diff import compare

SPEC = "study: s\nmodels: {bert: some/bert}\nmetrics: [motion, anisotropy]\n"


@pytest.fixture
def folder(tmp_path, empty):
    """Write a study into a results folder: numbers are (statistic, layer, value, low, high)."""

    def make(name, numbers=(), study="s", spec=SPEC, model=None, options="{}", versions='{"torch": "2.13.0"}'):
        path = tmp_path / name / "results.duckdb"
        if not path.exists():
            path.parent.mkdir()
            shutil.copy(empty, path)
        bert = {"study": study, "model": "bert", "checkpoint": "final"}
        cell = bert | {"corpus": "wiki", "metric": "motion"}
        facts = {"position": 1, "is_last": True, "revision": "aa", "layers": 4, "status": "done"} | (model or {})
        rows = [
            ("studies", {"study": study, "spec": spec, "versions": versions}),
            ("models", bert | facts),
            ("corpora", {"study": study, "corpus": "wiki", "content_hash": "ab"}),
            ("cells", cell | {"status": "done", "options": options}),
        ]
        for statistic, layer, value, low, high in numbers:
            place = {"view": "words", "statistic": statistic, "site": "block", "layer": layer}
            rows.append(("layer_metrics", cell | place | {"value": value, "ci_low": low, "ci_high": high}))
        insert(path.parent, *rows)
        return path.parent

    return make


@pytest.fixture
def sides(folder):
    """Two equal results folders, the old and the new one."""
    return folder("old"), folder("new")


def insert(folder, *rows):
    """Put rows (table, values) of a study into a folder's database."""
    with duckdb.connect(str(folder / "results.duckdb")) as connection:
        connection.begin()
        for table, values in rows:
            values = {"study": "s"} | values
            names = ", ".join(f'"{name}"' for name in values)
            marks = ", ".join("?" * len(values))
            connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(values.values()))
        connection.commit()


def alter(folder, *statements):
    with duckdb.connect(str(folder / "results.duckdb")) as connection:
        for statement in statements:
            connection.execute(statement)


def compared(old, new):
    """What differs between the only studies of two folders."""
    return compare(f"{old}:", f"{new}:", Path("x"))


def records(result):
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]
