"""A statistic over relative depth: a line for each model, its interval as a band, the floor dashed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from reporter.metrics.base import Statistic
from reporter.report.axes import Axis
from reporter.report.charts import parts
from reporter.report.styles import FLOOR_GREY, RULE_GREY, Styles

if TYPE_CHECKING:
    import pandas as pd

TITLES = {"layer": "relative depth", "step": "relative depth at the start of the step"}


def profile(frame: pd.DataFrame, statistic: Statistic, styles: Styles, axis: Axis) -> Any:
    """Draw a statistic over depth.

    Args:
        frame: rows of the query ``profile`` for one corpus, one view and one checkpoint of each model.
        statistic: what is drawn; its floor is the statistic ``<name>_floor`` of the same frame.
        styles: colour, mark and dash of each model.
        axis: reach of the value axis.

    Returns:
        A layered Altair chart, as wide as the place it is put in.
    """
    own = alt.Chart().transform_filter(parts.is_statistic(statistic.name))
    x = alt.X(
        "depth:Q",
        title=TITLES.get(statistic.per, "relative depth"),
        scale=alt.Scale(domain=[0, 1], nice=False),
        axis=alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".2~f", grid=False),
    )
    y = parts.value_axis()
    layers = [alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=RULE_GREY, clip=True).encode(y=alt.datum(0))]
    if _has_floor(frame, statistic):
        layers += _floor(statistic, x, y)
    if parts.has(frame, "ci_low"):
        layers.append(
            own.mark_area(clip=True).encode(
                x=x,
                y=parts.value_axis("ci_low:Q"),
                y2="ci_high:Q",
                color=parts.color(styles),
                opacity=parts.lit(0.16, 0.02),
            )
        )
    line = own.mark_line(strokeWidth=2, strokeCap="round", strokeJoin="round", clip=True).encode(
        x=x, y=y, color=parts.color(styles), strokeDash=parts.dash(styles), opacity=parts.lit(1, 0.1)
    )
    points = own.mark_point(filled=True, size=42).encode(
        x=x,
        y=y,
        color=parts.color(styles),
        shape=parts.shape(styles),
        opacity=parts.lit(1, 0.1),
        tooltip=_tooltip(frame, statistic),
    )
    chart = alt.layer(*layers, line, points, parts.floor_note(), data=frame)
    return chart.add_params(*parts.params(axis)).properties(width="container", height=160)


def _has_floor(frame: pd.DataFrame, statistic: Statistic) -> bool:
    return bool((frame["statistic"] == f"{statistic.name}_floor").any())


def _floor(statistic: Statistic, x: Any, y: Any) -> list[Any]:
    """One thin dashed line for each model (floors depend on its width) and a single label."""
    floor = (
        alt.Chart()
        .transform_filter(parts.is_statistic(f"{statistic.name}_floor"))
        .transform_filter("isValid(datum.value)")
    )
    line = floor.mark_line(color=FLOOR_GREY, strokeWidth=1, strokeDash=[3, 3], clip=True).encode(
        x=x, y=y, detail="model:N", opacity=parts.lit(0.9, 0.2)
    )
    # one label, at the deepest point of one of the lines, left out where that is off the axis (the page's rows are
    # rounded, so its end needs a little room)
    label = (
        floor.transform_aggregate(deepest="argmax(depth)")
        .transform_calculate(depth="datum.deepest.depth", value="datum.deepest.value")
        .transform_filter("abs(datum.value - (low + high) / 2) <= (high - low) * 0.501")
        .mark_text(text="floor", align="right", baseline="bottom", dy=-3, fontSize=10.5, color=FLOOR_GREY)
        .encode(x=x, y=y)
    )
    return [line, label]


def _tooltip(frame: pd.DataFrame, statistic: Statistic) -> list[Any]:
    shown = [
        alt.Tooltip("model:N"),
        alt.Tooltip("checkpoint:N"),
        alt.Tooltip("layer:Q", title="layer" if statistic.per == "layer" else "step from layer"),
        alt.Tooltip("depth:Q", format=".2~f"),
        alt.Tooltip("value:Q", format=parts.NUMBER, title=statistic.title),
    ]
    if parts.has(frame, "ci_low"):
        shown.append(alt.Tooltip("ci_low:Q", format=parts.NUMBER, title="from"))
        shown.append(alt.Tooltip("ci_high:Q", format=parts.NUMBER, title="to"))
    return [*shown, alt.Tooltip("n:Q", format=",")]
