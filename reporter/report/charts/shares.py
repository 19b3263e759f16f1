"""The two parts of a variance over depth, stacked: within token types and between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from reporter.metrics.base import Statistic
from reporter.report.axes import Axis
from reporter.report.charts import parts
from reporter.report.styles import GREEN, GREY, INK, Styles

if TYPE_CHECKING:
    import pandas as pd


def shares(frame: pd.DataFrame, statistic: Statistic, styles: Styles, axis: Axis) -> Any:
    """Draw both shares over depth; together they are 1.

    Args:
        frame: rows of the query ``shares`` for one model, corpus, view and checkpoint.
        statistic: what is drawn.
        styles: not used: a panel shows one model.
        axis: not used: shares run from 0 to 1.

    Returns:
        A layered Altair chart, as wide as the place it is put in.
    """
    y = alt.Y("value:Q", stack="zero", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(values=[0, 0.5, 1]))
    x = parts.depth_axis()
    # within types lies below: the order of the stack is that of the names, reversed
    order = alt.Order("statistic:N", sort="descending")
    scale = alt.Scale(domain=["within_share", "between_share"], range=[GREY, GREEN])
    color = alt.Color("statistic:N", scale=scale, legend=None)
    area = alt.Chart().mark_area(clip=True).encode(x=x, y=y, color=color, order=order)
    points = (
        alt.Chart()
        .transform_filter("datum.statistic === 'between_share'")
        .transform_calculate(within="1 - datum.value")
        .mark_point(filled=True, size=26, color=INK, opacity=0.9)
        .encode(
            x=x,
            y=alt.Y("within:Q", title=None),
            tooltip=[
                alt.Tooltip("model:N"),
                alt.Tooltip("checkpoint:N"),
                alt.Tooltip("layer:Q"),
                alt.Tooltip("value:Q", format=parts.NUMBER, title="between types"),
                alt.Tooltip("within:Q", format=parts.NUMBER, title="within types"),
                alt.Tooltip("n:Q", format=","),
            ],
        )
    )
    return alt.layer(area, points, data=frame).properties(width="container", height=130)
