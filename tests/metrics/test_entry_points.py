"""Metrics of another package: found through ``reporter.metrics``, in every verb."""

import numpy as np
import pytest
from typer.testing import CliRunner

import reporter
from reporter.app.cli import app
from reporter.metrics.base import METRICS

METRIC = """
from reporter.metrics.base import Source, Statistic, Value, metric

TOKENS = Statistic("tokens", "tokens", "n of the tokens", (Source("Nobody 2026", "Nobody 2026"),))

@metric(name="foreign", title="A", summary="Tokens.", statistics=(TOKENS,), needs=("moments",), cost="nothing")
def foreign(seen, options):
    for place in seen.places:
        yield Value("tokens", place, float(seen.moments(place).n), seen.tokens)
"""


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Return a function that calls the program beside an installed package with a module of metrics."""
    monkeypatch.setattr(METRICS, "_entries", dict(METRICS._entries))
    monkeypatch.setattr(METRICS, "_offered", False)
    monkeypatch.syspath_prepend(tmp_path)

    def run(module, source, *arguments):
        (tmp_path / f"{module}.py").write_text(source, "utf-8")
        info = tmp_path / "theirs-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n", "utf-8")
        (info / "entry_points.txt").write_text(f"[reporter.metrics]\nforeign = {module}\n", "utf-8")
        return CliRunner().invoke(app, arguments)

    return run


def test_it_is_explained_and_computed(call):
    result = call("their_metrics", METRIC, "metrics", "foreign")
    assert result.exit_code == 0 and "n of the tokens" in result.stdout and "Nobody 2026" in result.stdout
    found = reporter.measure(np.ones((3, 20, 4), np.float32), ["foreign"])
    assert found.layer_metrics["value"].tolist() == [20, 20, 20]


def test_a_package_that_breaks_is_named(call):
    result = call("their_broken_metrics", "import there_is_no_such_module", "metrics")
    assert result.exit_code not in (0, None) and "Traceback" not in result.stderr
    assert "their_broken_metrics" in result.stderr and "there_is_no_such_module" in result.stderr
