"""What other tools read of what was written for them; each test needs that tool, and is skipped where it is absent."""

import json
import sys
import warnings
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import altair
import pytest
import yaml
from app.python.conftest import MODEL, STUDY
from typer.testing import CliRunner

import reporter
from reporter.app.cli import app
from reporter.app.integrations import mergekit, model_indices, scalars
from reporter.runs.studies import forget_plugins
from reporter.store import Store

TRAINED = {"models": {"small": {"recipe": MODEL["recipe"] | {"steps": 2, "checkpoints": [0, 2]}}}}
TRAINED = STUDY | TRAINED | {"study": "trained", "views": ["text tokens", "without sinks"]}
TAG = "c/text tokens/anisotropy.top_variance_share/layer 01"


@pytest.fixture(scope="module")
def results(tmp_path_factory, bare_runs):
    with bare_runs():
        return reporter.run(TRAINED, tmp_path_factory.mktemp("integrations") / "results")


@pytest.fixture(scope="module")
def wanted(results):
    """The numbers of one tag by step, as the database has them."""
    rows = results.layer_metrics.query("statistic == 'top_variance_share' and layer == 1 and view == 'text tokens'")
    return rows.set_index("step")["value"].to_dict()


def call(*arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what these tools deprecate is between them
        return CliRunner().invoke(app, list(map(str, arguments)), prog_name="reporter")


def write_for(tool, results):
    done = call("export", "trained", "--for", tool, "--out", results.folder, "--to", results.folder.parent)
    assert done.exit_code == 0, done.output
    return results.folder.parent / tool


def test_scalars_are_main_statistics_and_one_for_each_tag_and_step(results, wanted):
    found = list(scalars("trained", Store(results.folder / "results.duckdb")))
    assert {one.step: one.value for one in found if one.tag == TAG} == wanted and sorted(wanted) == [0, 2]
    assert len({(one.run, one.step, one.tag) for one in found}) == len(found)
    assert not any("_floor" in one.tag for one in found)
    assert [step for step, _ in groupby(one.step for one in found)] == [0, 2], "trackers take steps in order"


def test_tensorboard_reads_them(results, wanted):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    read = accumulator.EventAccumulator(str(write_for("tensorboard", results) / "small"))
    read.Reload()
    assert {one.step: one.value for one in read.Scalars(TAG)} == pytest.approx(wanted, rel=1e-6)


def test_mlflow_reads_them(results, wanted):
    tracking = pytest.importorskip("mlflow.tracking")
    folder = write_for("mlflow", results)
    client = tracking.MlflowClient(tracking_uri=folder.as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("trained").experiment_id])
    assert run.info.run_name == "small" and run.info.status == "FINISHED"
    assert {one.step: one.value for one in client.get_metric_history(run.info.run_id, TAG)} == wanted


def test_the_hub_understands_cards(results):
    hub = pytest.importorskip("huggingface_hub")
    folder = write_for("huggingface", results)
    card = hub.DatasetCard.load(folder / "README.md")
    files = {one["config_name"]: folder / one["data_files"] for one in card.data.configs}
    assert "layer_metrics" in files and all(path.is_file() for path in files.values())
    assert "of it. **supported**" in card.text
    index = hub.ModelCard(f"---\n{(folder / 'model-index-small.yml').read_text('utf-8')}---\n").data
    number = next(one for one in index.eval_results if one.metric_type == "anisotropy.top_variance_share")
    where = (
        "statistic == 'top_variance_share' and layer == 2 and view == 'text tokens' and step == 2 and site == 'block'"
    )
    assert number.metric_value == results.layer_metrics.query(where)["value"].item() and number.dataset_name == "c"
    assert set(model_indices("trained", Store(results.folder / "results.duckdb"))) == {"small"}


