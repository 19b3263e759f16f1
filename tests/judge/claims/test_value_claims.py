"""Numbers against published ones and against each other."""

import numpy as np
import pytest
from scipy import stats

RATE = "value: {metric: convergence.rate, model: bert}"
SIMILARITY = "value: {metric: convergence.similarity, model: bert,"


@pytest.fixture
def rates(world):
    world.put("bert", "convergence.rate", 0.0841, 0.0015)
    world.put("gpt2", "convergence.rate", 0.15, 0.002, role="decoder")
    return world


def test_the_interval_decides_against_the_published_number(rates):
    found = rates.judge(
        f"""near, supported: {RATE}, paper: 0.0826, within: 0.01
        far, refuted: {RATE}, paper: 0.1855, within: 0.01
        edge, inconclusive: {RATE}, paper: 0.0941, within: 0.01
        above, inconclusive: {RATE}, above: 0.0809
        straddles, inconclusive: {RATE}, above: 0.0835
        below, inconclusive: {RATE}, below: 0.0809
        between, supported: {RATE}, between: [0.07, 0.09]
        outside, refuted: {RATE}, between: [0.09, 0.1]
        other, supported: {RATE}, below: {{metric: convergence.rate, model: gpt2}}
        mixed, supported: {RATE}, between: [0, {{metric: convergence.rate, model: gpt2}}]"""
    )
    assert found["above"].detail["alone"] == "supported" and found["above"].p == pytest.approx(0.0329, abs=1e-4)
    assert "not after the correction for 10 claims" in found["above"].detail["reason"]
    near = found["near"]
    assert (near.value, near.paper, near.detail["bound"]) == (0.0841, 0.0826, "0.0826 ± 0.01")
    assert (near.holds_low, near.holds_high) == pytest.approx((0.0726, 0.0926)) and not near.holds_outside
    assert near.ci_low == pytest.approx(0.0841 - 1.959964 * 0.0015)
    assert near.detail["sql"].startswith("SELECT")
    assert rates.store.frame(near.detail["sql"])["value"].tolist() == [0.0841]


def test_alone_a_bound_just_outside_the_interval_decides_and_one_just_inside_does_not(world):
    key = {"study": "s", "model": "bert", "checkpoint": "final", "corpus": "wiki", "metric": "convergence"}
    lopsided = {"statistic": "rate", "value": 0.1, "ci_low": 0.09, "ci_high": 0.16, "n": 5}
    cell = {**key, "fingerprint": "f", "status": "done"}
    world.store.commit_cell(cell, [lopsided | {"view": "text tokens", "role": "encoder"}])
    world.put_model("bert", position=1, is_last=True)
    verdicts = {
        "supported": ("above: 0.0899", "below: 0.1601", "between: [0.0899, 0.1601]"),
        "inconclusive": ("above: 0.0901", "below: 0.1599", "between: [0.0901, 0.1601]"),
        "refuted": ("above: 0.1601", "below: 0.0899"),
    }
    for word, bounds in verdicts.items():
        assert {world.judge_one(f"{RATE}, {bound}").verdict for bound in bounds} == {word}


def test_p_is_that_of_a_normal_test(rates):
    found = rates.judge_one(f"{RATE}, above: 0.082")
    assert found.p == pytest.approx(2 * stats.norm.sf((0.0841 - 0.082) / 0.0015), rel=1e-6)
    assert found.p == found.p_adjusted
    found = rates.judge_one(f"{RATE}, between: [0.0855, 0.0875]")
    beyond = stats.norm.cdf((0.0841 - 0.0855) / 0.0015) + stats.norm.sf((0.0875 - 0.0841) / 0.0015)
    assert found.p == pytest.approx(2 * beyond, rel=1e-6)
    found = rates.judge_one(f"{RATE}, below: {{metric: convergence.rate, model: gpt2}}")
    assert found.p == pytest.approx(2 * stats.norm.sf((0.15 - 0.0841) / np.hypot(0.0015, 0.002)), rel=1e-6)


