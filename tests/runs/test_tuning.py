"""A model that continues another, through plan, run, differences and correlations."""

from __future__ import annotations

import numpy as np
import pytest

from reporter.core.errors import UsageError
from reporter.runs.planner import plan_study

MODELS = (
    "corpora:\n  nested",
    "  t0: {scores: {glue: 0.1}, recipe: {from: dec, train_on: nested, steps: 2, checkpoints: [0, 2]}}\n"
    "  t1: {scores: {glue: 0.7}, recipe: {from: t0, train_on: inline, steps: 1}}\n"
    "  t2: {scores: {glue: 0.3}, recipe: {from: dec, train_on: nested, steps: 1, learning_rate: 0.01}}\n"
    "corpora:\n  nested",
)
METRICS = ("metrics: [convergence, {anisotropy: {sample: 64, batches: 2}}, motion]", "metrics: [convergence, loss]")


def test_a_plan_says_what_is_trained_first_and_trains_nothing(study, tmp_path):
    said = plan_study(study(MODELS, METRICS), tmp_path / "elsewhere").lines()
    assert "trained first: enc to step 2, dec to step 2, t0 to step 2, t1 to step 1, t2 to step 1" in said
    assert not list((tmp_path / "elsewhere").glob("cache/models/*/step-*"))


def test_differences_and_correlations_end_to_end(study, run, store, out):
    outcome, said = run(study(MODELS, METRICS), only=("t1",))
    assert outcome.failed == 0
    assert [line.split(":")[0].strip() for line in said.splitlines() if line.strip().startswith("training")] == [
        "training t0",
        "training t1",
    ]
    outcome, said = run(study(MODELS, METRICS))
    assert outcome.failed == 0 and "training t2" in said and "training t1" not in said
    assert "trained first" not in "".join(plan_study(study(MODELS, METRICS), out).lines())

    bases = store.frame("SELECT model, any_value(base) AS base FROM models GROUP BY model ORDER BY model")
    assert dict(bases.dropna().to_numpy().tolist()) == {"t0": "dec", "t1": "t0", "t2": "dec"}
    # Step 0 of a model that continues is the other's last: the same numbers.
    same = store.frame(
        "SELECT a.value, b.value AS other FROM layer_metrics a JOIN layer_metrics b USING (corpus, view, metric, "
        "statistic, layer) WHERE a.model = 't0' AND a.checkpoint = 'step-0' AND b.model = 'dec' AND a.site = b.site"
    )
    assert len(same) > 10
    np.testing.assert_allclose(same["value"], same["other"], atol=1e-6)

    rows = store.frame("SELECT * FROM differences WHERE kind = 'base' AND statistic = 'bound' AND view = 'words'")
    assert set(zip(rows["model_a"], rows["model_b"], strict=True)) == {("t0", "dec"), ("t1", "t0"), ("t2", "dec")}
    assert rows["value"].notna().all() and set(rows["checkpoint_a"]) == {"step-2", "final"}
    found = store.frame(
        "SELECT score, n, value FROM correlations WHERE feature = 'rate' AND method = 'pearson' AND view = 'words' "
        "AND corpus = 'nested'"
    )
    assert dict(zip(found["score"], found["n"], strict=True)) == {"glue": 3, "loss.lm of decoders": 4}
    assert found["value"].notna().all()


def test_a_base_of_which_there_are_states_of_one_corpus_is_compared_there_alone(study, given, tmp_path):
    based = ("dec: {", "dec: {base: given, ")
    file = study(given, based, (METRICS[0], "metrics: [motion, change]"))
    changes = [cell.key for cell in plan_study(file, tmp_path / "none").cells if cell.key.metric == "change"]
    assert [(key.model, key.corpus) for key in changes] == [("dec", "inline")]


def test_only_what_no_cell_is_of_says_so(study, tmp_path):
    alone = (METRICS[0], "metrics: none\njourneys: {j: {text: the cat sleeps}}"), ("views: [words, all]\n", "")
    with pytest.raises(UsageError, match="--only nested: study 'tiny' has no cell of it"):
        plan_study(study(*alone), tmp_path, only=["nested"])
    with pytest.raises(UsageError, match=r"--only dec --only nested: no cell .* is of all of these"):
        plan_study(study(*alone), tmp_path, only=["dec", "nested"])
