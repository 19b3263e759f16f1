"""What the README shows is run, so that it cannot go stale."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from reporter.metrics.registry import METRICS
from reporter.runs.studies import offer
from reporter.spec import SpecError, load_study

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_studies_are_valid(tmp_path):
    studies = blocks("yaml")
    assert len(studies) == 3
    for text in studies:
        path = tmp_path / "study.yaml"
        path.write_text(text, "utf-8")
        assert load_study(path, offer()).study.models


def test_the_python_block_runs(tmp_path, monkeypatch):
    text = """
        study: small
        models: {small: {recipe: {architecture: gpt2, layers: 2, width: 16, heads: 2, train_on: c, steps: 0}}}
        corpora: {c: {generate: grammar, texts: 40, words: [5, 12]}}
        metrics: [intrinsic_dimension]
        claims:
          a: {says: It has one., value: {metric: intrinsic_dimension.twonn, model: small, layer: last}, above: 1}
    """
    (tmp_path / "study.yaml").write_text(textwrap.dedent(text), "utf-8")
    monkeypatch.chdir(tmp_path)
    found = {"__name__": "__main__"}
    try:
        exec(compile(blocks("python")[0], "README.md", "exec"), found)
    finally:
        METRICS.forget(["centre"])
    assert list(found["results"].claims["verdict"].unique()) == ["supported"]
    numbers = found["measured"].layer_metrics.query("statistic == 'twonn'")
    assert list(numbers["layer"]) == [0, 1, 2, 3] and numbers["value"].between(10, 40).all()


def test_the_error_is_the_one_that_is_shown(tmp_path):
    shown = re.search(r"^study\.yaml:(\d+):(\d+): (models\.gpt2\.dtyp: .*)$", README, re.MULTILINE)
    assert shown
    text = blocks("yaml")[1].replace("dtype: float32", "dtyp: float32")
    path = tmp_path / "study.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(SpecError) as caught:
        load_study(path, offer())
    assert str(caught.value).replace(f"{tmp_path}/", "") == shown[0]


def test_every_verb_is_described_and_no_other():
    from reporter.cli import app

    described = set(re.findall(r"^\| `reporter (\w+)", README, re.MULTILINE))
    assert described == {command.name or command.callback.__name__ for command in app.registered_commands}


def test_every_shipped_study_is_valid():
    shipped = sorted((ROOT / "studies").glob("**/*.yaml"))
    assert "quickstart.yaml" in {path.name for path in shipped}
    for path in shipped:
        load_study(path, offer())
