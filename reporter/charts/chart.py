"""A chart: what it reads, how it draws, its controls, its panels and all that is said about it.

A metric or an analysis names its charts in its own file (``charts=(…,)``); what each statistic gets for free (a
profile, dots, a line over training) is made from the statistic (:mod:`reporter.report.free_charts`).
:mod:`reporter.charts.drawing` reads and draws them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from reporter.charts.axes import Axis, AxisLimits, chance_rows
from reporter.charts.layout import ASKED, Panel, Pick, Scene
from reporter.charts.styles import Styles, ordered
from reporter.core.errors import ReporterError
from reporter.core.numbers import short, whole
from reporter.core.sources import Source

if TYPE_CHECKING:
    import pandas as pd

WHO = (("model", "checkpoint"), ("model_a", "checkpoint_a"), ("model_b", "checkpoint_b"))
"""The columns of a chart's models and their checkpoints."""
APART = ("model", "pair")
MOST_TOGETHER = 20_000
"""Charts of more rows have a file for each panel, if their panels are what ``APART`` names."""

Read = Callable[[str], "pd.DataFrame"]
"""Runs a query on the database."""
Draw = Callable[["pd.DataFrame", Styles], Any]
"""Makes an Altair chart, as wide as its place on the page, from the whole frame of a chart's query: its scales are
shared by all panels. The page gives each panel its own rows."""
Say = Callable[["pd.DataFrame", Scene], str]
"""Returns the sentence under a panel, from the rows that the panel shows."""
Picks = Callable[["pd.DataFrame", Scene], list[Pick]]
Mount = Literal["points", "table"]
"""What the page draws without Vega: points that can be turned and searched, a table."""


def filled(sql: str, **parameters: str) -> str:
    """Return a statement with every ``$parameter`` written as a SQL string literal, as it runs and as pages show it."""

    def literal(match: re.Match[str]) -> str:
        if match[1] not in parameters:
            raise ReporterError(f"the query needs a value for {match[0]}")
        return "'" + parameters[match[1]].replace("'", "''") + "'"

    return re.sub(r"\$([a-z_]+)", literal, sql.strip())


@dataclass(frozen=True)
class Page:
    """A page of charts, ``<name>.html``, on which a reader chooses one model or two, and a layer."""

    name: str
    title: str
    about: str


SENTENCES = Page(
    "texts",
    "Texts",
    "What each layer makes of the texts that the study names.",
)
"""The page of what a study writes itself: groups, pairs, clouds, probes."""


@dataclass(frozen=True)
class Chapter:
    """A part of such a page; the chapter with the lowest ``number`` comes first."""

    page: Page
    name: str
    title: str
    lead: str
    number: int = 100