def test_a_number_of_another_model_is_a_bound_with_its_layer_its_interval_and_the_difference(world):
    name = "anisotropy.mean_cosine"
    world.put("bert", name, [0.1, 0.4, 0.3], 0.01)
    world.put("gpt2", name, [0.2, 0.3, 0.8, 0.9], 0.02, role="decoder")
    number = f"metric: {name}, layer: last, model:"
    found = world.judge_one(f"value: {{{number} gpt2}}, above: {{{number} bert}}")
    (bound,) = found.detail["bounds"]
    assert bound["bound"] == f"> {name} at the last layer of bert"
    assert [bound["value"], bound["ci_low"]] == pytest.approx([0.3, 0.3 - 1.96 * 0.01], abs=1e-3)
    difference = found.detail["difference"]
    reach = 1.96 * np.hypot(0.01, 0.02)
    assert list(difference.values()) == pytest.approx([0.6, 0.6 - reach, 0.6 + reach], abs=2e-3)
    rows = world.store.frame(found.detail["sql"])
    assert dict(zip(rows["model"], rows["value"], strict=True)) == pytest.approx({"bert": 0.3, "gpt2": 0.9})
    assert "difference" not in world.judge_one(f"value: {{{number} gpt2}}, above: 0.2").detail


def test_a_number_without_an_interval_is_compared_as_it_stands_and_not_counted(world):
    world.put("bert", "variance.coverage", 0.9, None)
    world.put("bert", "convergence.rate", 0.1)
    value = "value: {metric: variance.coverage, model: bert}"
    found = world.judge(
        f"a, supported: {value}, above: 0.8\nb, supported: {value}, paper: 0.8, within: 0.1\n"
        f"c, refuted: {value}, below: 0.5\nd, supported: {RATE}, above: 0"
    )
    assert found["a"].p is None and "the verdict ignores the uncertainty" in found["a"].detail["reason"]
    assert found["d"].detail["tested"] == 1 and "tested" not in found["a"].detail
    # An uncertain bound makes an exact number uncertain.
    (found,) = world.judge(f"c: {value}, above: {{metric: convergence.rate, model: bert}}").values()
    assert found.p is not None and found.verdict == "supported"
    # Where the statistic has intervals, a number without one decides nothing.
    world.put("bert", "convergence.rate", 0.1, None)
    found = world.judge_one(f"{RATE}, above: 0")
    assert (found.verdict, found.p) == ("inconclusive", None)
    assert found.detail["reason"].endswith("has no interval over these texts")


def test_layers_sites_views_and_checkpoints_are_told_apart(world):
    for step in (10, 20):
        world.put("bert", "convergence.similarity", [0.1, 0.5, step / 100], step=step)
    world.put("bert", "convergence.similarity", [0.7, 0.7, 0.7], view="with special tokens", step=20)
    readings = {
        "layer: 0}, below: 1": 0.1,
        "layer: 1}, below: 1": 0.5,
        "layer: last}, below: 1": 0.2,
        "layer: last, step: 10}, below: 1": 0.1,
        "layer: last, checkpoint: step10}, below: 1": 0.1,
        "site: embedding}, below: 1": 0.1,
        "layer: 2, view: with special tokens}, below: 1": 0.7,
    }
    found = world.judge("\n".join(f"c{i}: {SIMILARITY} {number}" for i, number in enumerate(readings)))
    assert [verdict.value for verdict in found.values()] == list(readings.values())
    found = world.judge(f"c: {SIMILARITY} layer: 2}}, below: 0.5, views: [text tokens, with special tokens]")
    assert [(v.value, v.verdict) for v in found.values()] == [(0.2, "supported"), (0.7, "refuted")]


