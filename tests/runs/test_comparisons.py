"""What takes two sides: corpora, a model and its base, two models; null baselines; correlations over models."""

import shutil

import numpy as np
import pytest
from runs.conftest import DEC, INLINE, select
from scipy import stats

from reporter.app.diff import compare
from reporter.judge.questions.models import correlate

BASED = ("  dec: {", "  dec: {base: enc, scores: {glue: 0.5}, ")
SIDE = (
    "JOIN layer_metrics {0} ON ({0}.model, {0}.checkpoint, {0}.corpus) = (d.model_{0}, d.checkpoint_{0}, d.corpus_{0}) "
    "AND ({0}.metric, {0}.statistic, {0}.view) = (d.metric, d.statistic, d.view) "
    "AND {0}.site IS NOT DISTINCT FROM d.site AND {0}.layer IS NOT DISTINCT FROM d.layer "
)


@pytest.fixture
def measured(study, run):
    """Return a function that runs the tiny study with changes, in which nothing may fail."""

    def get(*replace, only=(), force=False, **changes):
        outcome, log = run(study(*replace, **changes), only=only, force=force)
        assert outcome.failed == 0, log
        return outcome

    return get


def test_corpora_are_compared_and_so_are_a_model_and_its_base(measured, store, copied):
    measured(BASED)
    sides = "SELECT DISTINCT kind, model_a, model_b, corpus_a, corpus_b FROM differences ORDER BY ALL"
    base = [("base", "dec", "enc", corpus, corpus) for corpus in ("inline", "nested")]
    assert select(store, sides) == base + [("corpora", name, name, "nested", "inline") for name in ("dec", "enc")]
    assert set(select(store, "SELECT DISTINCT metric FROM differences")) == {"anisotropy", "convergence", "motion"}
    # Each difference is that of the two numbers it names.
    both = SIDE.format("a") + SIDE.format("b")
    joined = select(store, f"SELECT d.value, a.value - b.value FROM differences d {both} WHERE d.value IS NOT NULL")
    assert select(store, "SELECT count(value) FROM differences") == [len(joined)] and len(joined) > 50
    np.testing.assert_allclose(*np.transpose(joined), atol=1e-12)
    scores = "SELECT base, scores FROM models WHERE model = 'dec'"
    assert select(store, scores) == [("enc", '{"glue": 0.5}')]
    # Other scores are stored although nothing is computed; without a base its differences go.
    assert measured((BASED[0], BASED[1].replace("0.5", "0.7"))).computed == 0
    assert select(store, scores) == [("enc", '{"glue": 0.7}')]
    measured()
    assert select(store, "SELECT DISTINCT kind FROM differences") == ["corpora"]


def test_diff_says_of_two_models_what_the_comparison_says(finished_store):
    """The same difference, interval and p at every layer of every main statistic."""
    found = compare("tiny:dec", "tiny:enc", finished_store.path.parent).numbers
    rows = [row for values in found.rows if (row := dict(zip(found.columns, values, strict=True)))["site"] != "final"]
    listed = {
        (row["statistic"], row["corpus"], view, row["layer"]): row for row in rows for view in row["view"].split(", ")
    }
    names, checked = ("value", "ci_low", "ci_high"), 0
    for row in finished_store.records("FROM comparisons WHERE span = 'layer' AND side <> minus AND corpus = 'nested'"):
        if number := listed.get((row["statistic"], row["corpus"], row["view"], row["layer_first"])):
            said, turned = [number["delta"], number["ci_low"], number["ci_high"]], row["side"] == "dec"
            stored = [-row[names[place]] for place in (0, 2, 1)] if turned else [row[name] for name in names]
            assert [*said, number["p"]] == pytest.approx([*stored, row["p"]]) and number["texts"] == "paired"
            checked += 1
    assert checked > 10


def test_the_smaller_corpus_decides_whether_a_difference_has_an_interval(measured, store):
    for texts, shown in ((8, False), (12, True)):  # a rate needs ten
        small = (INLINE, f"  inline: {{generate: grammar, texts: {texts}, words: [5, 20]}}\n")
        measured(small, only=["dec", "convergence"])
        rows = "SELECT value IS NULL, ci_low IS NOT NULL FROM differences WHERE statistic = 'rate'"
        assert set(select(store, rows)) == {(False, shown)}


