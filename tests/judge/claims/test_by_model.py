"""Claims about several models: a verdict of each beside the one of all, and each against its base."""

import re

import pytest
from scipy import stats

from reporter.geometry.statistics import holm

RISES = [0.1, 0.3, 0.5, 0.7]
SHAPE = "shape: {metric: anisotropy.mean_cosine, models: all, is: increasing, at_least: 0.05"
MODELS = {"models": "base, tuned, again", "bases": {"tuned": "base", "again": "base"}}


@pytest.fixture
def three(world):
    for model, profile in {"base": RISES, "tuned": RISES, "again": RISES[::-1]}.items():
        world.put(model, "anisotropy.mean_cosine", profile, 0.01)
    for model, rate in {"base": 0.1, "tuned": 0.13, "again": 0.2}.items():
        world.put(model, "convergence.rate", rate, 0.01)
    return world


def test_each_model_has_a_verdict_that_is_corrected_for_all_models_of_all_claims(three):
    value = "value: {metric: convergence.rate, model: all}, above: 0.108"
    found = three.judge(
        f"rises, refuted: {SHAPE}, every: true}}\nrate, inconclusive: {value}\n"
        f"plain, supported: {value.replace('all', 'again')}",
        **MODELS,
    )
    words = {name: {row.model: (row.verdict, row.alone) for row in v.by_model} for name, v in found.items()}
    assert words["plain"] == {}, "one model is the claim itself"
    yes, no, open_ = ("supported", "supported"), ("refuted", "refuted"), ("inconclusive", "inconclusive")
    assert words["rises"] == {"base": yes, "tuned": yes, "again": no}
    # Alone the p of tuned is 0.028, but there are six models.
    assert words["rate"] == {"base": open_, "tuned": ("inconclusive", "supported"), "again": yes}
    rows = [row for name in ("rises", "rate") for row in found[name].by_model]
    assert rows[4].p == pytest.approx(2 * stats.norm.sf(2.2)) and rows[4].value == 0.13
    one_sided = [side for row in rows for side in (row.p / 2, 1 - row.p / 2)]
    adjusted = holm(one_sided)
    expected = [min(adjusted[2 * i], adjusted[2 * i + 1]) for i in range(len(rows))]
    assert [row.p_adjusted for row in rows] == pytest.approx(expected)


def test_other_readings_have_verdicts_by_model_without_a_correction(three):
    for model in ("base", "tuned", "again"):
        three.put(model, "anisotropy.mean_cosine", RISES, 0.01, view="with special tokens")
    found = three.judge(f"c: {SHAPE}}}, views: [text tokens, with special tokens]", **MODELS)
    assert [row.p_adjusted is None for row in found["c/2"].by_model] == [True] * 3
    assert {row.verdict for row in found["c/2"].by_model} == {"supported"} and found["c/2"].by_model[
        0
    ].view == "with special tokens"


def test_a_bound_with_the_same_word_is_the_same_models(three):
    for model, rate in {"base": 0.2, "tuned": 0.2, "again": 0.1}.items():
        three.put(model, "convergence.rate", rate, 0.01, corpus="tweets")
    number = "{metric: convergence.rate, model: all, corpus:"
    found = three.judge(f"c: value: {number} wiki}}, below: {number} tweets}}", corpora="wiki, tweets", **MODELS)["c"]
    assert (found.verdict, found.value) == ("refuted", 0.2) and found.detail["models"] == ["base", "tuned", "again"]
    assert [row.verdict for row in found.by_model] == ["supported", "supported", "refuted"]


def differences(world, statistic, values):
    """Store what models have more than their base."""
    rows = [
        {"kind": "base", "view": "text tokens", "metric": statistic.split(".")[0], "statistic": statistic.split(".")[1],
         "model_a": model, "checkpoint_a": "final", "corpus_a": "wiki", "model_b": "base", "checkpoint_b": "final",
         "corpus_b": "wiki", "site": None, "layer": None, "depth": None, "value": value, "n": 100,
         "ci_low": value - reach, "ci_high": value + reach}
        for model, (value, reach) in values.items()
    ]  # fmt: skip
    world.store.replace("differences", "s", rows)


def test_each_model_is_compared_with_its_base_on_the_same_texts(three):
    claim = "value: {metric: convergence.rate, model: with-base, against: base}, above: 0.01"
    apart = three.judge(f"c: {claim}", **MODELS)["c"]
    assert [row.model for row in apart.by_model] == ["tuned", "again"], "base itself has none"
    tuned = apart.by_model[0]
    assert tuned.value == pytest.approx(0.03) and tuned.ci_high - 0.03 == pytest.approx(1.959964 * 0.01 * 2**0.5)
    assert "no paired difference from a base" in " ".join(apart.detail["notes"])
    differences(three, "convergence.rate", {"tuned": (0.03, 0.004), "again": (0.1, 0.004)})
    paired = three.judge(f"c: {claim}", **MODELS)["c"]
    assert (apart.verdict, paired.verdict) == ("inconclusive", "supported")
    assert paired.by_model[0].ci_high == pytest.approx(0.034) and "convergence.rate minus" in paired.detail["statistic"]
    assert three.judge(f"c: {claim}", more="texts: fixed", **MODELS)["c"].by_model[0].p is None


def test_fixed_texts_are_compared_as_they_stand_by_every_kind(three):
    flat = SHAPE.replace("increasing, at_least: 0.05", "flat, tolerance: 0.25").replace("all", "[base]")
    claims = f"""rises, supported: {SHAPE.replace("all", "[base, tuned]")}}}
        flat, refuted: {flat}}}
        flatter, supported: {flat.replace("0.25", "0.31")}}}
        differ, supported: differ: {{metric: convergence.rate, a: tuned, b: base, is: above, at_least: 0.029}}
        same, refuted: differ: {{metric: convergence.rate, a: tuned, b: base, is: same, at_least: 0.029}}"""
    for error in (0.001, 0.5):
        for model, rate in {"base": 0.1, "tuned": 0.13}.items():
            three.put(model, "convergence.rate", rate, error)
            three.put(model, "anisotropy.mean_cosine", RISES, error)
        found = three.judge(claims, more="texts: fixed", **MODELS)
        assert {(v.p, v.ci_low, "the texts are fixed" in v.detail["reason"]) for v in found.values()} == {
            (None, None, True)
        }
    three.judge(re.sub(", (supported|refuted):", ", inconclusive:", claims), **MODELS)


def test_fixed_texts_fix_their_types(world):
    world.put_types("bert", 1, {"count": range(1, 7), "norm_of_mean": range(6), "variance": [5, 4, 3, 2, 0, 1]})
    relation = "relation: {x: norm_of_mean, y: variance, over: types, models: [bert], is: negative}"
    loose, fixed = (world.judge(f"c: {relation}", more=more)["c"] for more in ("", "texts: fixed"))
    assert loose.ci_low is not None and (fixed.verdict, fixed.p, fixed.ci_low) == ("supported", None, None)
    assert fixed.value == pytest.approx(loose.value)