def test_sql_sees_this_study_alone_and_takes_the_first_view_and_corpus(world):
    for study, value in (("other", 0.5), ("s", 0.1)):
        world.put("bert", "convergence.rate", value + 0.02, view="with special tokens", study=study)
        world.put("bert", "convergence.rate", value + 0.01, corpus="tweets", study=study)
        world.put("bert", "convergence.rate", value, study=study)
    on_wiki = RATE.replace("}", ", corpus: wiki}")
    where = "FROM layer_metrics WHERE model='bert' AND metric='convergence' AND statistic='rate'"
    found = world.judge(
        f"""plain: value: {{sql: "SELECT value {where}"}}, paper: 0.1, within: 0.01
        interval: value: {{sql: "SELECT value, ci_low, ci_high {where}"}}, below: 0.2
        lone: value: {{sql: "SELECT avg(value) {where}"}}, above: 0
        semicolon: value: {{sql: "SELECT 1 AS value; "}}, above: 0
        comment: value: {{sql: "SELECT 2 -- two"}}, above: 0
        everything: value: {{sql: "SELECT max(value) FROM main.layer_metrics"}}, above: 0.5
        below: {on_wiki}, below: {{sql: "SELECT 0.2 AS value, 0.19 AS ci_low, 0.21 AS ci_high"}}""",
        corpora="wiki, tweets",
    )
    assert {name: verdict.verdict for name, verdict in found.items()} == dict.fromkeys(found, "supported")
    assert found["plain"].value == 0.1 and found["plain"].p is None and found["plain"].view is None
    assert "the query returned 3 rows; the first is used" in found["plain"].detail["notes"]
    assert found["interval"].ci_low == pytest.approx(0.1 - 0.0196, abs=1e-4) and found["interval"].p is not None
    assert found["lone"].value == pytest.approx(0.11) and found["everything"].value == pytest.approx(0.52)


REASONS = {
    'value: {sql: "SELECT valu FROM layer_metrics"}': "the query failed: Binder Error",
    'value: {sql: "SELECT value FROM layer_metrics WHERE false"}': "the query returned no rows",
    'value: {sql: "SELECT NULL AS value"}': "the first row of the query has no value (NULL)",
    'value: {sql: "SELECT 1 AS a, 2 AS b"}': "the query returned the columns a, b; name one of them 'value'",
    "value: {sql: \"SELECT 'x' AS value\"}": "column value of the query is not a number: 'x'",
    "value: {metric: convergence.area, model: bert}": "there are no numbers of convergence.area for token set",
    f"{SIMILARITY} layer: 7}}": "there is no number at layer 7: convergence.similarity of bert on 'wiki'",
    f"{SIMILARITY} layer: 1}}": "convergence.similarity of bert on 'wiki' for token set 'text tokens' has no value",
    "value: {metric: convergence.rate, model: bert, step: 3}": "bert has no checkpoint at step 3; its checkpoints:",
}


def test_what_cannot_be_tested_says_why(world):
    world.put("bert", "convergence.rate", 0.1)
    world.put("bert", "convergence.similarity", [0.1, None, 0.3])
    claims = "\n".join(f"c{i}, failed: {value}, above: 0" for i, value in enumerate(REASONS))
    for found, reason in zip(world.judge(claims).values(), REASONS.values(), strict=True):
        assert found.detail["reason"].startswith(reason), found.detail


def test_few_texts_decide_nothing(world):
    differ = "differ: {metric: convergence.rate, a: bert, b: gpt2, is: below, at_least: 0}"
    claims = f"a, %s: {RATE}, above: 0\nb, %s: {differ}"
    for model, value in (("bert", 0.1), ("gpt2", 0.5)):
        world.put(model, "convergence.rate", value, 0.001)
    world.put_corpus("wiki", words=1000, texts=11)
    for verdict in world.judge(claims.replace("%s", "inconclusive")).values():
        assert verdict.detail["reason"].startswith("not tested: too few texts: 11 in wiki; a verdict needs 12")
    world.judge(claims.replace("%s", "supported"), more="texts: fixed")
    world.put_corpus("wiki", texts=12)
    world.judge(claims.replace("%s", "supported"))


