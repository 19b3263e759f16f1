"""Claims that were once supported and are false: fixed values, copies and relatives, rounding, two models, views."""

import numpy as np
import pytest

from reporter.charts.chart import filled
from reporter.charts.profile import TRAINING
from reporter.judge.judging import _reason
from reporter.judge.outcomes import Outcome, Range
from reporter.judge.questions.training import _SERIES as SERIES
from reporter.runs.whole import write_comparison, write_over_models

MEASURE = "metric: convergence.similarity"
X = np.linspace(0, 1, 13)
BELL = np.exp(-((X - 0.5) ** 2) / 0.08)
# A decoder of 30 layers: falls at layer 1, is above its start again from layer 21 on, and ends at 1 by definition.
DECODER = [0.092, *np.linspace(0.032, 0.09, 20), *np.linspace(0.095, 0.45, 9), 1.0]


def test_an_end_that_is_fixed_by_definition_does_not_hide_a_fall_and_a_free_one_takes_part(world):
    world.put("bert", "convergence.similarity", DECODER, 0.001)
    found = world.judge_one(f"shape: {{{MEASURE}, models: bert, is: increasing}}")
    assert found.verdict == "refuted" and found.detail["statistic"] == "largest fall, layer 0 → 1"
    assert found.value == pytest.approx(-0.06)
    assert found.ci_low < -0.06 < found.ci_high < -0.01, "the interval excludes a fall as small as is let pass"
    assert "layer 30 of bert is left out: convergence.similarity is 1 there by definition" in found.detail["notes"]
    assert any("default for convergence.similarity" in note for note in found.detail["notes"])
    world.put("bert", "convergence.similarity", [*np.linspace(0.1, 0.9, 12), 0.2], 0.001)  # free: `target: final`
    found = world.judge_one(f"shape: {{{MEASURE}, models: bert, is: increasing}}")
    assert found.detail["statistic"] == "largest fall, layer 11 → 12" and found.verdict == "refuted"


def test_every_mean_over_layers_leaves_out_what_is_fixed(world):
    """The table of models, the means over models, the series over training: 0.3 and not 0.53."""
    for model in ("bert", "gpt2"):
        for step in (1, 2):
            world.put(model, "convergence.similarity", [0.2, 0.4, 1.0], 0.01, step=step)
    write_over_models(world.store, "s")
    means = world.store.frame("SELECT value FROM over_models WHERE layer IS NULL")["value"]
    write_comparison(world.store, "s")
    compared = world.store.frame("SELECT value FROM comparisons WHERE span = 'mean' AND minus IS NULL")["value"]
    series = world.store.frame(SERIES, {"study": "s"})["value"]
    drawn = world.store.frame(filled(TRAINING, study="s", metric="convergence", statistic="similarity"))
    for values, count in ((means, 3), (compared, 2), (series, 4), (drawn.loc[drawn["layer"].isna(), "value"], 4)):
        assert values.to_list() == pytest.approx([0.3] * count)
    assert sorted(set(drawn.loc[drawn["layer"].notna(), "value"])) == [0.2, 0.4, 1.0], "a layer can be chosen still"


def test_a_peak_where_the_value_is_fixed_says_nothing(world):
    world.put("bert", "convergence.similarity", [*X[:-1] ** 2, 1.0], 0.001)
    peak = f"shape: {{{MEASURE}, models: bert, is: peak-at, at:"
    found = world.judge(
        f"a, failed: {peak} 1, within: 0.05}}\nb, failed: {peak} 1}}\nc, supported: {peak} 0.95, within: 0.1}}"
    )
    for name in "ab":
        assert "by definition, so a peak at 1 says nothing" in found[name].detail["reason"]


def test_an_effect_below_rounding_or_below_the_smallest_that_counts_is_none(world):
    world.put("bert", "anisotropy.top_variance_share", 0.5 + 1e-12 * BELL, 1e-14)
    world.put("gpt2", "anisotropy.top_variance_share", 0.5 + 0.005 * BELL, 1e-5)
    claim = "shape: {metric: anisotropy.top_variance_share, is: bell, models:"
    world.judge(
        f"""rounding, refuted: {claim} bert}}
        whatever, inconclusive: {claim} bert, at_least: 0}}
        small, refuted: {claim} gpt2}}
        stated, supported: {claim} gpt2, at_least: 0.001}}
        old-word, supported: {claim} gpt2, by: 0.001}}"""
    )


