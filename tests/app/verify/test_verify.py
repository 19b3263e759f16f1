"""A sound study is verified; a wrong number, a wrong convention and what is not verified are named."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import duckdb
import pytest
from oracles.families import build_family
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.app.verify.deviations import Stored, compare
from reporter.app.verify.reading import Found, never_a_word, splitmix64
from reporter.core.errors import UsageError
from reporter.metrics.base import catalogue
from reporter.models.load import LoadedModel
from reporter.texts.tokens import ids_without_words

TEXTS = ("The cat runs in town", "birds sing")


def test_a_finished_study_agrees(finished, again):
    found = again(finished)
    assert found.passed and not [one.name for one in found.deviations.values() if not one.passed]
    assert {one["cell"] for one in found.cells} == {"enc × nested", "dec × nested"}
    names = "SELECT metric || '.' || statistic FROM {} WHERE value IS NOT NULL"
    with duckdb.connect(str(finished / "results" / "results.duckdb"), read_only=True) as database:
        stored = database.execute(f"{names} UNION {names}".format("layer_metrics", "layer_pairs")).fetchall()
        facts = database.execute("SELECT DISTINCT model, texts, special, sinks > 0 FROM cells ORDER BY ALL").fetchall()
    # What the rules are about is there: repeated texts, sinks, special strings inside a text (two, in two texts).
    assert facts[:2] == [("dec", 40, 2, True), ("enc", 40, 82, False)]
    # Every statistic that is stored was measured again, or it says why not.
    compared, skipped = set(found.deviations), {name for name, _ in found.unverified}
    assert {name for (name,) in stored} <= compared | skipped
    drawn = {f"contextuality.explained_by_first_{name}" for name in ("baseline", "adjusted")}
    drawn |= {f"layer_pairs.{name}_calibrated" for name in ("cka", "knn")}
    assert {name for name in skipped - compared if not name.endswith("_floor")} <= drawn, "random draws"
    assert not {reason for name, reason in found.unverified if name in compared}
    assert {"sinks.texts", "sink_cuts.left_out", "outliers.sink_sensitivity"} <= compared
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
    names = ("cosine", "distance", "moved", "linear", "distance_seed", "linear_seed")
    assert {name for name in found.deviations if "change." in name} == {f"change.{name}" for name in names}
    expected = {f"divergence.{statistic.name}" for statistic in catalogue()["divergence"].statistics}
    expected |= {f"partners.{name}{end}" for name in ("recall", "mrr", "mexa", "spearman") for end in ("", "_floor")}
    assert expected <= set(found.deviations)
    assert not {name for name, _ in found.unverified if name.startswith(("change.", "divergence.", "partners."))}
    # Four models at up to three layers, three poolings and four treatments; in `words` those of the main pooling again.
    assert found.deviations["partners.mexa"].numbers == (3 + 3 + 3 + 2 + 4) * 12 + 15
    reasons = {reason for name, reason in again(based, model="tuned", corpus="nested").unverified if "change." in name}
    assert reasons == {"the base or the twin was not measured again; raise --cells"}


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
    options = ["--out", str(folder / "results"), "--model", "dec", "--format", "json"]
    done = CliRunner().invoke(app, ["verify", "tiny", *options])
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


def test_the_verb_exits_with_zero_where_all_agrees_and_what_is_left_out_says_why(small, tmp_path, again):
    found = again(small, cells=1, model="dec")
    assert found.passed and [one["cell"] for one in found.cells] == ["dec × nested"]
    assert found.left_out == {"enc × nested": "not chosen by --model or --corpus"}
    done = CliRunner().invoke(app, ["verify", "tiny", "--out", str(small / "results"), "--model", "dec"])
    assert done.exit_code == 0 and "enc × nested: not chosen" in done.stdout
    assert "verified: " in done.stdout.splitlines()[-1]
    for asked, said in (
        ({"max_texts": 7}, "8 texts, more than --max-texts 7"),
        ({"model": "dce"}, "no model 'dce'; did you mean 'dec'"),
        ({"study": "tinny"}, r"no study 'tinny' in .*; did you mean 'tiny'"),
    ):
        with pytest.raises(UsageError, match=said):
            again(small, **asked)
    shutil.copytree(small, tmp_path / "copy")  # what changed since the run has no numbers yet
    path = tmp_path / "copy" / "tiny.yaml"
    path.write_text(path.read_text("utf-8").replace("float32}", "float32, seed: 1}"), "utf-8")
    with pytest.raises(UsageError, match="seed"):
        again(tmp_path / "copy")


@pytest.fixture
def of_family(tmp_path, run, again):
    """Return a function that runs a study of a tiny model of a family on short texts, and verifies it."""

    def verified(family, *texts, **keys):
        build_family(family, tmp_path / family)
        study = {"study": "tiny", "models": {family: {"path": family}}, "corpora": {"few": {"texts": texts}}, **keys}
        study |= {"views": ["words"], "run": {"precision": "float32"}}
        (tmp_path / "tiny.yaml").write_text(json.dumps(study))
        run(tmp_path / "tiny.yaml", tmp_path / "results")
        found = again(tmp_path)
        assert found.passed
        return found

    return verified


def test_blocks_that_share_their_weights_have_no_second_path_for_contributions(of_family):
    found = of_family("albert", *TEXTS, metrics=["motion", "contributions"])
    assert "motion.norm" in found.deviations
    (reason,) = {reason for name, reason in found.unverified if name == "contributions.attention_ratio"}
    assert "the two norms that separate" in reason


def test_texts_of_one_token_agree(of_family):
    of_family("bert", "cat", "dogs", "mouse", metrics=["motion", "outliers"])


@pytest.mark.parametrize("family", ["gpt2", "bert", "mamba"])
def test_what_the_head_reads_agrees_where_the_final_state_is_not_read(of_family, family):
    found = of_family(family, *TEXTS, metrics=["motion", "lens"], sites=["embedding", "block"])
    assert ("lens.kl" in found.deviations) == (family == "gpt2")  # the heads of the others are not read


def test_special_strings_are_no_words_but_an_unknown_word_is_one():
    """Id 2 ends texts, so it is no word even where it stands for unknown ones, too; id 3 only pads."""
    ids = {"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": None, "sep_token_id": None, "mask_token_id": None}
    for unknown, expected in ((0, {1, 2, 3}), (2, {1, 2, 3}), (3, {1, 2})):
        tokenizer = SimpleNamespace(all_special_ids=sorted({1, 2, 3, unknown}), unk_token_id=unknown, **ids)
        assert never_a_word(tokenizer) == expected == set(ids_without_words(tokenizer).tolist())


def test_hashes_are_those_of_the_authors_of_splitmix():
    """The first outputs with the seed 1234567, as their reference program prints them."""
    hashes = [splitmix64((1234567 + i * 0x9E3779B97F4A7C15) % 2**64) for i in range(2)]
    assert hashes == [6457827717110365317, 3203168211198807973]


def test_what_bf16_products_move_a_state_by_is_no_deviation_of_a_small_distance():
    stored = {("distance", "words", None, None): Stored(0.0097, None)}
    for value, moved, agrees in ((0.0071, 0.02, True), (0.0397, 0.02, False), (0.0071, 0, False), (0.0097, 0, True)):
        again = [Found("distance", "words", None, value)]
        assert compare("change", stored, again, "m", moved)["change.distance"].passed == agrees
