"""Metrics of another package, with a table of their own: found through ``reporter.metrics``, in every verb."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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
def call(tmp_path):
    """Return a function that calls the program beside an installed package of this source."""

    def run(*arguments, source=METRIC):
        (tmp_path / "their_metrics.py").write_text(source, "utf-8")
        info = tmp_path / "theirs-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n", "utf-8")
        (info / "entry_points.txt").write_text("[reporter.metrics]\nforeign = their_metrics\n", "utf-8")
        path = os.pathsep.join([str(tmp_path), *sys.path])
        called = [sys.executable, "-m", "reporter", *arguments]
        environment = os.environ | {"PYTHONPATH": path}
        return subprocess.run(called, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)

    return run


def test_it_is_explained_checked_and_computed(call, tmp_path):
    page = call("metrics", "foreign")
    assert page.returncode == 0 and "n times the factor" in page.stdout and "Nobody 2026" in page.stdout
    assert "counted: How many tokens there are at one place, and so many times as many." in page.stdout
    assert "times: what the count is multiplied by" in page.stdout
    (tmp_path / "s.yaml").write_text(STUDY.replace("factor", "factro"), "utf-8")
    wrong = call("validate", "s.yaml")
    assert wrong.returncode == 2 and "did you mean 'factor'?" in wrong.stderr
    (tmp_path / "s.yaml").write_text(STUDY, "utf-8")
    done = call("run", "s.yaml")
    assert done.returncode == 0, done.stderr
    found = call("sql", "SELECT DISTINCT value = 2 * n AS right FROM layer_metrics WHERE metric = 'foreign'")
    assert "true" in found.stdout.lower() and "false" not in found.stdout.lower()
    rows = """SELECT count(*) AS places, bool_and(times * tokens = value) AS same, any_value(c.comment) AS said
        FROM counted JOIN layer_metrics USING (study, model, checkpoint, corpus, view, metric, site, layer),
        duckdb_columns() AS c WHERE (c.table_name, c.column_name) = ('counted', 'times')"""
    found = call("sql", rows, "--format", "csv").stdout.split()
    assert found[1].startswith("3,true,") and " ".join(found[1:]).endswith("what the count is multiplied by")
    assert "A foreign metric" in (tmp_path / "results" / "s" / "index.html").read_text("utf-8")


def test_a_package_that_breaks_is_named(call):
    broken = call("metrics", source="import there_is_no_such_module")
    assert broken.returncode != 0
    assert "their_metrics" in broken.stderr and "there_is_no_such_module" in broken.stderr
    assert "Traceback" not in broken.stderr
