"""A question that stored numbers answer: the rows of its answer, and what they come to, as boxes and as Markdown."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from reporter.core.json_text import stored_json
from reporter.core.numbers import Measured, estimates, in_one_precision, with_sign
from reporter.core.table import Row

Record = Mapping[str, Any]
Read = Callable[[str], Sequence[Record]]
"""Runs a query about the study, which the query names ``$study``; NULL is None."""
Head = tuple[str, bool]
"""The heading of a column, and whether it is a column of numbers."""


def grouped(rows: Iterable[Record], *columns: str) -> list[list[Record]]:
    """Group rows by the values of some columns, in the order in which these first occur."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in columns), []).append(row)
    return list(groups.values())


class BoxColumn(NamedTuple):
    """A column of a box's table: its heading, how a row is written in it, and whether it is one of numbers.

    With ``digits`` its cells are numbers or None, written with one precision, and so many digits of the largest; or
    numbers with the ends of their intervals, with the decimals of the most certain one.
    """

    heading: str
    cell: Callable[[Any], str | int | float | Measured | None]
    numeric: bool = False
    digits: int = 0
    signed: bool = False
    """Whether a positive number has its sign."""

    def written(self, rows: Sequence[Any]) -> list[str]:
        """Return its cells as texts."""
        cells = [self.cell(row) for row in rows]
        if not self.digits:
            return [str(cell) for cell in cells]
        if any(isinstance(cell, tuple) for cell in cells):
            numbers: list[Measured] = [cell if isinstance(cell, tuple) else (cell, None, None) for cell in cells]
            texts = estimates(numbers)
            return [with_sign(n[0], text) for n, text in zip(numbers, texts, strict=True)] if self.signed else texts
        values = [float(cell) for cell in cells if isinstance(cell, int | float | str)]
        written = iter(in_one_precision(values, self.digits))
        return ["–" if cell is None else next(written) for cell in cells]


def numeric(heading: str, cell: Callable[[Any], str | int]) -> BoxColumn:
    """Return a column of numbers."""
    return BoxColumn(heading, cell, numeric=True)


def measured(
    heading: str, cell: Callable[[Any], float | Measured | None], digits: int = 3, signed: bool = False
) -> BoxColumn:
    """Return a column of numbers, with or without intervals, with one precision; None is written as a dash."""
    return BoxColumn(heading, cell, True, digits, signed)


def table(rows: Iterable[Any], *columns: BoxColumn) -> dict[str, Any]:
    """Return the columns and the rows of a box."""
    rows = list(rows)
    cells = tuple(zip(*(column.written(rows) for column in columns), strict=True))
    return {"columns": tuple((column.heading, column.numeric) for column in columns), "rows": cells}


@dataclass(frozen=True)
class Advice:
    """A gap in a study that prevents an answer or a part of it: one line that ends in what to add.

    ``runs`` tells that it takes a model that runs here, which a model given by its states does not.
    """

    says: str
    runs: bool = False


