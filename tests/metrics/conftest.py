"""Small models of families with random weights, loaded once for all tests of a session; do not change them."""

import pytest
from oracles.families import build_family

from reporter.models.load import load
from reporter.models.resolve import resolve
from reporter.spec.models import PathModel


@pytest.fixture(scope="session")
def loaded_from(tmp_path_factory):
    """Return a function that loads the model of a folder."""

    def get(folder):
        root = tmp_path_factory.mktemp("study")
        (checkpoint,) = resolve("m", PathModel(path=folder), root, root / "cache", None, offline=True)
        return load(checkpoint, "cpu", offline=True)

    return get


@pytest.fixture(scope="session")
def family_model(tmp_path_factory, loaded_from):
    """Return a function that loads a small random model of a family."""
    models = {}

    def get(name, **options):
        key = f"{name} {options}"
        if key not in models:
            models[key] = loaded_from(build_family(name, tmp_path_factory.mktemp("family"), **options))
        return models[key]

    return get
