"""Answers the questions that a study's numbers can answer, and stores what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.answers import STATED, Answer, answered, decisions, stated
from reporter.errors import UsageError, describe
from reporter.store import Store
from reporter.store.order import as_named, order_of

if TYPE_CHECKING:
    from reporter.runs.progress import Progress


def write_answers(store: Store, study: str, progress: Progress) -> None:
    """Answer every question and store the rows where they changed; one that cannot be answered takes no other with it.

    Args:
        store: the database.
        study: id of the study.
        progress: where it is said that a question could not be answered.
    """
    for decision in decisions():
        try:
            (answer,) = _answers(store, study, [decision.name])
        except Exception as error:  # what nobody asked for is no reason to lose the run's report
            progress.note(f"{study}: {decision.name!r} could not be answered: {describe(error)}")
            continue
        for name, rows in answer.tables.items():
            known = store.records(f"SELECT * FROM {name} WHERE study = $study", {"study": study})
            if _key(rows) != _key(known):
                store.replace(name, study, [dict(row) for row in rows])


def ask(study: str, out: Path, only: Sequence[str] = ()) -> list[Answer]:
    """Return what a study of a results folder answers, from its numbers as they are now; writes nothing.

    Args:
        study: id of the study.
        out: the results folder.
        only: names of questions; all if empty.

    Raises:
        UsageError: there is no such study or question.
    """
    store, known = Store(out / "results.duckdb"), [one.name for one in (*STATED, *decisions())]
    for name in only:
        if name not in known:
            raise UsageError(f"there is no question {name!r}; there are: {', '.join(known)}")
    store.require(study)
    found = stated(_reading(store, study), only or known)
    return [one for one in found if one.boxes] + _answers(store, study, only or known)


def _reading(store: Store, study: str) -> Callable[[str], list[dict[str, Any]]]:
    return lambda sql: store.records(sql, {"study": study})


def _answers(store: Store, study: str, names: Sequence[str]) -> list[Answer]:
    read = _reading(store, study)
    order = order_of(read("SELECT spec FROM studies WHERE study = $study")[0]["spec"])
    found = [answered(decision, study, read) for decision in decisions() if decision.name in names]
    return [replace(one, tables={name: as_named(rows, order) for name, rows in one.tables.items()}) for one in found]


def _key(rows: Sequence[Any]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)
