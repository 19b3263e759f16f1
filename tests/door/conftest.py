"""A study that takes a second, run once through the front door."""

from __future__ import annotations

import contextlib

import pytest

import reporter

MODEL = {"recipe": {"architecture": "gpt2", "layers": 2, "width": 16, "heads": 2, "train_on": "c", "steps": 0}}
STUDY = {
    "study": "look",
    "models": {"small": MODEL},
    "corpora": {"c": {"generate": "grammar", "texts": 40, "words": [5, 12]}},
    "metrics": ["anisotropy"],
    "claims": {
        "uneven": {
            "says": "More than <none> of it.",
            "value": {"metric": "anisotropy.top_variance_share", "model": "small", "layer": "last"},
            "above": 0.0,
        }
    },
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Return a folder in which ``results`` holds what :data:`STUDY` left."""
    place = tmp_path_factory.mktemp("door")
    with contextlib.chdir(place):
        reporter.run(STUDY)
    return place


@pytest.fixture
def here(folder, monkeypatch):
    """Go to that folder."""
    monkeypatch.chdir(folder)
    return folder
