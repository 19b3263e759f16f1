"""Token types of one layer: the norm of their mean against their variance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from reporter.metrics.base import Statistic
from reporter.report.axes import Axis
from reporter.report.charts import parts
from reporter.report.styles import Styles

if TYPE_CHECKING:
    import pandas as pd

WIDE = 8.0
"""Where the largest value is as many times the smallest, the axes are logarithmic."""


def types(frame: pd.DataFrame, statistic: Statistic, styles: Styles, axis: Axis) -> Any:
    """Draw a mark for each token type.

    Args:
        frame: rows of the query ``types``, all of them: they decide whether the axes are logarithmic.
        statistic: what is drawn.
        styles: colour of each model.
        axis: not used: each panel finds its own reach.

    Returns:
        An Altair chart, as wide as the place it is put in.
    """
    return (
        alt.Chart(frame)
        # a type whose states are all alike has no variance, and no place on a logarithmic axis
        .transform_filter("datum.variance > 0 && datum.norm_of_mean > 0")
        .mark_point(filled=True, strokeWidth=0)
        .encode(
            x=alt.X(
                "norm_of_mean:Q",
                title="‖mean‖",
                scale=_scale(frame, "norm_of_mean"),
                axis=alt.Axis(tickCount=4, format="~g", labelOverlap="greedy"),
            ),
            y=alt.Y(
                "variance:Q",
                title="variance",
                scale=_scale(frame, "variance"),
                axis=alt.Axis(grid=False, tickCount=4, format="~g", labelOverlap="greedy"),
            ),
            size=alt.Size("count:Q", scale=alt.Scale(type="sqrt", range=[10, 130], zero=True), legend=None),
            color=parts.color(styles),
            opacity=parts.lit(0.5, 0.1),
            tooltip=[
                alt.Tooltip("token:N"),
                alt.Tooltip("model:N"),
                alt.Tooltip("layer:Q"),
                alt.Tooltip("count:Q", format=",", title="occurrences"),
                alt.Tooltip("norm_of_mean:Q", format=parts.NUMBER, title="‖mean‖"),
                alt.Tooltip("variance:Q", format=parts.NUMBER),
            ],
        )
        .add_params(parts.highlight())
        .properties(width="container", height=190)
    )


def _scale(frame: pd.DataFrame, column: str) -> Any:
    values = frame.loc[(frame["variance"] > 0) & (frame["norm_of_mean"] > 0), column].dropna()
    wide = len(values) > 0 and float(values.max() / values.min()) > WIDE
    return alt.Scale(type="log", nice=False, padding=8) if wide else alt.Scale(zero=False, nice=True, padding=4)
