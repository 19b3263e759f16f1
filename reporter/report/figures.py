"""A figure: what it shows, the query behind it, its frame, its chart and everything that is said about it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import altair as alt
from altair.utils.schemapi import debug_mode

from reporter.metrics.base import Statistic
from reporter.report import kinds, queries
from reporter.report.axes import Axis
from reporter.report.captions import correlation_rows
from reporter.report.columns import pack
from reporter.report.kinds import Kind
from reporter.report.numbers import whole
from reporter.report.scene import Panel, Pick, Scene
from reporter.report.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

Read = Callable[[str], "pd.DataFrame"]
"""Runs a query on the database."""


@dataclass(frozen=True)
class Figure:
    """A figure as the page shows it.

    Args:
        id: names its CSV, its data on the page and its place.
        metric: name of the metric.
        statistic: what it shows.
        kind: what sort of chart it is.
        sql: the statement that made its frame.
        frame: result of that statement; None where it failed.
        spec: the Vega-Lite chart without its data; None where there is nothing to draw.
        states: axis and sentences by state of the controls.
        panels: the small charts that it is divided into.
        picks: its own selectors.
        open: whether it is seen at once; others wait under *more statistics*.
        error: what went wrong while it was made; it then has no spec.
    """

    id: str
    metric: str
    statistic: Statistic
    kind: Kind
    sql: str
    frame: pd.DataFrame | None = None
    spec: dict[str, Any] | None = None
    states: dict[str, Shown] = field(default_factory=dict)
    panels: list[Panel] = field(default_factory=list)
    picks: list[Pick] = field(default_factory=list)
    open: bool = True
    error: str = ""

    @property
    def name(self) -> str:
        """Public name of the number: ``metric.statistic``."""
        return f"{self.metric}.{self.statistic.name}"

    @property
    def csv(self) -> str:
        """Where its data are, relative to the page."""
        return f"data/{self.id}.csv"

    @property
    def script(self) -> str:
        """Where the page's script finds its chart and data, relative to the page."""
        return f"data/{self.id}.js"

    @property
    def observations(self) -> str:
        """What its numbers rest on: ``4,096`` or ``3,210 to 4,096``; empty where it is not known."""
        if self.frame is None or "n" not in self.frame or self.frame["n"].dropna().empty:
            return ""
        low, high = whole(self.frame["n"].min()), whole(self.frame["n"].max())
        return low if low == high else f"{low} to {high}"

    @property
    def missing(self) -> int:
        """How many of its values are NULL."""
        return 0 if self.frame is None else int(self.frame[self.kind.value].isna().sum())

    @property
    def rows(self) -> int:
        """How many rows its frame has."""
        return 0 if self.frame is None else len(self.frame)

    @property
    def models(self) -> int:
        """How many models its frame has: the rows of a dot plot."""
        return 0 if self.frame is None or "model" not in self.frame else int(self.frame["model"].nunique())

    @property
    def table(self) -> list[dict[str, Any]]:
        """The numbers of a figure of correlations, as a table; other figures have none."""
        return correlation_rows(self.frame) if self.kind is kinds.CORRELATIONS and self.frame is not None else []

    @property
    def for_page(self) -> dict[str, Any]:
        """What the page's script needs: chart, packed data, states."""
        assert self.frame is not None
        return {
            "title": self.statistic.title,
            "name": self.id,
            "kind": self.kind.name,
            "facet": self.kind.facet,
            "value": self.kind.value,
            "keys": list(self.kind.keys),
            "tall": self.kind.tall,
            "positive": self.kind.positive,
            "spec": self.spec,
            "data": pack(self.frame),
            "states": {
                key: [state.readings, *([state.axis.low, state.axis.high, state.axis.note] if state.axis else [])]
                for key, state in self.states.items()
            },
        }


def kind_of(statistic: Statistic) -> Kind:
    """Return the chart a statistic gets for free: dots for a number of the whole model, else a profile."""
    return kinds.DOTS if statistic.per == "model" else kinds.PROFILE


def training_kind_of(statistic: Statistic) -> Kind:
    """Return how a statistic is followed over training."""
    return kinds.TRAINING_OF_MODELS if statistic.per == "model" else kinds.TRAINING


def read_figure(read: Read, study: str, metric: str, statistic: Statistic, kind: Kind, open: bool = True) -> Figure:
    """Query a figure's frame; it is drawn later, when the database is closed again.

    Args:
        read: runs a query.
        study: id of the study.
        metric: name of the metric.
        statistic: what to show.
        kind: how.
        open: whether it is seen at once.
    """
    suffix = ".training" if kind.name == "training" else ""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", f"{metric}.{statistic.name}{suffix}")
    values = {"study": study, "metric": metric, "statistic": statistic.name}
    sql = kind.query.fill(**values, floor=f"{statistic.name}_floor")
    try:
        return Figure(name, metric, statistic, kind, sql, typed(read(sql)), open=open)
    except Exception as error:  # one broken query must not take the page down
        return Figure(name, metric, statistic, kind, sql, open=open, error=_told(error))


def draw_figure(figure: Figure, scene: Scene) -> Figure:
    """Return the figure with its chart and sentences. Whatever breaks is told in its place; the page goes on.

    Args:
        figure: as it was read.
        scene: what all figures of the page share.
    """
    frame, statistic, kind = figure.frame, figure.statistic, figure.kind
    if frame is None or frame[kind.value].notna().sum() == 0:
        return figure
    try:
        states = kind.states(frame, statistic, scene)
        panels, picks = kind.panels(frame, scene), kind.picks(frame, scene)
        # Altair's own validation takes longer than all the rest; the tests draw every kind with it
        with debug_mode(False):
            spec = bare_spec(kind.draw(frame, statistic, scene.styles, Axis(0, 1)))
    except Exception as error:  # one broken chart must not take the page down
        return replace(figure, error=_told(error))
    return replace(figure, spec=spec, states=states, panels=panels, picks=picks)


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
    types = dict.fromkeys(queries.INTEGERS, "Int64") | dict.fromkeys(queries.NUMBERS, "float64")
    return frame.astype({name: kind for name, kind in types.items() if name in frame})
