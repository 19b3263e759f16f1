"""An exhibit: what is shown, the query behind it, its rows, and the parts in which a page finds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from altair.utils.schemapi import debug_mode

from reporter.analyses.registry import analyses
from reporter.report.columns import pack
from reporter.report.explorer import Read, Source
from reporter.report.figures import bare_spec
from reporter.report.queries import Query
from reporter.report.scene import Pick
from reporter.report.styles import Styles
from reporter.store.schema import find_table

if TYPE_CHECKING:
    import pandas as pd

Drawing = Literal["chart", "points", "table"]
Draw = Callable[["pd.DataFrame", Styles], Any]
Who = tuple[str, str]
"""A model and a checkpoint of it."""
WHO = ["model", "checkpoint"]
VARIANT = "variant"
"""A selector of this name chooses between an exhibit's charts instead of rows."""


@dataclass(frozen=True)
class Exhibit:
    """Something to show.

    Args:
        id: names its files and its place on the page.
        title: heading.
        lead: what to look for, a sentence or two.
        table: the table of the database that it rests on; its comment is the definition.
        columns: the columns of that table whose comments belong to the definition.
        query: what it rests on.
        drawing: a chart of Vega-Lite, points that can be turned and searched, or a table.
        charts: for a chart, how each variant is drawn, by name.
        picks: its own selectors: by a column, by ``variant``, or whatever the drawing understands.
        options: what the drawing wants to know.
        together: whether one chart shows all models; otherwise each model has its own.
        by_layer: whether it shows one place (a layer of a site) at a time.
        read_off: a sentence for each model and checkpoint.
        mind: what a reader must know not to be misled.
        half: whether it takes half of a wide page, beside another one.
        metric: the analysis whose statistics it shows, where its table is ``layer_metrics``.
    """

    id: str
    title: str
    lead: str
    table: str
    columns: tuple[str, ...]
    query: Query
    drawing: Drawing = "chart"
    charts: Mapping[str, Draw] = field(default_factory=dict)
    picks: Callable[[pd.DataFrame], list[Pick]] = lambda frame: []
    options: Mapping[str, Any] = field(default_factory=dict)
    together: bool = False
    by_layer: bool = False
    read_off: Callable[[pd.DataFrame], dict[Who, str]] = lambda frame: {}
    mind: str = ""
    half: bool = False
    metric: str = ""

    @property
    def definition(self) -> str:
        """What a row of its table is."""
        return find_table(self.table).comment

    @property
    def terms(self) -> list[tuple[str, str]]:
        """What is shown and what that is: statistics, then columns."""
        known = analyses().get(self.metric)
        comments = {column.name: column.comment for column in find_table(self.table).columns}
        statistics = [(f"{self.metric}.{one.name}", one.definition) for one in known.statistics] if known else []
        return statistics + [(name, comments[name]) for name in self.columns]


