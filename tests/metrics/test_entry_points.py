"""Metrics of another package, with a table of their own: found through ``reporter.metrics``, in every verb."""

import json
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


VERBS = """
import json, sys
from typer.testing import CliRunner
from reporter.app.cli import app

results = [CliRunner().invoke(app, arguments) for arguments in json.loads(sys.argv[1])]
print(json.dumps([[result.exit_code, result.stdout, result.stderr] for result in results]))
"""


@pytest.fixture
def call(tmp_path):
    """Return a function that calls verbs in a new process beside an installed package of a source."""

    def run(*calls, source=METRIC):
        (tmp_path / "their_metrics.py").write_text(source, "utf-8")
        info = tmp_path / "theirs-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n", "utf-8")
        (info / "entry_points.txt").write_text("[reporter.metrics]\nforeign = their_metrics\n", "utf-8")
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        command = [sys.executable, "-c", VERBS, json.dumps(calls)]
        process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
        return json.loads(process.stdout.splitlines()[-1])

    return run


def test_it_is_explained_checked_and_computed(call, tmp_path):
    (tmp_path / "wrong.yaml").write_text(STUDY.replace("factor", "factro"), "utf-8")
    (tmp_path / "s.yaml").write_text(STUDY, "utf-8")
    products = "SELECT DISTINCT value = 2 * n AS right FROM layer_metrics WHERE metric = 'foreign'"
    rows = """SELECT count(*) AS places, bool_and(times * tokens = value) AS same, any_value(c.comment) AS comment
        FROM counted JOIN layer_metrics USING (study, model, checkpoint, corpus, view, metric, site, layer),
        duckdb_columns() AS c WHERE (c.table_name, c.column_name) = ('counted', 'times')"""
    queries = [["sql", products], ["sql", rows, "--format", "csv"]]
    page, wrong, finished, *answers = call(
        ["metrics", "foreign"], ["validate", "wrong.yaml"], ["run", "s.yaml"], *queries
    )
    assert page[0] == 0 and "n times the factor" in page[1] and "Nobody 2026" in page[1]
    assert "counted: How many tokens there are at one place, and so many times as many." in page[1]
    assert "times: what the count is multiplied by" in page[1]
    assert wrong[0] == 2 and "did you mean 'factor'?" in wrong[2]
    assert finished[0] == 0, finished
    assert "true" in answers[0][1].lower() and "false" not in answers[0][1].lower()
    table = answers[1][1].split()
    assert table[1].startswith("3,true,") and " ".join(table[1:]).endswith("what the count is multiplied by")
    assert "figure-" in (tmp_path / "results" / "s" / "layers.html").read_text("utf-8")


def test_a_package_that_breaks_is_named(call):
    ((code, _, problem),) = call(["metrics"], source="import there_is_no_such_module")
    assert code not in (0, None) and "Traceback" not in problem
    assert "their_metrics" in problem and "there_is_no_such_module" in problem