def test_a_limit_on_a_mean_allows_for_rare_tokens_that_no_text_has(world):
    """How often such a limit is supported falsely is simulated in test_calibration.py."""
    world.put_corpus("wiki", texts=100)
    world.put("bert", "divergence.kl", 0.01, 0.0003, n=9000)
    claims = "\n".join(
        f"below-{limit}: value: {{metric: divergence.kl, model: bert}}, below: {limit}" for limit in (0.015, 0.2)
    )
    near, far = world.judge(claims, bases={"bert": "gpt2"}, metrics=", divergence").values()
    assert (near.verdict, far.verdict) == ("inconclusive", "supported")
    assert any("+0.0067" in note for note in far.detail["notes"])


def test_few_texts_make_the_deciding_interval_wider(world):
    world.put("bert", "convergence.rate", 0.1, 0.001)
    world.put_corpus("wiki", words=1000, texts=16)
    found = world.judge_one(f"{RATE}, above: 0.0975")
    half = stats.norm.ppf(0.975) * (1 + 1.5 / 4) * 0.001  # the stored interval has Student's t already
    assert (found.ci_low, found.ci_high) == pytest.approx((0.1 - half, 0.1 + half))
    assert found.verdict == "inconclusive" and found.p > 0.05  # the stored interval alone would support it
    assert world.judge_one(f"{RATE}, above: 0.0969").verdict == "supported"
    world.put("bert", "anisotropy.mean_cosine", [0.1, 0.2], 0.01)
    notes = world.judge_one("value: {metric: anisotropy.mean_cosine, model: bert, layer: 1}, above: 0").detail["notes"]
    assert "anisotropy.mean_cosine depends on the size of the corpus: wiki has 1,000 words" in notes


def test_a_query_says_which_statistics_and_tables_it_is_about(world):
    world.put("bert", "convergence.rate", 0.0841, 0.0015)
    joined = "SELECT max(value) FROM layer_metrics JOIN main.models USING (model) WHERE"
    found = world.judge(
        f"""full: value: {{sql: "{joined} metric = 'convergence' AND statistic IN ('rate', 'start')"}}, above: 0
        none: value: {{sql: "SELECT count(*) AS value FROM models WHERE model <> 'from cells'"}}, above: 0
        broken, failed: value: {{sql: "SELECT max(valu) FROM layer_metrics WHERE statistic = 'rate'"}}, above: 0
        bound: {RATE}, above: {{sql: "SELECT min(value) FROM over_models WHERE statistic = 'start'"}}"""
    )
    about = {name: (verdict.detail["metrics"], verdict.detail["tables"]) for name, verdict in found.items()}
    assert about.pop("none") == ([], ["models"])
    assert about.pop("full") == (["convergence.rate", "convergence.start"], ["layer_metrics", "models"])
    assert about.pop("broken") == (["convergence.rate"], ["layer_metrics"])
    assert about.pop("bound") == (["convergence.rate", "convergence.start"], ["over_models"])


def test_an_unexpected_error_is_a_verdict_and_touches_no_other(rates, monkeypatch):
    def broken(*_):
        raise KeyError("boom")

    monkeypatch.setattr("reporter.judge.claims.shape.Profiles", broken)
    shape = "shape: {metric: convergence.similarity, is: flat}"
    found = rates.judge(f"a, failed: {shape}\nb, supported: {RATE}, above: 0")
    assert found["a"].detail["reason"].startswith("KeyError: 'boom' (test_value_claims.py:")
    (rates.folder / "results.duckdb").unlink()
    found = rates.judge(f"a, failed: {RATE}, above: 0\nb, failed: value: {{sql: SELECT 1}}, above: 0")
    assert "does not exist; run `reporter run" in found["a"].detail["reason"]
