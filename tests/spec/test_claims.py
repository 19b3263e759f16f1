"""What claims may say, and the line a user reads where one says something else."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from spec.conftest import offered

from reporter.judge.claims.differ import DifferClaim, SideParts
from reporter.judge.claims.relation import RelationClaim
from reporter.judge.claims.shape import ShapeClaim
from reporter.judge.claims.value import ValueClaim
from reporter.spec import SpecError, Study, load_study
from reporter.spec.claims import MetricNumber, SqlNumber

HEAD = """study: s
models: {bert: {path: x, scores: {sst2: 0.9}}, gpt2: gpt2}
corpora: {wiki: {texts: [a]}, tweets: {texts: [b]}}
metrics: [convergence, anisotropy]
baselines: [random-init]
views: [words, no-sinks]
claims:
"""
STATISTICS = {
    "convergence": {"similarity": "layer", "rate": "model", "pairs": "pair"},
    "anisotropy": {"mean_cosine": "layer"},
}
RATE = "{metric: convergence.rate, model: bert, corpus: wiki}"
BROKEN = [
    ("value: {metric: convergence.rate, model: bert}, above: 0", "value: needs the key 'corpus': one of wiki, tweets"),
    (
        "value: {metric: convergence.rate, model: brt, corpus: wiki}, above: 0",
        "value.model: no model 'brt'; did you mean 'bert'?",
    ),
    (
        "value: {metric: rate, model: bert, corpus: wiki}, above: 0",
        "value.metric: expected a statistic such as convergence.rate (metric.statistic), got text 'rate'",
    ),
    (
        "value: {metric: convergenc.rate, model: bert, corpus: wiki}, above: 0",
        "value.metric: unknown metric 'convergenc'; did you mean 'convergence'?",
    ),
    (
        "value: {metric: convergence.rat, model: bert, corpus: wiki}, above: 0",
        "value.metric: metric 'convergence' has no statistic 'rat'; did you mean 'rate'?",
    ),
    (
        "value: {metric: intrinsic_dimension.twonn, model: bert, corpus: wiki, layer: 1}, above: 0",
        "value.metric: metric 'intrinsic_dimension' is not measured in this study; list it under 'metrics'",
    ),
    (
        "value: {metric: convergence.pairs, model: bert, corpus: wiki}, above: 0",
        "value.metric: 'convergence.pairs' is a number of two layers (table layer_pairs); claim it with "
        "value: {sql: …}",
    ),
    (
        "value: {metric: convergence.similarity, model: bert, corpus: wiki}, above: 0",
        "value.metric: 'convergence.similarity' is measured at every layer; say which with 'layer'",
    ),
    (
        "value: {metric: convergence.rate, model: bert, corpus: wiki, layer: 1}, above: 0",
        "value.layer: 'convergence.rate' is a number of the whole model; leave 'layer' out",
    ),
    (
        "value: {metric: convergence.similarity, model: bert, corpus: wiki, layer: first}, above: 0",
        "value.layer: expected a layer (0 is the embedding) or 'last', got text 'first'",
    ),
    (
        "value: {metric: convergence.rate, model: bert, corpus: wiki, view: all}, above: 0",
        "value.view: no view 'all'; views of this study: words, no-sinks",
    ),
    (
        "value: {metric: convergence.rate, model: bert, corpus: wiki, step: 1, checkpoint: a}, above: 0",
        "value.step: 'checkpoint' and 'step' exclude each other; keep one of them",
    ),
    ("value: {sq: SELECT 1}, above: 0", "value.sq: unknown key; did you mean 'sql'?"),
    (
        "value: 0.1, above: 0",
        "value: expected a mapping such as {metric: convergence.rate, model: bert} or {sql: SELECT …}, got "
        "the number 0.1",
    ),
    (f"value: {RATE}", "needs a test: 'within' (of 'paper'), 'above', 'below' or 'between'"),
    (f"value: {RATE}, within: 0.1", "within: needs 'paper', the number it is compared with"),
    (
        f"value: {RATE}, above: 0, below: 1",
        "below: 'above' and 'below' exclude each other; keep one of them, or use 'between'",
    ),
    (f"value: {RATE}, between: [1, 0]", "between: the first number (1) must be less than the second (0)"),
    (f"value: {RATE}, above: much", "above: expected a number, {metric: …} or {sql: …}, got text 'much'"),
    (f"value: {RATE}, above: .inf", "above: must be a finite number, got inf"),
    (f"value: {RATE}, paper: 0.1, within: -1", "within: must be at least 0, got -1"),
    (
        "value: {sql: SELECT 1}, above: 0, views: [words]",
        "views: goes with {metric: …}; a query says itself what it reads",
    ),
    (f"value: {RATE}, above: 0, views: [all]", "views: no view 'all'; views of this study: words, no-sinks"),
    (
        f"value: {RATE}, above: 0, baselines: [shuffled]",
        "baselines: no baseline 'shuffled'; baselines of this study: random-init",
    ),
    (
        "shape: {metric: anisotropy.mean_cosine, is: bel}",
        "shape.is: expected 'bell', 'flat', 'increasing', 'decreasing', 'rise-then-fall' or 'peak-at', got "
        "text 'bel'; did you mean 'bell'?",
    ),
    ("shape: {metric: anisotropy.mean_cosine}", "shape.is: missing key"),
    (
        "shape: {metric: anisotropy.mean_cosine, is: bell, models: encoder}",
        "shape.models: no model 'encoder'; did you mean 'encoders'?",
    ),
    (
        "shape: {metric: anisotropy.mean_cosine, is: bell, models: [bert, bert]}",
        "shape.models[1]: 'bert' is listed twice",
    ),
    (
        "shape: {metric: anisotropy.mean_cosine, is: bell, corpus: wik}",
        "shape.corpus: no corpus 'wik'; did you mean 'wiki'?",
    ),
    ("shape: {metric: anisotropy.mean_cosine, is: bell, at: 0.5}", "shape.at: goes only with 'is: peak-at'"),
    ("shape: {metric: anisotropy.mean_cosine, is: bell, layer: 2}", "shape.layer: goes only with 'over: step'"),
    (
        "shape: {metric: anisotropy.mean_cosine, is: bell, site: final}",
        "shape.site: 'final' is a single place, not a profile",
    ),
    (
        "shape: {metric: convergence.rate, is: bell}",
        "shape.metric: 'convergence.rate' is a number of the whole model and has no profile over its layers; claim its "
        "'value', or say 'over: step'",
    ),
    (
        "shape: {metric: convergence.rate, is: flat, over: step, layer: 1}",
        "shape.layer: 'convergence.rate' is a number of the whole model; leave 'layer' out",
    ),
    (
        "differ: {metric: convergence.rate, a: bert, b: gpt2, is: above, site: block}",
        "differ.site: 'convergence.rate' is a number of the whole model; leave 'site' out",
    ),
    (
        "relation: {x: convergence.rate, y: anisotropy.mean_cosine, over: layers, is: positive}",
        "relation.x: 'convergence.rate' is a number of the whole model, and layers do not have it; say 'over: models'",
    ),
    ("shape: {metric: anisotropy.mean_cosine, is: peak-at}", "shape.is: 'peak-at' needs the key 'at'"),
    ("shape: {metric: anisotropy.mean_cosine, is: peak-at, at: 3}", "shape.at: a depth lies between 0 and 1, got 3"),
    (
        "shape: {metric: anisotropy.mean_cosine, is: peak-at, over: step, at: 3}",
        "shape.is: 'peak-at' over steps needs the key 'within'",
    ),
    (
        "shape: {metric: anisotropy.mean_cosine, is: peak-at, at: 0.5, tolerance: 1}",
        "shape.tolerance: does not go with 'is: peak-at'; use 'within'",
    ),
    (
        "shape: {metric: anisotropy.mean_cosine, is: flat, at_least: 1}",
        "shape.at_least: does not go with 'is: flat'; use 'tolerance', how far from the mean a point may lie",
    ),
    (
        "differ: {metric: anisotropy.mean_cosine, a: bert, b: gpt2, is: above, by: 1, at_least: 1}",
        "differ.by: 'by' is what 'at_least' was called; keep 'at_least'",
    ),
    (
        "shape: {metric: anisotropy.mean_cosine, is: flat, over: step, step: 1}",
        "shape.step: does not go with 'over: step'",
    ),
    (
        "differ: {metric: anisotropy.mean_cosine, a: bert, b: gpt, is: above}",
        "differ.b: no model or corpus 'gpt'; did you mean 'gpt2'?",
    ),
    (
        "differ: {metric: anisotropy.mean_cosine, a: wiki, b: [tweets, twets], is: above}",
        "differ.b[1]: no corpus 'twets'; did you mean 'tweets'?",
    ),
    (
        "differ: {metric: anisotropy.mean_cosine, a: {}, b: gpt2, is: above}",
        "differ.a: needs one of the keys 'models' or 'corpus'",
    ),
    (
        "differ: {metric: anisotropy.mean_cosine, a: 3, b: gpt2, is: above}",
        "differ.a: expected a name, a list of names or a mapping such as {models: encoders}, got the number 3",
    ),
    (
        "differ: {metric: anisotropy.mean_cosine, a: bert, b: gpt2, is: same}",
        "differ.is: 'same' needs the key 'at_least': from which difference on they are no longer the same",
    ),
    (
        "relation: {x: anisotropy.mean_cosine, y: variance, over: layers, is: positive}",
        "relation.y: over layers it must be metric.statistic, got text 'variance'",
    ),
    (
        "relation: {x: anisotropy.mean_cosine, y: variance, over: types, is: positive}",
        "relation.x: over types it must be 'count', 'norm_of_mean' or 'variance', got text 'anisotropy.mean_cosine'",
    ),
    (
        "relation: {x: anisotropy.mean_cosine, y: scores.sst, over: models, is: positive}",
        "relation.y: no score 'sst'; did you mean 'sst2'?",
    ),
    (
        "relation: {x: anisotropy.mean_cosine, y: scores.sst2, over: layers, is: positive}",
        "relation.y: scores go only with 'over: models'",
    ),
    (
        "relation: {x: anisotropy.mean_cosine, y: convergence.similarity, over: layers, layer: 1, is: positive}",
        "relation.layer: does not go with 'over: layers'",
    ),
    (
        "relation: {x: anisotropy.mean_cosine, y: convergence.similarity, over: layers, site: final, is: positive}",
        "relation.site: 'final' is a single place",
    ),
    ("relation: {x: count, y: count, over: types, is: positive}", "relation.y: 'count' is x, too; name another one"),
    (
        "relation: {x: count, y: variance, over: types, is: none}",
        "relation.is: 'none' needs the key 'at_least': from which strength on it is a correlation",
    ),
    ("shap: {metric: anisotropy.mean_cosine}", "shap: unknown key; did you mean 'shape'?"),
    ("paper: 3", "needs one of the keys 'value', 'shape', 'differ', 'relation' or 'stays'"),
    (
        f"value: {RATE}, above: 0, shape: {{metric: anisotropy.mean_cosine, is: bell}}",
        "shape: 'value' and 'shape' exclude each other; keep one of them",
    ),
]


@pytest.fixture
def read(tmp_path: Path, catalogue) -> Callable[[str], Study]:
    def load(claims: str) -> Study:
        path = tmp_path / "study.yaml"
        path.write_text(HEAD + claims, "utf-8")
        return load_study(path, offered(catalogue, STATISTICS)).study

    return load


@pytest.mark.parametrize(("claim", "message"), BROKEN)
def test_a_claim_that_makes_no_sense_is_one_line(read, claim: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(f"  c: {{says: x, {claim}}}\n")
    (line,) = str(caught.value).split("\n")
    place = line.split("study.yaml:8:")[1]
    dot = "" if message.startswith("needs") else "."
    assert place.split(": ", 1)[1] == f"claims.c{dot or ': '}{message}"


def test_what_a_claim_lacks_and_what_is_wrong_in_it_are_told_together(read) -> None:
    with pytest.raises(SpecError) as caught:
        read("  c: {shape: {metric: anisotropy.mean_cosine, is: bell, models: nobody}}\n  d: 3\n")
    lines = [line.split(" ", 1)[1] for line in str(caught.value).split("\n")]
    assert lines[0] == "claims.c.says: missing key"
    assert lines[1].startswith("claims.c.shape.models: no model 'nobody'; models of this study: bert, gpt2, encoders")
    assert lines[2].startswith("claims.d: expected a mapping such as {says: It rises., shape:")


def test_every_kind_is_read(read) -> None:
    study = read(
        f"""  rate: {{says: "a  b", source: "L 2024, §6", value: {RATE}, paper: 0.08, within: 0.01}}
  sql: {{says: x, value: {{sql: "SELECT 1 AS value"}}, below: {RATE}}}
  between: {{says: x, value: {RATE}, between: [-1, {RATE}], views: [no-sinks, words], baselines: [random-init]}}
  bell: {{says: x, shape: {{metric: anisotropy.mean_cosine, models: decoders, is: bell}}}}
  peak: {{says: x, shape: {{metric: anisotropy.mean_cosine, over: step, is: peak-at, at: 600, within: 50}}}}
  models: {{says: x, differ: {{metric: anisotropy.mean_cosine, a: decoders, b: [bert], is: above, layer: last}}}}
  corpora: {{says: x, differ: {{metric: convergence.rate, a: {{corpus: wiki}}, b: tweets, is: different}}}}
  types: {{says: x, relation: {{x: norm_of_mean, y: variance, over: types, is: negative, layer: 2}}}}
  scores: {{says: x, relation: {{x: convergence.rate, y: scores.sst2, over: models, is: positive, method: pearson}}}}
