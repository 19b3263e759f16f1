"""A study that runs in seconds, and ways to run and read it."""

import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reporter import save_states
from reporter.core.progress import Progress
from reporter.runs.runner import RunOutcome, run_studies
from reporter.runs.studies import offer
from reporter.store import Store
from reporter.study import StudyFile, load_study

METRICS, VIEWS = "[convergence, {anisotropy: {sample: 64, batches: 2}}, motion]", "[text tokens, with special tokens]"
INLINE = '  inline: {texts: ["one two three", "the cat sleeps here", "a dog"]}\n'
DEC = """  dec: {recipe: {architecture: gpt2, layers: 2, width: 16, heads: 2, train_on: nested, steps: 2, batch: 4,
                 context: 16}}
"""
STUDY = f"""
study: tiny
models:
  enc: {{recipe: {{architecture: bert, layers: 2, width: 16, heads: 2, train_on: nested, steps: 2, checkpoints: [0, 2],
                 batch: 4, context: 16}}}}
{DEC}corpora:
  nested: {{generate: grammar, texts: 40, words: [5, 20]}}
{INLINE}metrics: {METRICS}
views: {VIEWS}
run: {{precision: float32}}
"""
ONE_THREAD = ("float32}", "float32, threads: 1}")
ONLY = ["dec", "nested"]
NUMBERS = "SELECT * FROM layer_metrics ORDER BY ALL"
MODELS = "SELECT * FROM models ORDER BY ALL"


def written(path: Path, *replace: tuple[str, str], metrics: str = METRICS, views: str = VIEWS, more: str = "") -> Path:
    """Write the tiny study with other metrics, other views, further keys, and texts replaced."""
    text = STUDY
    for old, new in (
        ("metrics: " + METRICS, "metrics: " + metrics),
        ("views: " + VIEWS, "views: " + views),
        ("\nrun:", f"\n{more}\nrun:"),
        *replace,
    ):
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text if metrics != "none" else text.replace(f"views: {views}\n", ""), "utf-8")
    return path


@pytest.fixture
def study(tmp_path: Path) -> Callable[..., StudyFile]:
    """Return a function that writes the tiny study with changes (see ``written``) and reads it."""

    def write(*replace: tuple[str, str], name: str = "tiny", **changes: str) -> StudyFile:
        return load_study(written(tmp_path / f"{name}.yaml", *replace, **changes), offer())

    return write


def run_quietly(path: Path, out: Path, **options: Any) -> RunOutcome:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reporter.runs.runner._report", lambda *_: ())
        return run_studies([load_study(path, offer())], out, progress=Progress(io.StringIO()), **options)


@pytest.fixture(scope="session")
def finished(once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """The results folder of a run of the tiny study, without a report, for tests that only read it."""

    def make(folder: Path) -> None:
        outcome = run_quietly(written(folder / "tiny.yaml"), folder / "results")
        assert (outcome.computed, outcome.cached, outcome.failed, outcome.exit_code) == (20, 0, 0, 0)

    return once("tiny-study-finished", make) / "results"


@pytest.fixture
def finished_store(finished: Path) -> Store:
    return Store(finished / "results.duckdb")


def small_ranges(patch: pytest.MonkeyPatch) -> None:
    """Make forty texts four ranges of two shards."""
    patch.setattr("reporter.texts.tokens.SHARD_TEXTS", 5)
    patch.setattr("reporter.texts.tokens.RANGE_SHARDS", 2)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_ranges(monkeypatch)


@pytest.fixture(scope="session")
def of_one_process(finished: Path, once: Callable[[str, Callable[[Path], None]], Path]) -> Store:
    """What one process stores that measures all metrics of one model on one corpus, in small ranges."""

    def make(folder: Path) -> None:
        shutil.copytree(finished / "cache" / "models", folder / "results" / "cache" / "models")
        with pytest.MonkeyPatch.context() as patch:
            small_ranges(patch)
            path = written(folder / "tiny.yaml", ONE_THREAD, metrics="[all]")
            assert run_quietly(path, folder / "results", only=ONLY).failed == 0

    return Store(once("tiny-study-of-one-process", make) / "results" / "results.duckdb")


@pytest.fixture
def out(tmp_path: Path, finished: Path) -> Path:
    """A results folder that holds trained models and nothing else."""
    shutil.copytree(finished / "cache" / "models", tmp_path / "results" / "cache" / "models")
    return tmp_path / "results"


@pytest.fixture
def copied(out: Path, finished: Path) -> None:
    """Make ``out`` a copy of the finished run, in which a test may change things."""
    shutil.copytree(finished, out, dirs_exist_ok=True)


@pytest.fixture(autouse=True)
def measure_only(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what takes longer than a small run's measurements and has tests of its own, unless a test marks it."""
    if not request.node.get_closest_marker("report"):
        monkeypatch.setattr("reporter.runs.runner._report", lambda *_: ())
    if not request.node.get_closest_marker("answers"):
        monkeypatch.setattr("reporter.runs.whole.write_answers", lambda *_: None)
        monkeypatch.setattr("reporter.runs.whole.write_findings", lambda *_: 0)


@pytest.fixture
def run(out: Path) -> Callable[..., tuple[RunOutcome, str]]:
    """Return a function that runs studies and returns the outcome and the lines that were printed."""

    def run_there(*files: StudyFile, **options: Any) -> tuple[RunOutcome, str]:
        log = io.StringIO()
        outcome = run_studies(list(files), out, progress=Progress(log), **options)
        return outcome, log.getvalue()

    return run_there


@pytest.fixture
def store(out: Path) -> Store:
    return Store(out / "results.duckdb")


def select(store: Store, sql: str) -> list[Any]:
    """Return the rows of a query: tuples, or values where it has one column."""
    rows = [tuple(row.values()) for row in store.records(sql)]
    return [row[0] if len(row) == 1 else row for row in rows]


@pytest.fixture
def given(tmp_path: Path) -> tuple[str, str]:
    """Return what replaces ``models:`` where one more is given by states on the texts ``inline``: 3, 4 and 2 words."""
    words = ["one", "two", "three", "the", "cat", "sleeps", "here", "a", "dog"]
    states = np.random.default_rng(0).normal(size=(3, 9, 16)).astype(np.float32)
    texts = [0] * 3 + [1] * 4 + [2] * 2
    save_states(tmp_path / "given.safetensors", states=states, texts=texts, tokens=words, role="decoder")
    return "models:\n", "models:\n  given: {states: {inline: given.safetensors}, role: decoder}\n"
