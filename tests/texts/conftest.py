"""A study's folder for every test, and a function that builds a corpus in it."""

import pytest

from reporter.core.errors import ReporterError
from reporter.texts import build_texts
from reporter.texts.sources.stored import FileCorpus


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


@pytest.fixture
def of(build, tmp_path):
    """Return a function that writes a file, if there is a content, and builds its texts."""

    def run(name, content=None, **options):
        if content is not None:
            (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return build(FileCorpus(file=name, **options))

    return run


@pytest.fixture
def refused_file(of):
    """Return a function that expects the texts of a file to be refused with this message."""

    def run(message, name, content=None, **options):
        with pytest.raises(ReporterError, match=rf"^corpus 'mine': .*{message}"):
            of(name, content, **options)

    return run
