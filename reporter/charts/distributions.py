"""Distributions and explained variance, of the vectors of a vocabulary or of the texts of a corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reporter.charts.parts import tips
from reporter.charts.styles import FLOOR_GREY, Styles, colours, ordered
from reporter.charts.vega import alt

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("token", "position", "type", "token–token", "token–position", "position–position", "token–type")


def heights(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw distributions over each other, each as high as the others."""
    y = alt.Y("height:Q", title="share, the peak being 1", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=3))
    return _histogram(frame, styles, y)


def counts(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw distributions over each other by number, on a logarithmic axis."""
    top = max(2.0, float(frame["count"].max()))
    scale = alt.Scale(type="log", domain=[0.7, top], clamp=True)
    decades = [10**power for power in range(0, 20, 1 if top < 1e5 else 2) if 10**power <= top]
    y = alt.Y("shown:Q", title="how many", scale=scale, axis=alt.Axis(format="~s", values=decades))
    return _histogram(frame, styles, y, "datum.count < 1 ? 0.7 : datum.count")


def _histogram(frame: pd.DataFrame, styles: Styles, y: Any, shown: str = "") -> Any:
    parts = ordered(sorted(set(frame["part"]), key=lambda part: ("–" in part, part)), (*KINDS, *styles.named))
    color = alt.Color(
        "part:N",
        scale=alt.Scale(domain=parts, range=colours(len(parts))),
        legend=None,
    )
    chart = alt.Chart()
    if shown:
        chart = chart.transform_calculate(shown=shown)
    base = chart.encode(x=alt.X("low:Q", title=None, scale=alt.Scale(zero=False, nice=True)), color=color)
    base = base.encode(tooltip=tips("part", "low", "high", "count", "n"))
    low = 0.7 if shown else 0
    fill = base.mark_area(interpolate="step-after", opacity=0.16).encode(y=y, y2=alt.Y2Datum(low))
    line = base.mark_line(interpolate="step-after", strokeWidth=1.6).encode(y=y)
    bar = base.mark_bar(opacity=0).encode(x2=alt.X2("high:Q"), y=y)
    return alt.layer(fill.encode(y=_stacked(y)), line, bar).properties(width="container", height=240)


def _stacked(y: Any) -> Any:
    made = y.copy()
    made.stack = None
    return made


def explained(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the share of the variance that the first components hold together."""
    parts = ordered(sorted(set(frame["part"])), (*KINDS, *styles.named))
    most = max(2, int(frame["components"].max()))
    ticks = [n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if n <= most]
    x = alt.X(
        "components:Q",
        title="principal components",
        scale=alt.Scale(type="log", domain=[1, most], nice=False),
        axis=alt.Axis(values=ticks, format="d"),
    )
    y = alt.Y(
        "share:Q", title="share of the variance", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=5)
    )
    color = alt.Color("part:N", scale=alt.Scale(domain=parts, range=colours(len(parts))), legend=None)
    rules = alt.Chart(alt.InlineData(values=[{"share": 0.5}, {"share": 0.9}]))
    line = alt.Chart().mark_line(strokeWidth=2).encode(x=x, y=y, color=color)
    points = alt.Chart().mark_point(size=60, filled=True, opacity=0)
    points = points.encode(x=x, y=y, color=color, tooltip=tips("part", "components", "share", "n"))
    dashes = rules.mark_rule(strokeDash=[3, 3], color=FLOOR_GREY, strokeWidth=1).encode(y=alt.Y("share:Q"))
    return alt.layer(dashes, line, points, data=frame).properties(width="container", height=240)
