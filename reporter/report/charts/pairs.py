"""A number for each two layers, as a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from reporter.metrics.base import Statistic
from reporter.report.axes import Axis
from reporter.report.charts import parts
from reporter.report.styles import Styles

if TYPE_CHECKING:
    import pandas as pd


def pairs(frame: pd.DataFrame, statistic: Statistic, styles: Styles, axis: Axis) -> Any:
    """Draw similarity of layers, the first model upwards and the second to the right.

    The colours run from 0 to 1 on every panel; what is below 0 (a debiased estimate may be) has the colour of 0.

    Args:
        frame: rows of the query ``pairs`` for one pair of models, one statistic, corpus and view.
        statistic: what is drawn.
        styles: not used: colour is the value.
        axis: not used.

    Returns:
        An Altair chart, as wide as the place it is put in.
    """
    plain = alt.Axis(
        grid=False, domain=False, ticks=False, labelOverlap="greedy", labelSeparation=3, labelPadding=3, labelAngle=0
    )
    shown = [
        alt.Tooltip("model_a:N", title="first model"),
        alt.Tooltip("layer_a:O", title="its layer"),
        alt.Tooltip("model_b:N", title="second model"),
        alt.Tooltip("layer_b:O", title="its layer"),
        alt.Tooltip("value:Q", format=parts.NUMBER),
    ]
    if parts.has(frame, "ci_low"):
        shown += [alt.Tooltip("ci_low:Q", format=parts.NUMBER, title="from")]
        shown += [alt.Tooltip("ci_high:Q", format=parts.NUMBER, title="to")]
    if parts.has(frame, "floor"):
        shown.append(alt.Tooltip("floor:Q", format=parts.NUMBER))
    scale = alt.Scale(scheme="viridis", domain=[0, 1], clamp=True)
    return (
        alt.Chart(frame)
        .transform_filter("isValid(datum.value)")
        .mark_rect(strokeWidth=0.6)  # closes the hairlines between cells
        .encode(
            x=alt.X("layer_b:O", title="layer", axis=plain),
            y=alt.Y("layer_a:O", title="layer", sort="descending", axis=plain),
            color=alt.Color("value:Q", scale=scale, legend=None),
            stroke=alt.Stroke("value:Q", scale=scale, legend=None),
            tooltip=[*shown, alt.Tooltip("n:Q", format=",", title="texts")],
        )
        .properties(width="container", height=230)
    )
