"""Findings and answers of a run: what was planted comes out, stored with the numbers, the same when asked again."""

import json
from dataclasses import replace

import numpy as np
import pytest
from oracles.families import WORDS
from runs.conftest import select

import reporter.judge.questions as questions
from reporter.core.errors import UsageError
from reporter.geometry.intervals import PARTS
from reporter.judge.questions import QUESTIONS
from reporter.judge.questions.question import markdown
from reporter.runs.whole import ask, ask_texts

pytestmark = pytest.mark.answers
WIDTH = 16
NUMBERS = [f"{a} {b}" for a in WORDS for b in WORDS]  # words that the tokenizer knows, so that all texts differ
TEXTS = [f"{'cat sleeps' if i % 2 else 'dogs sing'} {NUMBERS[i]} .,{'one' if i % 2 else 'many'}" for i in range(240)]
CONCEPTS = {"early": 0, "late": 2, "absent": 9}
"""From which layer on each concept is a direction."""


@pytest.fixture
def labelled(study, run, tmp_path):
    """Return a function that runs a study with probes of labelled texts."""

    def get(*replace, metrics="none", more="", only=(), texts=40):
        (tmp_path / "labelled.csv").write_text("\n".join(["text,count", *TEXTS[:texts]]), "utf-8")
        corpora = ("corpora:\n", "corpora:\n  labelled: {file: labelled.csv, column: text, label: count}\n")
        more = f"probes: {{count: {{corpus: labelled, hidden: 0}}}}\n{more}"
        outcome, log = run(study(corpora, *replace, metrics=metrics, views="[text tokens]", more=more), only=only)
        assert outcome.exit_code == 0, log
        return log

    return get


def test_the_planted_layer_pooling_and_concepts_come_out(labelled, store, out, monkeypatch):
    layer, pooling = 2, "first"

    def vector(text, place, by):
        x = np.random.default_rng([*f"{text}|{place}|{by}".encode()]).standard_normal(WIDTH)
        if text.startswith(("cat", "dogs")):
            return x + 2.5 * (text[0] == "c") * (place.layer == layer and by == pooling) * np.eye(WIDTH)[0]
        concept, _, which = text.split()[:3]
        return x + 5 * (which == "second" and place.layer >= CONCEPTS[concept]) * np.eye(WIDTH)[len(concept)]

    def pooled_by(texts, context, poolings, max_tokens=None, what="texts", also=None):
        places = context.layout.places
        return {by: {at: np.stack([vector(text, at, by) for text in texts]) for at in places} for by in poolings}

    monkeypatch.setattr("reporter.metrics._items.pooled_by", pooled_by)
    pairs = {name: [[f"{name} {i} first .", f"{name} {i} second ."] for i in range(12)] for name in CONCEPTS}
    checkpoints = ("checkpoints: [0, 2]", "checkpoints: [2]")
    labelled(checkpoints, more=f"pairs: {json.dumps({'set': pairs})}", texts=len(TEXTS))
    rows = store.records("SELECT * FROM layer_answers WHERE kind = 'labels'")
    for model, usual in (("enc", "mean"), ("dec", "last")):
        of_model = [row for row in rows if row["model"] == model]
        assert {row["pooling"] for row in of_model} == {"mean", "last", "first"}
        assert {(row["layer"], row["pooling"]) for row in of_model if row["loss_low"] == 0} == {(layer, pooling)}
        assert {row["pooling"] for row in of_model if row["usual"]} == {usual}
    main = select(
        store,
        "SELECT accuracy = value FROM probe_poolings JOIN layer_metrics USING (model, checkpoint, site, layer) "
        "WHERE main AND metric = 'probes' AND statistic = 'linear'",
    )
    assert main and all(main)
    text = markdown(ask("tiny", out))
    assert f"with {pooling}-token pooling: the accuracy" in text and "`absent` is not shown" in text
    shared = store.records("SELECT * FROM concept_answers WHERE model = 'dec' ORDER BY layer")
    for concept, start in CONCEPTS.items():
        assert [row["layer"] for row in shared if row["concept"] == concept and row["shared"]] == list(range(start, 3))


def test_a_run_stores_the_answers_that_the_database_gives_later(labelled, store, out):
    labelled(("checkpoints: [0, 2]", "checkpoints: [0, 1, 2]"), metrics="[outliers]", only=["enc"])
    answers = {answer.question.name: answer for answer in ask("tiny", out)}
    for answer in answers.values():
        for table, rows in answer.tables.items():
            stored = store.records(f"SELECT * FROM {table} WHERE study = 'tiny'")
            assert sorted(map(str, stored)) == sorted(str(dict(row)) for row in rows)
    layers = [row for row in answers["layer"].tables["layer_answers"] if row["kind"] == "labels"]
    assert {row["checkpoint"] for row in layers} == {"step-2"} and all(row["loss_high"] is not None for row in layers)
    assert {row["kind"] for row in answers["training"].tables["training_answers"]} >= {"rest"}
    assert [answer.question.name for answer in ask("tiny", out, ["sinks"])] == ["sinks"]
    for wrong, message in ((("tiny", out, ["layr"]), "did you mean 'layer'"), (("other", out), "no study 'other'")):
        with pytest.raises(UsageError, match=message):
            ask(*wrong)
    # A pooling that the study names is the only one.
    labelled(more="pooling: first\n", only=["dec"])
    assert select(store, "SELECT DISTINCT pooling, main FROM probe_poolings WHERE model = 'dec'") == [("first", True)]
    named = "SELECT DISTINCT pooling FROM layer_answers WHERE kind = 'labels' AND model = 'dec'"
    assert select(store, named) == ["first"]


