"""Correlations over layers, types and models against SciPy, and what decides none."""

import numpy as np
import pytest
from scipy import stats

from reporter.judge.judging import judge
from reporter.runs.studies import offer
from reporter.study import load_study

MODELS = "a, b, c, d, e, f"
STRAIGHT = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
OVER_MODELS = "relation: {x: convergence.rate, y: convergence.similarity, over: models, is: positive"


def put_models(world, x, y, error=0.01):
    """Store a number of each model, and a profile whose mean and whose last layer are another."""
    for name, rate, similarity in zip(MODELS.split(", "), x, y, strict=True):
        world.put(name, "convergence.rate", rate, error)
        world.put(name, "convergence.similarity", [similarity - 0.1, similarity + 0.1], error)


def test_over_models_it_is_the_correlation_of_their_numbers(world):
    rng = np.random.default_rng(1)
    x, y = STRAIGHT, STRAIGHT + 0.01 * rng.normal(size=6)
    put_models(world, x, y)
    relation = "relation: {x: convergence.rate, y: convergence.similarity, over: models,"
    found = world.judge(
        f"""pearson, supported: {relation} is: positive, method: pearson}}
        spearman, supported: {relation} is: positive}}
        negative, refuted: {relation} is: negative}}
        layer, supported: {relation} is: positive, layer: 1}}
        weak, refuted: {relation} is: none, at_least: 0.3, method: pearson}}""",
        models=MODELS,
    )
    pearson = stats.pearsonr(x, y)
    interval = pearson.confidence_interval()
    assert found["pearson"].value == pytest.approx(pearson.statistic, rel=1e-6)
    # Wider than for normal numbers: six points may be any.
    assert -1 < found["pearson"].ci_low < interval.low < interval.high < found["pearson"].ci_high < 1
    assert found["spearman"].detail["n"] == 6
    ranges = [(v.holds_low, v.holds_high) for v in (found[name] for name in ("pearson", "negative", "weak"))]
    assert ranges == [(0.1, None), (None, -0.1), (-0.3, 0.3)]


def test_ranks_in_perfect_order_say_little_of_few_points_and_nothing_of_relatives(world):
    put_models(world, STRAIGHT, STRAIGHT)
    claims = f"some, supported: {OVER_MODELS}}}\nstrong, inconclusive: {OVER_MODELS}, at_least: 0.8}}"
    found = world.judge(claims, models=MODELS)
    assert found["strong"].value == pytest.approx(1, abs=1e-3) and found["strong"].ci_low < 0.8
    for name in MODELS.split(", "):
        world.put_model(name, fingerprint=name, base=None if name == "a" else "a")
    found = world.judge_one(f"{OVER_MODELS}}}", models=MODELS)
    assert (found.verdict, found.p, found.ci_low) == ("inconclusive", None, None)
    assert found.value == pytest.approx(1, abs=1e-3) and found.detail["reason"].startswith("not tested")
    assert "6 models count as 1; a test needs at least 4" in found.detail["notes"]


def test_errors_as_large_as_what_tells_models_or_layers_apart_decide_no_relation(world):
    put_models(world, (0.30, 0.31, 0.32, 0.33, 0.34, 0.35), (0.70, 0.69, 0.68, 0.67, 0.66, 0.65), error=0.1)
    models = world.judge_one(f"{OVER_MODELS}}}", models=MODELS)
    rises = np.linspace(0.3, 0.5, 13)
    world.put("bert", "convergence.similarity", rises, 0.2)
    world.put("bert", "convergence.bound", rises[::-1], 0.2)
    of_layers = "relation: {x: convergence.similarity, y: convergence.bound, over: layers, is: positive, models: bert}"
    for result, units in ((models, "models"), (world.judge_one(of_layers), "layers")):
        assert result.verdict == "inconclusive", units
        assert f"errors over texts are as large as the differences between {units}" in result.detail["reason"]


def test_scores_from_elsewhere_are_correlated_over_models(world, tmp_path):
    models = ""
    for i, name in enumerate(MODELS.split(", ")):
        world.put(name, "convergence.rate", 0.1 * i)
        models += f"  {name}: {{path: x, scores: {{sst2: {0.5 + 0.05 * i}}}}}\n"
    claim = "{says: x, relation: {x: convergence.rate, y: scores.sst2, over: models, is: negative}}"
    (tmp_path / "s.yaml").write_text(
        f"study: s\nmodels:\n{models}corpora: {{wiki: {{texts: [a]}}}}\nclaims:\n  c: {claim}\n"
    )
    (found,) = judge(world.store, load_study(tmp_path / "s.yaml", offer()).study)
    assert found.verdict == "refuted" and found.value == pytest.approx(1, abs=1e-3)


