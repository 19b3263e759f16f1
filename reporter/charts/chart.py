"""A chart: what it reads, how it draws, its controls, its panels and all that is said about it.

A metric or an analysis names its charts in its own file (``charts=(…,)``); what each statistic gets for free (a
profile, dots, a line over training) is made from the statistic. :func:`read_chart` is the one place where a chart's
query runs, :func:`draw_chart` the one where it is drawn, and :attr:`Drawn.for_page` is all that a page's script gets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from reporter.charts.axes import LOG
from reporter.charts.columns import pack
from reporter.charts.layout import Panel, Pick, panels_of
from reporter.charts.numbers import whole
from reporter.charts.readings import Shown
from reporter.charts.scene import Scene
from reporter.charts.styles import Styles, ordered
from reporter.charts.vega import alt, unvalidated
from reporter.errors import ReporterError, is_out_of_memory

if TYPE_CHECKING:
    import pandas as pd

INTEGERS = ("step", "layer", "layers", "layer_a", "layer_b", "scale", "rank", "count", "n")
"""Columns that are whole numbers in the database; pandas would show them as floats where one is NULL."""
NUMBERS = ("depth", "part", "value", "ci_low", "ci_high", "floor", "p", "norm_of_mean", "variance", "rho")
WHO = ["model", "checkpoint"]
APART = ("model", "pair")
MOST_TOGETHER = 20_000
"""More rows of a chart stand in a file for each panel, if its panels are what ``APART`` has."""

Read = Callable[[str], "pd.DataFrame"]
"""Runs a query on the database."""
Thin = Callable[[str, "Chart", Read], tuple[str, str]]
"""Makes of a chart's query one whose rows a page can carry, and says which rows these are."""
Draw = Callable[["pd.DataFrame", Styles], Any]
"""Makes an Altair chart, as wide as the place it is put in, from the whole frame of a chart's query: its scales are
those of all panels. The page gives each panel its own rows."""
Say = Callable[["pd.DataFrame", Scene], dict[str, Shown]]
"""Says axis and sentences for each state of the controls that the chart's ``keys`` name; nothing is an empty state."""
Picks = Callable[["pd.DataFrame", Scene], list[Pick]]
Mount = Literal["points", "table"]
"""What the page draws itself: points that can be turned and searched, a table."""


@dataclass(frozen=True)
class Query:
    """A SQL statement with a name and ``$parameters``; the text that runs is the one that is shown."""

    name: str
    text: str

    def fill(self, **parameters: str) -> str:
        """Return the statement with every parameter written as a SQL string literal.

        Args:
            **parameters: one value for each ``$name`` in the text.

        Returns:
            A statement that runs as it stands.

        Raises:
            ReporterError: where a parameter is missing.
        """

        def literal(match: re.Match[str]) -> str:
            name = match.group(1)
            if name not in parameters:
                raise ReporterError(f"query {self.name!r} wants a value for ${name}")
            return "'" + parameters[name].replace("'", "''") + "'"

        return re.sub(r"\$([a-z_]+)", literal, self.text.strip())

    def by_role(self) -> Query:
        """Return the query with the column ``asked``: the corpus, and the role where there are models of both."""
        asked = "if(count(DISTINCT role) OVER () > 1, concat(corpus, ', ', role, 's'), corpus) AS asked"
        return Query(f"{self.name}_by_role", self.text.replace("corpus, view,", f"corpus, {asked}, view,", 1))


@dataclass(frozen=True)
class Page:
    """A page of charts on which a reader chooses one model or two, and a layer.

    Args:
        name: names its file, ``<name>.html``.
        title: its heading, and what links to it say.
        about: the question it answers, in a sentence or two.
    """

    name: str
    title: str
    about: str


SENTENCES = Page(
    "sentences",
    "Sentences",
    "Where in a model do texts that mean the same come together, and is a difference in meaning a direction?",
)
"""The page of what a study writes itself: groups, pairs, clouds, probes."""


@dataclass(frozen=True)
class Chapter:
    """A part of such a page.

    Args:
        page: which page.
        name: names its place there.
        title: its heading.
        lead: what it asks.
        number: the lowest stands first.
    """

    page: Page
    name: str
    title: str
    lead: str
    number: int = 100


