"""Models of every family, loaded once for all tests of a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from oracles.families import build_family

from reporter.models.load import LoadedModel, load
from reporter.models.resolve import resolve
from reporter.spec.models import PathModel


@pytest.fixture(scope="session")
def loaded_from(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], LoadedModel]:
    def get(folder: Path) -> LoadedModel:
        root = tmp_path_factory.mktemp("study")
        (checkpoint,) = resolve("m", PathModel(path=folder), root, root / "cache", _no_texts, offline=True)
        return load(checkpoint, "cpu", offline=True)

    return get


@pytest.fixture(scope="session")
def of_family(
    tmp_path_factory: pytest.TempPathFactory, loaded_from: Callable[[Path], LoadedModel]
) -> Callable[..., LoadedModel]:
    """Return a small random model of a family; do not change it."""
    models: dict[str, LoadedModel] = {}

    def get(name: str, **options: Any) -> LoadedModel:
        key = f"{name} {options}"
        if key not in models:
            models[key] = loaded_from(build_family(name, tmp_path_factory.mktemp("family"), **options))
        return models[key]

    return get


def _no_texts(name: str) -> Any:
    raise AssertionError("a model from a folder needs no texts")
