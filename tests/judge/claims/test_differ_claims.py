"""Two sets of models or corpora against closed forms and SciPy."""

import numpy as np
import pytest
from scipy import stats

from reporter.judge.claims import untestable_claims
from reporter.runs.studies import offer
from reporter.study import load_study

A, B = [0.50, 0.62, 0.55, 0.71], [0.20, 0.31, 0.26]
MODELS = "d0, d1, d2, d3, e0, e1, e2"
CLAIM = "differ: {metric: convergence.rate,"
FREE = ("variance.total", "convergence.bound")  # the first depends on the size of the corpus


@pytest.fixture
def roles(world):
    for i, value in enumerate(A):
        world.put(f"d{i}", "convergence.rate", value, None, role="decoder")
    for i, value in enumerate(B):
        world.put(f"e{i}", "convergence.rate", value, None)
    return world


def test_two_roles_are_compared_by_welch_with_hedges_g(roles):
    found = roles.judge(f"c: {CLAIM} a: decoders, b: encoders, is: above, at_least: 0}}", models=MODELS)["c"]
    welch = stats.ttest_ind(A, B, equal_var=False)
    assert found.value == pytest.approx(np.mean(A) - np.mean(B))
    assert found.p == pytest.approx(welch.pvalue, rel=1e-4)
    interval = welch.confidence_interval(0.95)
    assert (found.ci_low, found.ci_high) == pytest.approx((interval.low, interval.high), rel=1e-4)
    assert found.verdict == "supported"
    effect = found.detail["effect"]
    pooled = np.sqrt((3 * np.var(A, ddof=1) + 2 * np.var(B, ddof=1)) / 5)
    assert effect["g"] == pytest.approx((np.mean(A) - np.mean(B)) / pooled * (1 - 3 / (4 * 7 - 9)))
    assert (effect["a"], effect["n_a"], effect["b"], effect["n_b"]) == ("decoders", 4, "encoders", 3)
    assert [one["model"] for one in found.detail["evidence"]] == MODELS.split(", ")


def test_a_layer_that_one_side_lacks_is_left_out_on_both(world):
    """The embedding of one model has no number: that of the other, far off, takes no part."""
    world.put("d0", "variance.total", [None, 0.5, 0.6], role="decoder")
    world.put("e0", "variance.total", [9.0, 0.3, 0.4])
    found = world.judge("c: differ: {metric: variance.total, a: d0, b: e0, is: above}", models="d0, e0")["c"]
    assert found.value == pytest.approx(0.2)
    assert "layer 0 of e0 is left out, since another model has none" in found.detail["notes"]


def test_each_direction_and_least_difference(roles):
    ranges = {
        "below, refuted: is: below": (None, -0.001, False),
        "different, supported: is: different": (-0.001, 0.001, True),
        "same, refuted: is: same, at_least: 0.05": (-0.05, 0.05, False),
        "much, refuted: is: above, at_least: 0.8": (0.8, None, False),
        "little, inconclusive: is: above, by: 0.3": (0.3, None, False),
    }
    claims = "\n".join(line.replace(":", f": {CLAIM} a: decoders, b: encoders,", 1) + "}" for line in ranges)
    found = roles.judge(claims, models=MODELS)
    assert [(v.holds_low, v.holds_high, v.holds_outside) for v in found.values()] == list(ranges.values())
    found = roles.judge(
        f"""one, inconclusive: {CLAIM} a: d0, b: [e0, e1, e2], is: above}}
        both, failed: {CLAIM} a: all, b: encoders, is: above}}
        none, failed: {CLAIM} a: decoders, b: e9, is: above}}""",
        models=f"{MODELS}, e9",
    )
    assert found["both"].detail["reason"].startswith("`a` and `b` both include e0, e1, e2; remove them")
    assert found["none"].detail["reason"] == "there are no numbers of e9: it was not measured"


def test_two_models_need_intervals(world):
    for name, values, error, share in (("bert", [0.2, 0.4, 0.6], 0.01, 0.2), ("gpt2", [0.5, 0.7, 0.9], 0.02, 0.3)):
        world.put(name, "convergence.similarity", values, error)
        world.put(name, "variance.coverage", share, None)
    similarity = "differ: {metric: convergence.similarity, a: gpt2, b: bert, is: above"
    found = world.judge(
        f"""layer, supported: {similarity}, layer: 1}}
        mean, supported: {similarity}}}
        none, inconclusive: differ: {{metric: variance.coverage, a: gpt2, b: bert, is: above}}"""
    )
    for name in ("layer", "mean"):  # a mean over layers is no surer than one layer
        assert found[name].value == pytest.approx(0.3)
        assert found[name].ci_high - 0.3 == pytest.approx(1.959964 * np.hypot(0.01, 0.02), rel=1e-4)
    assert "one independent model (gpt2) and no interval over texts" in found["none"].detail["reason"]
    assert found["none"].p is None