@dataclass(frozen=True)
class Chart:
    """A chart needs no more than an id, a title, a query and how it is drawn.

    A chart without a ``chapter`` stands among the charts of its metric on the study's page. Its panels are the values
    of its column ``facet``; it follows the page's controls for which its query has columns (``view``; ``model`` and
    ``checkpoint``; ``site``). A chart with a chapter stands on a page of its own, with a panel for each model that a
    reader chooses. Every query gets ``$study`` and ``$metric``.

    Args:
        id: names its files and its place on a page; letters, digits, dots, hyphens. Begin it with the metric's name.
        title: heading.
        naming: heading in place of the title where selectors decide what is shown: ``{NAME}`` is the choice of a
            selector, ``{base}`` the model from which all rows are a difference.
        query: the SQL of its rows. A chart whose query gives no rows is not shown.
        draw: how it is drawn: by Altair, by several (from the name of a variant, see ``variants``), or by the page.
        kind: its class on the page.
        say: returns the sentence under a panel.
        reach: what decides the reach of its value axis; None where the drawing does.
        facet: the column whose values are the panels; empty for a single panel.
        picks: its own selectors.
        value: the column of its values.
        legend: the scale that is explained above it: ``depth``, ``cuts``, ``shares``, ``similarity``, ``angle``,
            ``methods``, ``attention``, ``change``, ``cosine`` or none.
        key: the column whose colours are listed above it.
        lead: what to look for, at most 14 words.
        mind: a caution for readers, at most 25 words; no other caution repeats it.
        definition: what it shows; if empty, the definition of its statistics or of its table.
        statistics: the statistics of its metric that it shows, ``("*",)`` for all: their sources stand beside it.
        alone: whether these statistics have no chart of their own.
        sources: works besides those of its statistics.
        published: what published code computes under this name, where that differs.
        grows: how the number moves with the size of the corpus.
        unit: empty for a pure number.
        interval: how its intervals are made.
        main: whether it is among the first charts of a report.
        behind: whether it waits behind *show all*.
        within_role: whether encoders and decoders have different numbers, so that nothing compares them.
        columns: of the table that its query reads first, those whose comments belong to the definition; the table's
            own comment is the definition.
        terms: names and explanations; the report fills it from statistics and columns.
        chapter: where it stands on a page of its own; None for the study's page.
        together: in a chapter, whether one panel shows all models; otherwise each has its own.
        by_layer: in a chapter, whether it shows one layer at a time.
        half: in a chapter, whether it takes half of a wide page.
        options: settings of a chart that the page draws.
    """

    id: str
    title: str
    query: str
    draw: Draw | Mapping[str, Draw] | Mount
    naming: str = ""
    kind: str = "chart"
    say: Say | None = None
    reach: AxisLimits | None = None
    facet: str = "corpus"
    picks: Picks = lambda frame, scene: []
    value: str = "value"
    legend: str = ""
    key: str = ""
    lead: str = ""
    mind: str = ""
    definition: str = ""
    statistics: tuple[str, ...] = ()
    alone: bool = False
    sources: tuple[Source, ...] = ()
    published: str = ""
    grows: str = ""
    unit: str = ""
    interval: str = ""
    main: bool = False
    behind: bool = False
    within_role: bool = False
    columns: tuple[str, ...] = ()
    terms: tuple[tuple[str, str], ...] = ()
    chapter: Chapter | None = None
    together: bool = False
    by_layer: bool = False
    half: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def table(self) -> str:
        """The table that its query reads first."""
        return self.query.partition("FROM ")[2].split()[0]

    @property
    def plot(self) -> str:
        """Names its drawing: what the page draws itself, or its kind."""
        return self.draw if isinstance(self.draw, str) else self.kind

    @property
    def drawings(self) -> Mapping[str, Draw]:
        """Functions that draw it with Altair, by variant."""
        if isinstance(self.draw, str):
            return {}
        return self.draw if isinstance(self.draw, Mapping) else {"": self.draw}


