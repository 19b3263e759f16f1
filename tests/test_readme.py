"""What the README shows is run, so that it cannot go stale."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from reporter.metrics import registry
from reporter.metrics.base import Options
from reporter.spec import SpecError, load_study

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def options() -> dict[str, type[Options]]:
    return {name: metric.options for name, metric in registry.catalogue().items()}


def test_the_studies_are_valid(tmp_path):
    studies = blocks("yaml")
    assert len(studies) == 2
    for text in studies:
        path = tmp_path / "study.yaml"
        path.write_text(text, "utf-8")
        assert load_study(path, options()).study.models


def test_the_error_is_the_one_that_is_shown(tmp_path):
    shown = re.search(r"^study\.yaml:(\d+):(\d+): (models\.gpt2\.dtyp: .*)$", README, re.MULTILINE)
    assert shown
    text = blocks("yaml")[1].replace("dtype: float32", "dtyp: float32")
    path = tmp_path / "study.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(SpecError) as caught:
        load_study(path, options())
    assert str(caught.value).replace(f"{tmp_path}/", "") == shown[0]


def test_every_verb_is_described_and_no_other():
    from reporter.cli import app

    described = set(re.findall(r"^\| `reporter (\w+)", README, re.MULTILINE))
    assert described == {command.name or command.callback.__name__ for command in app.registered_commands}


def test_every_shipped_study_is_valid():
    shipped = sorted((ROOT / "studies").glob("**/*.yaml"))
    assert "quickstart.yaml" in {path.name for path in shipped}
    for path in shipped:
        load_study(path, options())


def test_the_metric_that_is_shown_works(tmp_path, monkeypatch):
    """Write the file as a newcomer would, run a study with it, and find its number, its page and its chart."""
    from reporter.run import planner
    from reporter.run.progress import Progress
    from reporter.run.runner import run_studies
    from reporter.store import Store

    path = tmp_path / "centre.py"
    path.write_text(blocks("python")[0], "utf-8")
    before = dict(registry._found)
    try:
        spec = importlib.util.spec_from_file_location("centre", path)
        assert spec and spec.loader
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
        registry.catalogue.cache_clear()
        known = registry.catalogue()
        assert "centre" in known
        study = tmp_path / "s.yaml"
        study.write_text(
            "study: s\nmodels:\n"
            "  m: {recipe: {architecture: gpt2, layers: 1, width: 8, heads: 1, train_on: c, steps: 0}}\n"
            "corpora: {c: {generate: grammar, texts: 30, words: [5, 9]}}\nmetrics: [centre]\nviews: [words]\n",
            "utf-8",
        )
        out = tmp_path / "results"
        outcome = run_studies([load_study(study, options())], out, progress=Progress(sys.stderr))
        assert (outcome.computed, outcome.failed) == (1, 0)
        rows = Store(out / "results.duckdb").frame("SELECT layer, value FROM layer_metrics WHERE metric = 'centre'")
        assert sorted(rows["layer"]) == [0, 1] and (rows["value"] > 0).all()
        assert "norm of the mean" in (out / "s" / "index.html").read_text("utf-8")
        assert planner.catalogue is registry.catalogue
    finally:
        registry._found.clear()
        registry._found.update(before)
        registry.catalogue.cache_clear()