def test_copies_count_once_and_relatives_as_one_and_models_that_do_not_differ_are_no_sample(world):
    def judged(profiles, fingerprints="abc", base=None, shape="bell"):
        for name, profile, weights in zip("abc", profiles, fingerprints, strict=True):
            world.put(name, "anisotropy.top_variance_share", profile, None)
            world.put_model(name, fingerprint=weights, base=base if name != base else None)
        claim = f"shape: {{metric: anisotropy.top_variance_share, is: {shape}}}"
        return world.judge_one(claim, models="a, b, c")

    assert judged([BELL] * 3, shape="rise-then-fall").verdict == "inconclusive"
    alike = BELL + 1e-3 * np.random.default_rng(3).normal(size=13)
    alike = alike + 1e-4 * np.random.default_rng(4).normal(size=(3, 13))
    assert judged(alike).verdict == "supported", "of three independent models it is"
    found = judged(alike, base="a")
    assert (found.verdict, found.p) == ("inconclusive", None)
    assert "a, b, c have a common origin and count as one model" in found.detail["notes"]
    found = judged(alike, "xxy")
    assert found.verdict == "inconclusive" and "there are 2 independent models" in found.detail["reason"]
    assert "b has the same weights as a and is not counted again" in found.detail["notes"]


def test_two_models_are_judged_by_their_texts_and_no_interval_leaves_the_range(world):
    for name, height in (("d0", 0.9), ("d1", 0.97), ("e0", 0.1), ("e1", 0.2)):
        role = "decoder" if name[0] == "d" else "encoder"
        for measure in ("top_variance_share", "mean_cosine"):
            world.put(name, f"anisotropy.{measure}", [height] * 5, 0.03, role=role)
        world.put(name, "anisotropy.isoscore", [height] * 5, None, role=role)
    found = world.judge(
        """wide, supported: differ: {metric: anisotropy.top_variance_share, a: decoders, b: encoders, is: above}
        texts, supported: differ: {metric: anisotropy.mean_cosine, a: decoders, b: encoders, is: above}
        none, inconclusive: differ: {metric: anisotropy.isoscore, a: decoders, b: encoders, is: above}""",
        models="d0, d1, e0, e1",
    )
    assert found["wide"].ci_high <= 1 and all(row["ci_high"] <= 1 for row in found["wide"].detail["evidence"])
    assert any("interval for d0, d1, e0, e1 is over texts" in note for note in found["texts"].detail["notes"])
    assert found["none"].detail["reason"].startswith("not tested: there are 2 independent models")


def test_another_view_that_turns_the_profile_over_is_told_where_no_verdict_changes(world):
    world.put("bert", "anisotropy.mean_cosine", BELL, 2.0)
    world.put("bert", "anisotropy.mean_cosine", 1 - BELL, 2.0, view="without sinks")
    claim = "shape: {metric: anisotropy.mean_cosine, models: bert, is: bell}, views: [text tokens, without sinks]"
    found = world.judge(f"c: {claim}", more="views: [text tokens, without sinks]")
    assert {v.verdict for v in found.values()} == {"inconclusive"}
    (change,) = found["c"].detail["views"]
    assert change["turned"] and change["view"] == "without sinks"
    for told in ("changes most at layer 6, by −1", "peak moves from layer 6 (1.000)", "verdict stays inconclusive"):
        assert told in change["says"]


def test_roles_are_compared_without_sinks_unless_the_claim_says_otherwise(world):
    for i in range(3):
        for view in ("text tokens", "without sinks"):
            world.put(f"d{i}", "anisotropy.mean_cosine", [0.5 + 0.01 * i] * 3, 0.01, role="decoder", view=view)
            world.put(f"e{i}", "anisotropy.mean_cosine", [0.1 + 0.01 * i] * 3, 0.01, view=view)
    claim = "differ: {metric: anisotropy.mean_cosine, a: decoders, b: encoders, is: above}"
    claims = f"own: {claim}\nsaid: {claim}, views: [text tokens]"
    models = "d0, d1, d2, e0, e1, e2"
    found = world.judge(claims, models=models, more="views: [text tokens, without sinks]")
    assert (found["own"].view, found["said"].view) == ("without sinks", "text tokens")
    (found, _) = world.judge(claims, models=models, more="views: [text tokens]").values()
    assert found.view == "text tokens" and any("depends on the token at position 0" in n for n in found.detail["notes"])


def test_the_number_shown_is_the_one_that_decided(world):
    uneven = BELL.copy()
    uneven[:4] = 0.9  # the first third is as high as the middle
    world.put("bert", "anisotropy.mean_cosine", uneven)
    found = world.judge("c: shape: {metric: anisotropy.mean_cosine, models: bert, is: bell}")["c"]
    (part,) = [p for p in found.detail["parts"] if p["name"] == found.detail["statistic"] and p["p_fails"] is not None]
    assert found.p == pytest.approx(2 * part["p_fails"])
    assert (found.value, found.ci_low, found.ci_high) == (part["value"], part["ci_low"], part["ci_high"])
    # A clear bell shows how high it is, and not the test that no valley cuts it.
    world.put("bert", "anisotropy.mean_cosine", BELL, 0.02)
    found = world.judge_one("shape: {metric: anisotropy.mean_cosine, models: bert, is: bell}")
    assert found.verdict == "supported" and found.detail["statistic"].startswith("middle third without layer ")
    assert found.ci_low > 0.01 and found.value > 0.3 and found.detail["bound"] == "> 0.01"
    assert (found.holds_low, found.holds_high) == (0.01, None)
    parts = {part["name"]: part for part in found.detail["parts"] if part["p_holds"] is not None}
    assert found.p == pytest.approx(2 * parts.pop(found.detail["statistic"])["p_holds"])
    ((valley, part),) = parts.items()
    assert found.p_adjusted >= 2 * part["p_holds"] > found.p, "the claim is as sure as its least sure part"
    assert f"the least certain condition of the claim is: {valley}" in found.detail["reason"]


