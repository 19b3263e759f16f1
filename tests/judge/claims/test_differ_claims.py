"""Two sets of models or corpora against closed forms and SciPy."""

import numpy as np
import pytest
from scipy import stats

from reporter.judge.claims import untestable_claims
from reporter.runs.studies import offer
from reporter.spec import load_study

A, B = [0.50, 0.62, 0.55, 0.71], [0.20, 0.31, 0.26]
MODELS = "d0, d1, d2, d3, e0, e1, e2"
CLAIM = "differ: {metric: convergence.rate,"


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


def test_each_direction_and_least_difference(roles):
    found = roles.judge(
        f"""below, refuted: {CLAIM} a: decoders, b: encoders, is: below}}
        different, supported: {CLAIM} a: decoders, b: encoders, is: different}}
        same, refuted: {CLAIM} a: decoders, b: encoders, is: same, at_least: 0.05}}
        much, refuted: {CLAIM} a: decoders, b: encoders, is: above, at_least: 0.8}}
        little, inconclusive: {CLAIM} a: decoders, b: encoders, is: above, by: 0.3}}
        one, inconclusive: {CLAIM} a: d0, b: [e0, e1, e2], is: above}}""",
        models=MODELS,
    )
    assert {name: (v.holds_low, v.holds_high, v.holds_outside) for name, v in found.items() if name != "one"} == {
        "below": (None, -0.001, False),
        "different": (-0.001, 0.001, True),
        "same": (-0.05, 0.05, False),
        "much": (0.8, None, False),
        "little": (0.3, None, False),
    }


def test_two_models_need_intervals(world):
    world.put("bert", "convergence.similarity", [0.2, 0.4, 0.6], 0.01)
    world.put("gpt2", "convergence.similarity", [0.5, 0.7, 0.9], 0.02)
    world.put("bert", "variance.coverage", 0.2, None)
    world.put("gpt2", "variance.coverage", 0.3, None)
    found = world.judge(
        """layer, supported: differ: {metric: convergence.similarity, a: gpt2, b: bert, is: above, layer: 1}
        mean, supported: differ: {metric: convergence.similarity, a: gpt2, b: bert, is: above}
        none, inconclusive: differ: {metric: variance.coverage, a: gpt2, b: bert, is: above}"""
    )
    assert found["layer"].value == pytest.approx(0.3) and found["mean"].value == pytest.approx(0.3)
    # A mean over layers is no surer than one layer.
    assert found["mean"].ci_high - found["mean"].value == pytest.approx(1.959964 * np.hypot(0.01, 0.02), rel=1e-4)
    assert "one independent model (gpt2) and no interval over texts" in found["none"].detail["reason"]
    assert found["none"].p is None


def test_two_corpora_are_compared_within_each_model(world):
    a, b = [0.1, 0.4, 0.9], [0.05, 0.34, 0.86]
    for model, one, two in zip(("x", "y", "z"), a, b, strict=True):
        world.put(model, "convergence.rate", one, None)
        world.put(model, "convergence.rate", two, None, corpus="random")
    found = world.judge(
        f"""short: {CLAIM} a: wiki, b: random, is: above, at_least: 0}}
        long: {CLAIM} a: {{corpus: wiki}}, b: {{corpus: [random]}}, is: above, at_least: 0, models: [z, y, x]}}
        one: {CLAIM} a: wiki, b: random, is: above, models: x}}""",
        models="x, y, z",
        corpora="wiki, random",
    )
    paired = stats.ttest_rel(a, b)
    for name in ("short", "long"):
        assert found[name].p == pytest.approx(paired.pvalue, rel=1e-4) and found[name].verdict == "supported"
    assert found["one"].verdict == "inconclusive"


