"""Shapes, from a database with known profiles to verdicts."""

import numpy as np
import pytest
from scipy import stats

X = np.linspace(0, 1, 13)
BELL = np.exp(-((X - 0.5) ** 2) / 0.08)
PROFILES = {"bell": BELL, "U": 1 - BELL, "linear": X, "falling": 1 - X, "flat": np.full(13, 0.5)}
SUPPORTED, REFUTED, INCONCLUSIVE = "supported", "refuted", "inconclusive"
VERDICTS = {  # in the order of the profiles
    "bell": (SUPPORTED, REFUTED, REFUTED, REFUTED, INCONCLUSIVE),
    "rise-then-fall": (SUPPORTED, REFUTED, None, None, INCONCLUSIVE),
    "increasing": (REFUTED, REFUTED, SUPPORTED, REFUTED, INCONCLUSIVE),
    "decreasing": (REFUTED, None, REFUTED, SUPPORTED, INCONCLUSIVE),
    "flat, tolerance: 0.1": (REFUTED, REFUTED, REFUTED, None, SUPPORTED),
    "peak-at, at: 0.5": (SUPPORTED, REFUTED, REFUTED, None, INCONCLUSIVE),
    "peak-at, at: 1, within: 0.05": (REFUTED, None, SUPPORTED, REFUTED, None),
}
COSINE = "anisotropy.mean_cosine"
MEASURE = f"metric: {COSINE}"


def test_each_shape_knows_its_own_profile_and_refuses_others(world):
    for name, values in PROFILES.items():
        world.put(name, COSINE, values)
    cases = [
        (*case, shape) for shape, words in VERDICTS.items() for case in zip(PROFILES, words, strict=True) if case[1]
    ]
    claims = [f"c{i}, {word}: shape: {{{MEASURE}, models: {p}, is: {s}}}" for i, (p, word, s) in enumerate(cases)]
    verdicts = world.judge("\n".join(claims), models=", ".join(PROFILES))
    for verdict, (profile, _, _) in zip(verdicts.values(), cases, strict=True):
        assert (verdict.kind, verdict.view, verdict.baseline) == ("shape", "text tokens", None)
        (evidence,) = verdict.detail["evidence"]
        assert evidence["model"] == profile and evidence["value"] == pytest.approx(verdict.value)


def test_the_value_is_a_contrast_that_anyone_can_work_out(world):
    world.put("bert", COSINE, BELL)
    verdict = world.judge_one(f"shape: {{{MEASURE}, models: bert, is: bell}}")
    # What speaks for a bell is the middle without its highest point.
    (fewer,) = (part for part in verdict.detail["parts"] if part["name"].startswith("middle third without layer 6"))
    assert fewer["value"] == pytest.approx(BELL[[4, 5, 7, 8]].mean() - BELL[:4].mean())
    assert fewer["ci_high"] - fewer["ci_low"] == pytest.approx(2 * 1.959964 * 0.01 * np.sqrt(2), rel=1e-4)
    world.put("gpt2", COSINE, 1 - BELL)  # `at_least` and `tolerance` are in the statistic's own unit
    verdicts = world.judge(
        f"""small, supported: shape: {{{MEASURE}, models: bert, is: bell, at_least: 0.3}}
        large, refuted: shape: {{{MEASURE}, models: bert, is: bell, by: 0.9}}
        wide, supported: shape: {{{MEASURE}, models: bert, is: flat, tolerance: 1}}
        narrow, refuted: shape: {{{MEASURE}, models: bert, is: flat, tolerance: 0.2}}
        valley, refuted: shape: {{{MEASURE}, models: gpt2, is: bell}}"""
    )
    assert verdicts["valley"].value == pytest.approx(BELL[:4].mean() - BELL[4:9].mean())


def test_one_significant_fall_refutes_increasing_but_not_one_within_the_tolerance(world):
    world.put("bert", COSINE, X - 0.3 * (np.arange(13) == 6))
    rises = f"shape: {{{MEASURE}, models: bert, is: increasing"
    strict = world.judge(f"strict, refuted: {rises}}}\nloose, supported: {rises}, tolerance: 0.4}}")["strict"]
    assert strict.detail["statistic"] == "largest fall, layer 5 → 6"
    assert strict.value == pytest.approx(1 / 12 - 0.3)


def test_noise_that_may_hide_the_shape_is_inconclusive_and_an_interval_without_width_is_none(world):
    for model, error in (("bert", 0.5), ("gpt2", 0.01)):
        world.put(model, COSINE, BELL, error)
    bell = f"shape: {{{MEASURE}, is: bell, models:"
    detail = world.judge(f"a, inconclusive: {bell} bert}}\nb, supported: {bell} gpt2}}")["a"].detail
    assert "do not decide" in detail["reason"] and "times as many texts" in detail["power"]
    world.put("bert", COSINE, BELL, 0.0)
    verdict = world.judge_one(f"shape: {{{MEASURE}, models: bert, is: bell}}")
    assert verdict.p is None and f"the intervals of {COSINE} have no width" in verdict.detail["notes"]


