"""Correlations over the models of a study: a mark for each feature and method, its interval as a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from reporter.metrics.base import Statistic
from reporter.report.axes import Axis
from reporter.report.charts import parts
from reporter.report.styles import FLOOR_GREY, INK, RULE_GREY, Styles

if TYPE_CHECKING:
    import pandas as pd

ROW = 34
"""Height of one feature, in pixels."""
METHODS = ["pearson", "spearman"]


def correlations(frame: pd.DataFrame, statistic: Statistic, styles: Styles, axis: Axis) -> Any:
    """Draw correlations between -1 and 1, the strongest feature on top.

    Args:
        frame: rows of the query ``correlations`` for one corpus, view and score, in its order.
        statistic: what is drawn.
        styles: not used: a correlation is over all models.
        axis: not used: correlations run from -1 to 1.

    Returns:
        A layered Altair chart, as wide as the place it is put in, 34 pixels for each feature.
    """
    scale = alt.Scale(domain=[-1, 1], nice=False)
    x = alt.X("value:Q", title=None, scale=scale, axis=alt.Axis(grid=True, values=[-1, -0.5, 0, 0.5, 1], format="~g"))
    # null sort keeps the order of the rows, which is that of the query
    y = alt.Y("feature:N", title=None, sort=None, axis=alt.Axis(labelLimit=120, domain=False, grid=False))
    place = alt.YOffset("method:N", scale=alt.Scale(domain=METHODS, paddingOuter=0.5))
    shape = alt.Shape("method:N", scale=alt.Scale(domain=METHODS, range=["circle", "diamond"]), legend=None)
    color = alt.Color("method:N", scale=alt.Scale(domain=METHODS, range=[FLOOR_GREY, INK]), legend=None)
    valid = alt.Chart().transform_filter("isValid(datum.value)")
    layers = [alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=RULE_GREY).encode(x=alt.datum(0, scale=scale))]
    if parts.has(frame, "ci_low"):
        line = valid.mark_rule(strokeWidth=2, opacity=0.4)
        ends = alt.X("ci_low:Q", title=None, scale=scale)
        layers.append(line.encode(x=ends, x2="ci_high:Q", y=y, yOffset=place, color=color))
    points = valid.mark_point(filled=True, size=70, opacity=1).encode(
        x=x,
        y=y,
        yOffset=place,
        shape=shape,
        color=color,
        tooltip=[
            alt.Tooltip("feature:N"),
            alt.Tooltip("score:N"),
            alt.Tooltip("method:N"),
            alt.Tooltip("value:Q", format=parts.NUMBER, title="correlation"),
            alt.Tooltip("ci_low:Q", format=parts.NUMBER, title="from"),
            alt.Tooltip("ci_high:Q", format=parts.NUMBER, title="to"),
            alt.Tooltip("p:Q", format=".2~g"),
            alt.Tooltip("n:Q", title="models"),
        ],
    )
    height = ROW * max(1, frame["feature"].nunique())
    return alt.layer(*layers, points, data=frame).properties(width="container", height=height)
