"""What claims may say, and the line a user reads where one says something else."""

import pytest
from study.conftest import assert_words

from reporter.judge.claims.differ import DifferClaim, SideParts
from reporter.judge.claims.relation import RelationClaim
from reporter.judge.claims.shape import ShapeClaim
from reporter.judge.claims.value import ValueClaim
from reporter.study.claims import MetricNumber, SqlNumber

HEAD = """study: s
models: {bert: {path: x, scores: {sst2: 0.9}}, gpt2: gpt2}
corpora: {wiki: {texts: [a]}, tweets: {texts: [b]}}
metrics: [convergence, anisotropy]
baselines: [random-init]
views: [text tokens, without sinks]
claims:
"""
STATISTICS = {"convergence": {"similarity": "layer", "rate": "model", "pairs": "pair"}}
STATISTICS |= {"anisotropy": {"mean_cosine": "layer"}}
RATE = "{metric: convergence.rate, model: bert, corpus: wiki}"
ON_WIKI = "model: bert, corpus: wiki"
ANISOTROPY = "metric: anisotropy.mean_cosine"
# A frame, what the keys of its messages begin with, and pairs of what a claim says and what is said of it.
BROKEN = {
    ("value: {%s}, above: 0", "value"): [
        ("metric: convergence.rate, model: bert", ": missing key; add `corpus: NAME` with one of wiki, tweets"),
        ("metric: convergence.rate, model: brt, corpus: wiki", ".model: no model 'brt'; did you mean 'bert'?"),
        ("metric: rate, model: bert, corpus: wiki", ".metric: such as … (metric.statistic), got text 'rate'"),
        (f"metric: intrinsic_dimension.twonn, {ON_WIKI}", ".metric: not measured … add it to `metrics`"),
        (f"metric: convergence.pairs, {ON_WIKI}", ".metric: two layers … {sql: …} … layer_pairs"),
        (f"metric: convergence.similarity, {ON_WIKI}", ".metric: at every layer; add `layer: NUMBER`"),
        (f"metric: convergence.similarity, {ON_WIKI}, layer: first", ".layer: or 'last', got text 'first'"),
        (f"metric: convergence.rate, {ON_WIKI}, layer: 1", ".layer: one number for the whole model; remove `layer`"),
        (
            f"metric: convergence.rate, {ON_WIKI}, view: with special tokens",
            ".view: no view 'with special tokens'; did you mean 'text tokens'?",
        ),
        (f"metric: convergence.rate, {ON_WIKI}, step: 1, checkpoint: a", ".step: `checkpoint` and `step` cannot be"),
    ],
    (f"value: {RATE}%s", ""): [
        ("", ": missing key; add `above`, `below`, `between`, or `paper` and `within`"),
        (", within: 0.1", "within: needs `paper`; add `paper: NUMBER`"),
        (", above: 0, below: 1", "below: 'above' and 'below' cannot be combined … or use `between`"),
        (", between: [1, 0]", "between: the first number (1) must be less than the second (0)"),
        (", above: 0, baselines: [shuffled]", "baselines: no baseline 'shuffled'; … random-init"),
        (f", above: 0, shape: {{{ANISOTROPY}, is: bell}}", "shape: 'value' and 'shape' cannot be combined; remove one"),
    ],
    ("%s", ""): [
        (
            "value: {sql: SELECT 1}, above: 0, views: [text tokens]",
            "views: cannot be combined with `sql` … remove `views`",
        ),
        ("paper: 3", ": missing key; add 'value', 'shape', 'differ', 'relation' or 'stays'"),
        ("relation: {x: count, y: count, over: types, is: positive}", "relation.y: `x` and `y` are both 'count'"),
        ("relation: {x: count, y: variance, over: types, is: none}", "relation.is: 'none' needs `at_least`; add"),
        ("differ: {metric: convergence.rate, a: bert, b: gpt2, site: block, is: above}", "differ.site: remove"),
    ],
    ("shape: {%s}", "shape"): [
        (f"{ANISOTROPY}, is: bel", ".is: 'bell', 'flat', … 'rise-then-fall' or 'peak-at', got … did you mean 'bell'?"),
        (f"{ANISOTROPY}, is: peak-at", ".is: 'peak-at' needs `at`; add"),
        (f"{ANISOTROPY}, is: peak-at, at: 3", ".at: must be a depth between 0 and 1, got 3"),
        (f"{ANISOTROPY}, is: peak-at, over: step, at: 3", ".is: 'peak-at' over steps needs `within`; add"),
        (f"{ANISOTROPY}, is: peak-at, at: 0.5, tolerance: 1", ".tolerance: cannot be combined with … use `within`"),
        (f"{ANISOTROPY}, is: flat, at_least: 1", ".at_least: cannot be combined with `is: flat`; use `tolerance`"),
        (f"{ANISOTROPY}, is: flat, over: step, step: 1", ".step: cannot be combined with `over: step`; remove `step`"),
        (f"{ANISOTROPY}, is: bell, at: 0.5", ".at: needs `is: peak-at`; change `is`, or remove `at`"),
        (f"{ANISOTROPY}, is: bell, layer: 2", ".layer: needs `over: step`; change `over`, or remove `layer`"),
        ("metric: convergence.rate, is: bell", ".metric: whole model … use `value:`, or … `over: step`"),
    ],
    ("differ: {metric: anisotropy.mean_cosine, a: %s}", "differ"): [
        ("bert, b: gpt2, is: above, by: 1, at_least: 1", ".by: the old name of `at_least`; remove `by`"),
        ("bert, b: gpt, is: above", ".b: no model or corpus 'gpt'; did you mean 'gpt2'?"),
        ("{}, b: gpt2, is: above", ".a: missing key; add `models` or `corpus`"),
        ("bert, b: gpt2, is: same", ".is: 'same' needs `at_least`; add"),
    ],
    ("relation: {x: anisotropy.mean_cosine, y: %s, is: positive}", "relation"): [
        ("variance, over: layers", ".y: expected metric.statistic with `over: layers`, got text 'variance'"),
        ("variance, over: types", ".x: expected 'count', 'norm_of_mean' or 'variance' with `over: types`, got text"),
        ("scores.sst, over: models", ".y: no score 'sst'; did you mean 'sst2'?"),
        ("convergence.rate, over: layers", ".y: one number … write `over: models`"),
        ("scores.sst2, over: layers", ".y: a score needs `over: models`"),
        ("convergence.similarity, over: layers, layer: 1", ".layer: cannot be combined with … remove `layer`"),
        ("convergence.similarity, over: layers, site: final", ".site: 'final' is a single layer"),
    ],
}
CASES = [(frame % claim, f"{key}{says}") for (frame, key), of in BROKEN.items() for claim, says in of]


