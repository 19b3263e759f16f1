"""A store in a fresh folder, and a small cell to put into it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reporter.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results" / "results.duckdb"


@pytest.fixture
def store(path: Path) -> Store:
    return Store(path)


@pytest.fixture
def cell() -> Callable[..., dict[str, Any]]:
    def make(**changes: Any) -> dict[str, Any]:
        return {
            "study": "s",
            "model": "bert",
            "checkpoint": "final",
            "corpus": "wiki",
            "metric": "motion",
            "fingerprint": "f1",
            "status": "done",
        } | changes

    return make


@pytest.fixture
def numbers() -> Callable[..., list[dict[str, Any]]]:
    def make(layers: int = 4, **changes: Any) -> list[dict[str, Any]]:
        return [
            {
                "step": None,
                "role": "encoder",
                "view": "words",
                "statistic": "norm",
                "site": "block" if layer else "embedding",
                "layer": layer,
                "depth": layer / layers,
                "value": 0.1 * layer,
                "ci_low": None,
                "ci_high": None,
                "n": 7,
            }
            | changes
            for layer in range(layers + 1)
        ]

    return make
