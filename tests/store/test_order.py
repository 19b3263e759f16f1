"""Models and corpora stand in the order of the study file, not in that of the alphabet."""

from reporter.store.rows import as_named, in_order, order_of

SPEC = """
study: s
models: {zeta: {path: z}, alpha: {path: a}}
corpora: {wiki: {file: w}, tweets: {file: t, by: [joy]}, "a.b": {file: a}}
groups: {second: "{a|b}", first: "{c|d}"}
pairs: {mine: {tense: [], number: []}, theirs: shipped}
"""


def test_names_come_as_the_file_has_them():
    models, corpora = ["zeta", "alpha"], ["wiki", "tweets", "a.b"]
    order = {"models": models, "corpora": corpora, "groups": ["second", "first"], "pairs": ["tense", "number"]}
    assert order_of(SPEC) == order
    assert order_of("models: [broken") == order_of(None) == {key: [] for key in order}
    # a share stands after its corpus, and a null baseline after its model
    rows = [{"corpus": name} for name in ("a.b", "other", "tweets", "tweets.joy", "wiki")]
    found = [row["corpus"] for row in in_order(rows, "corpus", corpora)]
    assert found == ["wiki", "tweets", "tweets.joy", "a.b", "other"]
    null = {"model": "zeta (random-init)", "base": "zeta", "baseline": "random-init"}
    rows = in_order([{"model": "alpha"}, {"model": "zeta"}, null], "model", models)
    assert [row["model"] for row in rows] == ["zeta", "zeta (random-init)", "alpha"]
    rows = [{"model": model, "corpus": corpus} for model in ("alpha", "zeta") for corpus in ("tweets", "wiki")]
    found = [(row["model"], row["corpus"]) for row in as_named(rows, order_of(SPEC))]
    assert found == [("zeta", "wiki"), ("zeta", "tweets"), ("alpha", "wiki"), ("alpha", "tweets")]
