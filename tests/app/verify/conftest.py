"""A small study with an encoder and a decoder that has run, and ways to run and verify others."""

import io
import shutil
from pathlib import Path

import pytest

from reporter.app.verify.cells import Asked
from reporter.app.verify.verification import verify
from reporter.core.progress import Progress
from reporter.runs.runner import run_studies
from reporter.runs.studies import offer
from reporter.spec import load_study
from reporter.texts.sources.generated import grammar_texts

STUDY = """
study: tiny
models:
  enc: {recipe: {architecture: bert, layers: 2, width: 16, heads: 2, train_on: nested, steps: 2, batch: 4, context: 16}}
  dec: {recipe: {architecture: gpt2, layers: 2, width: 16, heads: 2, train_on: nested, steps: 2, batch: 4, context: 16}}
corpora:
  nested: {file: texts.txt}
metrics: [all, loss, lens, linearity, journey, {local_dimension: {sample: 300, centres: 20, neighbours: 16}},
          {anisotropy: {sample: 64, batches: 2}}, {entropy: {texts: 20}}, {contextuality: {types: 6}},
          {information_imbalance: {sample: 200}}, {intrinsic_dimension: {sample: 48, batches: 2, discard: 0.3}}]
sinks: {factor: 1.05, dominance: 0.3}  # low, so that models of no training have some
run: {precision: float32}
"""


def write_study(folder, text, texts):
    """Write a study and generated texts, four of them twice, and one that spells out special strings."""
    lines = [record.text for record in grammar_texts(texts, (5, 20), 0)]
    lines[2] = lines[2].replace(" ", " [SEP] <|endoftext|> ", 1)
    (folder / "texts.txt").write_text("\n".join([*lines, *lines[:4]]), "utf-8")
    (folder / "tiny.yaml").write_text(text.replace("texts.txt", str(folder / "texts.txt")), "utf-8")


@pytest.fixture(scope="session")
def run(bare_runs):
    """Return a function that runs a study."""

    def compute(path, out):
        with bare_runs():
            outcome = run_studies([load_study(path, offer())], out, progress=Progress(io.StringIO()))
        assert outcome.failed == 0

    return compute


@pytest.fixture(scope="session")
def finished(tmp_path_factory, run):
    """A folder with a study, ``tiny.yaml``, and its results."""
    folder = tmp_path_factory.mktemp("finished")
    write_study(folder, STUDY, 36)
    run(folder / "tiny.yaml", folder / "results")
    return folder


@pytest.fixture(scope="session")
def small(tmp_path_factory, run):
    """A folder with a study of few texts and one metric, ``tiny.yaml``, and its results."""
    folder = tmp_path_factory.mktemp("small")
    head, _, _ = STUDY.partition("metrics:")
    write_study(folder, f"{head}metrics: [motion]\nviews: [words]\nrun: {{precision: float32}}\n", 4)
    run(folder / "tiny.yaml", folder / "results")
    return folder


BASED = """
study: tiny
models:
  dec: {recipe: {architecture: gpt2, layers: 2, width: 8, heads: 2, train_on: nested, steps: 2, batch: 4, context: 16}}
  tuned: {recipe: {from: dec, train_on: nested, steps: 3, learning_rate: 0.001}}
  again: {recipe: {from: dec, train_on: nested, steps: 3, learning_rate: 0.001, seed: 1}}
  other: {recipe: {architecture: gpt2, layers: 1, width: 8, heads: 2, train_on: few, steps: 2, batch: 4, context: 16},
          base: dec}  # of another depth, and with another tokenizer
corpora:
  nested: {file: texts.txt}
  few: {generate: random-words, texts: 30, words: [4, 6]}
metrics: [motion, {change: {sample: 400}}, divergence]
partners:
  found: {file: pairs.tsv, column: text, partner: partner}
  graded: {file: pairs.tsv, column: text, partner: partner, score: score}
views: [words, no-sinks]
run: {precision: float32}
"""


@pytest.fixture(scope="session")
def based(tmp_path_factory, run):
    """A folder with a study of models and their base, ``tiny.yaml``, and its results."""
    folder = tmp_path_factory.mktemp("based")
    write_study(folder, BASED, 30)
    lines = list(dict.fromkeys(record.text for record in grammar_texts(90, (5, 14), 1)))[:48]
    rows = [f"{a}\t{b}\t{number % 7}" for number, (a, b) in enumerate(zip(lines[::2], lines[1::2], strict=True))]
    (folder / "pairs.tsv").write_text("\n".join(["text\tpartner\tscore", *rows]), "utf-8")
    run(folder / "tiny.yaml", folder / "results")
    return folder


@pytest.fixture
def folder(tmp_path, finished):
    """A copy of the finished study that a test may change, without what a pass left, which verify must not read."""
    of_a_pass = shutil.ignore_patterns("observables", "tokens")
    return Path(shutil.copytree(finished, tmp_path / "copy", ignore=of_a_pass))


@pytest.fixture
def again():
    """Return a function that verifies the study in a folder."""

    def go(folder, study="tiny.yaml", **asked):
        name = str(folder / study) if study.endswith(".yaml") else study
        return verify(name, folder / "results", Asked(**asked), progress=Progress(io.StringIO()))

    return go
