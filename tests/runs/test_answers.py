"""Answers of a study that ran: stored by the run, and asked of the database again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reporter.core.errors import UsageError
from reporter.judge.questions import QUESTIONS
from reporter.judge.questions.question import markdown
from reporter.runs.whole import ask

LABELLED = "\n".join(
    f"{'a cat sleeps' if i % 2 else 'the dogs run'} {i},{'one' if i % 2 else 'many'}" for i in range(80)
)


@pytest.fixture
def answered(study, run, out, tmp_path):
    """The outcome of a study with labels and checkpoints."""
    (tmp_path / "labelled.csv").write_text(f"text,count\n{LABELLED}\n", "utf-8")
    file = study(
        ("corpora:\n", "corpora:\n  labelled: {file: labelled.csv, column: text, label: count}\n"),
        ("metrics: [", "probes: {count: {corpus: labelled, hidden: 0}}\nmetrics: [outliers, "),
        ("checkpoints: [0, 2]", "checkpoints: [0, 1, 2]"),
    )
    outcome, said = run(file)
    assert outcome.exit_code == 0, said
    return file


def test_a_run_stores_what_the_database_answers(answered, store, out):
    asked = {answer.question.name: answer for answer in ask("tiny", out)}
    for answer in asked.values():
        for table, rows in answer.tables.items():
            stored = store.records(f"SELECT * FROM {table} WHERE study = 'tiny'")
            assert sorted(map(str, stored)) == sorted(str(dict(row)) for row in rows)
    layers = [row for row in asked["layer"].tables["layer_answers"] if row["kind"] == "labels"]
    assert {row["model"] for row in layers} == {"enc", "dec"} and all(row["loss_high"] is not None for row in layers)
    assert {row["checkpoint"] for row in layers if row["model"] == "enc"} == {"step-2"}
    assert {row["kind"] for row in asked["training"].tables["training_answers"]} >= {"rest"}
    text = markdown(list(asked.values()))
    assert "## Which layer?" in text and "linear probe `count`" in text and "## When in training?" in text
    assert "**Which concepts are directions?** no pairs of texts" in text


def test_a_question_that_breaks_loses_neither_the_others_nor_the_report(study, run, monkeypatch):
    def broken(read):
        raise KeyError("layer")

    monkeypatch.setattr("reporter.runs.whole.QUESTIONS", (replace(QUESTIONS[0], answer=broken), *QUESTIONS[1:]))
    outcome, said = run(study(("metrics: [", "metrics: [outliers, ")))
    assert outcome.exit_code == 0
    assert f"'{QUESTIONS[0].name}' could not be answered: KeyError: 'layer'" in said
    assert said.count("could not be answered") == 1


def test_one_question_alone_and_what_there_is_not(answered, out):
    assert [answer.question.name for answer in ask("tiny", out, ["sinks"])] == ["sinks"]
    with pytest.raises(UsageError, match="no question 'layr'; there are: claims, findings, layer"):
        ask("tiny", out, ["layr"])
    with pytest.raises(UsageError, match="no study 'other'"):
        ask("other", out)
