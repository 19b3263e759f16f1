"""A study's folder for every test, and a function that builds a corpus in it."""

import pytest

from reporter.core.errors import ReporterError
from reporter.texts import build_texts


@pytest.fixture
def build(tmp_path):
    """Return a function that builds the texts of a spec: relative paths start at ``tmp_path``."""

    def run(spec, name="mine", **options):
        return build_texts(name, spec, tmp_path, tmp_path / "cache", **options)

    return run


@pytest.fixture
def refused(build):
    """Return a function that expects the texts of a spec to be refused with this message, which names the corpus."""

    def run(message, spec, name="mine", **options):
        with pytest.raises(ReporterError, match=rf"^corpus '{name}': .*{message}"):
            build(spec, name, **options)

    return run
