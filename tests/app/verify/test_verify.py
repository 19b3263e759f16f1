"""A sound study is verified; a wrong number, a wrong convention and what is not verified are named."""

import json
import shutil
from dataclasses import replace

import duckdb
import pytest
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.core.errors import UsageError
from reporter.metrics.base import catalogue
from reporter.models.load import LoadedModel


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
    assert only_skipped <= {
        "contextuality.explained_by_first_baseline",
        "contextuality.explained_by_first_adjusted",
        "layer_pairs.cka_calibrated",
        "layer_pairs.knn_calibrated",
    }, "random draws"
    assert not {reason for name, reason in found.unverified if name in compared}
    # What the rules are about is there: repeated texts, sinks, special strings inside a text (two, in two texts).
    with duckdb.connect(str(finished / "results" / "results.duckdb"), read_only=True) as database:
        facts = database.execute("SELECT DISTINCT model, texts, special, sinks > 0 FROM cells ORDER BY ALL").fetchall()
    assert facts[:2] == [("dec", 40, 2, True), ("enc", 40, 82, False)]
    assert {"sinks.texts", "sink_cuts.left_out", "outliers.sink_sensitivity"} <= set(found.deviations)
    # The layers of both models were compared with each other as well.
    assert found.deviations["layer_pairs.cka"].numbers == 3 * (9 + 9 + 9)


def test_what_changed_against_a_base_is_measured_again(tmp_path, based, again):
    """Models tuned from a base, with a twin; and one of another depth whose tokenizer is another one.

    Numbers of three statistics are wrong, those of a single place each.
    """
    shutil.copytree(based, tmp_path / "copy")
    with duckdb.connect(str(tmp_path / "copy" / "results" / "results.duckdb")) as database:
        where = "metric = 'change' AND statistic = 'distance' AND view = 'words' AND layer = 1 AND corpus = 'nested'"
        # Two models have tokens of the same tokenizer in common with their base, one has texts.
        texts = database.execute(f"SELECT n FROM layer_metrics WHERE model = 'other' AND {where}").fetchone()
        assert texts == (30,)
        for model in ("tuned", "other"):
            database.execute(f"UPDATE layer_metrics SET value = value * 1.05 WHERE model = '{model}' AND {where}")
        database.execute("UPDATE layer_metrics SET value = value * 1.05 WHERE model = 'tuned' AND statistic = 'kl_90'")
        where = "statistic = 'spearman' AND variant = 'without 1 axis' AND pooling = 'mean' AND layer = 1"
        database.execute(f"UPDATE partner_numbers SET value = value + 0.01 WHERE model = 'other' AND {where}")
    found = again(tmp_path / "copy", cells=9, corpus="nested")
    wrong = {one.name for one in found.deviations.values() if not one.passed}
    assert wrong == {"change.distance", "divergence.kl_90", "partners.spearman"}
    names = {name for name in found.deviations if name.startswith("change.")}
    assert names == {
        f"change.{name}" for name in ("cosine", "distance", "moved", "linear", "distance_seed", "linear_seed")
    }
    divergences = {f"divergence.{statistic.name}" for statistic in catalogue()["divergence"].statistics}
    assert divergences <= set(found.deviations)
    assert not {name for name, _ in found.unverified if name.startswith(("change.", "divergence.", "partners."))}
    # Four models at up to three layers, three poolings and four treatments; in `words` those of the main pooling again.
    assert found.deviations["partners.mexa"].numbers == (3 + 3 + 3 + 2 + 4) * 12 + 15
    assert {
        f"partners.{name}{floor}" for name in ("recall", "mrr", "mexa", "spearman") for floor in ("", "_floor")
    } <= {*found.deviations}


def test_what_a_model_is_compared_with_must_be_measured_again_too(based, again):
    found = again(based, model="tuned", corpus="nested")
    assert {reason for name, reason in found.unverified if name.startswith("change.")} == {
        "the base or the twin was not measured again; raise --cells"
    }


def test_wrong_numbers_are_named(folder):
    """One number each of four statistics, seen through the verb, which knows the study by its id."""
    wrong = {
        "convergence.similarity": "view = 'no-sinks' AND site = 'block' AND layer = 1 AND model = 'dec'",
        "spectrum.effective_rank": "view = 'words' AND site = 'final' AND model = 'dec'",
        "loss.lm": "view = 'all' AND model = 'dec'",
    }
    with duckdb.connect(str(folder / "results" / "results.duckdb")) as database:
        for name, where in wrong.items():
            query = f"UPDATE layer_metrics SET value = value * 1.001 WHERE metric = ? AND statistic = ? AND {where}"
            assert database.execute(query, name.split(".")).fetchall() == [(1,)]
        database.execute("UPDATE cells SET sinks = sinks + 1 WHERE model = 'dec'")
        first = "(model, token_id) = (SELECT (model, token_id) FROM sinks WHERE model = 'dec' LIMIT 1)"
        database.execute(f"UPDATE sinks SET texts = texts + 1 WHERE {first}")
    done = CliRunner().invoke(
        app, ["verify", "tiny", "--out", str(folder / "results"), "--model", "dec", "--format", "json"]
    )
    assert done.exit_code == 1
    said = {one["name"]: one for one in json.loads(done.stdout)["deviations"] if not one["passed"]}
    assert set(said) == {*wrong, "cells.sinks", "sinks.texts"}
    for name in wrong:
        assert said[name]["stored"] == pytest.approx(1.001 * said[name]["again"], rel=1e-5)
    assert said["convergence.similarity"]["where"] == "dec × nested, no-sinks, block 1"
    assert said["spectrum.effective_rank"]["where"] == "dec × nested, words, final 2"
    assert said["loss.lm"]["where"] == "dec × nested, all" and said["cells.sinks"]["where"] == "dec × nested"