def test_main_statistics_have_parts_of_texts(finished_store):
    rows = finished_store.records(
        "SELECT metric, p.corpus, scale, parts, (ci_high - ci_low) / 2 / 1.96 AS error FROM text_parts p JOIN "
        "layer_metrics m USING (model, checkpoint, corpus, view, metric, statistic, layer) WHERE site <> 'final' "
        "AND statistic <> 'top_variance_share'"  # whose interval allows for skewed texts
    )
    assert {row["metric"] for row in rows} == {"anisotropy", "convergence", "motion"}
    assert {row["corpus"] for row in rows} == {"nested"}  # three texts have no intervals
    for row in rows:
        assert len(row["parts"]) == PARTS
        assert row["scale"] * np.linalg.norm(row["parts"]) == pytest.approx(row["error"], rel=0.15, abs=1e-9)
    # What SQL makes of them, as the description of the table says.
    [both] = finished_store.records(
        "SELECT sqrt(list_sum(list_transform(list_zip(a.parts, b.parts), lambda x: (x[1] * a.scale - x[2] * b.scale)"
        " ** 2))) AS error, a.parts AS mine, a.scale AS scale, b.parts AS theirs, b.scale AS other "
        "FROM text_parts AS a JOIN text_parts AS b USING (model, checkpoint, corpus, view, metric, statistic) "
        "WHERE statistic = 'mean_cosine' AND a.layer = 1 AND b.layer = 2 ORDER BY ALL LIMIT 1"
    )
    apart = both["scale"] * np.array(both["mine"]) - both["other"] * np.array(both["theirs"])
    assert both["error"] == pytest.approx(np.linalg.norm(apart))


def test_the_texts_that_a_statistic_rests_on_are_named(finished_store):
    rows = finished_store.records("FROM text_influences ORDER BY ALL")
    texts = {row["text"]: row["begins"] for row in rows}
    stored = {row["number"]: row["text"] for row in finished_store.records("FROM corpus_texts WHERE corpus = 'nested'")}
    assert {row["corpus"] for row in rows} == {"nested"} and {row["view"] for row in rows} == {"text tokens"}
    assert all(texts[number] == text[:200] for number, text in stored.items() if number in texts) and texts
    assert {row["rank"] for row in rows} == {1, 2, 3}
    out, [study] = finished_store.path.parent, {row["study"] for row in rows}
    printed = markdown([ask_texts(study, out)], True)
    assert "without this text about" in printed and texts[rows[0]["text"]].split()[0] in printed
    assert "No texts are kept behind these answers" in markdown([ask_texts(study, out, ["sinks"])], True)
    with pytest.raises(UsageError, match="did you mean 'layer'"):
        ask_texts(study, out, ["layers"])


def test_findings_are_kept_until_numbers_change_and_a_broken_question_loses_nothing(
    study, run, store, copied, monkeypatch
):
    def broken(read):
        raise KeyError("layer")

    searches, look = [], questions.look
    monkeypatch.setattr(questions, "look", lambda subjects: searches.append(1) or look(subjects))
    monkeypatch.setattr(questions, "MATERIAL", 0.0)
    monkeypatch.setattr(questions, "LEVEL", 1e6)  # whatever is largest
    monkeypatch.setattr("reporter.runs.whole.QUESTIONS", (replace(QUESTIONS[0], answer=broken), *QUESTIONS[1:]))
    run(study())
    assert not searches, "the finished run had searched"
    outcome, log = run(study(), only=["dec", "nested", "convergence"], force=True)
    assert outcome.exit_code == 0 and log.count("the answer to") == 1
    assert f"the answer to '{QUESTIONS[0].name}' failed: KeyError: 'layer'" in log
    rows = store.records("SELECT rank, says, looked_at, detail ->> 'sql' AS sql FROM findings ORDER BY rank")
    assert len(searches) == 1 and 1 <= len(rows) <= questions.MOST
    assert f"{len(rows)} findings (exploratory, corrected for {rows[0]['looked_at']} tests)" in log
    assert rows[0]["says"] in log and all(store.records(row["sql"]) for row in rows)
    _, log = run(study())
    assert len(searches) == 1 and rows[0]["says"] in log  # printed again without a search
