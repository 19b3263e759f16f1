"""A rendered results folder, made once for all tests of the report."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from reporter.report import render

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="session")
def made_up() -> ModuleType:
    """The functions that make up studies."""
    spec = importlib.util.spec_from_file_location("made_up_studies", Path(__file__).with_name("made_up.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def results(made_up: ModuleType, once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """A results folder: ``made-up`` is plain; ``whole`` fills every table; ``torn`` has failures and hostile names.

    ``explored`` has no corpora, but journeys; ``exhibited`` static embeddings and sentences.
    """

    def make(folder: Path) -> None:
        made_up.fill(folder / "results.duckdb")
        made_up.fill_whole(folder / "results.duckdb")
        made_up.fill_explored(folder / "results.duckdb")
        made_up.fill_exhibited(folder / "results.duckdb")
        models = ((HOSTILE, "encoder", 4, 64, (None,)), *made_up.MODELS[1:3])
        store = made_up.fill(
            folder / "results.duckdb", "torn", title=HOSTILE, models=models, metrics=("anisotropy", "motion")
        )
        made_up.fail(store, "torn", f"OSError: {HOSTILE} is not there: give another path")
        render(folder / "results.duckdb", folder)

    return once("results-of-reports", make)