def test_over_types_each_type_is_a_point(world):
    rng = np.random.default_rng(0)
    norm = rng.uniform(1, 2, 60)
    for layer in (1, 2):
        variance = 5 - norm + 0.3 * rng.normal(size=60)
        world.put_types("bert", layer, {"count": np.arange(60), "norm_of_mean": norm, "variance": variance})
    relation = "relation: {x: norm_of_mean, y: variance, over: types, models: bert, is:"
    found = world.judge(
        f"""layer, supported: {relation} negative, layer: 2}}
        mean, supported: {relation} negative}}
        positive, refuted: {relation} positive, layer: last}}
        pearson, supported: {relation} negative, layer: 2, method: pearson}}
        missing, failed: {relation} negative, layer: 7}}"""
    )
    assert found["layer"].value == pytest.approx(stats.spearmanr(norm, variance).statistic, rel=1e-6)
    assert found["pearson"].value == pytest.approx(stats.pearsonr(norm, variance).statistic, rel=1e-6)
    assert len(world.store.frame(found["layer"].detail["sql"])) == 60
    assert "fewer than 4 token types at layer 7 (table token_types)" in found["missing"].detail["reason"]


def test_one_point_far_out_makes_no_pearson_correlation(world):
    norm, variance = np.random.default_rng(0).uniform(1, 2, (2, 60))
    norm[-1] = variance[-1] = 40.0
    world.put_types("bert", 1, {"count": np.arange(60), "norm_of_mean": norm, "variance": variance})
    relation = "relation: {x: norm_of_mean, y: variance, over: types, models: bert, is: positive, at_least: 0.5"
    result = world.judge_one(f"{relation}, layer: 1, method: pearson}}")
    assert result.value > 0.98 and result.verdict == "inconclusive"


def test_over_layers_one_smooth_model_says_little_and_several_say_more(world):
    x = np.linspace(0, 1, 13)
    for i, model in enumerate(MODELS.split(", ")):
        world.put(model, "convergence.similarity", x + 0.02 * np.sin(i + 7 * x))
        world.put(model, "anisotropy.mean_cosine", x**2 + 0.02 * np.cos(3 * i + 9 * x))
    relation = "relation: {x: convergence.similarity, y: anisotropy.mean_cosine, over: layers, is: positive, models:"
    found = world.judge(f"one: {relation} a}}\nall: {relation} all}}", models=MODELS)
    assert (found["one"].verdict, found["all"].verdict) == ("inconclusive", "supported")
    assert "adjacent layers of a model are similar" in " ".join(found["one"].detail["notes"])
    for measure in ("convergence.similarity", "anisotropy.mean_cosine"):
        world.put("a", measure, x, corpus="tweets")
    both = world.judge(
        f"two: {relation} [a, b], every: false, corpus: wiki}}\nwiki: {relation} a, corpus: [wiki, tweets]}}",
        models=MODELS,
        corpora="wiki, tweets",
    )
    notes = {name: verdict.detail["notes"] for name, verdict in both.items()}
    assert "the interval is over layers: it is about these models, not about others like them" in notes["two"]
    assert "the claim must hold on each of 2 corpora: wiki, tweets" in notes["wiki"]


REASONS = {
    "x: convergence.rate, y: convergence.similarity, over: models":
        "2 models have both convergence.rate and convergence.similarity; at least 4 are needed",
    "x: convergence.similarity, y: convergence.bound, over: layers, models: bert":
        "convergence.similarity or convergence.bound is constant (bert on 'wiki')",
    "x: convergence.similarity, y: convergence.violations, over: layers, models: bert":
        "convergence.similarity and convergence.violations of bert have 2 layers in common; at least 4 are needed",
    "x: count, y: variance, over: types, models: bert":
        "there are no numbers of variance.tradeoff for token set 'text tokens'",
}  # fmt: skip


def test_what_cannot_be_correlated_says_why(world):
    for model in ("bert", "gpt2"):
        world.put(model, "convergence.rate", 0.1)
        world.put(model, "convergence.similarity", [0.1, 0.2, 0.3, 0.4])
    world.put("bert", "convergence.bound", [0.5] * 4)
    world.put("bert", "convergence.violations", [0.5, 0.6])
    for claim, reason in REASONS.items():
        found = world.judge_one(f"relation: {{{claim}, is: positive}}")
        assert found.verdict == "failed" and found.detail["reason"].startswith(reason)
