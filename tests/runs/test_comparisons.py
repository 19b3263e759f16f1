"""What takes two sides: corpora, a model and its base, two models; null baselines; correlations over models."""

import shutil

import numpy as np
import pytest
from runs.conftest import DEC, INLINE, select
from scipy import stats

from reporter.judge.questions.models import correlate

BASED = ("  dec: {", "  dec: {base: enc, scores: {glue: 0.5}, ")
SAME_PLACE = (
    "AND ({0}.metric, {0}.statistic, {0}.view) = (d.metric, d.statistic, d.view) "
    "AND {0}.site IS NOT DISTINCT FROM d.site AND {0}.layer IS NOT DISTINCT FROM d.layer "
)


def measured(run, file, **options):
    outcome, log = run(file, **options)
    assert outcome.failed == 0, log
    return outcome


def test_corpora_are_compared_and_so_are_a_model_and_its_base(study, run, store, copied):
    measured(run, study(BASED))
    sides = "SELECT DISTINCT kind, model_a, model_b, corpus_a, corpus_b FROM differences ORDER BY ALL"
    base = [("base", "dec", "enc", corpus, corpus) for corpus in ("inline", "nested")]
    corpora = [("corpora", model, model, "nested", "inline") for model in ("dec", "enc")]
    assert select(store, sides) == base + corpora
    assert set(select(store, "SELECT DISTINCT metric FROM differences")) == {"anisotropy", "convergence", "motion"}
    # Each difference is that of the two numbers it names.
    joined = select(
        store,
        "SELECT d.value, a.value - b.value FROM differences d "
        "JOIN layer_metrics a ON (a.model, a.checkpoint, a.corpus) = (d.model_a, d.checkpoint_a, d.corpus_a) "
        f"{SAME_PLACE.format('a')}"
        "JOIN layer_metrics b ON (b.model, b.checkpoint, b.corpus) = (d.model_b, d.checkpoint_b, d.corpus_b) "
        f"{SAME_PLACE.format('b')} WHERE d.value IS NOT NULL",
    )
    assert select(store, "SELECT count(value) FROM differences") == [len(joined)] and len(joined) > 50
    np.testing.assert_allclose(*np.transpose(joined), atol=1e-12)
    scores = "SELECT base, scores FROM models WHERE model = 'dec'"
    assert select(store, scores) == [("enc", '{"glue": 0.5}')]
    # Other scores are stored although nothing is computed; without a base its differences go.
    assert run(study((BASED[0], BASED[1].replace("0.5", "0.7"))))[0].computed == 0
    assert select(store, scores) == [("enc", '{"glue": 0.7}')]
    run(study())
    assert select(store, "SELECT DISTINCT kind FROM differences") == ["corpora"]


def test_the_smaller_corpus_decides_whether_a_difference_has_an_interval(study, run, store):
    for texts, shown in ((8, False), (12, True)):  # a rate needs ten
        small = (INLINE, f"  inline: {{generate: grammar, texts: {texts}, words: [5, 20]}}\n")
        measured(run, study(small), only=["dec", "convergence"])
        rows = "SELECT value IS NULL, ci_low IS NOT NULL FROM differences WHERE statistic = 'rate'"
        assert set(select(store, rows)) == {(False, shown)}


def test_each_checkpoint_is_compared_with_its_base_and_with_another_seed(study, run, store):
    tuned = "".join(
        f"  t{seed}: {{recipe: {{from: dec, train_on: nested, steps: 2, checkpoints: [0, 2], seed: {seed}}}}}\n"
        for seed in (1, 2)
    )
    file = study(("corpora:\n", f"{tuned}corpora:\n"), metrics="[motion, change]")
    measured(run, file, only=["nested"])
    rows = select(
        store,
        "SELECT model, step, statistic, max(value) FROM layer_metrics WHERE metric = 'change' "
        "AND view = 'words' AND corpus = 'nested' AND statistic LIKE 'distance%' GROUP BY ALL",
    )
    largest = {row[:3]: row[3] for row in rows}
    assert {key[:2] for key in largest} == {
        (f"t{seed}", step) for seed in (1, 2) for step in (0, 2)
    }  # those with a base
    assert largest["t1", 0, "distance"] == 0 < largest["t1", 2, "distance"]
    assert largest["t1", 2, "distance_seed"] > 0
    assert largest["t1", 2, "distance_seed"] == pytest.approx(largest["t2", 2, "distance_seed"], rel=0.1)
    passes = "SELECT DISTINCT metric = 'change', sum(forward_passes)::INTEGER FROM cells GROUP BY 1, model, checkpoint"
    assert set(select(store, passes)) <= {(True, 0), (False, 0), (False, 1)}
    assert run(file, only=["nested"])[0].computed == 0


