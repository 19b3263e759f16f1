"""Findings and answers of a run: none of untrained models, stored with the numbers, the same when asked again."""

import json
from dataclasses import replace

import pytest

import reporter.judge.questions as questions
from reporter.core.errors import UsageError
from reporter.judge.questions import QUESTIONS
from reporter.judge.questions.question import markdown
from reporter.runs.whole import ask

pytestmark = pytest.mark.answers
LABELLED = "\n".join(
    f"{'a cat sleeps' if i % 2 else 'the dogs run'} {i},{'one' if i % 2 else 'many'}" for i in range(80)
)


def test_layers_of_main_statistics_have_errors_of_their_differences(finished_store):
    rows = finished_store.records(
        "SELECT metric, e.corpus, e.layer, errors, (ci_high - ci_low) / 2 / 1.96 AS error FROM layer_errors e JOIN "
        "layer_metrics m USING (model, checkpoint, corpus, view, metric, statistic, layer) WHERE site <> 'final'"
    )
    assert {row["metric"] for row in rows} == {"anisotropy", "convergence", "motion"}
    assert {row["corpus"] for row in rows} == {"nested"}  # three texts have no intervals
    for row in rows:
        *differences, error = json.loads(row["errors"])
        assert len(differences) == row["layer"] and all(value > 0 for value in differences)
        assert error == pytest.approx(row["error"], rel=0.15, abs=1e-9)


def test_findings_are_kept_until_numbers_change(study, run, store, copied, monkeypatch):
    searches = []
    look = questions.look
    monkeypatch.setattr(questions, "look", lambda subjects: searches.append(1) or look(subjects))
    monkeypatch.setattr(questions, "MATERIAL", 0.0)
    monkeypatch.setattr(questions, "LEVEL", 1e6)  # whatever is largest
    changed = ("texts: 40", "texts: 41")
    run(study())
    assert not searches, "the finished run had searched"
    _, log = run(study(changed))
    rows = store.records("SELECT rank, says, looked_at FROM findings ORDER BY rank")
    assert len(searches) == 1 and 1 <= len(rows) <= questions.MOST
    assert f"{len(rows)} findings (exploratory, corrected for {rows[0]['looked_at']} tests)" in log
    assert rows[0]["says"] in log
    _, log = run(study(changed))
    assert len(searches) == 1 and rows[0]["says"] in log  # printed again without a search
    for row in store.records("SELECT detail ->> 'sql' AS sql FROM findings"):
        assert store.records(row["sql"])


def test_a_run_stores_the_answers_that_the_database_gives_later(study, run, store, out, tmp_path):
    (tmp_path / "labelled.csv").write_text(f"text,count\n{LABELLED}\n", "utf-8")
    outcome, log = run(
        study(
            ("corpora:\n", "corpora:\n  labelled: {file: labelled.csv, column: text, label: count}\n"),
            ("metrics: [", "probes: {count: {corpus: labelled, hidden: 0}}\nmetrics: [outliers, "),
            ("checkpoints: [0, 2]", "checkpoints: [0, 1, 2]"),
        )
    )
    assert outcome.exit_code == 0, log
    answers = {answer.question.name: answer for answer in ask("tiny", out)}
    for answer in answers.values():
        for table, rows in answer.tables.items():
            stored = store.records(f"SELECT * FROM {table} WHERE study = 'tiny'")
            assert sorted(map(str, stored)) == sorted(str(dict(row)) for row in rows)
    layers = [row for row in answers["layer"].tables["layer_answers"] if row["kind"] == "labels"]
    assert {row["model"] for row in layers} == {"enc", "dec"} and all(row["loss_high"] is not None for row in layers)
    assert {row["checkpoint"] for row in layers if row["model"] == "enc"} == {"step-2"}
    assert {row["kind"] for row in answers["training"].tables["training_answers"]} >= {"rest"}
    text = markdown(list(answers.values()))
    assert "## Which layer?" in text and "linear probe `count`" in text and "## When in training?" in text
    assert "**Which concepts are directions?** no pairs of texts" in text

    assert [answer.question.name for answer in ask("tiny", out, ["sinks"])] == ["sinks"]
    with pytest.raises(UsageError, match="no question 'layr'; did you mean 'layer'"):
        ask("tiny", out, ["layr"])
    with pytest.raises(UsageError, match="no study 'other'"):
        ask("other", out)


def test_a_question_that_breaks_loses_neither_the_others_nor_the_report(study, run, monkeypatch, copied):
    def broken(read):
        raise KeyError("layer")

    monkeypatch.setattr("reporter.runs.whole.QUESTIONS", (replace(QUESTIONS[0], answer=broken), *QUESTIONS[1:]))
    outcome, log = run(study(("texts: 40", "texts: 41")), only=["dec", "motion"])
    assert outcome.exit_code == 0
    assert f"the answer to '{QUESTIONS[0].name}' failed: KeyError: 'layer'" in log
    assert log.count("the answer to") == 1
