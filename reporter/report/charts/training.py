"""A statistic over training: one line for each model with several checkpoints, against the training step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import altair as alt

from reporter.metrics.base import Statistic
from reporter.report.axes import Axis
from reporter.report.charts import parts
from reporter.report.styles import RULE_GREY, Styles

if TYPE_CHECKING:
    import pandas as pd

MOST_TICKS = 8


def training(frame: pd.DataFrame, statistic: Statistic, styles: Styles, axis: Axis) -> Any:
    """Draw a statistic against the training step.

    A band is the 95 % t-interval of the mean over the models of a role, where there are three or more.
    The step axis is logarithmic above the first positive step and linear below it (symlog), so that step 0 is
    shown.

    Args:
        frame: rows of the query ``training`` for one corpus, one view and one layer (or their mean).
        statistic: what is drawn.
        styles: colour, mark and dash of each model.
        axis: reach of the value axis.

    Returns:
        A layered Altair chart, as wide as the place it is put in.
    """
    steps = sorted({int(step) for step in frame["step"].dropna()})
    first = next((step for step in steps if step > 0), 1)
    x = alt.X(
        "step:Q",
        title="training step",
        scale=alt.Scale(type="symlog", constant=first, domain=[steps[0], steps[-1]] if steps else [0, 1], nice=False),
        axis=alt.Axis(values=ticks(steps), format=",d", grid=False, labelOverlap="greedy"),
    )
    y = parts.value_axis()
    zero = alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=RULE_GREY, clip=True).encode(y=alt.datum(0))
    line = alt.Chart().mark_line(strokeCap="round", strokeJoin="round", clip=True)
    points = alt.Chart().mark_point(filled=True)
    shared = {"x": x, "y": y, "color": parts.color(styles), "opacity": parts.lit(1, 0.1)}
    chart = alt.layer(
        zero,
        *_over_models(frame, styles, x),
        line.encode(**shared, strokeDash=parts.dash(styles), strokeWidth=parts.width(styles)),
        points.encode(
            **shared,
            shape=parts.shape(styles),
            size=parts.size(styles, 42),
            tooltip=[
                alt.Tooltip("model:N"),
                alt.Tooltip("step:Q", format=","),
                alt.Tooltip("value:Q", format=parts.NUMBER, title=statistic.title),
            ],
        ),
        data=frame,
    )
    return chart.add_params(*parts.params(axis)).properties(width="container", height=160)


def _over_models(frame: pd.DataFrame, styles: Styles, x: Any) -> list[Any]:
    """A band for each role of three models or more: the 95 % interval of their mean, which its rows all carry."""
    if not parts.has(frame, "ci_low"):
        return []
    bands = []
    for role, own in styles.by_role:
        of_role = alt.Chart().transform_filter(f"datum.role === '{role}' && isValid(datum.ci_low)")
        area = of_role.transform_aggregate(low="mean(ci_low)", high="mean(ci_high)", groupby=["step"])
        bands.append(
            area.mark_area(clip=True, color=own[0].light, opacity=0.14).encode(
                x=x, y=parts.value_axis("low:Q"), y2="high:Q"
            )
        )
    return bands


def ticks(steps: Sequence[int]) -> list[int]:
    """Return the steps that are labelled: all of a few, else the ends and evenly chosen ones between."""
    if len(steps) <= MOST_TICKS:
        return list(steps)
    places = {round(i * (len(steps) - 1) / (MOST_TICKS - 1)) for i in range(MOST_TICKS)}
    return [steps[place] for place in sorted(places)]