def test_what_analyses_look_at_stands_in_the_place_of_a_corpus(world):
    for item, height in (("gender", 0.8), ("tense", 0.3)):
        world.put("bert", "pairs.consistency", [height / 2, height], corpus=item)
    world.put("bert", "groups.silhouette", [0.1, 0.4], corpus="(groups)")
    pairs = "{a: [[x, v], [z, w]]}"
    more = f"pairs: {{gender: {pairs}, tense: {pairs}}}\ngroups: {{hello: [x, y], bye: [z, w]}}\nviews: [all]"
    found = world.judge(
        """value: value: {metric: pairs.consistency, model: bert, corpus: gender, layer: last}, above: 0.5
        groups: value: {metric: groups.silhouette, model: bert, layer: 1}, above: 0.3
        items: differ: {metric: pairs.consistency, a: gender, b: tense, is: above, models: bert}
        shape: shape: {metric: pairs.consistency, models: bert, is: increasing}""",
        more=more,
    )
    assert {name: v.verdict for name, v in found.items()} == dict.fromkeys(found, "supported")
    assert len(world.store.frame(found["shape"].detail["sql"])) == 4


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        ("a: all, b: encoders, is: above", "`a` and `b` both include e0, e1, e2; remove them from one side"),
        ("a: decoders, b: e9, is: above", "there are no numbers of e9: it was not measured"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_says_why(roles, claim, reason):
    found = roles.judge(f"c: {CLAIM} {claim}}}", models=f"{MODELS}, e9")["c"]
    assert (found.verdict, found.detail["reason"]) == ("failed", reason)


@pytest.fixture
def sizes(world):
    """Return a function that stores corpora of 8,000, 1,000 and 1,200 words, or other ones, with a number on each."""

    def put(**words):
        for corpus, n in ({"wiki": 8000, "tweets": 1000, "news": 1200} | words).items():
            world.put_corpus(corpus, texts=n // 20, words=n)
            profile = [0.2, 0.4, 0.6] if corpus == "wiki" else [0.1, 0.3, 0.5]
            for measure in ("variance.total", "convergence.similarity"):
                world.put("bert", measure, profile, 0.01, corpus=corpus)
        return world

    return put


CORPORA = "wiki, tweets, news"


def test_corpora_of_other_sizes_are_compared_only_where_size_does_not_matter(sizes):
    def judged(measure, a="wiki", b="tweets", **words):
        claim = f"c: differ: {{metric: {measure}, a: {a}, b: {b}, models: bert, is: above}}"
        return sizes(**words).judge(claim, corpora=CORPORA)["c"]

    found = judged("variance.total")
    assert (found.verdict, found.value) == ("inconclusive", None)
    assert "wiki has 8,000 words, but tweets has 1,000: add the key `size_of: tweets` to corpus wiki" in str(
        found.detail
    )
    found = judged("variance.total", a="[wiki, news]", news=1300)
    assert "wiki has 8,000 words, news has 1,300 words, but tweets" in found.detail["reason"]
    assert "add the key `size_of: tweets` to corpora wiki, news" in found.detail["reason"]
    found = judged("convergence.similarity")
    assert found.verdict == "supported" and "size" not in str(found.detail.get("notes"))
    # As many words, up to a third of a doubling.
    assert judged("variance.total", wiki=1251).verdict == "inconclusive"
    found = judged("variance.total", wiki=1250)
    assert found.verdict == "supported"
    told = "compared at equal size, since the number depends on it: wiki 1,250 words in 62 texts, tweets 1,000 words"
    assert any(note.startswith(told) for note in found.detail["notes"])


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
    said = list(untestable_claims(study, {"wiki": 9000, "tweets": 1000}))
    assert [text.split(" cannot")[0] for text in said] == ["claim c", "claim d"]
    assert "trained on corpus wiki, so add a copy of it with the key `size_of: tweets`" in said[0]
    for words in ({"wiki": 1100, "tweets": 1000}, {"wiki": 9000}):
        assert not list(untestable_claims(study, words))


def test_a_number_is_not_held_against_the_same_on_a_corpus_of_other_size(sizes):
    def judged(measure, **words):
        number = f"{{metric: {measure}, model: bert, layer: 2, corpus: %s}}"
        return sizes(**words).judge(f"c: value: {number % 'wiki'}, above: {number % 'tweets'}", corpora=CORPORA)["c"]

    found = judged("variance.total")
    assert found.verdict == "inconclusive" and "the key `size_of: tweets`" in found.detail["reason"]
    assert judged("convergence.similarity").verdict == "supported"
    found = judged("variance.total", wiki=1010)
    assert found.verdict == "supported" and "compared at equal size" in str(found.detail["notes"])
