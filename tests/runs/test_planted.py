"""Whole runs on texts whose vectors are planted: the layer, the pooling and the concepts that were planted come out."""

import numpy as np
import pytest

from reporter.judge.questions.question import markdown
from reporter.runs.whole import ask

pytestmark = pytest.mark.answers
WIDTH = 16
TEXTS = "\n".join(
    f"{'cat sleeps' if i % 2 else 'dogs run'} number {i} .,{'one' if i % 2 else 'many'}" for i in range(240)
)
CONCEPTS = {"early": 0, "late": 2, "absent": 9}
"""From which layer on each concept is a direction."""
PAIRS = "\n".join(
    f"  {name}:\n" + "\n".join(f'    - ["{name} {i} first .", "{name} {i} second ."]' for i in range(12))
    for name in CONCEPTS
)


def noise(*parts):
    return np.random.default_rng([*"|".join(map(str, parts)).encode()]).standard_normal(WIDTH)


@pytest.fixture
def planted(study, run, tmp_path, monkeypatch):
    """Return a function that runs a study in which one layer and pooling carry the label."""

    def get(layer, pooling, *replace):
        def vector(text, place, own):
            x = noise(text, place, own)
            if text.startswith(("cat", "dogs")):
                return x + 2.5 * (text[0] == "c") * (place.layer == layer and own == pooling) * np.eye(WIDTH)[0]
            concept, _, which = text.split()[:3]
            return x + 5 * (which == "second" and place.layer >= CONCEPTS[concept]) * np.eye(WIDTH)[len(concept)]

        def pooled_by(texts, context, poolings, max_tokens=None, what="texts"):
            places = context.layout.places
            return {of: {at: np.stack([vector(text, at, of) for text in texts]) for at in places} for of in poolings}

        monkeypatch.setattr("reporter.metrics._items.pooled_by", pooled_by)
        (tmp_path / "labelled.csv").write_text(f"text,count\n{TEXTS}\n", "utf-8")
        file = study(
            ("corpora:\n", "corpora:\n  labelled: {file: labelled.csv, column: text, label: count}\n"),
            ("metrics: [convergence, {anisotropy: {sample: 64, batches: 2}}, motion]\n", f"pairs:\n set:\n{PAIRS}\n"),
            ("run:", "probes: {count: {corpus: labelled, hidden: 0}}\nrun:"),
            ("checkpoints: [0, 2]", "checkpoints: [2]"),
            *replace,
        )
        outcome, said = run(file)
        assert outcome.exit_code == 0, said
        return said

    return get


def test_the_planted_layer_pooling_and_concepts_come_out(planted, store, out):
    layer, pooling = 2, "first"
    log = planted(layer, pooling)
    rows = store.records("SELECT * FROM layer_answers WHERE kind = 'labels'")
    for model in ("enc", "dec"):  # the default of the first is the mean, of the other the last token
        own = [row for row in rows if row["model"] == model]
        assert {row["pooling"] for row in own} == {"mean", "last", "first"}
        best = {(row["layer"], row["pooling"]) for row in own if row["loss_low"] == 0}
        assert best == {(layer, pooling)}
        for usual in (row for row in own if row["usual"]):
            assert usual["pooling"] == ("mean" if model == "enc" else "last")
    main = store.records(
        "SELECT p.accuracy, m.value FROM probe_poolings p JOIN layer_metrics m USING (model, checkpoint, site, layer) "
        "WHERE main AND metric = 'probes' AND statistic = 'linear'"
    )
    assert main and all(row["accuracy"] == row["value"] for row in main)
    text = markdown(ask("tiny", out))
    assert f"with {pooling}{'' if pooling == 'mean' else '-token'} pooling: the accuracy" in text

    shared = store.records("SELECT * FROM concept_answers WHERE model = 'dec' ORDER BY layer")
    for concept, start in CONCEPTS.items():
        assert [row["layer"] for row in shared if row["concept"] == concept and row["shared"]] == list(range(start, 3))
    assert "`late` is not shown" not in text and "`absent` is not shown" in text
    found = store.records("SELECT * FROM findings WHERE kind = 'concepts' AND model = 'dec'")
    assert {row["corpus"]: (row["layer_first"], row["layer_last"]) for row in found} == {
        "set: early": (0, 2),
        "set: late": (2, 2),
    }
    assert all(row["p_adjusted"] <= 0.05 and row["looked_at"] >= 6 for row in found)
    assert "'early' is a direction that its pairs share from the embedding on" in log


def test_a_pooling_that_the_study_names_is_the_only_one(planted, store):
    planted(1, "first", ("run:", "pooling: first\nrun:"))
    rows = store.records("SELECT DISTINCT pooling, main FROM probe_poolings")
    assert rows == [{"pooling": "first", "main": True}]
    assert {row["pooling"] for row in store.records("SELECT pooling FROM layer_answers WHERE kind = 'labels'")} == {
        "first"
    }
