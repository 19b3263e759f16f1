"""Curves of one model: eigenvalues by rank and dimension by scale, a line a layer; numbers over depth, a line a cut."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import altair as alt

from reporter.metrics.base import Statistic
from reporter.report.axes import Axis
from reporter.report.charts import parts
from reporter.report.styles import FLOOR_GREY, RAMP, Styles

if TYPE_CHECKING:
    import pandas as pd


def spectra(frame: pd.DataFrame, statistic: Statistic, styles: Styles, axis: Axis) -> Any:
    """Draw eigenvalue curves on two logarithmic axes.

    Args:
        frame: rows of the query ``spectra`` for one model, corpus, view and checkpoint.
        statistic: what is drawn.
        styles: not used: a panel shows one model.
        axis: not used: the reach is that of all models, so that slopes can be compared.

    Returns:
        An Altair chart, as wide as the place it is put in.
    """
    # Eigenvalues that are zero but for rounding would squeeze the others: a norm takes one direction away, and with
    # fewer tokens than dimensions there are many. They are drawn at the edge.
    values = frame.loc[frame["rank"] < frame.groupby("model")["rank"].transform("max"), "value"].dropna()
    real = values[values > values.max() * 1e-9]
    low = float(real.min()) if len(real) else 1e-6
    x = alt.X(
        "rank:Q",
        title="rank",
        scale=alt.Scale(type="log", domain=[1, max(2, int(frame["rank"].max()))], nice=False),
        axis=alt.Axis(values=_decades(1, float(frame["rank"].max())), format="~s", grid=False),
    )
    y = alt.Y(
        "value:Q",
        title="share of the variance",
        scale=alt.Scale(type="log", domain=[low, 1], nice=False, clamp=True),
        axis=alt.Axis(grid=True, values=_decades(low, 1), format="~g", labelOverlap="greedy"),
    )
    tooltip = [
        alt.Tooltip("model:N"),
        alt.Tooltip("checkpoint:N"),
        alt.Tooltip("layer:Q"),
        alt.Tooltip("rank:Q"),
        alt.Tooltip("value:Q", format=parts.NUMBER, title="share"),
        alt.Tooltip("n:Q", format=","),
    ]
    return _curves(alt.Chart(), x, y, tooltip, size=9, data=frame).properties(width="container", height=190)


def scales(frame: pd.DataFrame, statistic: Statistic, styles: Styles, axis: Axis) -> Any:
    """Draw dimension by scale, the floor dashed.

    Args:
        frame: rows of the query ``scales`` for one model, corpus, view and checkpoint.
        statistic: what is drawn.
        styles: not used: a panel shows one model.
        axis: reach of the value axis.

    Returns:
        An Altair chart, as wide as the place it is put in.
    """
    found = sorted({int(scale) for scale in frame["scale"].dropna()})
    x = alt.X(
        "scale:Q",
        title="scale: nearest neighbours n and 2n",
        scale=alt.Scale(type="log", base=2, domain=[found[0], max(found[-1], 2)], nice=False, padding=4),
        axis=alt.Axis(values=found, format="d", grid=False),
    )
    tooltip = [
        alt.Tooltip("model:N"),
        alt.Tooltip("checkpoint:N"),
        alt.Tooltip("layer:Q"),
        alt.Tooltip("scale:Q"),
        alt.Tooltip("value:Q", format=parts.NUMBER, title="dimension"),
    ]
    if parts.has(frame, "ci_low"):
        tooltip += [alt.Tooltip("ci_low:Q", format=parts.NUMBER, title="from")]
        tooltip += [alt.Tooltip("ci_high:Q", format=parts.NUMBER, title="to")]
    tooltip.append(alt.Tooltip("n:Q", format=","))
    own = alt.Chart().transform_filter("datum.kind === 'measured'")
    # floors of different layers differ by chance alone: one line
    floor = (
        alt.Chart()
        .transform_filter("datum.kind === 'floor'")
        .transform_aggregate(value="mean(value)", groupby=["scale"])
        .mark_line(color=FLOOR_GREY, strokeWidth=1, strokeDash=[3, 3], clip=True)
        .encode(x=x, y=parts.value_axis())
    )
    chart = _curves(own, x, parts.value_axis(), tooltip, size=30, data=frame, below=[floor, parts.floor_note()])
    return chart.add_params(*parts.reach(axis)).properties(width="container", height=190)


def cuts(frame: pd.DataFrame, statistic: Statistic, styles: Styles, axis: Axis) -> Any:
    """Draw a number over depth, a line for each cut of sinks.

    Args:
        frame: rows of the query ``cuts`` for one model, corpus, rule, statistic and checkpoint.
        statistic: what is drawn.
        styles: not used: a panel shows one model.
        axis: reach of the value axis.

    Returns:
        An Altair chart, as wide as the place it is put in.
    """
    x = alt.X("depth:Q", title="depth", scale=alt.Scale(domain=[0, 1], nice=False), axis=alt.Axis(grid=False))
    scale = alt.Scale(type="log", domain=[float(frame["cut"].min()), float(frame["cut"].max())], range=list(RAMP))
    tooltip = [
        alt.Tooltip("model:N"),
        alt.Tooltip("checkpoint:N"),
        alt.Tooltip("layer:Q"),
        alt.Tooltip("cut:Q", format="~g"),
        alt.Tooltip("value:Q", format=parts.NUMBER),
        alt.Tooltip("left_out:Q", format=".2%", title="left out"),
        alt.Tooltip("n:Q", format=","),
    ]
    color = alt.Color("cut:Q", scale=scale, legend=None)
    line = alt.Chart().mark_line(strokeWidth=1.4, strokeJoin="round", clip=True, opacity=0.9)
    points = alt.Chart().mark_point(filled=True, size=16, opacity=0.9, clip=True)
    chart = alt.layer(
        line.encode(x=x, y=parts.value_axis(), color=color, detail="cut:Q"),
        points.encode(x=x, y=parts.value_axis(), color=color, tooltip=tooltip),
        data=frame,
    )
    return chart.add_params(*parts.reach(axis)).properties(width="container", height=190)


def _curves(rows: Any, x: Any, y: Any, tooltip: list[Any], size: int, data: Any, below: Any = ()) -> Any:
    color = alt.Color("depth:Q", scale=alt.Scale(domain=[0, 1], range=list(RAMP)), legend=None)
    line = rows.mark_line(strokeWidth=1.4, strokeJoin="round", clip=True, opacity=0.9)
    points = rows.mark_point(filled=True, size=size, opacity=0.9, clip=True)
    return alt.layer(
        *below,
        line.encode(x=x, y=y, color=color, detail="layer:Q"),
        points.encode(x=x, y=y, color=color, tooltip=tooltip),
        data=data,
    )


def _decades(low: float, high: float) -> list[float]:
    """Return the powers of ten between two numbers; minor lines of a logarithmic axis would be a thicket."""
    return [10.0**power for power in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]