@dataclass(frozen=True)
class Drawn:
    """A chart with its rows, and once it is drawn with all that its page shows of it.

    Args:
        chart: what is shown.
        sql: the statement that made its frame.
        frame: result of that statement; without columns where it failed.
        specs: the Vega-Lite charts without their data, by variant.
        captions: the sentence under each panel as the page opens, by the value of the panel.
        axes: reaches of the value axis that all token sets share, see :func:`reporter.charts.axes.axes_of`.
        reaches: the axis of each part that a reader can choose, see :func:`reporter.charts.axes.reaches_of`.
        panels: the small charts that it is divided into; in a chapter the page makes them.
        picks: its own selectors.
        open: whether it is seen at once; others wait under *more statistics*.
        error: what went wrong; it then shows nothing else.
        image: its static image, relative to the page; empty where there is none.
        kept: which of its rows it has, where all of them would be too many; empty where it has all.
        named: what its study names besides models, in its order.
        means: of a profile, the means over the models of each role, as the run stored them; None without any.
    """

    chart: Chart
    sql: str
    frame: pd.DataFrame
    specs: Mapping[str, Any] = field(default_factory=dict)
    captions: Mapping[str, str] = field(default_factory=dict)
    axes: Mapping[str, Mapping[str, Axis]] = field(default_factory=dict)
    reaches: pd.DataFrame | None = None
    panels: Sequence[Panel] = ()
    picks: Sequence[Pick] = ()
    open: bool = True
    error: str = ""
    image: str = ""
    kept: str = ""
    named: Sequence[str] = ()
    means: pd.DataFrame | None = None

    @property
    def title(self) -> str:
        """Its title as a page opens."""
        return self.title_for({})

    def title_for(self, choices: Mapping[str, str]) -> str:
        """Return its title for some choices of its selectors; others have their first value."""
        texts = {}
        for pick in self.picks:
            chosen = choices.get(pick.name, next(iter(pick.choices), ""))
            texts[pick.name] = pick.choices.get(chosen, "")
        if not texts or not self.naming:
            return self.chart.title
        return re.sub(r"\{(\w+)\}", lambda place: texts.get(place[1], place[0]), self.naming)

    @property
    def naming(self) -> str:
        """Its title with places for the choices of its selectors."""
        bases = set(self.frame["model_b"]) if {"model", "model_b"} <= set(self.frame) else set()
        own = len(bases) == 1 and not bases & set(self.frame["model"])
        base = f" from {bases.pop()}" if own else ""
        return self.chart.naming.replace("{base}", base)

    @property
    def id(self) -> str:
        """Names its files and its place on the page."""
        return self.chart.id

    @property
    def csv(self) -> str:
        """Path of its rows, relative to the page."""
        return f"data/{self.id}.csv"

    @property
    def read(self) -> bool:
        """Whether its query gave a frame, with rows or without."""
        return bool(len(self.frame.columns))

    @property
    def rows(self) -> int:
        """How many rows its frame has."""
        return len(self.frame)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show, and nothing went wrong."""
        return not self.error and not self.rows

    @property
    def shown(self) -> bool:
        """Whether its page draws something."""
        return bool(self.specs) or (isinstance(self.chart.draw, str) and bool(self.rows) and not self.error)

    @property
    def placed(self) -> bool:
        """Whether its page has a place for it, in which it is drawn or says why it is not."""
        return self.shown or bool(self.error)

    @property
    def missing(self) -> int:
        """How many of its values are NULL."""
        column = self.chart.value
        return int(self.frame[column].isna().sum()) if column in self.frame else 0

    @property
    def unsure(self) -> bool:
        """Whether none of its values has an interval, though the number has one elsewhere."""
        return "ci_low" in self.frame and not self.frame["ci_low"].notna().any()

    @property
    def observations(self) -> str:
        """The range of its n, such as ``3,210 to 4,096``; empty where it has none."""
        if "n" not in self.frame or self.frame["n"].dropna().empty:
            return ""
        return " to ".join(dict.fromkeys((whole(self.frame["n"].min()), whole(self.frame["n"].max()))))

    @property
    def models(self) -> int:
        """How many models its frame has: the rows of a dot plot."""
        return int(self.frame["model"].nunique()) if "model" in self.frame else 0

    @property
    def flat(self) -> str:
        """What to say in place of the chart where all of its values are the same number; empty where they are not."""
        column = self.chart.value
        if self.chart.kind not in ("profile", "dots") or column not in self.frame:
            return ""
        values = self.frame.loc[~chance_rows(self.frame), column].dropna()
        if values.nunique() != 1 or len(values) < 2:
            return ""
        several = f", in all {self.models} models" if self.models > 1 else ""
        return f"{short(values.iloc[0])} throughout{several}"

    @property
    def span(self) -> int:
        """How many places it takes among cards: two where its panels are of both roles, or of several comparisons."""
        roles = self.chart.facet == ASKED and self.rows and self.frame[ASKED].nunique() > self.frame["corpus"].nunique()
        sides = (self.chart.kind == "differences" or self.chart.key) and len(self.panels) > 1
        return 2 if self.shown and (roles or sides) else int(self.placed)

    @property
    def closing(self) -> bool:
        """Whether its profile has hollow marks, of states after the final norm."""
        return self.chart.kind == "profile" and bool(self.rows) and bool((self.frame["site"] == "final").any())

    @property
    def who(self) -> list[tuple[str, str]]:
        """The models and checkpoints that it has rows of."""
        if self.frame.empty:
            return []
        return list(dict.fromkeys(zip(self.frame["model"].tolist(), self.frame["checkpoint"].tolist(), strict=True)))

    @property
    def follows(self) -> list[str]:
        """The page's controls that choose its rows; a chart with the option ``last`` ignores the checkpoint slider."""
        if self.chart.chapter is not None:
            return []
        names = [name for name in ("view", "site") if name in self.frame]
        moves = any(set(pair) <= set(self.frame.columns) for pair in WHO) and not self.chart.options.get("last")
        return [*names, *(["moment"] if moves else [])]

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
    def options(self) -> dict[str, Any]:
        """Its options; ``values`` is the order, and so the colours, of its categories, the same for every model."""
        options = dict(self.chart.options)
        if self.chart.draw == "points":
            columns = [name for name in options.get("colour", ()) if name not in options.get("ramps", ())]
            options["values"] = {
                name: ordered(sorted(set(self.frame[name].dropna())), self.named)
                if options.get("order")
                else [str(value) for value in self.frame[name].value_counts().index]
                for name in columns
            }
        return options