@dataclass(frozen=True)
class Chart:
    """Something to show. It needs no more than an id, a title, a query and how it is drawn.

    A chart without a ``chapter`` stands among the charts of its metric on the study's page. Its panels are the values
    of its column ``facet``; rows are chosen by the page's controls where it has their columns (``view``; ``model`` and
    ``checkpoint``, of the checkpoint slider if ``moment`` is one of its ``keys``). A chart with a chapter stands on an
    own page, with a panel for each model that a reader chooses. Every query gets ``$study`` and ``$metric``.

    Args:
        id: names its files and its place on a page; letters, digits, dots, hyphens. Begin it with the metric's name.
        title: heading.
        query: what it rests on. A chart whose query gives no rows is not shown.
        draw: how it is drawn: by Altair, by several (from the name of a variant, see ``variants``), or by the page.
        kind: its class on the page.
        say: what is said about each state of its controls.
        keys: the controls that make the name of a state, in this order: ``site``, ``view``, ``moment``, ``baselines``
            and names of its own selectors.
        facet: the column whose values are the panels; empty for a single one.
        picks: its own selectors.
        value: the column of its values.
        positive: whether values that are not above 0 cannot be drawn.
        legend: which legend stands over it: ``depth``, ``cuts``, ``shares``, ``similarity``, ``angle``, ``methods``,
            ``cosine`` or none.
        key: the column whose colours are listed over it.
        tall: whether it is drawn higher where it has the whole width.
        lead: what to look for, a sentence or two.
        mind: what a reader must know not to be misled.
        definition: what it shows; if empty, that of its statistics or of its table.
        statistics: the statistics of its metric that it shows, ``("*",)`` for all: their sources stand beside it.
        alone: whether these statistics have no chart of their own.
        sources: citations besides those of its statistics.
        published: what published code computes under this name, where that differs.
        grows: how the number moves with the size of the corpus.
        unit: empty for a pure number.
        interval: how its intervals are made.
        headline: shown among the first charts of a report.
        within_role: whether it has different numbers of encoders and of decoders, so that nothing compares them.
        table: the table of the database that it rests on; its comment is the definition.
        columns: the columns of that table whose comments belong to the definition.
        terms: what is shown and what that is, by name; the report fills it from statistics and columns.
        chapter: where it stands on a page of its own; None for the study's page.
        together: in a chapter, whether one panel shows all models; otherwise each has its own.
        by_layer: in a chapter, whether it shows one place (a layer of a site) at a time.
        half: in a chapter, whether it takes half of a wide page, beside another one.
        square: in a chapter, whether it is no wider than it is high.
        options: what a mount wants to know.
    """

    id: str
    title: str
    query: Query
    draw: Draw | Mapping[str, Draw] | Mount
    kind: str = "chart"
    say: Say = lambda frame, scene: {}
    keys: tuple[str, ...] = ("view", "moment")
    facet: str = "corpus"
    picks: Picks = lambda frame, scene: []
    value: str = "value"
    positive: bool = False
    legend: str = ""
    key: str = ""
    tall: bool = False
    lead: str = ""
    mind: str = ""
    definition: str = ""
    statistics: tuple[str, ...] = ()
    alone: bool = False
    sources: tuple[str, ...] = ()
    published: str = ""
    grows: str = ""
    unit: str = ""
    interval: str = ""
    headline: bool = False
    within_role: bool = False
    table: str = ""
    columns: tuple[str, ...] = ()
    terms: tuple[tuple[str, str], ...] = ()
    chapter: Chapter | None = None
    together: bool = False
    by_layer: bool = False
    half: bool = False
    square: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def drawings(self) -> Mapping[str, Draw]:
        """How it is drawn by Altair, by variant."""
        if isinstance(self.draw, str):
            return {}
        return self.draw if isinstance(self.draw, Mapping) else {"": self.draw}