def test_the_place_of_a_peak_has_an_interval_only_where_there_is_one(world):
    profile, claim = [0.5, 0.1, 0.1, 0.1, 0.51, 0.1], "shape: {metric: anisotropy.mean_cosine, models: bert, is:"
    world.put("bert", "anisotropy.mean_cosine", profile, 0.01)  # the first or the fifth point, and none in between
    found = world.judge_one(f"{claim} peak-at, at: 0.4}}")
    assert found.verdict == "refuted" and " minus layer 2" in found.detail["statistic"] and found.ci_low > 0.01
    assert found.detail["definition"].endswith("the highest point is layer 4")
    world.put("bert", "anisotropy.mean_cosine", [0.1, 0.1, 0.1, 0.49, 0.51, 0.1], 0.01)
    found = world.judge_one(f"{claim} peak-at, at: 0.2}}")
    assert found.verdict == "refuted" and found.detail["statistic"] == "position of the maximum"
    assert (found.value, found.ci_low, found.ci_high) == pytest.approx((0.8, 0.6, 0.8))


def test_a_difference_of_roles_leaves_out_what_is_fixed_by_definition(world):
    world.put("bert", "convergence.similarity", [0.2, 0.3, 1.0], 0.001)
    world.put("gpt2", "convergence.similarity", [0.1, 0.2, 1.0], 0.001, role="decoder")
    claim = "differ: {metric: convergence.similarity, a: bert, b: gpt2, is: above"
    found = world.judge(
        f"""mean: {claim}}}
        last: {claim}, layer: last}}
        value: value: {{metric: convergence.similarity, model: bert, layer: 2}}, above: 0.9"""
    )
    assert found["mean"].value == pytest.approx(0.1)
    assert any(note.startswith("layer 2 of gpt2 is left out: ") for note in found["mean"].detail["notes"])
    assert found["last"].verdict == "failed" and "says nothing about the model" in found["last"].detail["reason"]
    assert any("by definition, which says nothing" in note for note in found["value"].detail["notes"])


def test_models_that_begin_their_texts_differently_are_compared_with_a_warning(world):
    claim = "differ: {metric: anisotropy.mean_cosine, a: gpt2, b: bert, is: above}"
    for token, warned in (("word", True), ("[CLS]", False), (None, False)):
        for name, role, first in (("bert", "encoder", "[CLS]"), ("gpt2", "decoder", token)):
            for view in ("text tokens", "without sinks"):
                world.put(name, "anisotropy.mean_cosine", [0.2, 0.3, 0.4], 0.01, view=view, role=role)
            world.put_model(name, role=role, first_token=first, fingerprint=name)
        found = world.judge(f"a: {claim}, views: [text tokens]\nb: {claim}", more="views: [text tokens, without sinks]")
        notes = {name: str(verdict.detail["notes"]) for name, verdict in found.items()}
        assert ("texts begin differently (bert with [CLS], gpt2 with a word)" in notes["a"]) == warned
        assert "texts begin differently" not in notes["b"]  # without sinks


def test_a_model_under_two_names_is_no_other_model(world):
    for name, weights in (("a", "x"), ("b", "x"), ("c", "y")):
        world.put(name, "anisotropy.mean_cosine", [0.2, 0.3, 0.4], 0.01)
        world.put_model(name, fingerprint=weights)
    claim = "differ: {metric: anisotropy.mean_cosine, is: different, a: a, b:"
    found = world.judge(f"copy: {claim} b}}\nother: {claim} c}}", models="a, b, c")
    assert "warning: a and b have the same weights, so they cannot differ" in found["copy"].detail["notes"]
    assert found["copy"].verdict == "inconclusive"
    assert not any("same weights" in note for note in found["other"].detail["notes"])


def test_an_undecided_claim_does_not_say_that_its_interval_has_both_sides_where_it_has_not():
    above, apart = Range("> 0.5", low=0.5), Range("beyond ± 0.5", -0.5, 0.5, outside=True)
    sides = {
        "lies outside the claimed range": [(0.2, 0.4, above), (-0.1, 0.1, apart)],
        "lies inside the claimed range": [(0.6, 0.8, above), (0.6, 0.8, apart)],
        "partly inside and partly outside": [(0.4, 0.6, above), (0.5, 0.6, above), (None, None, above)],
    }
    for says, cases in sides.items():
        for case in cases:
            assert says in _reason(Outcome(0.1, 0.9, 0.5, *case), "inconclusive", "inconclusive", 0.2, 1), case
