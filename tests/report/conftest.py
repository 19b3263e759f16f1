"""A rendered results folder, made once for all tests of the report."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from reporter.report import render

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="session")
def results(made_up: ModuleType, reports: Path, once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """A results folder: those of ``reports``; ``made-up``, which is plain; ``torn`` with failures and hostile names."""

    def make(folder: Path) -> None:
        shutil.copytree(reports, folder, dirs_exist_ok=True)
        made_up.fill(folder / "results.duckdb")
        models = ((HOSTILE, "encoder", 4, 64, (None,)), *made_up.MODELS[1:3])
        store = made_up.fill(
            folder / "results.duckdb", "torn", title=HOSTILE, models=models, metrics=("anisotropy", "motion")
        )
        made_up.fail(store, "torn", f"OSError: {HOSTILE} is not there: give another path")
        render(folder / "results.duckdb", folder, ["made-up", "torn"])

    return once("results-of-reports", make)