def test_two_corpora_are_compared_within_each_model(world):
    a, b = [0.1, 0.4, 0.9], [0.05, 0.34, 0.86]
    for model, one, two in zip(("x", "y", "z"), a, b, strict=True):
        world.put(model, "convergence.rate", one, None)
        world.put(model, "convergence.rate", two, None, corpus="random")
    for corpus, value, error in (("wiki", 0.9, 0.01), ("random", 0.5, 0.02)):
        world.put("x", "convergence.bound", value, error, corpus=corpus)
    found = world.judge(
        f"""short: {CLAIM} a: wiki, b: random, is: above, at_least: 0}}
        long: {CLAIM} a: {{corpus: wiki}}, b: {{corpus: [random]}}, is: above, at_least: 0, models: [z, y, x]}}
        one: {CLAIM} a: wiki, b: random, is: above, models: x}}
        sure: differ: {{metric: convergence.bound, a: wiki, b: random, is: above, models: x}}""",
        models="x, y, z",
        corpora="wiki, random",
    )
    paired = stats.ttest_rel(a, b)
    for name in ("short", "long"):
        assert found[name].p == pytest.approx(paired.pvalue, rel=1e-4) and found[name].verdict == "supported"
    gaps = np.subtract(a, b)
    g = gaps.mean() / gaps.std(ddof=1) * (1 - 3 / (4 * 3 - 5))  # of paired samples, with Hedges' correction
    assert found["short"].detail["effect"]["g"] == pytest.approx(g)
    assert found["one"].verdict == "inconclusive"
    reach = 1.959964 * np.hypot(0.01, 0.02)  # texts of both corpora
    assert found["sure"].ci_low == pytest.approx(0.4 - reach, rel=1e-4)


def test_what_analyses_look_at_stands_in_the_place_of_a_corpus(world):
    for item, height in (("gender", 0.8), ("tense", 0.3)):
        world.put("bert", "pairs.consistency", [height / 2, height], corpus=item)
    world.put("bert", "groups.silhouette", [0.1, 0.4], corpus="(groups)")
    pairs = "{a: [[x, v], [z, w]]}"
    found = world.judge(
        """value, supported: value: {metric: pairs.consistency, model: bert, corpus: gender, layer: last}, above: 0.5
        groups, supported: value: {metric: groups.silhouette, model: bert, layer: 1}, above: 0.3
        items, supported: differ: {metric: pairs.consistency, a: gender, b: tense, is: above, models: bert}
        shape, supported: shape: {metric: pairs.consistency, models: bert, is: increasing}""",
        more=f"pairs: {{gender: {pairs}, tense: {pairs}}}\ngroups: {{hello: [x, y], bye: [z, w]}}\n"
        "views: [with special tokens]",
    )
    assert len(world.store.frame(found["shape"].detail["sql"])) == 4


def test_corpora_of_other_sizes_are_compared_only_where_size_does_not_matter(world):
    """Of corpora with as many words, up to a third of a doubling, every number is compared."""
    sizes = {"wiki": 8000, "tweets": 1000, "news": 1300, "larger": 1251, "close": 1250}
    for corpus, words in sizes.items():
        world.put_corpus(corpus, texts=words // 20, words=words)
    for corpus in sizes:
        for measure in FREE:
            world.put("bert", measure, [0.2, 0.4, 0.5 + 0.1 * (corpus != "tweets")], 0.01, corpus=corpus)
    differ = "differ: {models: bert, is: above, b: tweets, layer: 2, metric:"
    value = "value: {metric: variance.total, model: bert, layer: 2, corpus: %s}, above: {metric: variance.total, "
    value += "model: bert, layer: 2, corpus: tweets}"
    found = world.judge(
        f"""one, inconclusive: {differ} variance.total, a: wiki}}
        two, inconclusive: {differ} variance.total, a: [wiki, news]}}
        over, inconclusive: {differ} variance.total, a: larger}}
        under, supported: {differ} variance.total, a: close}}
        free, supported: {differ} convergence.bound, a: wiki}}
        value, inconclusive: {value % "wiki"}
        near-value, supported: {value % "close"}
        free-value, supported: {(value % "wiki").replace(*FREE)}""",
        corpora=", ".join(sizes),
    )
    remedy = (
        "wiki has 8,000 words, news has 1,300 words, but tweets has 1,000: add the key `size_of: tweets` to corpora"
    )
    assert remedy in found["two"].detail["reason"] and found["two"].value is None
    assert "the key `size_of: tweets`" in found["value"].detail["reason"]
    equal = "compared at equal size, since the number depends on it: close 1,250 words in 62 texts, tweets 1,000 words"
    for name in ("under", "near-value"):
        assert any(note.startswith(equal) for note in found[name].detail["notes"])
    assert "size" not in str(found["free"].detail["notes"])


def test_a_corpus_that_models_are_trained_on_is_not_to_be_thinned(world):
    text = (
        "study: s\nmodels: {m: {recipe: {architecture: bert, steps: 1, train_on: wiki}}}\n"
        "corpora: {wiki: {texts: [a]}, tweets: {texts: [b]}}\nmetrics: [variance]\n"
        "claims: {c: {says: x, differ: {metric: variance.total, a: wiki, b: tweets, models: m, is: above}},\n"
        "         d: {says: x, differ: {metric: variance.total, a: {models: m}, b: {corpus: wiki}, is: above}},\n"
        "         e: {says: x, differ: {metric: variance.total, a: tweets, b: tweets, models: m, is: above}}}\n"
    )
    (world.folder / "study.yaml").write_text(text)
    study = load_study(world.folder / "study.yaml", offer()).study
    first, second = untestable_claims(study, {"wiki": 9000, "tweets": 1000})
    assert first.startswith("claim c cannot") and second.startswith("claim d cannot")
    assert "trained on corpus wiki, so add a copy of it with the key `size_of: tweets`" in first
    for words in ({"wiki": 1100, "tweets": 1000}, {"wiki": 9000}):
        assert not list(untestable_claims(study, words))
