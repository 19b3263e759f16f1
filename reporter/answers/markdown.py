"""Answers as Markdown, for a pull request or a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reporter.answers.decision import Answer, Box


def markdown(answers: Sequence[Answer]) -> str:
    """Return answers as Markdown: a heading for each question, what is said, and one line for what is missing.

    Questions without any answer are listed at the end, each with what it needs.

    Args:
        answers: of one study.
    """
    lines = [line for answer in answers if answer.boxes for line in _lines(answer)]
    if open_ones := [answer for answer in answers if not answer.boxes]:
        lines += ["## Not answered by this study", ""]
        lines += [f"- **{one.decision.title}** {' '.join(one.lacks)}" for one in open_ones]
    return "\n".join(lines).strip()


def _lines(answer: Answer) -> Iterator[str]:
    yield from (f"## {answer.decision.title}", "")
    for box in answer.boxes:
        yield from _box(box)
    for lack in answer.lacks:
        yield from (f"Not answered here: {lack}", "")


def _box(box: Box) -> Iterator[str]:
    yield from (f"**{box.about}**: {box.says}", "")
    if box.code:
        yield from ("```python", box.code, "```", "")
    if box.rows:
        yield "| " + " | ".join(_cell(name) for name, _ in box.columns) + " |"
        yield "|" + "|".join("---:" if number else "---" for _, number in box.columns) + "|"
        for row in box.rows:
            yield "| " + " | ".join(map(_cell, row)) + " |"
        yield ""
    for note in box.notes:
        yield f"- {note}"
    if box.notes:
        yield ""


def _cell(text: str) -> str:
    """Return text that cannot end a table's cell."""
    return " ".join(text.split()).replace("|", "\\|")
