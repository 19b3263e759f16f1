"""Studies that were made up for the tests of the report, without their pages."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder: ``whole`` has every table, ``exhibited`` pages of charts, ``torn`` hostile names."""
    path = Path(__file__).parents[1] / "made_up.py"
    spec = importlib.util.spec_from_file_location("made_up_studies_to_export", path)
    assert spec is not None and spec.loader is not None
    made_up = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made_up)
    folder = tmp_path_factory.mktemp("results")
    made_up.fill_whole(folder / "results.duckdb")
    made_up.fill_exhibited(folder / "results.duckdb")
    models = (("</text><script>alert(1)</script>\x1b", "encoder", 4, 64, (None,)), *made_up.MODELS[1:3])
    made_up.fill(folder / "results.duckdb", "torn", title="50 % of $x_1 & \\more{", models=models)
    return folder
