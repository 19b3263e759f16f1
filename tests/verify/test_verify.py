"""A sound study is verified; a wrong number, a wrong convention and what is not verified are named."""

from __future__ import annotations

import json
from dataclasses import replace

import duckdb
import pytest
from typer.testing import CliRunner

from reporter.cli import app
from reporter.errors import UsageError
from reporter.models.load import LoadedModel
from reporter.verify import show

STUDY_OF_MOTION = """
study: tiny
models:
  dec: {recipe: {architecture: gpt2, layers: 2, width: 16, heads: 2, train_on: nested, steps: 2, batch: 4, context: 16}}
corpora:
  nested: {generate: grammar, texts: 8, words: [5, 20]}
metrics: [motion]
views: [words]
run: {precision: float32}
"""


def test_a_finished_study_agrees(finished, again):
    found = again(finished)
    wrong = {one.name: one for one in found.deviations.values() if not one.passed}
    assert found.passed and not wrong
    assert {one["cell"] for one in found.cells} == {"enc × nested", "dec × nested"}
    # Every statistic that is stored was measured again, or it says why not.
    with duckdb.connect(str(finished / "results" / "results.duckdb"), read_only=True) as database:
        stored = database.execute(
            "SELECT DISTINCT metric || '.' || statistic FROM layer_metrics WHERE value IS NOT NULL "
            "UNION SELECT DISTINCT metric || '.' || statistic FROM layer_pairs WHERE value IS NOT NULL"
        ).fetchall()
    compared, skipped = set(found.deviations), {name for name, _ in found.unverified}
    assert {name for (name,) in stored} <= compared | skipped
    only_skipped = {name for name in skipped - compared if not name.endswith("_floor")}
    assert only_skipped <= {"contextuality.explained_by_first_baseline", "contextuality.explained_by_first_adjusted"}
    assert not {reason for name, reason in found.unverified if name in compared}
    # The layers of both models were compared with each other as well.
    assert found.deviations["layer_pairs.cka"].numbers == 3 * (9 + 9 + 9)


@pytest.mark.parametrize(
    ("statistic", "where"),
    [
        ("convergence.similarity", "view = 'no-sinks' AND site = 'block' AND layer = 1 AND model = 'dec'"),
        ("spectrum.effective_rank", "view = 'words' AND site = 'final' AND model = 'dec'"),
        ("loss.lm", "view = 'all' AND model = 'enc'"),
    ],
)
def test_one_wrong_number_is_named(statistic, where, folder, again):
    metric, name = statistic.split(".")
    with duckdb.connect(str(folder / "results" / "results.duckdb")) as database:
        query = f"UPDATE layer_metrics SET value = value * 1.001 WHERE metric = ? AND statistic = ? AND {where}"
        assert database.execute(query, [metric, name]).fetchall() == [(1,)]
    found = again(folder)
    assert not found.passed
    assert [one.name for one in found.deviations.values() if not one.passed] == [statistic]
    wrong = found.deviations[statistic]
    assert wrong.stored == pytest.approx(1.001 * wrong.again, rel=1e-5)
    for part in where.replace("=", " ").replace("'", " ").split():
        assert part in {"view", "site", "layer", "model", "AND"} or part in wrong.where
    assert show(found).splitlines()[-1].startswith(f"DEVIATES: {statistic} (")


def test_a_wrong_convention_is_named(tmp_path, run, again, monkeypatch):
    """The classic mistake: the model's own last hidden state, which is normed, taken for the last block's output."""
    right = LoadedModel.run

    def wrong(self, ids, mask, attention=False):
        captured = right(self, ids, mask, attention)
        return captured if captured.final is None else replace(captured, path=[*captured.path[:-1], captured.final])

    monkeypatch.setattr(LoadedModel, "run", wrong)
    (tmp_path / "tiny.yaml").write_text(STUDY_OF_MOTION, "utf-8")
    run(tmp_path / "tiny.yaml", tmp_path / "results")
    found = again(tmp_path)
    statistics = ("norm", "step_length", "step_cosine", "update_ratio", "curvature")
    assert {one.name for one in found.deviations.values() if not one.passed} == {f"motion.{s}" for s in statistics}
    assert found.deviations["motion.norm"].where == "dec × nested, words, block 2"


def test_what_is_left_out_says_why(finished, again):
    found = again(finished, cells=1, model="dec")
    assert [one["cell"] for one in found.cells] == ["dec × nested"]
    assert found.left_out == {"enc × nested": "not asked for"}
    assert "left_out" in json.loads(show(found, "json")) and "enc × nested: not asked for" in show(found)
    with pytest.raises(UsageError, match="40 texts, more than --texts 10"):
        again(finished, texts=10)
    with pytest.raises(UsageError, match="no model 'dce'; did you mean 'dec'"):
        again(finished, model="dce")
    with pytest.raises(UsageError, match=r"no study 'tinny' in .*; did you mean 'tiny'"):
        again(finished, study="tinny")


def test_numbers_of_another_study_file_are_not_compared(folder, again):
    """What changed since the run has no numbers yet."""
    path = folder / "tiny.yaml"
    path.write_text(path.read_text("utf-8").replace("seed: 0", "").replace("float32}", "float32, seed: 1}"), "utf-8")
    with pytest.raises(UsageError, match="seed"):
        again(folder)


def test_the_verb_prints_and_exits(folder):
    """By id, with what the database holds of the study; 0 where all agrees, 1 where not, 2 for a wrong call."""
    call = ["verify", "tiny", "--out", str(folder / "results"), "--cells", "1", "--format", "json"]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["passed"] and [one["cell"] for one in said["cells"]] == ["dec × nested"]
    with duckdb.connect(str(folder / "results" / "results.duckdb")) as database:
        database.execute("UPDATE cells SET sinks = sinks + 1")
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 1
    assert [one["name"] for one in json.loads(done.stdout)["deviations"] if not one["passed"]] == ["cells.sinks"]
    assert CliRunner().invoke(app, [*call, "--corpus", "x"]).exit_code == 2