"""
    )
    claims = study.claims
    assert list(claims) == ["rate", "sql", "between", "bell", "peak", "models", "corpora", "types", "scores"]
    rate = claims["rate"]
    assert isinstance(rate, ValueClaim) and isinstance(rate.value, MetricNumber)
    assert (rate.says, rate.paper, rate.within, rate.value.model) == ("a b", 0.08, 0.01, "bert")
    sql = claims["sql"]
    assert isinstance(sql, ValueClaim) and isinstance(sql.value, SqlNumber) and isinstance(sql.below, MetricNumber)
    between = claims["between"]
    assert isinstance(between, ValueClaim) and between.between is not None and between.between[0] == -1
    bell, peak = claims["bell"], claims["peak"]
    assert isinstance(bell, ShapeClaim) and isinstance(peak, ShapeClaim)
    assert (bell.shape.models, bell.shape.corpus, bell.shape.over, bell.shape.is_) == (
        ("decoders",),
        None,
        "depth",
        "bell",
    )
    assert (peak.shape.at, peak.shape.within) == (600, 50)
    models, corpora = claims["models"], claims["corpora"]
    assert isinstance(models, DifferClaim) and models.differ.b == ("bert",)
    assert isinstance(corpora, DifferClaim) and corpora.differ.a == SideParts(corpus=("wiki",))
    assert isinstance(claims["types"], RelationClaim)


def test_a_claim_on_numbers_of_texts_needs_texts(catalogue, tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(
        "study: s\nmodels: {m: gpt2}\nclaims: {c: {says: x, value: {metric: convergence.rate, model: m}, above: 0}}\n"
    )
    with pytest.raises(SpecError, match=r"claims.c.value.metric: needs texts; add a corpus under 'corpora'"):
        load_study(path, offered(catalogue))


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ("value: {metric: pairs.consistency, model: m, layer: 1}, above: 0", "needs the key 'corpus': one of p, q"),
        ("value: {metric: pairs.consistency, model: m, corpus: r, layer: 1}, above: 0", "no pairs 'r'; pairs of this"),
        ("value: {metric: probes.accuracy, model: m, layer: 1}, above: 0", "this study has no 'probes'"),
        ("value: {metric: pears.x, model: m, corpus: p}, above: 0", "unknown metric 'pears'; did you mean 'pairs'?"),
    ],
)
def test_claims_on_what_analyses_look_at(catalogue, tmp_path: Path, claim: str, message: str) -> None:
    known = {"pairs": {"consistency": "layer"}, "probes": {"accuracy": "layer"}}
    path = tmp_path / "study.yaml"
    pairs = "{a: [[x, v], [z, w]]}"
    head = f"study: s\nmodels: {{m: gpt2}}\npairs: {{p: {pairs}, q: {pairs}}}\nclaims:\n  c: {{says: x, "
    path.write_text(head + claim + "}\n")
    with pytest.raises(SpecError, match=re.escape(message)):
        load_study(path, offered(catalogue, known))
    path.write_text(head + "value: {metric: pairs.consistency, model: m, corpus: p, layer: 1}, above: 0}\n")
    assert load_study(path, offered(catalogue, known)).study.claims


def test_models_may_be_named_like_groups_of_models(catalogue, tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(
        HEAD.replace("gpt2: gpt2", "all: gpt2")
        + "  c: {says: x, shape: {metric: anisotropy.mean_cosine, models: all, is: flat}}\n"
    )
    assert load_study(path, offered(catalogue)).study.claims
