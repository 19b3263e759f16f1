"""Packages that authors published with their works, which are installed for these tests alone."""

import importlib.util
from pathlib import Path

import pytest

MISSING = "it is not installed: pip install -r requirements-dev.txt"


def llm_microscope():
    """Return the functions of ``llm-microscope`` 0.0.7 (Razzhigaev et al. 2024 and 2025).

    They are read from their file: the package as it was published imports its own modules by the wrong name.
    """
    package = importlib.util.find_spec("llm_microscope")
    if package is None:
        pytest.skip(MISSING)
    at = Path(package.submodule_search_locations[0]) / "functions.py"
    spec = importlib.util.spec_from_file_location("llm_microscope_functions", at)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def isoscore():
    """Return ``IsoScore`` 2.0.1 (Rudman et al. 2022 and 2023)."""
    return pytest.importorskip("IsoScore.IsoScore", reason=MISSING)
