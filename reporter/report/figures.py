"""A figure: one statistic, the query behind it, its frame, its chart and everything that is said about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import altair as alt
from altair.utils.schemapi import debug_mode

from reporter.metrics.base import Statistic
from reporter.report import queries, shown
from reporter.report.axes import Axis
from reporter.report.charts.dots import dots
from reporter.report.charts.profile import profile
from reporter.report.charts.training import training
from reporter.report.columns import pack
from reporter.report.moments import Moment
from reporter.report.numbers import whole
from reporter.report.shown import Shown
from reporter.report.styles import Styles

if TYPE_CHECKING:
    import pandas as pd

Read = Callable[[str], "pd.DataFrame"]
"""Runs a query on the database."""
Draw = Callable[..., Any]


@dataclass(frozen=True)
class Kind:
    """A kind of chart: its query and its drawing."""

    name: str
    query: queries.Query
    draw: Draw


PROFILE = Kind("profile", queries.PROFILE, profile)
DOTS = Kind("dots", queries.DOTS, dots)
TRAINING = Kind("training", queries.TRAINING, training)
TRAINING_OF_MODELS = Kind("training", queries.TRAINING_OF_MODELS, training)


@dataclass(frozen=True)
class Scene:
    """What all figures of a page share."""

    study: str
    styles: Styles
    views: Sequence[str]
    moments: Sequence[Moment]
    corpora: Sequence[str]


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
        layers: choices of the layer selector of a training chart.
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
    layers: list[str] = field(default_factory=list)
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
    def observations(self) -> str:
        """What its numbers rest on: ``4,096`` or ``3,210 to 4,096``; empty where it is not known."""
        if self.frame is None or "n" not in self.frame or self.frame["n"].dropna().empty:
            return ""
        low, high = whole(self.frame["n"].min()), whole(self.frame["n"].max())
        return low if low == high else f"{low} to {high}"

    @property
    def missing(self) -> int:
        """How many of its values are NULL."""
        return 0 if self.frame is None else int(self.frame["value"].isna().sum())

    @property
    def for_page(self) -> dict[str, Any]:
        """What the page's script needs: chart, packed data, states."""
        assert self.frame is not None
        return {
            "title": self.statistic.title,
            "name": self.id,
            "kind": self.kind.name,
            "spec": self.spec,
            "data": pack(self.frame),
            "states": {
                key: [state.axis.low, state.axis.high, state.axis.note, state.readings]
                for key, state in self.states.items()
            },
        }


def kind_of(statistic: Statistic) -> Kind:
    """Return the chart a statistic gets for free: dots for a number of the whole model, else a profile."""
    return DOTS if statistic.per == "model" else PROFILE


def training_kind_of(statistic: Statistic) -> Kind:
    """Return how a statistic is followed over training."""
    return TRAINING_OF_MODELS if statistic.per == "model" else TRAINING


def read_figure(read: Read, study: str, metric: str, statistic: Statistic, kind: Kind) -> Figure:
    """Query a figure's frame; it is drawn later, when the database is closed again.

    Args:
        read: runs a query.
        study: id of the study.
        metric: name of the metric.
        statistic: what to show.
        kind: how.
    """
    suffix = ".training" if kind.name == "training" else ""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", f"{metric}.{statistic.name}{suffix}")
    values = {"study": study, "metric": metric, "statistic": statistic.name}
    sql = kind.query.fill(**values, floor=f"{statistic.name}_floor")
    try:
        return Figure(name, metric, statistic, kind, sql, typed(read(sql)))
    except Exception as error:  # one broken query must not take the page down
        return Figure(name, metric, statistic, kind, sql, error=_told(error))


def draw_figure(figure: Figure, scene: Scene) -> Figure:
    """Return the figure with its chart and sentences. Whatever breaks is told in its place; the page goes on.

    Args:
        figure: as it was read.
        scene: what all figures of the page share.
    """
    frame, statistic = figure.frame, figure.statistic
    if frame is None or frame["value"].notna().sum() == 0:
        return figure
    try:
        layers: list[str] = []
        if figure.kind.name == "training":
            states = shown.over_layers(frame, statistic, scene.views)
            layers = _layers(frame)
        else:
            states = shown.over_moments(frame, statistic, scene.views, scene.moments)
        # Altair's own validation takes longer than all the rest; the tests draw every kind with it
        with debug_mode(False):
            spec = bare_spec(figure.kind.draw(frame, statistic, scene.styles, Axis(0, 1)))
    except Exception as error:  # one broken chart must not take the page down
        return replace(figure, error=_told(error))
    return replace(figure, spec=spec, states=states, layers=layers)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def bare_spec(chart: Any) -> dict[str, Any]:
    """Return the chart's Vega-Lite without data and theme: the page puts both in.

    The rows are expected under the name ``rows``; ``datasets`` keeps the empty one that rules and notes stand
    on.
    """
    bare = chart.copy(deep=False)
    bare.data = alt.NamedData(name="rows")
    spec: dict[str, Any] = bare.to_dict(validate=False)
    for key in ("$schema", "config"):
        spec.pop(key, None)
    return spec


def typed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with the same types whatever is NULL in it, so that a CSV says 512 and not 512.0."""
    kinds = dict.fromkeys(queries.INTEGERS, "Int64") | dict.fromkeys(queries.NUMBERS, "float64")
    return frame.astype({name: kind for name, kind in kinds.items() if name in frame})


def _layers(frame: pd.DataFrame) -> list[str]:
    numbered = sorted({int(layer) for layer in frame["layer"].dropna()})
    return [shown.MEAN, *map(str, numbered)] if numbered else [shown.MEAN]