@dataclass(frozen=True)
class Drawn:
    """A chart with its rows, and once it is drawn with all that its page shows of it.

    Args:
        chart: what is shown.
        sql: the statement that made its frame.
        frame: result of that statement; None where it failed.
        specs: the Vega-Lite charts without their data, by variant.
        states: axis and sentences by state of the controls.
        panels: the small charts that it is divided into; in a chapter the page makes them.
        picks: its own selectors.
        open: whether it is seen at once; others wait under *more statistics*.
        error: what went wrong; it then shows nothing else.
        still: where a picture of it is that needs no script, relative to the page; empty where there is none.
        kept: which of its rows it has, where all of them would be too many; empty where it has all.
        named: what its study names besides models, in its order.
    """

    chart: Chart
    sql: str
    frame: pd.DataFrame | None = None
    specs: Mapping[str, Any] = field(default_factory=dict)
    states: Mapping[str, Shown] = field(default_factory=dict)
    panels: Sequence[Panel] = ()
    picks: Sequence[Pick] = ()
    open: bool = True
    error: str = ""
    still: str = ""
    kept: str = ""
    named: Sequence[str] = ()

    @property
    def id(self) -> str:
        """Names its files and its place on the page."""
        return self.chart.id

    @property
    def csv(self) -> str:
        """Where its rows are, relative to the page."""
        return f"data/{self.id}.csv"

    @property
    def rows(self) -> int:
        """How many rows its frame has."""
        return 0 if self.frame is None else len(self.frame)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show, and nothing went wrong."""
        return not self.error and not self.rows

    @property
    def shown(self) -> bool:
        """Whether its page draws something."""
        return bool(self.specs) or (isinstance(self.chart.draw, str) and bool(self.rows) and not self.error)

    @property
    def missing(self) -> int:
        """How many of its values are NULL."""
        column = self.chart.value
        return int(self.frame[column].isna().sum()) if self.frame is not None and column in self.frame else 0

    @property
    def observations(self) -> str:
        """What its numbers rest on: ``4,096`` or ``3,210 to 4,096``; empty where it is not known."""
        if self.frame is None or "n" not in self.frame or self.frame["n"].dropna().empty:
            return ""
        low, high = whole(self.frame["n"].min()), whole(self.frame["n"].max())
        return low if low == high else f"{low} to {high}"

    @property
    def models(self) -> int:
        """How many models its frame has: the rows of a dot plot."""
        return 0 if self.frame is None or "model" not in self.frame else int(self.frame["model"].nunique())

    @property
    def closing(self) -> bool:
        """Whether its profile has hollow marks, of states after the closing norm."""
        if self.chart.kind != "profile" or self.frame is None:
            return False
        return bool((self.frame["site"] == "final").any())

    @property
    def who(self) -> list[tuple[str, str]]:
        """The models and checkpoints that it has rows of."""
        if self.frame is None or self.frame.empty:
            return []
        return list(dict.fromkeys(zip(self.frame["model"].tolist(), self.frame["checkpoint"].tolist(), strict=True)))

    @property
    def parts(self) -> dict[str, str]:
        """The files with its rows, where a page fetches them one by one.

        By ``model|checkpoint`` where a reader chooses models; of many rows by panel, where that is a model or a pair.
        """
        if self.chart.chapter is None and self.chart.facet in APART and self.rows > MOST_TOGETHER:
            return {panel.value: f"{self.id}.{number}" for number, panel in enumerate(self.panels)}
        if self.chart.chapter is None or self.chart.together:
            return {}
        return {"|".join(who): f"{self.id}.{number}" for number, who in enumerate(self.who)}

    @property
    def for_page(self) -> dict[str, Any]:
        """What the page's script fetches, by the name of its file: the chart under its id, rows apart or with it."""
        chart, frame = self.chart, self.frame
        assert frame is not None
        own = {
            "title": chart.title,
            "kind": chart.draw if isinstance(chart.draw, str) else chart.kind,
            "specs": dict(self.specs),
            "keys": [] if chart.chapter else list(chart.keys),
            "facet": "" if chart.chapter else chart.facet,
            "value": chart.value,
            "positive": chart.positive,
            "tall": chart.tall,
            "key": chart.key,
            "together": chart.together,
            "byLayer": chart.by_layer,
            "options": self.options,
            "states": {
                key: [
                    state.readings,
                    *([state.axis.low, state.axis.high, state.axis.note] if state.axis else [0, 1, ""]),
                    *(
                        [{name: [own.low, own.high, own.note] for name, own in state.axes.items()}]
                        if state.axes
                        else []
                    ),
                ]
                for key, state in self.states.items()
            },
        }
        if not self.parts:
            return {self.id: own | {"data": pack(frame)}}
        if chart.chapter is None:
            groups = {str(value): rows for value, rows in frame.groupby(chart.facet, sort=False)}
        else:
            groups = {"|".join(map(str, who)): rows.drop(columns=WHO) for who, rows in frame.groupby(WHO, sort=False)}
        rows_of = {name: pack(groups[who]) for who, name in self.parts.items()}
        return {self.id: own | {"parts": self.parts}, **rows_of}

    @property
    def options(self) -> dict[str, Any]:
        """Its options; ``values`` is the order, and so the colours, of what is told apart, the same for every model."""
        options = dict(self.chart.options)
        if self.chart.draw == "points" and self.frame is not None:
            told = [name for name in options.get("colour", ()) if name not in options.get("ramps", ())]
            options["values"] = {
                name: ordered(sorted(set(self.frame[name].dropna())), self.named)
                if options.get("order")
                else [str(value) for value in self.frame[name].value_counts().index]
                for name in told
            }
        return options


