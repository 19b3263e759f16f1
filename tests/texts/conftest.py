"""A study's folder for every test, and a function that builds a corpus in it."""

import pytest

from reporter.texts import build_texts


@pytest.fixture
def build(tmp_path):
    """Return a function that builds the texts of a spec: relative paths start at ``tmp_path``."""

    def run(spec, name="mine", **options):
        return build_texts(name, spec, tmp_path, tmp_path / "cache", **options)

    return run
