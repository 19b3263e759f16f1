"""Metrics of another package: found through ``reporter.metrics``, in every verb."""

import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import reporter
from reporter.app.cli import app
from reporter.metrics.base import METRICS

METRIC = """
from reporter.metrics.base import Source, Statistic, Value, metric


@metric(
    name="foreign",
    title="A foreign metric",
    summary="How many tokens there are.",
    statistics=(Statistic("tokens", "tokens", "n of the tokens", (Source("Nobody 2026", "Nobody 2026"),)),),
    needs=("moments",),
    cost="nothing",
)
def foreign(seen, options):
    for place in seen.places:
        yield Value("tokens", place, float(seen.moments(place).n), seen.tokens)
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


def test_it_is_explained_and_computed(call):
    ((code, page, _),) = call(["metrics", "foreign"])
    assert code == 0 and "n of the tokens" in page and "Nobody 2026" in page
    found = reporter.measure(np.ones((3, 20, 4), np.float32), ["foreign"])
    assert found.layer_metrics["value"].tolist() == [20, 20, 20]


def test_a_package_that_breaks_is_named(call):
    ((code, _, problem),) = call(["metrics"], source="import there_is_no_such_module")
    assert code not in (0, None) and "Traceback" not in problem
    assert "their_metrics" in problem and "there_is_no_such_module" in problem