def test_roles_are_means_over_models_and_those_that_are_named_must_show_it_each(world):
    rng = np.random.default_rng(0)
    for i in range(4):
        world.put(f"d{i}", COSINE, (0.5 + 0.03 * i) * BELL + 0.005 * rng.normal(size=13), role="decoder")
        world.put(f"e{i}", COSINE, 0.5 + 0.02 * rng.normal(size=13))
    bell = f"shape: {{{MEASURE}, is: bell, models:"
    verdicts = world.judge(
        f"""decoders, supported: {bell} decoders}}
        encoders, inconclusive: {bell} encoders}}
        list, supported: {bell} [d0, d1, d2]}}
        one-of-them-not, inconclusive: {bell} [d0, e0]}}
        mean-of-them, inconclusive: {bell} [d0, d1, e0, d2], every: false}}
        every, supported: {bell} decoders, every: true}}
        mixed, inconclusive: {bell} all, every: true}}
        flat, supported: shape: {{{MEASURE}, is: flat, models: encoders, tolerance: 0.2}}""",
        models=", ".join(f"{kind}{i}" for kind in "de" for i in range(4)),
    )
    evidence = verdicts["decoders"].detail["evidence"]
    assert [row["model"] for row in evidence] == ["d0", "d1", "d2", "d3", "mean of 4 models"]
    assert evidence[-1]["value"] == pytest.approx(np.mean([row["value"] for row in evidence[:-1]]), abs=0.02)


def test_models_of_different_depth_share_an_axis(world):
    for model, layers in (("bert", 7), ("gpt2", 13), ("opt", 25)):
        depth = np.linspace(0, 1, layers)
        world.put(model, COSINE, np.exp(-((depth - 0.5) ** 2) / 0.08), 0.001)
    verdict = world.judge_one(f"shape: {{{MEASURE}, is: peak-at, at: 0.5, within: 0.2}}", models="bert, gpt2, opt")
    assert verdict.verdict == "supported" and verdict.value == pytest.approx(0.5)


def test_a_claim_must_hold_on_every_corpus(world):
    world.put("bert", COSINE, BELL)
    world.put("bert", COSINE, np.full(13, 0.5), corpus="tweets")
    bell = f"shape: {{{MEASURE}, models: bert, is: bell"
    claims = f"both, inconclusive: {bell}}}\nwiki, supported: {bell}, corpus: wiki}}"
    both, wiki = (verdict.detail for verdict in world.judge(claims, corpora="wiki, tweets").values())
    assert [row["verdict"] for row in both["evidence"]] == ["supported", "inconclusive"]
    assert "the claim must hold on each of 2 corpora: wiki, tweets" in both["notes"]
    assert "must hold on each" not in str(wiki["notes"])


def test_one_model_without_intervals_decides_nothing_and_says_what_would(world):
    world.put("bert", "anisotropy.top_variance_share", BELL, None)
    claim = "shape: {metric: anisotropy.top_variance_share, models: bert, is: bell}"
    verdict = world.judge_one(claim)
    assert (verdict.verdict, verdict.p, verdict.ci_low) == ("inconclusive", None, None) and verdict.value > 0.3
    assert "at least three independent models, or a statistic with an interval" in verdict.detail["reason"]


def test_several_models_without_intervals_are_judged_by_the_models(world):
    for i, model in enumerate("abc"):
        world.put(model, "anisotropy.top_variance_share", (1 + 0.1 * i) * BELL, None)
    verdict = world.judge_one("shape: {metric: anisotropy.top_variance_share, is: bell}", models="a, b, c")
    contrasts = [(1 + 0.1 * i) * (BELL[4:9].mean() - BELL[:4].mean()) for i in range(3)]
    assert verdict.verdict == "supported"
    (contrast,) = (part for part in verdict.detail["parts"] if part["name"] == "middle third minus first third")
    assert contrast["value"] == pytest.approx(np.mean(contrasts))
    t = stats.t.ppf(1 - 0.025 / 3, 2)  # it is one of three tests that could refute
    reach = t * np.std(contrasts, ddof=1) / np.sqrt(3)
    assert contrast["ci_high"] - contrast["value"] == pytest.approx(reach, rel=1e-4)


def test_over_training_at_a_layer_and_as_a_mean_over_layers(world):
    heights = {0: 0.1, 10: 0.4, 100: 0.8, 200: 0.9, 500: 0.7, 1000: 0.4, 2000: 0.2}
    for seed in "abc":
        for step, height in heights.items():
            world.put(seed, COSINE, [1.0, height + 0.01 * ord(seed) / 97, 0.5], 0.005, step=step)
    claim = f"shape: {{{MEASURE}, over: step, models: [a, b, c], is:"
    verdicts = world.judge(
        f"""layer, supported: {claim} rise-then-fall, layer: 1}}
        mean, supported: {claim} rise-then-fall}}
        last, supported: {claim} flat, layer: last, tolerance: 0.1}}
        falls, refuted: {claim} decreasing, layer: 1}}
        peak, supported: {claim} peak-at, at: 200, within: 150, layer: 1}}""",
        models="a, b, c",
    )
    assert verdicts["peak"].value == 200
    for step in (3000, 4000):
        world.put("d", COSINE, [1.0, 0.5, 0.5], 0.005, step=step)
    apart = world.judge_one(f"{claim.replace('a, b, c', 'a, d')} flat, every: false}}", models="a, d")
    assert apart.detail["reason"] == "a, d have 0 training steps in common; at least 2 are needed"


