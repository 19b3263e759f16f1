"""What takes two sides: corpora, a model and its base, two models; null baselines; correlations over models."""

import shutil

import numpy as np
import pytest
from scipy import stats

from reporter.judge.questions.models import correlate

TUNED = "  dec: {"
BASED = "  dec: {base: enc, scores: {glue: 0.5}, "


def test_corpora_are_compared_and_so_are_a_model_and_its_base(study, run, store, copied):
    outcome, _ = run(study((TUNED, BASED)))
    assert outcome.failed == 0
    rows = store.frame("SELECT * FROM differences")
    assert set(rows["kind"]) == {"corpora", "base"} and set(rows["metric"]) == {"anisotropy", "convergence", "motion"}
    corpora = rows.query("kind == 'corpora'")
    assert set(zip(corpora["corpus_a"], corpora["corpus_b"], strict=True)) == {("nested", "inline")}
    assert set(corpora["model_a"]) == {"enc", "dec"} and (corpora["model_a"] == corpora["model_b"]).all()
    base = rows.query("kind == 'base'")
    assert set(zip(base["model_a"], base["model_b"], strict=True)) == {("dec", "enc")}
    # Each difference is that of the two numbers it names.
    joined = store.frame(
        "SELECT d.value, a.value - b.value AS expected FROM differences d "
        "JOIN layer_metrics a ON (a.model, a.checkpoint, a.corpus) = (d.model_a, d.checkpoint_a, d.corpus_a) "
        "AND (a.metric, a.statistic, a.view) = (d.metric, d.statistic, d.view) "
        "AND a.site IS NOT DISTINCT FROM d.site AND a.layer IS NOT DISTINCT FROM d.layer "
        "JOIN layer_metrics b ON (b.model, b.checkpoint, b.corpus) = (d.model_b, d.checkpoint_b, d.corpus_b) "
        "AND (b.metric, b.statistic, b.view) = (d.metric, d.statistic, d.view) "
        "AND b.site IS NOT DISTINCT FROM d.site AND b.layer IS NOT DISTINCT FROM d.layer WHERE d.value IS NOT NULL"
    )
    assert len(joined) == rows["value"].notna().sum() > 50
    np.testing.assert_allclose(joined["value"], joined["expected"], atol=1e-12)
    models = store.frame("SELECT model, base, scores FROM models ORDER BY model, step")
    assert models["base"].tolist()[0] == "enc" and models["scores"].tolist()[0] == '{"glue": 0.5}'
    # Other scores are stored although nothing is computed; without a base its differences go.
    outcome, _ = run(study((TUNED, BASED.replace("0.5", "0.7"))))
    assert outcome.computed == 0
    assert "0.7" in store.frame("SELECT scores FROM models WHERE model = 'dec'")["scores"][0]
    run(study())
    assert set(store.frame("SELECT DISTINCT kind FROM differences")["kind"]) == {"corpora"}


def test_each_checkpoint_is_compared_with_its_base_and_with_another_seed(study, run, store):
    tuned = "".join(
        f"  t{seed}: {{recipe: {{from: dec, train_on: nested, steps: 2, checkpoints: [0, 2], seed: {seed}}}}}\n"
        for seed in (1, 2)
    )
    metrics = ("metrics: [convergence, {anisotropy: {sample: 64, batches: 2}}, motion]", "metrics: [motion, change]")
    file = study(("corpora:\n", f"{tuned}corpora:\n"), metrics)
    outcome, _ = run(file, only=["nested"])
    assert outcome.failed == 0, store.frame("SELECT metric, error FROM cells WHERE status = 'failed'")
    rows = store.frame(
        "SELECT model, step, statistic, max(value) AS most FROM layer_metrics WHERE metric = 'change' "
        "AND view = 'words' AND corpus = 'nested' AND statistic LIKE 'distance%' GROUP BY ALL"
    )
    largest = {(model, int(step), statistic): value for model, step, statistic, value in rows.itertuples(index=False)}
    assert {key[:2] for key in largest} == {
        ("t1", 0),
        ("t1", 2),
        ("t2", 0),
        ("t2", 2),
    }  # none of a model without a base
    assert largest["t1", 0, "distance"] == 0 < largest["t1", 2, "distance"]
    assert largest["t1", 2, "distance_seed"] > 0
    assert largest["t1", 2, "distance_seed"] == pytest.approx(largest["t2", 2, "distance_seed"], rel=0.1)
    passes = store.frame(
        "SELECT sum(forward_passes) AS n FROM cells WHERE metric <> 'change' GROUP BY model, checkpoint, corpus"
    )
    assert store.frame("SELECT sum(forward_passes) AS n FROM cells WHERE metric = 'change'")["n"][0] == 0
    assert set(passes["n"].astype(int)) <= {0, 1}
    again, _ = run(file, only=["nested"])
    assert again.computed == 0


def test_baselines_are_models_of_their_own(study, run, store):
    file = study(
        ("views:", "baselines: [random-init, shuffled]\nviews:"), ("[convergence, {anisotropy", "[loss, {anisotropy")
    )
    outcome, _ = run(file, only=["dec"])
    assert outcome.failed == 0
    models = store.frame("SELECT model, base, baseline, checkpoint, step FROM models WHERE baseline IS NOT NULL")
    assert set(zip(models["model"], models["base"], models["baseline"], strict=True)) == {
        (f"dec ({kind})", "dec", kind) for kind in ("random-init", "shuffled")
    }
    assert set(models["checkpoint"]) == {"final"} and models["step"].isna().all()
    # No comparison has a baseline; the numbers of a plain query are those of the model.
    assert not store.frame("SELECT * FROM differences WHERE model_a LIKE '%(%' OR model_b LIKE '%(%'").size
    numbers = store.frame(
        "SELECT model, layer, value FROM layer_metrics WHERE corpus = 'nested' AND view = 'words' AND layer > 0 "
        "AND statistic = 'norm' AND model LIKE 'dec%'"
    )
    assert numbers.groupby("model")["value"].first().nunique() == 3
    # Shuffling leaves each text its tokens.
    assert store.frame("SELECT DISTINCT tokens FROM cells WHERE corpus = 'nested'")["tokens"].nunique() == 1
    again, log = run(file, only=["dec"])
    assert again.computed == 0 and "nothing to compute" in log


