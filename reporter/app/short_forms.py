"""Forms of the answers of a study: wrapped for a terminal, ten lines for a pull request, and JSON for programs."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from reporter.core.numbers import counted
from reporter.core.places import capital, listed
from reporter.judge.questions.lead import CLAIMS, COMPARISON
from reporter.judge.questions.question import Answer, Box
from reporter.report.card import Card
from reporter.report.contents import Contents
from reporter.report.export import study_contents
from reporter.report.tables import few_texts, unlearned
from reporter.runs.whole import ask
from reporter.store.formats import aligned
from reporter.study.study import StudyFile

WIDEST = 120
"""Columns of a terminal that text fills at most."""
MOST_LINES = 10
MOST_CLAIMS = 3
MOST_BOXES = 2
"""Boxes of an answer, one for each model, that the short form shows."""


class BoxForm(BaseModel):
    """One part of an answer."""

    about: str = Field(description="the model, or models, and the texts")
    says: str = Field(description="the answer in sentences; the first is the headline")
    code: str = Field(description="lines to copy; empty without any")
    columns: list[str] = Field(description="headings of the table behind it")
    rows: list[list[str]] = Field(description="its rows, as text")
    notes: list[str] = Field(description="cautions, one sentence each")


class AnswerForm(BaseModel):
    """An answer to one question."""

    name: str = Field(description="its name in `reporter answer --only`")
    title: str = Field(description="the question")
    boxes: list[BoxForm] = Field(description="what the numbers come to; empty where the study lacks a measurement")
    rows: dict[str, list[dict[str, Any]]] = Field(description="the rows of its tables, as `reporter sql` has them")
    lacks: list[str] = Field(description="what to add to the study for more")


class ComparisonForm(BaseModel):
    """A sentence of the overview about the models of the study."""

    text: str = Field(description="the sentence")
    strength: str = Field(description="its number with the interval, and what it is about")
    figure: str = Field(description="the chart that shows it")


class StudyForm(BaseModel):
    """What `reporter answer --json` prints."""

    version: Literal[1] = Field(1, description="of this form; a change that breaks readers raises it")
    study: str = Field(description="id of the study")
    title: str = Field(description="its title")
    question: str | None = Field(description="the question that it asks; null where it says none")
    measured: str = Field(description="which models were measured on which texts")
    cautions: list[str] = Field(description="what makes all answers unsure: too few texts, models that learned nothing")
    leads: list[str] = Field(description="the answers that the study's orders ask for, the first one first")
    scope: str = Field(description="what the comparison of the models may and may not say; empty without one")
    comparison: list[ComparisonForm] = Field(description="how the models differ")
    answers: list[AnswerForm] = Field(description="claims, findings and all questions")


class CardForm(BaseModel):
    """The layer card of a model."""

    model: str = Field(description="its name in the study")
    lines: dict[str, str] = Field(description="the lines of the card, by label")


class LookForm(BaseModel):
    """What `reporter look --json` prints."""

    cards: list[CardForm] = Field(description="one for each model, the verdict against a base first")
    report: str = Field(description="path of the report")
    file: str = Field(description="path of the study that was run")
    study: StudyForm = Field(description="as `reporter answer --json` prints it")


def as_form(study: str, out: Path, answers: Sequence[Answer]) -> StudyForm:
    """Return the answers of a study as data.

    Args:
        study: its id.
        out: the results folder.
        answers: those to take over (:func:`reporter.runs.whole.ask`).
    """
    contents = study_contents(study, out)
    overview = contents.overview
    return StudyForm(
        study=study,
        title=str(contents.study["title"] or study),
        question=contents.study["question"],
        measured="" if overview is None else overview.line,
        cautions=list(_cautions(contents)),
        leads=[lead.name for lead in contents.leads],
        scope=overview.scope if overview else "",
        comparison=[
            ComparisonForm(text=sentence.text, strength=sentence.strength, figure=sentence.figure)
            for sentence in (overview.sentences if overview else ())
        ],
        answers=[
            AnswerForm(
                name=answer.question.name,
                title=answer.question.title,
                boxes=[_box_form(box) for box in answer.boxes],
                rows={name: [dict(row) for row in rows] for name, rows in answer.tables.items()},
                lacks=list(answer.lacks),
            )
            for answer in answers
        ],
    )


def _box_form(box: Box) -> BoxForm:
    columns, rows = [name for name, _ in box.columns], [list(row) for row in box.rows]
    return BoxForm(about=box.about, says=box.says, code=box.code, columns=columns, rows=rows, notes=list(box.notes))


def look_form(cards: Sequence[Card], file: StudyFile, out: Path) -> LookForm:
    """Return the cards of a study of ``reporter look`` as data, with its answers."""
    study = file.study.study
    return LookForm(
        cards=[CardForm(model=card.model, lines=dict(card.lines)) for card in cards],
        report=str(out / study / "index.html"),
        file=str(file.path),
        study=as_form(study, out, ask(study, out)),
    )


def on_terminal(text: str, width: int | None) -> str:
    """Return Markdown with paragraphs wrapped and tables aligned; None, for no terminal, leaves it as it is."""
    if width is None:
        return text
    width, shown, is_code = min(width, WIDEST), list[str](), False
    for is_table, lines in groupby(text.split("\n"), lambda line: line.startswith(("| ", "|-"))):
        if is_table:
            head, ends, *rows = (list(map(_unescaped, _CELL.split(line[1:-1]))) for line in lines)
            table, hidden = aligned(head, rows, [end.endswith(":") for end in ends], width)
            shown += [*table, *([f"(no room for {', '.join(hidden)})"] if hidden else [])]
            continue
        for line in lines:
            is_code ^= line.startswith("```")
            indent = "  " if line.startswith(("- ", "  ")) else ""
            shown.append(line if is_code else textwrap.fill(line, width, subsequent_indent=indent, **_WHOLE_WORDS))
    return "\n".join(shown)


_CELL = re.compile(r"(?<!\\)\|")
_WHOLE_WORDS: Mapping[str, Any] = {"break_long_words": False, "break_on_hyphens": False}


def _unescaped(cell: str) -> str:
    return cell.replace("\\|", "|").strip()


def brief(form: StudyForm) -> str:
    """Return a study in at most ten lines of Markdown: its question, its answers, and what makes them unsure."""
    lines = [f"### {form.title}"]
    if form.question:
        lines.append(f"*{form.question.strip()}*")
    lines += [f"**{caution}**" for caution in form.cautions]
    answers = {answer.name: answer for answer in form.answers}
    for name in form.leads:
        if name == COMPARISON:
            lines += [f"- {sentence.text} ({sentence.strength})" for sentence in form.comparison]
            lines += [f"  Caution: {form.scope}"] * bool(form.scope and form.comparison)
        elif name == CLAIMS and name in answers:
            lines += _of_claims([row for row in answers[name].rows["claims"] if row["reading"] == 1])
        elif name in answers:
            lines += _of_answer(answers[name])
    return "\n".join([*lines[: MOST_LINES - 1], f"- Measured: {form.measured}"])


def _of_claims(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield how many claims have which verdict, and a line for each of the first claims."""
    counts = Counter(str(row["verdict"]) for row in rows)
    yield f"- **Claims: {listed(f'{count} {verdict}' for verdict, count in counts.items())}.**"
    yield from (f"  {capital(row['verdict'])}: {row['says']}" for row in rows[:MOST_CLAIMS])


def _of_answer(answer: AnswerForm) -> Iterator[str]:
    """Yield a line for each of the first models, and the caution of the first one."""
    boxes = list({box.about: box for box in reversed(answer.boxes)}.values())[::-1]  # the first about each
    for box in boxes[:MOST_BOXES]:
        first, _, rest = box.says.partition(". ")
        second = rest.partition(". ")[0].rstrip(".")
        yield f"- **{box.about}: {first.rstrip('.')}.**" + (f" {second}." if second else "")
    if len(boxes) > MOST_BOXES:
        yield f"- {len(boxes) - MOST_BOXES} more: `reporter answer --only {answer.name}`."
    if boxes and boxes[0].notes:
        yield f"  Caution: {boxes[0].notes[0]}"


def _cautions(contents: Contents) -> Iterator[str]:
    failed = [row for row in (*contents.models, *contents.corpora, *contents.cells) if row["status"] == "failed"]
    if failed:
        yield f"{counted(len(failed), 'measurement')} failed: {failed[0]['error'] or 'see the report'}"
    yield from filter(None, (unlearned(contents.models), few_texts(contents.study, contents.corpora)))