def test_mergekit_copies_the_blocks_that_stay(tmp_path):
    """The format as mergekit documents it: slices of a model, blocks numbered from 0, the end of a range excluded."""
    spec = "study: s\nmodels: {my.model: {hub: org/name}}\ncorpora: {c: {generate: grammar}}\nmetrics: [motion]\n"
    row = {"model": "my.model", "item": "drop", "layers": 10, "edit": "edit"}
    for given, twice, blocks in (  # the blocks that are left out, or that come twice, and those of the merged model
        ("3, 7–8", False, [1, 2, 4, 5, 6, 9, 10]),
        ("1–4, 6–9", False, [5, 10]),
        ("3–10", True, [*range(1, 11), *range(3, 11)]),
    ):
        rows = [row | {"blocks": given, "twice": twice}]
        mergekit("s", SimpleNamespace(records=Mock(side_effect=[rows, [{"spec": spec}]])), tmp_path)
        config = yaml.safe_load((tmp_path / "my.model" / "drop-edit.yml").read_text("utf-8"))
        assert config.keys() == {"slices", "merge_method"} and config["merge_method"] == "passthrough"
        sources = [source for part in config["slices"] for source in part["sources"]]
        assert all(source.keys() == {"model", "layer_range"} and source["model"] == "org/name" for source in sources)
        assert [block + 1 for source in sources for block in range(*source["layer_range"])] == blocks


def test_tables_of_other_libraries_have_the_same_numbers(results):
    pytest.importorskip("pyarrow")
    pandas, arrow = results.layer_metrics, results.table("layer_metrics", "arrow")
    assert arrow.num_rows == len(pandas) and arrow.column_names == list(pandas.columns)
    assert str(arrow.schema.field("layer").type).startswith("int"), "a missing layer makes no float of the others"
    assert arrow.column("value").to_pylist() == [None if v != v else v for v in pandas["value"].tolist()]
    polars = pytest.importorskip("polars")
    assert isinstance(results.table("layer_metrics", "polars"), polars.DataFrame)
    with pytest.raises(reporter.UsageError, match="did you mean 'layer_metrics'"):
        results.table("layer_metric")


def test_a_figure_is_an_altair_chart_with_its_rows(results):
    chart = results.chart("anisotropy.top_variance_share", view="without sinks")
    said = chart.to_dict()
    with altair.renderers.enable("svg"):  # as a notebook shows it
        assert ">layer<" in chart._repr_mimebundle_()["image/svg+xml"]
    assert "variance explained" in said["title"].lower()
    drawn = [layer["encoding"] for layer in said["layer"] if "color" in layer.get("encoding", {})]
    assert drawn and all(one["color"]["legend"] is not None for one in drawn)
    assert all("variance explained" in " ".join(one["y"]["title"]).lower() for one in drawn)  # in two lines
    rows = said["datasets"]["rows"]
    assert {row["view"] for row in rows} == {"without sinks"} and {0, 1, 2} <= {row["layer"] for row in rows}
    for wrong, match in (("variance", "no figure"), ("anisotropy.top_variance_share", "no panel 'd'")):
        with pytest.raises(reporter.UsageError, match=match):
            results.chart(wrong, "d")


def test_a_study_a_tool_or_a_block_that_is_not_there_is_one_line(results, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    for study, tool, says in (
        ("trained", "tensorbord", "did you mean 'tensorboard'"),
        ("train", "huggingface", "no study 'train'"),
        ("trained", "wandb", "pip install 'layer-reporter[wandb]'"),
        ("trained", "mergekit", "add `skip:"),
    ):
        done = call("export", study, "--for", tool, "--out", results.folder, "--to", tmp_path / "absent")
        assert done.exit_code == 2 and says in done.output and len(done.output.strip().splitlines()) == 1


def test_a_new_metric_runs_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call("metrics", "--new", "drift")
    assert done.exit_code == 0
    assert all(way in done.output for way in ('entry-points."reporter.metrics"', "plugins: [drift.py]"))
    study = STUDY | {"study": "new", "plugins": ["drift.py"], "metrics": ["drift"], "claims": {}}
    Path("study.yaml").write_text(json.dumps(study), "utf-8")
    assert call("metrics", "drift").exit_code == 2, "it is a metric of its study alone"
    try:
        shown = call("metrics", "drift", "--study", "study.yaml")
        assert shown.exit_code == 0 and shown.stdout.startswith("drift:")
        assert [metric.name for metric in reporter.validate(study).study.metrics] == ["drift"]
        for name, says in (("drift", "exists already"), ("loss", "exists already"), ("a b", "name of a metric; use")):
            done = call("metrics", "--new", name)
            assert done.exit_code == 2 and says in done.output
    finally:
        forget_plugins()