@dataclass(frozen=True)
class Hung:
    """An exhibit with its rows.

    Args:
        exhibit: what is shown.
        sql: the statement that made its frame.
        frame: result of that statement; None where it failed.
        specs: the Vega-Lite charts without their data, by variant.
        picks: its selectors.
        readings: a sentence for each model and checkpoint.
        error: what went wrong.
    """

    exhibit: Exhibit
    sql: str
    frame: pd.DataFrame | None = None
    specs: Mapping[str, Any] = field(default_factory=dict)
    picks: Sequence[Pick] = ()
    readings: Mapping[Who, str] = field(default_factory=dict)
    error: str = ""

    @property
    def id(self) -> str:
        """Names its files and its place on the page."""
        return self.exhibit.id

    @property
    def csv(self) -> str:
        """Where its rows are, relative to the page."""
        return f"data/{self.id}.csv"

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show, and nothing went wrong."""
        return not self.error and (self.frame is None or self.frame.empty)

    @property
    def who(self) -> list[Who]:
        """The models and checkpoints that it has rows of."""
        if self.frame is None or self.frame.empty:
            return []
        return list(dict.fromkeys(zip(self.frame["model"], self.frame["checkpoint"], strict=True)))

    def for_page(self, who: Sequence[Who]) -> dict[str, Any]:
        """Return what the page's script needs before any rows.

        Args:
            who: the models and checkpoints of the page, in its order.
        """
        return {
            "title": self.exhibit.title,
            "drawing": self.exhibit.drawing,
            "options": self._options(),
            "together": self.exhibit.together,
            "byLayer": self.exhibit.by_layer,
            "specs": dict(self.specs),
            "readings": [self.readings.get(one, "") for one in who],
            "parts": self._names(who),
        }

    def parts(self, who: Sequence[Who]) -> dict[str, Any]:
        """Return its rows as the page fetches them: a part for each model and checkpoint, or one for all.

        Args:
            who: the models and checkpoints of the page, in its order.
        """
        if self.frame is None or self.frame.empty:
            return {}
        if self.exhibit.together:
            return {self.id: pack(self.frame)}
        own = dict(list(self.frame.groupby(WHO, sort=False)))
        names = zip(who, self._names(who), strict=True)
        return {name: pack(own[one].drop(columns=WHO)) for one, name in names if name is not None}

    @property
    def source(self) -> Source | None:
        """What becomes its CSV."""
        own = self.exhibit
        return None if self.frame is None else Source(self.id, own.title, own.table, self.sql, self.frame)

    def _options(self) -> dict[str, Any]:
        """Its options; ``values`` is the order, and so the colours, of what is told apart, the same for every model."""
        options = dict(self.exhibit.options)
        if self.exhibit.drawing == "points" and self.frame is not None:
            told = [name for name in options.get("colour", ()) if name not in options.get("ramps", ())]
            options["values"] = {
                name: sorted(set(self.frame[name].dropna()))
                if options.get("order")
                else [str(value) for value in self.frame[name].value_counts().index]
                for name in told
            }
        return options

    def _names(self, who: Sequence[Who]) -> list[str | None]:
        if self.exhibit.together:
            return [self.id]
        own = set(self.who)
        return [f"{self.id}.{number}" if one in own else None for number, one in enumerate(who)]


def hang(read: Read, study: str, exhibit: Exhibit) -> Hung:
    """Query an exhibit's rows; it is drawn later, when the database is closed again.

    Args:
        read: runs a query.
        study: id of the study.
        exhibit: what to show.
    """
    sql = exhibit.query.fill(study=study)
    try:
        frame = read(sql)
        frame = frame.astype({name: "Int64" for name in frame.columns if str(frame[name].dtype).startswith("int")})
        return Hung(exhibit, sql, frame)
    except Exception as error:  # one broken query must not take the page down
        return Hung(exhibit, sql, error=f"{type(error).__name__}: {error}")


def draw(hung: Hung, styles: Styles) -> Hung:
    """Return an exhibit with charts, selectors and sentences. Whatever breaks is told in its place.

    Args:
        hung: as it was read.
        styles: the models of the page.
    """
    frame, exhibit = hung.frame, hung.exhibit
    if frame is None or frame.empty:
        return hung
    try:
        with debug_mode(False):
            specs = {name: bare_spec(make(frame, styles)) for name, make in exhibit.charts.items()}
        picks, readings = exhibit.picks(frame), exhibit.read_off(frame)
    except Exception as error:  # one broken chart must not take the page down
        return Hung(exhibit, hung.sql, frame, error=f"{type(error).__name__}: {error}")
    return Hung(exhibit, hung.sql, frame, specs, picks, readings)


def choices(frame: pd.DataFrame, column: str, label: str, order: Sequence[str] = ()) -> Pick:
    """Return a selector of the values of a column.

    Args:
        frame: the rows.
        column: whose values.
        label: what the selector says.
        order: values that come first, where they occur.
    """
    found = dict.fromkeys(str(value) for value in frame[column].dropna())
    wanted = [value for value in order if value in found]
    return Pick(column, label, {value: value for value in dict.fromkeys([*wanted, *found])})


def variants(**names: str) -> Pick:
    """Return a selector of charts: from the name of a variant to what is said."""
    return Pick(VARIANT, "Show", names)
