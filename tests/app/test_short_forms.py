"""The short forms of answers say what the long ones say: the answer that a study asks for, its caution, the counts."""

from __future__ import annotations

import json

import pytest
from report.made_up import fill

from reporter.app.short_forms import MOST_LINES, WIDEST, StudyForm, as_form, brief, on_terminal
from reporter.judge.questions.question import markdown
from reporter.runs.whole import ask, write_comparison, write_over_models
from reporter.store import Store

MODELS = (("bert", "encoder", 4, 64, (None,)), ("gpt2", "decoder", 6, 96, (None,)))


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("short")
    store = fill(
        folder / "results.duckdb", "pair", models=MODELS, corpora=("nested",), metrics=("anisotropy", "motion")
    )
    write_over_models(store, "pair")
    write_comparison(store, "pair")
    return folder


def test_ten_lines_say_how_the_models_differ_and_what_was_measured(out):
    form = as_form("pair", out, ask("pair", out))
    text = brief(form)
    assert form.leads == ["models"] and form.comparison
    assert all(f"- {sentence.text} ({sentence.strength})" in text for sentence in form.comparison)
    assert len(text.splitlines()) <= MOST_LINES and text.splitlines()[-1] == f"- Measured: {form.measured}"


@pytest.mark.parametrize("width", [80, 100, 300])
def test_a_terminal_wraps_paragraphs_and_tables_but_no_code(out, width):
    code = "```python\n" + "x" * 200 + "\n```"
    table = "| a \\| b | number |\n|---|---:|\n| " + "one word " * 20 + "| 0.5 |\n|  | 12 |"
    text = "\n\n".join([markdown(ask("pair", out)), code, table, "- " + "word " * 60])
    lines = on_terminal(text, width).split("\n")
    assert max(len(line) for line in lines if "xx" not in line) <= min(width, WIDEST) and "x" * 200 in lines
    assert " ".join(" ".join(lines).split()).endswith("word word") and lines[-1].startswith("  word")
    assert any(line.startswith("a | b ") for line in lines) and any(line.endswith(" 0.5") for line in lines)
    assert on_terminal(text, None) == text


def test_too_few_texts_come_before_every_answer(out):
    store = Store(out / "results.duckdb")
    for row in store.records("SELECT * FROM corpora"):
        store.put("corpora", ["study", "corpus"], {"study": "pair", "corpus": row["corpus"], "texts": 3})
    lines = brief(as_form("pair", out, [])).splitlines()
    assert lines[2] == "**Only 3 texts of nested: too few for a verdict, which needs 12.**"
    assert not any(line.startswith("- In") for line in lines), "nothing is concluded"


def test_json_has_each_answer_with_its_rows_and_follows_its_schema(out):
    answers = ask("pair", out, ["layer", "sinks"])
    printed = as_form("pair", out, answers).model_dump_json()
    again = StudyForm.model_validate(json.loads(printed))
    assert [answer.name for answer in again.answers] == ["layer", "sinks"]
    assert all(again.answers[i].lacks == list(answer.lacks) for i, answer in enumerate(answers))
    assert {name for answer in again.answers for name in answer.rows} == {"layer_answers", "sink_answers"}