def test_all_metrics_take_one_pass_and_every_null_has_its_reason(study, run, store):
    metrics = ("metrics: [convergence, {anisotropy: {sample: 64, batches: 2}}, motion]", "metrics: [all, loss, lens]")
    sites = ("views:", "sites: [embedding, block, final, attention]\nviews:")
    outcome, _ = run(study(metrics, sites, ("checkpoints: [0, 2]", "checkpoints: [2]")))
    assert outcome.failed == 0, store.frame("SELECT metric, error FROM cells WHERE status = 'failed'")
    passes = store.frame("SELECT sum(forward_passes) AS n FROM cells GROUP BY model, checkpoint, corpus")
    assert set(passes["n"].astype(int)) == {0, 1}
    missing = store.frame(
        "SELECT l.model, l.corpus, l.metric, l.statistic FROM layer_metrics l "
        "JOIN cells c USING (study, model, checkpoint, corpus, metric) WHERE l.value IS NULL "
        "AND NOT contains(c.reasons, '\"' || l.statistic || '\"')"
    )
    assert missing.empty
    sites = store.frame("SELECT DISTINCT site FROM layer_metrics WHERE model = 'dec'")["site"]
    assert set(sites.dropna()) == {"embedding", "block", "final", "attention"}


@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_correlations_against_scipy(n):
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((2, n)).tolist()
    pearson, spearman = correlate("rate", "glue", x, y)
    assert (pearson.n, spearman.n) == (n, n)
    if n < 3:
        assert pearson.value is spearman.value is pearson.p is None
        return
    assert pearson.value == pytest.approx(stats.pearsonr(x, y).statistic)
    assert spearman.value == pytest.approx(stats.spearmanr(x, y).statistic)
    assert spearman.p == pytest.approx(stats.spearmanr(x, y).pvalue)
    if n > 3:
        interval = stats.pearsonr(x, y).confidence_interval()
        assert (pearson.ci_low, pearson.ci_high) == pytest.approx((interval.low, interval.high), abs=1e-6)


def test_correlations_of_a_study(study, run, store):
    more = "".join(
        f"  d{i}: {{scores: {{glue: {i / 10}}}, recipe: {{architecture: gpt2, layers: 2, width: 16, heads: 2, "
        f"train_on: nested, steps: 0, batch: 4, context: 16, seed: {i}}}}}\n"
        for i in range(4)
    )
    metrics = ("metrics: [convergence, {anisotropy: {sample: 64, batches: 2}}, motion]", "metrics: [convergence, loss]")
    outcome, _ = run(study(("corpora:\n", f"{more}corpora:\n"), metrics), only=["nested"])
    assert outcome.failed == 0
    rows = store.frame("SELECT * FROM correlations WHERE feature = 'rate' AND view = 'words' AND corpus = 'nested'")
    assert set(zip(rows["score"], rows["method"], rows["n"], strict=True)) == {
        (score, method, n)
        for method in ("pearson", "spearman")
        for score, n in (("glue", 4), ("loss.lm of decoders", 5))
    }
    rates = store.frame(
        "SELECT value FROM layer_metrics WHERE statistic = 'rate' AND view = 'words' AND corpus = 'nested' "
        "AND model LIKE 'd_' ORDER BY model"
    )["value"]
    value = rows.query("score == 'glue' and method == 'pearson'")["value"].item()
    assert value == pytest.approx(np.corrcoef(rates, np.arange(4))[0, 1])


def test_why_a_model_has_no_loss_is_still_known_after_another_pass(study, run, store, out, tmp_path):
    """An encoder saved without its head; a metric that is added later must not wash the reason away."""
    from transformers import AutoModel

    trained = next((out / "cache" / "models").glob("**/step-*2"))
    headless = tmp_path / "headless"
    shutil.copytree(trained, headless)
    AutoModel.from_pretrained(trained).save_pretrained(headless)
    first = ("metrics: [convergence, {anisotropy: {sample: 64, batches: 2}}, motion]", "metrics: [loss]")
    second = (first[0], "metrics: [loss, outliers]")
    third = (first[0], "metrics: [outliers, {entropy: {texts: 5}}, loss]")
    model = ("models:\n", "models:\n  bare: {path: headless}\n")
    for metrics in (first, second, third):
        outcome, _ = run(study(model, metrics), only=["bare", "inline"], force=True)
        assert outcome.failed == 0
        reasons = store.frame("SELECT reasons FROM cells WHERE model = 'bare' AND metric = 'loss'")["reasons"]
        assert reasons.str.contains("no language-model head").all()


def test_a_model_that_was_never_loaded_leaves_no_half_row(study, run, store):
    lost = ('  inline: {texts: ["one two three", "the cat sleeps here", "a dog"]}\n', "  inline: {file: gone.txt}\n")
    outcome, _ = run(study(lost), only=["enc", "inline"])
    assert outcome.computed == 0 and outcome.failed
    assert store.frame("SELECT * FROM models WHERE status IS NULL").empty