def test_three_points_are_a_hill_or_none(world):
    world.put("bert", COSINE, [0.1, 0.9, 0.1])
    world.put("gpt2", COSINE, [0.9, 0.1, 0.9])
    for shape in ("bell", "rise-then-fall", "bell, tolerance: 0.1", "rise-then-fall, tolerance: 0.1"):
        claim = f"shape: {{{MEASURE}, is: {shape}, models:"
        world.judge(f"hill, supported: {claim} bert}}\nvalley, refuted: {claim} gpt2}}")


def test_views_and_baselines_are_read_beside_the_claim_and_not_counted(world):
    world.put("gpt2", COSINE, BELL, role="decoder")
    world.put("gpt2", COSINE, np.full(13, 0.5), role="decoder", view="without sinks")
    world.put("gpt2 (random-init)", COSINE, BELL, role="decoder")
    views = "[text tokens, without sinks]"
    body = f"shape: {{{MEASURE}, models: decoders, is: bell}}, views: {views}, baselines: [random-init]"
    verdicts = world.judge(f"c: {body}", more=f"views: {views}\nbaselines: [random-init]").values()
    readings = [
        (SUPPORTED, "text tokens", None),
        (INCONCLUSIVE, "without sinks", None),
        (SUPPORTED, "text tokens", "random-init"),
    ]
    assert [(v.verdict, v.view, v.baseline) for v in verdicts] == readings
    own, other, baseline = (verdict.detail for verdict in verdicts)
    assert own["tested"] == 1 and "tested" not in other
    assert baseline["evidence"][0]["model"] == "gpt2 (random-init)" and "'gpt2 (random-init)'" in baseline["sql"]


OF_BERT = f"{MEASURE}, models: bert, is:"
LACKING = {
    f"{MEASURE}, models: gpt2, is: bell": "there are no numbers of gpt2: out of memory",
    f"{MEASURE}, models: decoders, is: bell": f"there are no decoders with numbers of {COSINE}",
    f"{OF_BERT} flat, over: step": "bert has 0 checkpoints with a known training step; at least 2",
    f"{OF_BERT} peak-at, at: 0.5, within: 0.01": "no point lies within 0.01 of 0.5; raise `within`",
    f"{OF_BERT} bell, site: attention": f"bert has no numbers of {COSINE} at site 'attention'",
    "metric: convergence.bound, models: bert, is: bell": "convergence.bound of bert on 'wiki' has no value at layer 2",
    "metric: convergence.violations, models: bert, is: bell": "'bell' needs at least 3 points, got 2",
}


def test_what_lacks_numbers_fails_with_the_reason(world):
    world.put_model("gpt2", status="failed", error="out of memory")
    world.put("bert", COSINE, X[::2][:6])
    world.put("bert", "convergence.rate", 0.1)
    world.put("bert", "convergence.violations", [0.1, 0.2])
    why = [{"statistic": "bound", "view": "text tokens", "layers": [2], "reason": "too few texts"}]
    world.put("bert", "convergence.bound", [0.1, 0.2, None, 0.4], reasons=why)
    claims = "\n".join(f"c{i}, failed: shape: {{{claim}}}" for i, claim in enumerate(LACKING))
    verdicts = world.judge(claims, more="sites: [embedding, block, attention]")
    for verdict, reason in zip(verdicts.values(), LACKING.values(), strict=True):
        assert (verdict.value, verdict.p) == (None, None)
        assert verdict.detail["reason"].startswith(reason) and set(verdict.detail) == {"reason", "metrics"}


def test_an_embedding_and_a_model_of_a_group_without_numbers_are_left_out_and_named(world):
    world.put_model("gpt2", status="failed", error="out of memory")
    why = [{"statistic": "twonn", "view": "text tokens", "layers": [0], "reason": "mostly duplicates"}]
    world.put("bert", "intrinsic_dimension.twonn", [None, *(10 * BELL)], 0.05, reasons=why)
    world.put("bert", COSINE, BELL)
    verdicts = world.judge(
        "embedding, supported: shape: {metric: intrinsic_dimension.twonn, models: bert, is: bell}\n"
        f"group, supported: shape: {{{MEASURE}, is: bell}}"
    )
    assert "the embedding of bert is left out: mostly duplicates" in verdicts["embedding"].detail["notes"]
    assert "gpt2 is left out: out of memory" in verdicts["group"].detail["notes"]
