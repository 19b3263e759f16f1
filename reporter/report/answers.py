"""What a study's page says of the questions that its numbers answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reporter.answers import Box, boxes_of, decisions
from reporter.charts.chart import Query
from reporter.store.order import as_named

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]


@dataclass(frozen=True)
class Answered:
    """A question and what was found.

    Args:
        name: its name.
        title: the question.
        boxes: what is said.
        tables: the rows behind it, by table.
    """

    name: str
    title: str
    boxes: Sequence[Box]
    tables: dict[str, pd.DataFrame]


def read_answers(
    read: Callable[[str], pd.DataFrame],
    rows_of: Callable[[pd.DataFrame], list[Row]],
    study: str,
    order: Mapping[str, Sequence[str]],
) -> tuple[Answered, ...]:
    """Read the questions that have an answer, in order.

    Args:
        read: runs a query.
        rows_of: turns a frame into rows.
        study: id of the study.
        order: its models and corpora as it names them.
    """
    found = []
    for decision in decisions():
        frames = {}
        for table in (row.table for row in decision.rows):
            keys = ", ".join(f'"{name}"' for name in table.key)
            query = Query(table.name, f"SELECT * FROM {table.name} WHERE study = $study ORDER BY {keys}")
            whole = {column.name: "Int64" for column in table.columns if column.type in ("INTEGER", "BIGINT")}
            frames[table.name] = read(query.fill(study=study)).astype(whole)  # a NULL among them makes floats of all
        boxes = boxes_of(decision, {name: as_named(rows_of(frame), order) for name, frame in frames.items()})
        if boxes:
            found.append(Answered(decision.name, decision.title, boxes, frames))
    return tuple(found)