def read_chart(read: Read, chart: Chart, open: bool = True, thin: Thin | None = None, **values: str) -> Drawn:
    """Run a chart's query; it is drawn later, when the database is closed again.

    Args:
        read: runs a query.
        chart: what to show.
        open: whether it is seen at once.
        thin: what leaves rows out of a large study's charts.
        **values: the query's parameters.
    """
    sql = chart.query.text
    try:
        sql = chart.query.fill(**values)
        sql, kept = thin(sql, chart, read) if thin else (sql, "")
        return Drawn(chart, sql, typed(read(sql)), open=open, kept=kept)
    except Exception as error:  # one broken query must not take the page down
        if is_out_of_memory(error):  # nothing is broken: the report is written where there is more
            raise
        return Drawn(chart, sql, open=open, error=_told(error))


def draw_chart(drawn: Drawn, scene: Scene) -> Drawn:
    """Return a chart with drawings, selectors and sentences. Whatever breaks is told in its place; the page goes on.

    Args:
        drawn: as it was read.
        scene: what all charts of the page share.
    """
    chart, frame = drawn.chart, drawn.frame
    if frame is None or frame.empty:
        return drawn
    if chart.chapter is None and chart.value in frame and not frame[chart.value].notna().any():
        return drawn
    try:
        states, picks = chart.say(frame, scene), chart.picks(frame, scene)
        panels = [] if chart.chapter else panels_of(frame, chart.facet, scene)
        with unvalidated():
            specs = {name: bare_spec(make(frame, scene.styles)) for name, make in _wanted(chart, picks)}
    except Exception as error:  # one broken chart must not take the page down
        if is_out_of_memory(error):
            raise
        return replace(drawn, error=_told(error))
    return replace(drawn, specs=specs, states=states, panels=panels, picks=picks, named=scene.styles.named)


def _wanted(chart: Chart, picks: Sequence[Pick]) -> list[tuple[str, Draw]]:
    """Return the drawings that can be chosen, the one first that is chosen at first: few numbers need a logarithm."""
    axes = next((list(pick.choices) for pick in picks if pick.name == "axis"), None)
    drawings = [(name, make) for name, make in chart.drawings.items() if axes is None or name != LOG or name in axes]
    return sorted(drawings, key=lambda drawing: axes is not None and (drawing[0] == LOG) != (axes[0] == LOG))


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def bare_spec(chart: Any) -> dict[str, Any]:
    """Return the chart's Vega-Lite without data and theme: the page puts both in.

    The rows are expected under the name ``rows``, which the chart's own data give way to; ``datasets`` keeps the empty
    one that rules and notes stand on.
    """
    chart.data = alt.NamedData(name="rows")
    spec: dict[str, Any] = chart.to_dict(validate=False)
    for key in ("$schema", "config"):
        spec.pop(key, None)
    return spec


def typed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with the same types whatever is NULL in it, so that a CSV says 512 and not 512.0."""
    from pandas.api.types import is_numeric_dtype

    typed = frame.copy(deep=False)
    for name, column in frame.items():
        now = str(column.dtype)
        kind: Literal["float64", "Int64"] = "float64" if name in NUMBERS else "Int64"
        told = name in NUMBERS or name in INTEGERS or now.startswith("int")
        if told and kind != now and (is_numeric_dtype(column) or not column.notna().any()):  # a text stays one
            typed[name] = column.astype(kind)
    return typed