@dataclass(frozen=True)
class Box:
    """One part of an answer, as the page and Markdown show it.

    Args:
        about: the model, or models.
        says: the answer, in a sentence or two.
        code: a line to copy; empty without one.
        columns: headings of the table that supports the answer.
        rows: its rows, as text.
        notes: cautions, one sentence each.
    """

    about: str
    says: str
    code: str = ""
    columns: tuple[Head, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Question:
    """A question that ends in a decision.

    Args:
        name: its name in ``reporter answer --only``.
        title: the question, as the page asks it.
        rows: the row classes of its tables. They name no cell: their columns name the model, and the runner fills in
            ``study`` alone.
        answer: yields rows from the numbers of a study, and what the study lacks.
        boxes: says what the rows come to, given the records by table. Models and corpora come in the order of the
            study.
    """

    name: str
    title: str
    rows: tuple[type[Row], ...]
    answer: Callable[[Read], Iterator[Row | Advice]]
    boxes: Callable[[Mapping[str, Sequence[Record]]], Sequence[Box]]


@dataclass(frozen=True)
class Answer:
    """The answer of a study to a question: the records by table, and what the study lacks for more."""

    question: Question
    tables: Mapping[str, Sequence[Record]]
    lacks: tuple[str, ...] = ()

    @property
    def boxes(self) -> Sequence[Box]:
        """The boxes that sum up the rows; empty if there are none."""
        return boxes_of(self.question, self.tables)


def answered(question: Question, study: str, read: Read) -> Answer:
    """Answer one question about a study."""
    tables: dict[str, list[Record]] = {row.table.name: [] for row in question.rows}
    lacks: list[str] = []
    for row in question.answer(read):
        if isinstance(row, Advice):
            lacks.append(row.says + (_for_models_that_run(read) if row.runs else ""))
        else:
            tables[row.table.name].append(row.record({"study": study}, 1))
    return Answer(question, tables, tuple(lacks))


def _for_models_that_run(read: Read) -> str:
    """Return a note for advice that a model given by its states cannot follow; empty where all models run here."""
    sources = {row.get("source") for row in read("SELECT DISTINCT source FROM models WHERE study = $study")}
    if "states" not in sources:
        return ""
    needs = "; add a model by `hub`, `path` or `recipe`" if sources == {"states"} else ""
    return f". Models of saved `states` cannot run and are left out{needs}"


_CELLS = """
SELECT model, corpus, error, reasons FROM cells WHERE study = $study AND metric = '{metric}'
AND model NOT IN (SELECT model FROM models WHERE study = $study AND baseline IS NOT NULL) ORDER BY ALL
"""


def gaps(read: Read, metric: str, statistic: str) -> dict[tuple[str, str], str]:
    """Return why a metric or an analysis has no number, by model and corpus or item; empty if every cell has numbers.

    Args:
        read: runs a query about the study.
        metric: a metric, or an analysis.
        statistic: the number whose reason counts.
    """
    reasons: dict[tuple[str, str], str] = {}
    for cell in read(_CELLS.format(metric=metric)):
        entries = stored_json(cell["reasons"] or "[]")
        why = cell["error"] or next((entry["reason"] for entry in entries if entry["statistic"] == statistic), None)
        if why is not None:
            why = str(why).removeprefix(f"model '{cell['model']}': ").removeprefix(f"corpus '{cell['corpus']}': ")
            reasons.setdefault((str(cell["model"]), str(cell["corpus"])), why)
    return reasons


def boxes_of(question: Question, tables: Mapping[str, Sequence[Record]]) -> Sequence[Box]:
    """Return what the records of a question's tables come to; empty if there are none."""
    return question.boxes(tables) if any(tables.values()) else ()


def markdown(answers: Sequence[Answer], asked: bool = False) -> str:
    """Return the answers of a study as Markdown: a section for each question, then the questions without an answer.

    Args:
        answers: of the study.
        asked: whether a reader asked for these questions, so that each says what it lacks.
    """
    lines = [line for answer in answers if answer.boxes for line in _section(answer, asked)]
    unanswered = [answer for answer in answers if not answer.boxes]
    if unanswered and asked:
        lines += [
            f"**{answer.question.title}** {'; '.join(answer.lacks) or 'Nothing found in the numbers of this study.'}"
            for answer in unanswered
        ]
    elif unanswered:
        names = ", ".join(answer.question.name for answer in unanswered)
        lines.append(f"Not answered by this study: {names}. `reporter answer STUDY --only NAME` says what to add.")
    return "\n".join(lines).strip()


def _section(answer: Answer, asked: bool) -> Iterator[str]:
    yield from (f"## {answer.question.title}", "")
    for box in answer.boxes:
        yield from (f"**{box.about}**: {box.says}", "")
        if box.code:
            yield from ("```python", box.code, "```", "")
        if box.rows:
            yield "| " + " | ".join(markdown_cell(name) for name, _ in box.columns) + " |"
            yield "|" + "|".join("---:" if number else "---" for _, number in box.columns) + "|"
            yield from ("| " + " | ".join(map(markdown_cell, row)) + " |" for row in box.rows)
            yield ""
        if box.notes:
            yield from (*(f"- {note}" for note in box.notes), "")
    for lack in answer.lacks if asked else ():
        yield from (f"Not answered here: {lack}", "")


def markdown_cell(text: str) -> str:
    """Return a text as a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")
