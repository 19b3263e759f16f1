"""Studies run and opened from Python, and what ``import reporter`` offers: that it is all there and typed."""

import ast
import contextlib
import copy
import pickle
import re
import sys
from pathlib import Path

import duckdb
import pytest
from app.python.conftest import STUDY

import reporter


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Go to a folder in which ``results`` holds what a run of the study left."""
    with contextlib.chdir(tmp_path_factory.mktemp("door")):
        reporter.run(STUDY)
        yield


def test_every_public_name_is_there_documented_and_seen_by_type_checkers():
    names = set(reporter.__all__)
    assert len(reporter.__all__) == len(names) > 50 and not hasattr(reporter, "runn")
    assert set(dir(reporter)) == names | {"__version__"}
    assert all(getattr(reporter, name).__doc__ for name in names)
    tree = ast.parse(Path(reporter.__file__).read_text("utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    seen = {f"{node.module}:{one.name}": one.asname for node in imports for one in node.names}
    assert seen == {home: name for name, home in reporter._HOMES.items()}
    folder = Path(reporter.__file__).parent
    assert (folder / "py.typed").is_file()
    # Python puts a room that is imported in the place of what reporter/__init__.py calls so.
    assert {path.stem for path in folder.iterdir()} & names == {"geometry"}, "which is the room itself"


def test_tables_are_frames_of_the_study_alone_and_verdicts_are_shown(here):
    assert reporter.Results("results", "look").ids == ("look",)
    with duckdb.connect("results/results.duckdb", read_only=True) as connection:
        expected = connection.execute("FROM layer_metrics").df()
    results = reporter.open("results")
    assert "1 cells done" in repr(results) and "1 supported" in repr(results)
    shown = results._repr_html_()
    assert "supported" in shown and "&lt;none&gt;" in shown and "<none>" not in shown
    assert shown.count("<tr") == 2  # the head, and the claim itself without its other readings
    assert results.report.name == "index.html" and results.report.is_file()
    assert len(expected) and results.layer_metrics.equals(expected)
    assert set(results.cells["status"]) == {"done"}
    names = {name for name in dir(results) if not name.startswith("_")}
    assert {"layer_metrics", "claims", "models", "sinks"} <= names and "schema_version" not in names
    names -= {"sql", "report", "folder", "ids", "table", "chart"}
    assert all(len(getattr(results, name).columns) for name in names)


def test_what_is_done_is_not_computed_again_and_a_notebook_gets_plain_lines(here, capsys, monkeypatch):
    results = reporter.run(reporter.validate(STUDY))
    assert "nothing to compute" in capsys.readouterr().err and set(results.claims["verdict"]) == {"supported"}
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    reporter.run(STUDY)
    said = capsys.readouterr()
    assert "nothing to compute" in said.out and "\x1b" not in said.out and not said.err


def test_sql_only_reads_and_a_wrong_name_is_corrected_and_results_are_copied(here):
    results = reporter.open("results")
    assert results.sql("SELECT count(*) AS n FROM layer_metrics").loc[0, "n"] == len(results.layer_metrics)
    for query in ("DELETE FROM claims", "FROM read_text('results/index.html')"):  # all: tests/store/test_sandbox.py
        with pytest.raises(reporter.UsageError):
            results.sql(query)
    assert len(results.claims)
    with pytest.raises(AttributeError, match="did you mean 'layer_metrics'"):
        _ = results.layer_metric
    assert not hasattr(results, "_repr_mimebundle_")
    copies = copy.copy(results), pickle.loads(pickle.dumps(results))
    assert {len(copied.claims) for copied in copies} == {len(results.claims)}


def test_what_is_missing_and_a_run_that_was_cut_short_are_said(here, tmp_path):
    for place, study, said in (
        ("nowhere", None, "does not exist"),
        (tmp_path, None, r"no results\.duckdb"),
        ("results", "lok", "did you mean 'look'"),
    ):
        with pytest.raises(reporter.UsageError, match=said):
            reporter.open(place, study)
    whole, database = Path("results/results.duckdb").read_bytes(), tmp_path / "results.duckdb"
    database.write_bytes(whole[:5000])
    with pytest.raises(reporter.ReporterError, match=r"results\.duckdb"):
        reporter.open(tmp_path)
    database.write_bytes(whole)
    with duckdb.connect(database) as connection:
        connection.execute("UPDATE studies SET finished = NULL")
    with pytest.warns(UserWarning, match="'look'.*did not finish; run the study again"):
        results = reporter.open(tmp_path)
    assert "did not finish" in repr(results) and len(results.layer_metrics)
    with pytest.raises(reporter.UsageError, match="write the report with"):
        _ = results.report
    with duckdb.connect(database) as connection:
        connection.execute("DELETE FROM studies")
    with pytest.raises(reporter.UsageError, match="has no study"):
        reporter.open(tmp_path)


def test_mistakes_in_a_mapping_have_a_place_and_no_line():
    with pytest.raises(reporter.SpecError, match=r"^study: models\.small\.hubb: unknown key; did you mean 'hub'\?"):
        reporter.run(STUDY | {"models": {"small": {"hubb": "gpt2"}}})
    with pytest.raises(reporter.UsageError, match="text, numbers, lists and mappings: not set"):
        reporter.run(STUDY | {"views": {"text tokens"}})


def test_odd_arguments_are_refused_in_one_sentence(here):
    results = reporter.open("results", "look")
    for call, message in (
        (lambda: reporter.open(None), "folder must be a path"),
        (lambda: reporter.open("results", 5), "study must be text, got the number 5"),
        (lambda: reporter.run(None), "a study must be a YAML file or a mapping"),
        (lambda: reporter.run(STUDY, out=None), "out must be a path, as text or pathlib.Path, got nothing"),
        (lambda: reporter.run(STUDY, only=[1]), "a name in only must be text"),
        (lambda: reporter.run(STUDY, only="motoin"), "motoin"),
        (lambda: results.sql(None), "query must be text"),
        (lambda: results.table(None), "name must be text"),
        (lambda: results.table("layer_metrics", "polar"), "form must be 'pandas', 'polars' or"),
        (lambda: results.chart("motion.norm", panel=3), "panel must be text"),
        (lambda: reporter.Results("results", [None]), "the id of a study must be text"),
    ):
        with pytest.raises(reporter.ReporterError, match=re.escape(message)):
            call()
