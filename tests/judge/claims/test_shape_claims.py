"""Shapes, from a database with known profiles to verdicts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

X = np.linspace(0, 1, 13)
BELL = np.exp(-((X - 0.5) ** 2) / 0.08)
PROFILES = {"bell": BELL, "U": 1 - BELL, "linear": X, "falling": 1 - X, "flat": np.full(13, 0.5)}
EXPECTED = {
    "bell": {"bell": "supported", "U": "refuted", "linear": "refuted", "falling": "refuted", "flat": "inconclusive"},
    "rise-then-fall": {"bell": "supported", "U": "refuted", "flat": "inconclusive"},
    "increasing": {
        "linear": "supported",
        "falling": "refuted",
        "bell": "refuted",
        "U": "refuted",
        "flat": "inconclusive",
    },
    "decreasing": {"falling": "supported", "linear": "refuted", "bell": "refuted", "flat": "inconclusive"},
    "flat, tolerance: 0.1": {"flat": "supported", "bell": "refuted", "linear": "refuted", "U": "refuted"},
    "peak-at, at: 0.5": {"bell": "supported", "U": "refuted", "linear": "refuted", "flat": "inconclusive"},
    "peak-at, at: 1, within: 0.05": {"linear": "supported", "bell": "refuted", "falling": "refuted"},
}
MEASURE = "metric: anisotropy.mean_cosine"


def test_each_shape_knows_its_own_profile_and_refuses_others(world):
    for name, values in PROFILES.items():
        world.put(name, "anisotropy.mean_cosine", values)
    cases = {f"c{i}": case for i, case in enumerate((s, p) for s, found in EXPECTED.items() for p in found)}
    claims = [f"{name}: shape: {{{MEASURE}, models: {p}, is: {s}}}" for name, (s, p) in cases.items()]
    found = world.judge("\n".join(claims), models=", ".join(PROFILES))
    for name, (shape, profile) in cases.items():
        verdict = found[name]
        assert verdict.verdict == EXPECTED[shape][profile], (shape, profile, verdict.detail)
        assert (verdict.kind, verdict.view, verdict.baseline) == ("shape", "words", None)
        (evidence,) = verdict.detail["evidence"]
        assert evidence["model"] == profile and evidence["value"] == pytest.approx(verdict.value)
        assert {"statistic", "definition", "reason", "sql"} <= verdict.detail.keys()


def test_the_value_is_a_contrast_that_anyone_can_work_out(world, one):
    world.put("bert", "anisotropy.mean_cosine", BELL)
    found = one(f"shape: {{{MEASURE}, models: bert, is: bell}}")
    contrast = BELL[4:9].mean() - BELL[:4].mean()
    # What speaks for a bell is the middle without its highest point.
    (fewer,) = [part for part in found.detail["parts"] if part["name"].startswith("middle third without layer 6 minus")]
    assert fewer["value"] == pytest.approx(BELL[[4, 5, 7, 8]].mean() - BELL[:4].mean())
    assert fewer["ci_high"] - fewer["ci_low"] == pytest.approx(2 * 1.959964 * 0.01 * np.sqrt(2), rel=1e-4)
    world.put("bert", "anisotropy.mean_cosine", 1 - BELL)
    assert one(f"shape: {{{MEASURE}, models: bert, is: bell}}").value == pytest.approx(-contrast)


def test_by_and_tolerance_are_in_the_statistics_own_unit(world):
    world.put("bert", "anisotropy.mean_cosine", BELL)
    found = world.words(
        f"""small: shape: {{{MEASURE}, models: bert, is: bell, at_least: 0.3}}
        large: shape: {{{MEASURE}, models: bert, is: bell, by: 0.9}}
        wide: shape: {{{MEASURE}, models: bert, is: flat, tolerance: 1}}
        narrow: shape: {{{MEASURE}, models: bert, is: flat, tolerance: 0.2}}"""
    )
    assert found == {"small": "supported", "large": "refuted", "wide": "supported", "narrow": "refuted"}


def test_one_significant_fall_refutes_increasing_but_not_one_within_the_tolerance(world):
    dip = X.copy()
    dip[6] -= 0.3
    world.put("bert", "anisotropy.mean_cosine", dip)
    found = world.judge(
        f"""strict: shape: {{{MEASURE}, models: bert, is: increasing}}
        loose: shape: {{{MEASURE}, models: bert, is: increasing, tolerance: 0.4}}"""
    )
    assert found["strict"].verdict == "refuted" and found["loose"].verdict == "supported"
    assert found["strict"].detail["statistic"] == "largest fall, layer 5 → 6"
    assert found["strict"].value == pytest.approx(dip[6] - dip[5])


def test_noise_that_may_hide_the_shape_is_inconclusive(world):
    for model, error in (("bert", 0.5), ("gpt2", 0.01)):
        world.put(model, "anisotropy.mean_cosine", BELL, error)
    found = world.judge(
        f"""a: shape: {{{MEASURE}, models: bert, is: bell}}
        b: shape: {{{MEASURE}, models: gpt2, is: bell}}"""
    )
    assert [v.verdict for v in found.values()] == ["inconclusive", "supported"]
    assert "the data do not decide" in found["a"].detail["reason"]
    assert "times as many texts" in found["a"].detail["power"]


def test_roles_are_means_over_models_and_those_that_are_named_must_show_it_each(world):
    rng = np.random.default_rng(0)
    for i in range(4):
        world.put(
            f"d{i}", "anisotropy.mean_cosine", (0.5 + 0.03 * i) * BELL + 0.005 * rng.normal(size=13), role="decoder"
        )
        world.put(f"e{i}", "anisotropy.mean_cosine", 0.5 + 0.02 * rng.normal(size=13))
    models = ", ".join(f"{kind}{i}" for kind in "de" for i in range(4))
    bell = f"shape: {{{MEASURE}, is: bell, models:"
    found = world.judge(
        f"""decoders: {bell} decoders}}
        encoders: {bell} encoders}}
        list: {bell} [d0, d1, d2]}}
        one-of-them-not: {bell} [d0, e0]}}
        mean-of-them: {bell} [d0, d1, e0, d2], every: false}}
        every: {bell} decoders, every: true}}
        mixed: {bell} all, every: true}}
        flat: shape: {{{MEASURE}, is: flat, models: encoders, tolerance: 0.2}}""",
        models=models,
    )
    words = {name: verdict.verdict for name, verdict in found.items()}
    assert words == {
        "decoders": "supported",
        "encoders": "inconclusive",
        "list": "supported",
        "one-of-them-not": "inconclusive",
        "mean-of-them": "inconclusive",
        "every": "supported",
        "mixed": "inconclusive",
        "flat": "supported",
    }
    evidence = found["decoders"].detail["evidence"]
    assert [one["model"] for one in evidence] == ["d0", "d1", "d2", "d3", "mean of 4 models"]
    assert evidence[-1]["value"] == pytest.approx(np.mean([one["value"] for one in evidence[:-1]]), abs=0.02)


def test_models_of_different_depth_share_an_axis(world, one):
    for model, layers in (("bert", 7), ("gpt2", 13), ("opt", 25)):
        depth = np.linspace(0, 1, layers)
        world.put(model, "anisotropy.mean_cosine", np.exp(-((depth - 0.5) ** 2) / 0.08), 0.001)
    found = one(f"shape: {{{MEASURE}, is: peak-at, at: 0.5, within: 0.2}}", models="bert, gpt2, opt")
    assert found.verdict == "supported" and found.value == pytest.approx(0.5)


def test_a_claim_must_hold_on_every_corpus(world):
    world.put("bert", "anisotropy.mean_cosine", BELL)
    world.put("bert", "anisotropy.mean_cosine", np.full(13, 0.5), corpus="tweets")
    found = world.judge(
        f"""both: shape: {{{MEASURE}, models: bert, is: bell}}
        wiki: shape: {{{MEASURE}, models: bert, is: bell, corpus: wiki}}""",
        corpora="wiki, tweets",
    )
    assert found["both"].verdict == "inconclusive" and found["wiki"].verdict == "supported"
    assert [one["verdict"] for one in found["both"].detail["evidence"]] == ["supported", "inconclusive"]
    assert "it must hold on each of 2 corpora: wiki, tweets" in found["both"].detail["notes"]


def test_one_model_without_intervals_decides_nothing_and_says_what_would(world, one):
    world.put("bert", "anisotropy.top_variance_share", BELL, None)
    claim = "shape: {metric: anisotropy.top_variance_share, models: bert, is: bell}"
    found = one(claim)
    assert (found.verdict, found.p, found.ci_low) == ("inconclusive", None, None)
    assert "name three independent models or more, or a statistic that has an interval" in found.detail["reason"]
    assert found.value > 0.3
    # The same over batches lends its error.
    world.put("bert", "anisotropy.top_variance_share_batch", BELL, 0.01)
    found = one(claim)
    assert found.verdict == "supported"
    assert any("anisotropy.top_variance_share_batch" in note for note in found.detail["notes"])
    (fewer, *_) = found.detail["parts"]
    assert fewer["ci_high"] - fewer["ci_low"] == pytest.approx(2 * 1.959964 * np.sqrt(2) * 0.01, rel=1e-4)


def test_several_models_without_intervals_are_judged_by_the_models(world, one):
    for i, model in enumerate(("a", "b", "c")):
        world.put(model, "anisotropy.top_variance_share", (1 + 0.1 * i) * BELL, None)
    found = one("shape: {metric: anisotropy.top_variance_share, is: bell}", models="a, b, c")
    contrasts = [(1 + 0.1 * i) * (BELL[4:9].mean() - BELL[:4].mean()) for i in range(3)]
    assert found.verdict == "supported"
    parts = {part["name"]: part for part in found.detail["parts"]}
    contrast = parts["middle third minus first third"]
    assert contrast["value"] == pytest.approx(np.mean(contrasts))
    t = stats.t.ppf(1 - 0.025 / 3, 2)  # it is one of three tests that could refute
    reach = t * np.std(contrasts, ddof=1) / np.sqrt(3)
    assert contrast["ci_high"] - contrast["value"] == pytest.approx(reach, rel=1e-4)


def test_over_training_at_a_layer_and_as_a_mean_over_layers(world):
    steps = [0, 10, 100, 200, 500, 1000, 2000]
    height = [0.1, 0.4, 0.8, 0.9, 0.7, 0.4, 0.2]
    for seed in ("a", "b", "c"):
        for step, value in zip(steps, height, strict=True):
            world.put(seed, "anisotropy.mean_cosine", [1.0, value + 0.01 * ord(seed) / 97, 0.5], 0.005, step=step)
    claim = "shape: {metric: anisotropy.mean_cosine, over: step, models: [a, b, c], is:"
    found = world.judge(
        f"""layer: {claim} rise-then-fall, layer: 1}}
        mean: {claim} rise-then-fall}}
        last: {claim} flat, layer: last, tolerance: 0.1}}
        falls: {claim} decreasing, layer: 1}}
        peak: {claim} peak-at, at: 200, within: 150, layer: 1}}""",
        models="a, b, c",
    )
    words = {name: verdict.verdict for name, verdict in found.items()}
    expected = {"layer": "supported", "mean": "supported", "last": "supported", "falls": "refuted", "peak": "supported"}
    assert words == expected
    assert found["peak"].value == 200
    for step in (3000, 4000):
        world.put("d", "anisotropy.mean_cosine", [1.0, 0.5, 0.5], 0.005, step=step)
    (apart,) = world.judge(f"c: {claim.replace('a, b, c', 'a, d')} flat, every: false}}", models="a, d").values()
    assert apart.detail["reason"] == "a, d have 0 training steps in common"


@pytest.mark.parametrize("tolerance", ["", ", tolerance: 0.1"])
def test_three_points_are_a_hill_or_none(world, tolerance):
    world.put("bert", "anisotropy.mean_cosine", [0.1, 0.9, 0.1])
    world.put("gpt2", "anisotropy.mean_cosine", [0.9, 0.1, 0.9])
    for shape in ("bell", "rise-then-fall"):
        claim = f"shape: {{{MEASURE}, is: {shape}{tolerance}, models:"
        found = world.words(f"hill: {claim} bert}}\nvalley: {claim} gpt2}}")
        assert found == {"hill": "supported", "valley": "refuted"}


def test_an_interval_without_width_proves_no_point(world, one):
    world.put("bert", "anisotropy.mean_cosine", BELL, 0.0)
    found = one(f"shape: {{{MEASURE}, models: bert, is: bell}}")
    assert found.p is None and "the intervals of anisotropy.mean_cosine have no width" in found.detail["notes"]


def test_views_and_baselines_are_read_beside_the_claim_and_not_counted(world):
    world.put("gpt2", "anisotropy.mean_cosine", BELL, role="decoder")
    world.put("gpt2", "anisotropy.mean_cosine", np.full(13, 0.5), role="decoder", view="no-sinks")
    world.put("gpt2 (random-init)", "anisotropy.mean_cosine", BELL, role="decoder")
    body = f"shape: {{{MEASURE}, models: decoders, is: bell}}, views: [words, no-sinks], baselines: [random-init]"
    more = "views: [words, no-sinks]\nbaselines: [random-init]"
    found = world.judge(f"c: {body}", more=more)
    assert {name: (v.verdict, v.view, v.baseline) for name, v in found.items()} == {
        "c": ("supported", "words", None),
        "c/2": ("inconclusive", "no-sinks", None),
        "c/3": ("supported", "words", "random-init"),
    }
    assert found["c"].detail["tested"] == 1 and "tested" not in found["c/2"].detail
    assert found["c/3"].detail["evidence"][0]["model"] == "gpt2 (random-init)"
    assert "'gpt2 (random-init)'" in found["c/3"].detail["sql"]


LACKING = {
    f"{MEASURE}, models: gpt2, is: bell": "there are no numbers of gpt2: out of memory",
    f"{MEASURE}, models: decoders, is: bell": (
        "there are no decoders with numbers of anisotropy.mean_cosine under view 'words'"
    ),
    f"{MEASURE}, models: bert, is: bell, checkpoint: x": "bert has no checkpoint 'x'; there are final",
    f"{MEASURE}, models: bert, is: bell, step: 5": "bert has no checkpoint at step 5; there are final",
    f"{MEASURE}, models: bert, is: flat, over: step": "bert has 0 checkpoints with a known training step",
    f"{MEASURE}, models: bert, is: peak-at, at: 0.5, within: 0.01": (
        "no point lies within 0.01 of 0.5 (bert on 'wiki')"
    ),
    f"{MEASURE}, models: bert, is: peak-at, at: 0.5, within: 1": ("every point lies within 1 of 0.5 (bert on 'wiki')"),
    f"{MEASURE}, models: bert, is: bell, site: attention": (
        "bert has no numbers of anisotropy.mean_cosine along site 'attention'"
    ),
    "metric: convergence.bound, models: bert, is: bell": (
        "convergence.bound of bert on 'wiki' has no value at layer 2: too few texts"
    ),
    "metric: convergence.gradient, models: bert, is: bell": (
        "there are no numbers of convergence.gradient under view 'words'"
    ),
    "metric: convergence.violations, models: bert, is: bell": (
        "'bell' needs at least 3 points, there are 2 (bert on 'wiki')"
    ),
}


def test_what_lacks_numbers_fails_with_the_reason(world, failed_model):
    world.put("bert", "anisotropy.mean_cosine", X[::2][:6])
    world.put("bert", "convergence.rate", 0.1)
    world.put("bert", "convergence.violations", [0.1, 0.2])
    why = [{"statistic": "bound", "view": "words", "layers": [2], "reason": "too few texts"}]
    world.put("bert", "convergence.bound", [0.1, 0.2, None, 0.4], reasons=why)
    claims = "\n".join(f"c{i}: shape: {{{claim}}}" for i, claim in enumerate(LACKING))
    sites = "sites: [embedding, block, attention]"
    for found, reason in zip(world.judge(claims, more=sites).values(), LACKING.values(), strict=True):
        assert (found.verdict, found.value, found.p) == ("failed", None, None)
        assert found.detail["reason"] == reason and set(found.detail) == {"reason", "metrics"}


def test_an_embedding_without_a_number_is_left_out_and_said(world, one):
    why = [{"statistic": "twonn", "view": "words", "layers": [0], "reason": "mostly duplicates"}]
    world.put("bert", "intrinsic_dimension.twonn", [None, *(10 * BELL)], 0.05, reasons=why)
    found = one("shape: {metric: intrinsic_dimension.twonn, models: bert, is: bell}")
    assert found.verdict == "supported"
    assert "the embedding of bert is left out: mostly duplicates" in found.detail["notes"]


def test_a_model_of_a_group_that_lacks_numbers_is_left_out_and_said(world, one, failed_model):
    world.put("bert", "anisotropy.mean_cosine", BELL)
    found = one(f"shape: {{{MEASURE}, is: bell}}")
    assert found.verdict == "supported"
    assert "gpt2 is not among them: out of memory" in found.detail["notes"]
