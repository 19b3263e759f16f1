"""What a decision is: a question that ends in an act, what answers it, and what is said of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reporter.table import Row

Record = Mapping[str, Any]
Read = Callable[[str], Sequence[Record]]
"""Runs a query about the study, which it names ``$study``; NULL is None."""

VIEWS = "coalesce(list_position(['words', 'all', 'no-sinks'], view), 9), view"
"""The order of views in SQL; of a number under several the first is read."""


def quoted(text: str) -> str:
    """Return a token, or another text that anybody wrote, between backticks, which nothing in it can end."""
    return "`" + (" ".join(text.replace("`", "ˋ").split()) or repr(text)) + "`"


def grouped(rows: Iterable[Record], *columns: str) -> list[list[Record]]:
    """Return rows by what some columns hold, in the order in which that first occurs.

    Args:
        rows: of a table.
        columns: its columns.
    """
    found: dict[tuple[Any, ...], list[Record]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in columns), []).append(row)
    return list(found.values())


def together(names: Iterable[str], most: int = 6) -> str:
    """Return the names of models that one box is about, each once, or how many there are where the line would be long.

    Args:
        names: of the models, in order.
        most: as many are named.
    """
    found = list(dict.fromkeys(names))
    return ", ".join(found) if len(found) <= most else f"{len(found)} models"


@dataclass(frozen=True)
class Lacks:
    """What a study would need for an answer, or for more of one.

    Args:
        says: what is missing and what to add to the study, one line.
    """

    says: str


@dataclass(frozen=True)
class Box:
    """What an answer says, to be shown on the page and in Markdown.

    Args:
        about: which model, or models, it is about.
        says: the answer, in a sentence or two.
        code: a line to copy; empty without one.
        columns: heads of a small table of what it rests on, each with whether it holds numbers.
        rows: its rows, as text.
        notes: what a reader must know to believe it no more than it deserves, one sentence each.
    """

    about: str
    says: str
    code: str = ""
    columns: tuple[tuple[str, bool], ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """A question that ends in an act.

    Args:
        name: what ``reporter answer --only`` calls it.
        title: the question, as the page asks it.
        rows: the row classes that it yields; their tables hold the answer. They name no cell: the columns say
            themselves which model they are about, and the runner fills in ``study`` alone.
        answer: yields its rows from the numbers of a study, and what it lacks.
        boxes: says what the rows come to; given the records of each of its tables by the table's name. Models and
            corpora come in the order of the study, and are shown in it.
    """

    name: str
    title: str
    rows: tuple[type[Row], ...]
    answer: Callable[[Read], Iterator[Row | Lacks]]
    boxes: Callable[[Mapping[str, Sequence[Record]]], Sequence[Box]]


@dataclass(frozen=True)
class Answer:
    """What a study answers to one question.

    Args:
        decision: the question.
        tables: the records of each of its tables, by the table's name.
        lacks: what the study lacks for an answer, or for more of it.
    """

    decision: Decision
    tables: Mapping[str, Sequence[Record]]
    lacks: tuple[str, ...] = ()

    @property
    def boxes(self) -> Sequence[Box]:
        """What it comes to; none where there is no answer."""
        return boxes_of(self.decision, self.tables)


def answered(decision: Decision, study: str, read: Read) -> Answer:
    """Ask one question of a study.

    Args:
        decision: the question.
        study: id of the study.
        read: runs a query about it.
    """
    tables: dict[str, list[Record]] = {row.table.name: [] for row in decision.rows}
    lacks: list[str] = []
    for found in decision.answer(read):
        if isinstance(found, Lacks):
            lacks.append(found.says)
        else:
            tables[found.table.name].append(found.record({"study": study}, 1))
    return Answer(decision, tables, tuple(lacks))


def boxes_of(decision: Decision, tables: Mapping[str, Sequence[Record]]) -> Sequence[Box]:
    """Return what a decision says of its rows; nothing where there are none.

    Args:
        decision: the question.
        tables: records of each of its tables, by name.
    """
    return decision.boxes(tables) if any(tables.values()) else ()
