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
    assert order_of(SPEC) == {
        "models": ["zeta", "alpha"],
        "corpora": ["wiki", "tweets", "a.b"],
        "groups": ["second", "first"],
        "pairs": ["tense", "number"],
    }
    parts = ("models", "corpora", "groups", "pairs")
    assert order_of("models: [broken") == order_of(None) == {key: [] for key in parts}


def test_a_share_stands_after_its_corpus_and_a_null_baseline_after_its_model():
    corpora = [{"corpus": name} for name in ("a.b", "other", "tweets", "tweets.joy", "wiki")]
    ordered = in_order(corpora, "corpus", order_of(SPEC)["corpora"])
    assert [row["corpus"] for row in ordered] == ["wiki", "tweets", "tweets.joy", "a.b", "other"]
    null = {"model": "zeta (random-init)", "base": "zeta", "baseline": "random-init"}
    models = [{"model": "alpha"}, {"model": "zeta"}, null]
    assert [row["model"] for row in in_order(models, "model", ["zeta", "alpha"])] == [
        "zeta",
        "zeta (random-init)",
        "alpha",
    ]


def test_rows_of_models_on_corpora_come_by_model_first():
    rows = [{"model": model, "corpus": corpus} for model in ("alpha", "zeta") for corpus in ("tweets", "wiki")]
    found = [(row["model"], row["corpus"]) for row in as_named(rows, order_of(SPEC))]
    assert found == [("zeta", "wiki"), ("zeta", "tweets"), ("alpha", "wiki"), ("alpha", "tweets")]