def test_baselines_are_models_of_their_own(study, run, store):
    file = study(metrics="[loss, motion]", more="baselines: [random-init, shuffled]")
    measured(run, file, only=["dec"])
    models = select(store, "SELECT model, base, baseline, checkpoint, step FROM models WHERE baseline IS NOT NULL")
    expected = [(f"dec ({kind})", "dec", kind, "final", None) for kind in ("random-init", "shuffled")]
    assert sorted(models) == expected
    # No comparison has a baseline; the numbers of a plain query are those of the model.
    assert not select(store, "SELECT * FROM differences WHERE model_a LIKE '%(%' OR model_b LIKE '%(%'")
    numbers = "SELECT value FROM layer_metrics WHERE (corpus, view, statistic, layer) = ('nested', 'words', 'norm', 1)"
    assert len(set(select(store, numbers + " AND model LIKE 'dec%'"))) == 3
    # Shuffling leaves each text its tokens.
    assert len(select(store, "SELECT DISTINCT tokens FROM cells WHERE corpus = 'nested'")) == 1
    again, log = run(file, only=["dec"])
    assert again.computed == 0 and "nothing to compute" in log


def test_all_metrics_take_one_pass_and_every_null_has_its_reason(study, run, store):
    sites = "sites: [embedding, block, final, attention]"
    measured(run, study(metrics="[all, loss, lens]", more=sites), only=["inline"])
    passes = "SELECT DISTINCT sum(forward_passes)::INTEGER FROM cells GROUP BY model, checkpoint, corpus"
    assert set(select(store, passes)) == {0, 1}
    missing = (
        "SELECT l.model, l.corpus, l.metric, l.statistic FROM layer_metrics l "
        "JOIN cells c USING (study, model, checkpoint, corpus, metric) WHERE l.value IS NULL "
        "AND NOT contains(c.reasons, '\"' || l.statistic || '\"')"
    )
    assert not select(store, missing)
    shown = select(store, "SELECT DISTINCT site FROM layer_metrics WHERE model = 'dec' AND site IS NOT NULL")
    assert set(shown) == {"embedding", "block", "final", "attention"}


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
    assert (spearman.value, spearman.p) == pytest.approx(tuple(stats.spearmanr(x, y)))
    if n > 3:
        interval = stats.pearsonr(x, y).confidence_interval()
        assert (pearson.ci_low, pearson.ci_high) == pytest.approx((interval.low, interval.high), abs=1e-6)


def test_correlations_of_a_study(study, run, store):
    more = "".join(
        DEC.replace("  dec: {", f"  d{i}: {{scores: {{glue: {i / 10}}}, ").replace("steps: 2", f"steps: 0, seed: {i}")
        for i in range(4)
    )
    file = study((INLINE, ""), ("corpora:\n", f"{more}corpora:\n"), metrics="[convergence, loss]", views="[words]")
    measured(run, file)
    rows = store.records("SELECT * FROM correlations WHERE feature = 'rate'")
    assert {(row["score"], row["method"], row["n"]) for row in rows} == {
        (score, method, n)
        for method in ("pearson", "spearman")
        for score, n in (("glue", 4), ("loss.lm of decoders", 5))
    }
    rates = "SELECT value FROM layer_metrics WHERE statistic = 'rate' AND model LIKE 'd_' ORDER BY model"
    (value,) = (row["value"] for row in rows if (row["score"], row["method"]) == ("glue", "pearson"))
    assert value == pytest.approx(np.corrcoef(select(store, rates), np.arange(4))[0, 1])


def test_why_a_model_has_no_loss_is_still_known_after_another_pass(study, run, store, out, tmp_path):
    """An encoder saved without its head; a metric that is added later must not wash the reason away."""
    from transformers import AutoModel

    trained = next((out / "cache" / "models").glob("**/step-*2"))
    headless = tmp_path / "headless"
    shutil.copytree(trained, headless)
    AutoModel.from_pretrained(trained).save_pretrained(headless)
    model = ("models:\n", "models:\n  bare: {path: headless}\n")
    for metrics in ("[loss]", "[loss, outliers]", "[outliers, {entropy: {texts: 5}}, loss]"):
        measured(run, study(model, metrics=metrics), only=["bare", "inline"], force=True)
        (reasons,) = select(store, "SELECT reasons FROM cells WHERE model = 'bare' AND metric = 'loss'")
        assert "no language-model head" in reasons


def test_a_model_that_was_never_loaded_leaves_no_half_row(study, run, store):
    outcome, _ = run(study((INLINE, "  inline: {file: gone.txt}\n")), only=["enc", "inline"])
    assert outcome.computed == 0 and outcome.failed
    assert not select(store, "SELECT * FROM models WHERE status IS NULL")
