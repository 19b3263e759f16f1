"""Metrics of another package, with a table of their own: found through ``reporter.metrics``, in every verb."""

import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import reporter
from reporter.app.cli import app
from reporter.metrics.base import METRICS
from reporter.store.schema import tables

METRIC = """
from pydantic import Field

from reporter.metrics.base import Options, Source, Statistic, Value
from reporter.metrics.base import metric
from reporter.core.table import UnderView, at_place, column


class Counted(UnderView, table="counted"):
    "How many tokens there are at one place, and so many times as many."

    place: object = at_place()
    times: float = column("what the count is multiplied by", key=True)
    tokens: int = column("how many tokens there are", "BIGINT")


class Scaled(Options):
    factor: float = Field(default=1.0, description="what the count is multiplied by")


@metric(
    name="foreign",
    title="A foreign metric",
    summary="How many tokens there are.",
    statistics=(Statistic("tokens", "tokens", "n times the factor", (Source("Nobody 2026", "Nobody 2026"),)),),
    needs=("moments",),
    options=Scaled,
    cost="nothing",
    tables=(Counted,),
)
def foreign(seen, options):
    for place in seen.places:
        yield Value("tokens", place, float(seen.moments(place).n * options.factor), seen.tokens)
        yield Counted(place, options.factor, seen.moments(place).n)
"""
STUDY = """
study: s
models:
  m: {recipe: {architecture: gpt2, layers: 1, width: 8, heads: 1, train_on: c, steps: 0}}
corpora: {c: {generate: grammar, texts: 20, words: [5, 9]}}
metrics: [{foreign: {factor: 2.0}}]
views: [words]
"""


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Return a function that calls verbs beside an installed package of a source."""
    monkeypatch.setattr(METRICS, "_entries", dict(METRICS._entries))
    monkeypatch.setattr(METRICS, "_offered", False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)

    def run(*calls, source=METRIC):
        (tmp_path / "their_metrics.py").write_text(source, "utf-8")
        info = tmp_path / "theirs-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n", "utf-8")
        (info / "entry_points.txt").write_text("[reporter.metrics]\nforeign = their_metrics\n", "utf-8")
        results = [CliRunner().invoke(app, arguments) for arguments in calls]
        return [(result.exit_code, result.stdout, result.stderr) for result in results]

    yield run
    sys.modules.pop("their_metrics", None)


def test_it_is_explained_checked_and_computed(call, tmp_path):
    (tmp_path / "wrong.yaml").write_text(STUDY.replace("factor", "factro"), "utf-8")
    page, wrong = call(["metrics", "foreign"], ["validate", "wrong.yaml"])
    assert page[0] == 0 and "n times the factor" in page[1] and "Nobody 2026" in page[1]
    assert "counted: How many tokens there are at one place, and so many times as many." in page[1]
    assert "times: what the count is multiplied by" in page[1]
    assert wrong[0] == 2 and "did you mean 'factor'?" in wrong[2]
    found = reporter.measure(np.ones((3, 20, 4), np.float32), [{"foreign": {"factor": 2.0}}])
    assert found.layer_metrics["value"].tolist() == [40, 40, 40]
    assert (found.counted["times"] * found.counted["tokens"]).tolist() == [40, 40, 40]
    comment = next(column.comment for column in tables()["counted"].columns if column.name == "times")
    assert comment == "what the count is multiplied by"


def test_a_package_that_breaks_is_named(call):
    ((code, _, problem),) = call(["metrics"], source="import there_is_no_such_module")
    assert code not in (0, None) and "Traceback" not in problem
    assert "their_metrics" in problem and "there_is_no_such_module" in problem