def test_a_wrong_convention_is_named(tmp_path, small, run, again, monkeypatch):
    """The classic mistake: the model's own last hidden state, which is normed, taken for the last block's output."""
    right = LoadedModel.run

    def wrong(self, ids, mask, *more):
        captured = right(self, ids, mask, *more)
        return captured if captured.final is None else replace(captured, path=[*captured.path[:-1], captured.final])

    monkeypatch.setattr(LoadedModel, "run", wrong)
    shutil.copy(small / "tiny.yaml", tmp_path)
    run(tmp_path / "tiny.yaml", tmp_path / "results")
    found = again(tmp_path)
    steps = ("step_length", "step_cosine", "block_influence", "update_ratio", "curvature")
    statistics = ("norm", "growth", *steps, "line_shape", "straightness")
    assert {one.name for one in found.deviations.values() if not one.passed} == {f"motion.{s}" for s in statistics}
    assert found.deviations["motion.norm"].where == "dec × nested, words, block 2"


def test_the_verb_exits_with_zero_where_all_agrees_and_what_is_left_out_says_why(small, again):
    found = again(small, cells=1, model="dec")
    assert found.passed and [one["cell"] for one in found.cells] == ["dec × nested"]
    assert found.left_out == {"enc × nested": "not chosen by --model or --corpus"}
    done = CliRunner().invoke(app, ["verify", "tiny", "--out", str(small / "results"), "--model", "dec"])
    assert done.exit_code == 0 and "enc × nested: not chosen" in done.stdout
    assert "verified: " in done.stdout.splitlines()[-1]
    with pytest.raises(UsageError, match="8 texts, more than --max-texts 7"):
        again(small, max_texts=7)
    with pytest.raises(UsageError, match="no model 'dce'; did you mean 'dec'"):
        again(small, model="dce")
    with pytest.raises(UsageError, match=r"no study 'tinny' in .*; did you mean 'tiny'"):
        again(small, study="tinny")


def test_numbers_of_another_study_file_are_not_compared(small, tmp_path, again):
    """What changed since the run has no numbers yet."""
    shutil.copytree(small, tmp_path / "copy")
    path = tmp_path / "copy" / "tiny.yaml"
    path.write_text(path.read_text("utf-8").replace("float32}", "float32, seed: 1}"), "utf-8")
    with pytest.raises(UsageError, match="seed"):
        again(tmp_path / "copy")


def _write_study(folder, family, keys):
    """Write a study of a tiny model of a family on two texts; ``keys`` come last and may replace the corpora."""
    from oracles.families import build_family

    build_family(family, folder / family)
    study = {"study": "tiny", "models": {family: {"path": family}}, "views": ["words"], "run": {"precision": "float32"}}
    study |= {"corpora": {"few": {"texts": ["The cat runs in town", "birds sing"]}}} | keys
    (folder / "tiny.yaml").write_text(json.dumps(study))


def test_blocks_that_share_their_weights_have_no_second_path_for_contributions(tmp_path, run, again):
    _write_study(tmp_path, "albert", {"metrics": ["motion", "contributions"]})
    run(tmp_path / "tiny.yaml", tmp_path / "results")
    found = again(tmp_path)
    assert found.passed and "motion.norm" in found.deviations
    reasons = {reason for name, reason in found.unverified if name == "contributions.attention_ratio"}
    assert len(reasons) == 1 and "the two norms that separate" in reasons.pop()


def test_texts_of_one_token_agree(tmp_path, run, again):
    corpora = {"words": {"texts": ["cat", "dogs", "mouse"]}}
    _write_study(tmp_path, "bert", {"metrics": ["motion", "outliers"], "corpora": corpora})
    run(tmp_path / "tiny.yaml", tmp_path / "results")
    assert again(tmp_path).passed


@pytest.mark.parametrize("family", ["gpt2", "bert", "mamba"])
def test_what_the_head_reads_agrees_where_the_final_state_is_not_read(tmp_path, run, again, family):
    _write_study(tmp_path, family, {"metrics": ["motion", "lens"], "sites": ["embedding", "block"]})
    run(tmp_path / "tiny.yaml", tmp_path / "results")
    found = again(tmp_path)
    assert found.passed
    assert ("lens.kl" in found.deviations) == (family == "gpt2")  # the heads of the others are not read