def test_each_checkpoint_is_compared_with_its_base_and_with_another_seed(measured, store):
    recipe = "recipe: {from: dec, train_on: nested, steps: 2, checkpoints: [0, 2]"
    tuned = "".join(f"  t{seed}: {{{recipe}, seed: {seed}}}}}\n" for seed in (1, 2))
    changes = {"metrics": "[motion, change]", "only": ["nested"]}
    measured(("corpora:\n", f"{tuned}corpora:\n"), **changes)
    rows = select(
        store,
        "SELECT model, step, statistic, max(value) FROM layer_metrics WHERE metric = 'change' "
        "AND view = 'text tokens' AND corpus = 'nested' AND statistic LIKE 'distance%' GROUP BY ALL",
    )
    largest = {row[:3]: row[3] for row in rows}
    assert {key[:2] for key in largest} == {(name, step) for name in ("t1", "t2") for step in (0, 2)}, "with a base"
    assert largest["t1", 0, "distance"] == 0 < largest["t1", 2, "distance"]
    assert 0 < largest["t1", 2, "distance_seed"] == pytest.approx(largest["t2", 2, "distance_seed"], rel=0.1)
    passes = "SELECT DISTINCT metric = 'change', sum(forward_passes)::INTEGER FROM cells GROUP BY 1, model, checkpoint"
    assert set(select(store, passes)) <= {(True, 0), (False, 0), (False, 1)}
    assert measured(("corpora:\n", f"{tuned}corpora:\n"), **changes).computed == 0


def test_baselines_are_models_of_their_own(measured, store):
    changes = {"metrics": "[loss, motion]", "more": "baselines: [random-init, shuffled]", "only": ["dec"]}
    measured(**changes)
    models = select(store, "SELECT model, base, baseline, checkpoint, step FROM models WHERE baseline IS NOT NULL")
    kinds = ("random-init", "shuffled")
    assert sorted(models) == [(f"dec ({kind})", "dec", kind, "final", None) for kind in kinds]
    assert not select(store, "SELECT * FROM differences WHERE model_a LIKE '%(%' OR model_b LIKE '%(%'")
    numbers = (
        "SELECT value FROM layer_metrics WHERE (corpus, view, statistic, layer) = ('nested', 'text tokens', 'norm', 1)"
    )
    assert len(set(select(store, numbers))) == 3
    # Shuffling leaves each text its tokens.
    assert len(select(store, "SELECT DISTINCT tokens FROM cells WHERE corpus = 'nested'")) == 1
    assert measured(**changes).computed == 0


def test_correlations_against_scipy():
    for n in (2, 3, 5, 20):
        x, y = np.random.default_rng(n).standard_normal((2, n)).tolist()
        pearson, spearman = correlate("rate", "glue", x, y)
        assert (pearson.n, spearman.n) == (n, n)
        if n < 3:
            assert pearson.value is spearman.value is pearson.p is None
            continue
        expected = stats.pearsonr(x, y)
        assert pearson.value == pytest.approx(expected.statistic)
        assert (spearman.value, spearman.p) == pytest.approx(tuple(stats.spearmanr(x, y)))
        if n > 3:
            interval = expected.confidence_interval()
            assert (pearson.ci_low, pearson.ci_high) == pytest.approx((interval.low, interval.high), abs=1e-6)


def test_correlations_of_a_study(measured, store):
    more = "".join(
        DEC.replace("  dec: {", f"  d{i}: {{scores: {{glue: {i / 10}}}, ").replace("steps: 2", f"steps: 0, seed: {i}")
        for i in range(4)
    )
    measured((INLINE, ""), ("corpora:\n", f"{more}corpora:\n"), metrics="[convergence, loss]", views="[text tokens]")
    rows = select(store, "SELECT score, method, n, value FROM correlations WHERE feature = 'rate' ORDER BY ALL")
    scores = [("glue", 4), ("loss.lm of decoders", 5)]
    assert [row[:3] for row in rows] == [(name, method, n) for name, n in scores for method in ("pearson", "spearman")]
    rates = "SELECT value FROM layer_metrics WHERE statistic = 'rate' AND model LIKE 'd_' ORDER BY model"
    assert rows[0][3] == pytest.approx(np.corrcoef(select(store, rates), np.arange(4))[0, 1])


def test_why_a_model_has_no_loss_is_still_known_after_another_pass(measured, store, out, tmp_path):
    """An encoder saved without its head; a metric that is added later must not wash the reason away."""
    from transformers import AutoModel

    trained, headless = next((out / "cache" / "models").glob("**/step-*2")), tmp_path / "headless"
    shutil.copytree(trained, headless)
    AutoModel.from_pretrained(trained).save_pretrained(headless)
    bare = ("models:\n", "models:\n  bare: {path: headless}\n")
    for metrics in ("[loss]", "[outliers, {entropy: {texts: 5}}, loss]"):
        measured(bare, metrics=metrics, only=["bare", "inline"], force=True)
        (reasons,) = select(store, "SELECT reasons FROM cells WHERE model = 'bare' AND metric = 'loss'")
        assert "no language-model head" in reasons
