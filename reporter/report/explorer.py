"""What an explorer is: a further page of a study, on which a reader chooses what to look at, without a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reporter.charts.chart import Drawn, Query, Read
from reporter.charts.styles import Styles
from reporter.store.schema import find_table
from reporter.table import Column

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Source:
    """Rows behind an explorer's charts: a query, its result (a CSV beside the page) and what its columns mean.

    Args:
        name: names the CSV and the place on the page; it must be no other file's in ``data/``.
        title: what the rows are.
        table: the table of the database whose comments explain the columns.
        sql: the statement that made the frame.
        frame: its result.
    """

    name: str
    title: str
    table: str
    sql: str
    frame: pd.DataFrame

    @property
    def csv(self) -> str:
        """Where the rows are, relative to the page."""
        return f"data/{self.name}.csv"

    @property
    def comment(self) -> str:
        """What a row of its table is."""
        return find_table(self.table).comment

    @property
    def columns(self) -> list[Column]:
        """The table's columns that the frame has."""
        return [column for column in find_table(self.table).columns if column.name in self.frame]


@dataclass(frozen=True)
class Explorer:
    """A further page of a study.

    Args:
        name: names the page, ``<name>.html``, its template and its part of the script.
        title: its heading, and what links to it say.
        about: the question it answers, in a sentence or two.
        facts: what there is to choose from, in short.
        data: what its script needs at once: what there is to choose from, and the styles of models.
        parts: what its script fetches when it is chosen, by a name of letters, digits, dots and hyphens; each becomes
            ``data/<name>.js``.
        sources: the rows behind what it draws, where these are not charts.
        charts: its charts.
        analyses: whose rows it shows; their sections on the study's page link to it.
        still: what its template shows readers without scripts, where these are no charts of its own.
        error: what went wrong while it was read; it then has nothing else.
    """

    name: str
    title: str
    about: str = ""
    facts: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    charts: tuple[Drawn, ...] = ()
    analyses: tuple[str, ...] = ()
    still: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""

    @property
    def page(self) -> str:
        """File name of the page."""
        return f"{self.name}.html"

    def source(self, name: str) -> Source:
        """Return one of its sources by name."""
        return next(source for source in self.sources if source.name == name)


Reader = Callable[[Read, str, Styles], "Explorer | None"]
"""Reads an explorer of a study; None where the study has no rows for it."""


def read_source(read: Read, query: Query, study: str, name: str, title: str, table: str) -> Source:
    """Run a query whose only parameter is the study.

    Args:
        read: runs a query.
        query: what to run.
        study: id of the study.
        name: see :class:`Source`.
        title: see :class:`Source`.
        table: see :class:`Source`.
    """
    sql = query.fill(study=study)
    return Source(name, title, table, sql, whole_numbers(read(sql), table))


def whole_numbers(frame: pd.DataFrame, table: str) -> pd.DataFrame:
    """Return the frame with whole numbers as such, also where one is NULL, so that a CSV says 512 and not 512.0."""
    whole = [c.name for c in find_table(table).columns if c.type in {"INTEGER", "BIGINT"} and c.name in frame]
    return frame.astype(dict.fromkeys(whole, "Int64"))


def styled(styles: Styles) -> list[dict[str, Any]]:
    """Return how each model is drawn, for a page's script."""
    return [
        {
            "model": style.model,
            "role": style.role,
            "light": style.light,
            "dark": style.dark,
            "shape": style.shape,
            "dash": list(style.dash) if style.dash[1] else [],
            "baseline": bool(style.baseline),
        }
        for style in styles.models
    ]
