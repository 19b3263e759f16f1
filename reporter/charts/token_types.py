"""What token types make of a variance: its parts within and between them over depth, and the types of one layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.charts import parts
from reporter.charts.layout import Pick, corpora
from reporter.charts.numbers import digits_of, short, whole
from reporter.charts.readings import Shown, by_model, groups
from reporter.charts.scene import Scene
from reporter.charts.styles import GREEN, GREY, INK, Styles
from reporter.charts.vega import alt

if TYPE_CHECKING:
    import pandas as pd

WIDE = 8.0
"""Where the largest value is as many times the smallest, the axes are logarithmic."""
FENCE = 3
"""A type whose variance lies so many times the distance of the quartiles below them, and a decade more, is drawn there:
one whose states differ by rounding alone would take all of a logarithmic axis."""
DEPTHS = {"0": "0, the embedding", "0.25": "¼", "0.5": "½", "0.75": "¾", "1": "1, the last block"}


def shares(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw both shares over depth; together they are 1."""
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


def of_shares(frame: pd.DataFrame, scene: Scene) -> dict[str, Shown]:
    """Say how the share between types moves over depth; a state for each ``view|moment|corpus``."""

    def read(rows: pd.DataFrame) -> str:
        between = rows[rows["statistic"] == "between_share"].dropna(subset=["value"]).sort_values("depth")
        if between.empty:
            return ""
        first, last = between["value"].iloc[0], between["value"].iloc[-1]
        return f"between types {short(first, 2)} → {short(last, 2)}"

    return by_model(frame, scene, read)


def types(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw a mark for each token type."""
    return (
        alt.Chart(frame)
        # a type whose states are all alike has no variance, and no place on a logarithmic axis
        .transform_filter("datum.variance > 0 && datum.norm_of_mean > 0")
        .transform_calculate(size="log(datum.variance) / LN10")  # after filters, so that quartiles are of what is drawn
        .transform_joinaggregate(lower="q1(size)", upper="q3(size)")
        .transform_calculate(
            drawn=f"max(datum.variance, pow(10, datum.lower - {FENCE} * (datum.upper - datum.lower) - 1))"
        )
        .mark_point(filled=True, strokeWidth=0)
        .encode(
            x=alt.X(
                "norm_of_mean:Q",
                title="‖mean‖",
                scale=_scale(frame, "norm_of_mean"),
                axis=alt.Axis(tickCount=4, format="~g", labelOverlap="greedy"),
            ),
            y=alt.Y(
                "drawn:Q",
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
    return alt.Scale(type="log", nice=False, padding=8) if _is_wide(frame, column) else alt.Scale(zero=False, padding=4)


def _is_wide(frame: pd.DataFrame, column: str) -> bool:
    values = frame.loc[(frame["variance"] > 0) & (frame["norm_of_mean"] > 0), column].dropna()
    return len(values) > 0 and float(values.max() / values.min()) > WIDE


def of_types(frame: pd.DataFrame, scene: Scene) -> dict[str, Shown]:
    """Say Spearman's ρ of a layer and how many types are drawn; a state for each ``view|corpus|part``."""
    states: dict[str, Shown] = {}
    for (view, corpus, part, model), rows in groups(frame, ["view", "corpus", "part", "model"]):
        rho, layer = rows["rho"].iloc[0], int(rows["layer"].iloc[0])
        measured = f"ρ = {short(rho, digits_of([rho]))}" if rho == rho else "ρ not computed"
        drawn = f"{whole((rows['variance'] > 0).sum())} types of {whole(rows['count'].min())} occurrences or more"
        if not rows["variance"].max() > 0:
            drawn = "all occurrences of a type have the same state here"
        size = np.log10(rows.loc[(rows["variance"] > 0) & (rows["norm_of_mean"] > 0), "variance"])
        lower, upper = size.quantile(0.25), size.quantile(0.75)
        if below := int((size < lower - FENCE * (upper - lower) - 1).sum()):
            drawn += f" · {whole(below)} below the axis, drawn at its edge"
        state = states.setdefault(f"{view}|{corpus}|{part:g}", Shown({}))
        state.readings[model] = f"layer {layer}: {measured} · {drawn}"
    return states


def depths(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """Which corpus, and at which depth: the middle first, since the ends are special."""
    found = {f"{part:g}" for part in frame["part"]}
    order = dict.fromkeys(part for part in ("0.5", *DEPTHS) if part in found)
    return [Pick("part", "Depth", {part: DEPTHS[part] for part in order}), *corpora(frame, scene)]
