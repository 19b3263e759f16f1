"""A study that runs in seconds, and ways to run and read it."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from reporter import save_states
from reporter.core.progress import Progress
from reporter.runs.runner import Outcome, run_studies
from reporter.runs.studies import offer
from reporter.spec import StudyFile, load_study
from reporter.store import Store

STUDY = """
study: tiny
models:
  enc: {recipe: {architecture: bert, layers: 2, width: 16, heads: 2, train_on: nested, steps: 2, checkpoints: [0, 2],
                 batch: 4, context: 16}}
  dec: {recipe: {architecture: gpt2, layers: 2, width: 16, heads: 2, train_on: nested, steps: 2, batch: 4, context: 16}}
corpora:
  nested: {generate: grammar, texts: 40, words: [5, 20]}
  inline: {texts: ["one two three", "the cat sleeps here", "a dog"]}
metrics: [convergence, {anisotropy: {sample: 64, batches: 2}}, motion]
views: [words, all]
run: {precision: float32}
"""


@pytest.fixture
def study(tmp_path: Path) -> Callable[..., StudyFile]:
    """Return a function that writes a study (``replace`` pairs applied to the tiny one) and reads it."""

    def write(*replace: tuple[str, str], name: str = "tiny") -> StudyFile:
        text = STUDY
        for old, new in replace:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / f"{name}.yaml"
        path.write_text(text, "utf-8")
        return load_study(path, offer())

    return write


@pytest.fixture(scope="session")
def warm_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder in which the tiny study's models are trained."""
    folder = tmp_path_factory.mktemp("warm")
    path = folder / "tiny.yaml"
    path.write_text(STUDY, "utf-8")
    file = load_study(path, offer())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reporter.runs.runner._report", lambda *_: ())  # only the models are wanted
        assert run_studies([file], folder / "results", progress=Progress(io.StringIO())).failed == 0
    return folder / "results"


@pytest.fixture
def out(tmp_path: Path, warm_cache: Path) -> Path:
    """A results folder that holds trained models and nothing else."""
    import shutil

    shutil.copytree(warm_cache / "cache" / "models", tmp_path / "results" / "cache" / "models")
    return tmp_path / "results"


@pytest.fixture(autouse=True)
def no_report(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report has tests of its own, and half of such a small run: here it is written where a test asks for it."""
    if not request.node.get_closest_marker("report"):
        monkeypatch.setattr("reporter.runs.runner._report", lambda *_: ())


@pytest.fixture
def run(out: Path) -> Callable[..., tuple[Outcome, str]]:
    """Return a function that runs studies and returns the outcome and what was said."""

    def go(*files: StudyFile, **options: object) -> tuple[Outcome, str]:
        said = io.StringIO()
        outcome = run_studies(list(files), out, progress=Progress(said), **options)  # type: ignore[arg-type]
        return outcome, said.getvalue()

    return go


@pytest.fixture
def store(out: Path) -> Store:
    return Store(out / "results.duckdb")


@pytest.fixture
def given(tmp_path: Path) -> tuple[str, str]:
    """Return what replaces ``models:`` where one more is given by states on the texts ``inline``: 3, 4 and 2 words."""
    words = ["one", "two", "three", "the", "cat", "sleeps", "here", "a", "dog"]
    states = np.random.default_rng(0).normal(size=(3, 9, 16)).astype(np.float32)
    texts = [0] * 3 + [1] * 4 + [2] * 2
    save_states(tmp_path / "given.safetensors", states=states, texts=texts, tokens=words, role="decoder")
    return "models:\n", "models:\n  given: {states: {inline: given.safetensors}, role: decoder}\n"