@pytest.mark.parametrize(("claim", "expected"), CASES)
def test_a_claim_that_makes_no_sense_is_one_line(complain, claim, expected):
    (line,) = complain(f"{HEAD}  c: {{says: x, {claim}}}\n", STATISTICS)
    key, _, words = expected.partition(": ")
    place, where, message = line.split(": ", 2)
    assert place.startswith("study.yaml:8:") and where == f"claims.c.{key}".removesuffix(".")
    assert_words(message, words)


def test_what_a_claim_lacks_and_what_is_wrong_in_it_are_told_together(complain):
    claims = "  c: {shape: {metric: anisotropy.mean_cosine, is: bell, models: nobody}}\n  d: 3\n"
    lines = [line.split(" ", 1)[1] for line in complain(HEAD + claims, STATISTICS)]
    assert lines[0].startswith("claims.c.says: missing key")
    assert lines[1].startswith("claims.c.shape.models: no model 'nobody'; models of this study: bert, gpt2, encoders")
    assert lines[2].startswith("claims.d: expected a mapping such as {says: It rises., shape:")


def test_every_kind_is_read_and_models_may_be_named_like_groups_of_models(load):
    claims = load(
        f"""{HEAD.replace("gpt2: gpt2", "all: gpt2")}
  rate: {{says: "a  b", source: "L 2024, §6", value: {RATE}, paper: 0.08, within: 0.01}}
  sql: {{says: x, value: {{sql: "SELECT 1 AS value"}}, below: {RATE}}}
  between: {{says: x, value: {RATE}, between: [-1, {RATE}], views: [without sinks, text tokens],
    baselines: [random-init]}}
  bell: {{says: x, shape: {{metric: anisotropy.mean_cosine, models: decoders, is: bell}}}}
  peak: {{says: x, shape: {{metric: anisotropy.mean_cosine, models: all, over: step, is: peak-at, at: 6, within: 5}}}}
  models: {{says: x, differ: {{metric: anisotropy.mean_cosine, a: decoders, b: [bert], is: above, layer: last}}}}
  corpora: {{says: x, differ: {{metric: convergence.rate, a: {{corpus: wiki}}, b: tweets, is: different}}}}
  scores: {{says: x, relation: {{x: convergence.rate, y: scores.sst2, over: models, is: positive, method: pearson}}}}
""",
        STATISTICS,
    ).claims
    kinds = 3 * [ValueClaim] + 2 * [ShapeClaim] + 2 * [DifferClaim] + [RelationClaim]
    assert [type(claim) for claim in claims.values()] == kinds
    rate, sql, between, bell, peak, models, corpora, _ = claims.values()
    assert isinstance(rate.value, MetricNumber)
    assert (rate.says, rate.paper, rate.within, rate.value.model) == ("a b", 0.08, 0.01, "bert")
    assert isinstance(sql.value, SqlNumber) and isinstance(sql.below, MetricNumber) and between.between[0] == -1
    assert (bell.shape.models, bell.shape.corpus, bell.shape.over) == (("decoders",), None, "depth")
    assert (peak.shape.models, peak.shape.at, peak.shape.within) == (("all",), 6, 5)
    assert models.differ.b == ("bert",) and corpora.differ.a == SideParts(corpus=("wiki",))


NUMBERS = {
    "metric: pairs.consistency, model: m, layer: 1": "missing key; add `corpus: NAME` with one of p, q",
    "metric: pairs.consistency, model: m, corpus: r, layer: 1": "no pairs 'r'; pairs of this",
    "metric: probes.accuracy, model: m, layer: 1": "not measured in this study; add the key `probes`",
    "metric: pears.x, model: m, corpus: p": "unknown metric 'pears'; did you mean 'pairs'?",
    "metric: convergence.rate, model: m": "claims.c.value.metric: needs texts; add a corpus under `corpora`",
}


def test_claims_on_what_analyses_look_at(load, complain):
    statistics = {"pairs": {"consistency": "layer"}, "probes": {"accuracy": "layer"}}
    pairs = "{a: [[x, v], [z, w]]}"
    text = f"study: s\nmodels: {{m: gpt2}}\npairs: {{p: {pairs}, q: {pairs}}}\n"
    text += "claims:\n  c: {says: x, value: {%s}, above: 0}\n"
    for number, message in NUMBERS.items():
        assert message in "\n".join(complain(text % number, statistics))
    assert load(text % "metric: pairs.consistency, model: m, corpus: p, layer: 1", statistics).claims
