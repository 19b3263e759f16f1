"""Small models with random weights and a tokenizer made on the spot: every family without a download."""

import shutil
import warnings
from functools import cache

import pytest
from oracles.families import FAMILIES, HEADLESS, build_family, build_language_model

from reporter.models.load import load
from reporter.models.resolve import resolve
from reporter.spec.models import PathModel


@pytest.fixture(scope="session")
def family(tmp_path_factory):
    """Return the folder of a small random model of a family, saved once; do not write to it."""
    return cache(lambda name: build_family(name, tmp_path_factory.mktemp("family")))


@pytest.fixture(scope="session")
def language_model(family, tmp_path_factory):
    """Return the folder of a small random language model of a family, saved once; do not write to it."""

    @cache
    def get(name):
        if name not in FAMILIES or name in HEADLESS:
            return family(name)
        return build_language_model(name, tmp_path_factory.mktemp("language-model"))

    return get


@pytest.fixture
def copy(family, tmp_path):
    """Return a copy of a family's folder that may be changed."""
    return lambda name="bert": shutil.copytree(family(name), tmp_path / f"copy-of-{name}")


@pytest.fixture
def found(tmp_path):
    """Resolve a folder as a study's model ``m``."""
    return lambda folder, **options: _resolved(folder, tmp_path, **options)


@pytest.fixture
def loaded(found):
    """Resolve and load a folder."""
    return lambda folder, **options: load(found(folder, **options), "cpu", offline=True)


@pytest.fixture(scope="session")
def shared(language_model, tmp_path_factory):
    """Return a family's language model, loaded once; leave it as it is."""
    folder = tmp_path_factory.mktemp("shared")
    return cache(lambda name: load(_resolved(language_model(name), folder), "cpu", offline=True))


@pytest.fixture(scope="session")
def own_model(language_model):
    """Return transformers' model of a family, loaded once, apart and without any hook of ours."""
    from transformers import AutoModel

    @cache
    def get(name):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            own = AutoModel.from_pretrained(language_model(name)).eval()
        return own.get_encoder() if own.config.is_encoder_decoder else own

    return get


def _resolved(folder, study, **options):
    spec = PathModel(path=folder, **options)
    (checkpoint,) = resolve("m", spec, study, study / "cache", None, offline=True)  # it needs no texts
    return checkpoint
