"""Results folders with a few numbers each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from reporter.store.shape import create_file

SPEC = "study: s\nmodels: {bert: some/bert}\nmetrics: [motion, anisotropy]\n"


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with all its tables; to copy it is much quicker than to make one for each test."""
    path = tmp_path_factory.mktemp("empty") / "results.duckdb"
    create_file(path)
    return path


@pytest.fixture
def folder(tmp_path: Path, empty: Path) -> Callable[..., Path]:
    """Write a study into a results folder: numbers are (statistic, layer, value, low, high)."""

    def make(
        name: str,
        numbers: Sequence[tuple[str, int, float | None, float | None, float | None]] = (),
        study: str = "s",
        spec: str = SPEC,
        model: Mapping[str, Any] | None = None,
        options: str = "{}",
        versions: str = '{"torch": "2.13.0"}',
    ) -> Path:
        path = tmp_path / name / "results.duckdb"
        if not path.exists():
            path.parent.mkdir()
            shutil.copy(empty, path)
        bert = {"study": study, "model": "bert", "checkpoint": "final"}
        cell = bert | {"corpus": "wiki", "metric": "motion"}
        rows = [("studies", {"study": study, "spec": spec, "versions": versions})]
        rows.append(
            (
                "models",
                bert
                | {"position": 1, "is_last": True, "revision": "aa", "layers": 4, "status": "done"}
                | dict(model or {}),
            )
        )
        rows.append(("corpora", {"study": study, "corpus": "wiki", "content_hash": "ab"}))
        rows.append(("cells", cell | {"status": "done", "options": options}))
        for statistic, layer, value, low, high in numbers:
            place = {"view": "words", "statistic": statistic, "site": "block", "layer": layer}
            rows.append(("layer_metrics", cell | place | {"value": value, "ci_low": low, "ci_high": high}))
        with duckdb.connect(str(path)) as connection:
            for table, row in rows:
                insert(connection, table, row)
        return path.parent

    return make


def insert(connection: duckdb.DuckDBPyConnection, table: str, row: Mapping[str, Any]) -> None:
    marks = ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values()))
