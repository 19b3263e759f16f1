"""A statistic of whole models: one dot for each model, its interval as a line, the floor as a grey tick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from reporter.metrics.base import Statistic
from reporter.report.axes import Axis
from reporter.report.charts import parts
from reporter.report.styles import FLOOR_GREY, RULE_GREY, Styles

if TYPE_CHECKING:
    import pandas as pd


ROW = 24
"""Height of one model, in pixels."""


def dots(frame: pd.DataFrame, statistic: Statistic, styles: Styles, axis: Axis) -> Any:
    """Draw one number for each model.

    Args:
        frame: rows of the query ``dots`` for one corpus, one view and one checkpoint of each model.
        statistic: what is drawn; its floor is the statistic ``<name>_floor`` of the same frame.
        styles: colour and mark of each model, and their order from top to bottom.
        axis: reach of the value axis.

    Returns:
        A layered Altair chart, as wide as the place it is put in, 24 pixels for each model.
    """
    # the rows of a comparison are of the statistic that the page's selector names
    own = alt.Chart() if "comparison" in frame else alt.Chart().transform_filter(parts.is_statistic(statistic.name))
    present = set(frame["model"])
    order = [name for name in styles.names if name in present]
    x = alt.X("value:Q", title=None, scale=parts.value_scale(), axis=alt.Axis(grid=True, tickCount=5))
    y = alt.Y(
        "model:N",
        title=None,
        scale=alt.Scale(domain=order),
        axis=alt.Axis(labelLimit=130, grid=True, domain=False),
    )
    layers = [alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=RULE_GREY, clip=True).encode(x=alt.datum(0))]
    if bool((frame["statistic"] == f"{statistic.name}_floor").any()):
        floor = alt.Chart().transform_filter(parts.is_statistic(f"{statistic.name}_floor"))
        layers.append(floor.mark_tick(color=FLOOR_GREY, thickness=1.5, clip=True).encode(x=x, y=y))
    if parts.has(frame, "ci_low"):
        layers.append(
            own.mark_rule(strokeWidth=2.5, strokeCap="round", clip=True).encode(
                x=alt.X("ci_low:Q", title=None, scale=parts.value_scale()),
                x2="ci_high:Q",
                y=y,
                color=parts.color(styles),
                opacity=parts.lit(0.45, 0.08),
            )
        )
    points = own.mark_point(filled=True).encode(
        x=x,
        y=y,
        color=parts.color(styles),
        shape=parts.shape(styles),
        size=parts.size(styles, 85),
        opacity=parts.lit(1, 0.1),
        tooltip=_tooltip(frame, statistic),
    )
    chart = alt.layer(*layers, points, parts.floor_note(), data=frame)
    return chart.add_params(*parts.params(axis)).properties(width="container", height=ROW * max(1, len(order)))


def _tooltip(frame: pd.DataFrame, statistic: Statistic) -> list[Any]:
    shown = [
        alt.Tooltip("model:N"),
        alt.Tooltip("checkpoint:N"),
        alt.Tooltip("value:Q", format=parts.NUMBER, title=statistic.title),
    ]
    if parts.has(frame, "ci_low"):
        shown.append(alt.Tooltip("ci_low:Q", format=parts.NUMBER, title="from"))
        shown.append(alt.Tooltip("ci_high:Q", format=parts.NUMBER, title="to"))
    return [*shown, alt.Tooltip("n:Q", format=",")]
