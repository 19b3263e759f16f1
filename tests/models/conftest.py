"""Small models with random weights and a tokenizer made on the spot: every family without a download."""

import shutil
import warnings
from functools import cache

import pytest
from oracles import families
from oracles.families import PAIRS, build_family, build_language_model

from reporter.models.load import load
from reporter.models.resolve import resolve
from reporter.study.models import PathModel


@pytest.fixture(scope="session")
def family(tmp_path_factory):
    """Return the folder of a small random model of a family, saved once; do not write to it."""
    return cache(lambda name: build_family(name, tmp_path_factory.mktemp("family")))


@pytest.fixture(scope="session")
def language_model(family, tmp_path_factory):
    """Return the folder of a small random language model of a family, saved once; do not write to it."""

    @cache
    def get(name):
        if name in PAIRS:
            return family(name)
        return build_language_model(name, tmp_path_factory.mktemp("language-model"))

    return get


@pytest.fixture
def copy(family, tmp_path):
    """Return a copy of a family's folder that may be changed."""
    return lambda name="bert": shutil.copytree(family(name), tmp_path / f"copy-of-{name}")


@pytest.fixture
def checkpoints(tmp_path):
    """Resolve a folder as a study's model ``m``: all of its checkpoints."""

    def get(folder, **options):
        spec = PathModel(path=folder, **options)
        return resolve("m", spec, tmp_path, tmp_path / "cache", None, offline=True)  # it needs no texts

    return get


@pytest.fixture
def found(checkpoints):
    """Resolve a folder that is one checkpoint."""
    return lambda folder, **options: checkpoints(folder, **options)[0]


@pytest.fixture
def loaded(found):
    """Resolve and load a folder."""
    return lambda folder, **options: load(found(folder, **options), "cpu", offline=True)


@pytest.fixture(scope="session")
def shared(language_model):
    """Return a family's language model, loaded once; leave it as it is."""
    return cache(lambda name: families.loaded(language_model(name)))


@pytest.fixture(scope="session")
def own_model(language_model):
    """Return transformers' model of a family, loaded once, apart and without any hook of ours."""
    from transformers import AutoModel

    @cache
    def get(name):
        with warnings.catch_warnings(action="ignore"):
            plain = AutoModel.from_pretrained(language_model(name)).eval()
        return plain.get_encoder() if plain.config.is_encoder_decoder else plain

    return get
