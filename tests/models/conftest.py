"""Small models with random weights and a tokenizer made on the spot: every family without a download."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from oracles.families import build_family

from reporter.models.checkpoint import Checkpoint
from reporter.models.load import LoadedModel, load
from reporter.models.resolve import resolve
from reporter.spec.models import PathModel


@pytest.fixture(scope="session")
def family(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of a small random model of a family, saved once; do not write to it."""
    folders: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in folders:
            folders[name] = build_family(name, tmp_path_factory.mktemp("family"))
        return folders[name]

    return get


@pytest.fixture
def found(tmp_path: Path) -> Callable[..., Checkpoint]:
    """Resolve a folder as a study's model ``m``."""

    def get(folder: Path, **options: Any) -> Checkpoint:
        spec = PathModel(path=folder, **options)
        (checkpoint,) = resolve("m", spec, tmp_path, tmp_path / "cache", _no_texts, offline=True)
        return checkpoint

    return get


@pytest.fixture
def loaded(found: Callable[..., Checkpoint]) -> Callable[..., LoadedModel]:
    """Resolve and load a folder."""

    def get(folder: Path, **options: Any) -> LoadedModel:
        return load(found(folder, **options), "cpu", offline=True)

    return get


@pytest.fixture
def real_encoder() -> Iterator[Path]:
    yield _real("REPORTER_REAL_ENCODER")


@pytest.fixture
def real_decoder() -> Iterator[Path]:
    yield _real("REPORTER_REAL_DECODER")


def _real(variable: str) -> Path:
    if not os.environ.get(variable):
        pytest.skip(f"{variable} names no folder with a real model")
    return Path(os.environ[variable])


def _no_texts(name: str) -> Any:
    raise AssertionError("a model from a folder needs no texts")
