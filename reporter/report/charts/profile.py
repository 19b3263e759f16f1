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

FINAL = "final"
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
    of_it = alt.Chart().transform_filter(parts.is_statistic(statistic.name))
    own = of_it
    layers: list[Any] = []
    if "site" in frame and bool((frame["site"] == FINAL).any()):
        own = of_it.transform_filter(f"datum.site !== '{FINAL}'")
        layers.append(_final(of_it, frame, statistic, styles))
    return _over_depth(own, frame, statistic, styles, axis, layers, _has_floor(frame, statistic))


def difference(frame: pd.DataFrame, statistic: Statistic, styles: Styles, axis: Axis) -> Any:
    """Draw how much a statistic differs between two sides of a comparison, over depth.

    Args:
        frame: rows of the query ``differences`` for one comparison, statistic, view and checkpoint of each model.
        statistic: what is drawn.
        styles: colour, mark and dash of each model.
        axis: reach of the value axis; holds 0, where both sides are alike.

    Returns:
        A layered Altair chart, as wide as the place it is put in.
    """
    return _over_depth(alt.Chart(), frame, statistic, styles, axis, [], floor=False)


def _over_depth(
    own: Any, frame: pd.DataFrame, statistic: Statistic, styles: Styles, axis: Axis, above: list[Any], floor: bool
) -> Any:
    x, y = parts.depth_axis(TITLES.get(statistic.per, "relative depth")), parts.value_axis()
    zero = alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=RULE_GREY, clip=True).encode(y=alt.datum(0))
    # Parameters go to one layer before there are many: each change of a layered chart copies all of them several times.
    layers = [zero.add_params(*parts.params(axis))]
    if floor:
        layers += _floor(statistic, x, y)
    if parts.has(frame, "ci_low"):
        # bands of null baselines would bury the others; their intervals are in the tooltips
        layers.append(
            parts.without_baselines(own, styles)
            .mark_area(clip=True)
            .encode(
                x=x,
                y=parts.value_axis("ci_low:Q"),
                y2="ci_high:Q",
                color=parts.color(styles),
                opacity=parts.lit(0.16, 0.02),
            )
        )
    line = own.mark_line(strokeCap="round", strokeJoin="round", clip=True).encode(
        x=x,
        y=y,
        color=parts.color(styles),
        strokeDash=parts.dash(styles),
        strokeWidth=parts.width(styles),
        opacity=parts.lit(1, 0.1),
    )
    points = own.mark_point(filled=True).encode(
        x=x,
        y=y,
        color=parts.color(styles),
        shape=parts.shape(styles),
        size=parts.size(styles, 42),
        opacity=parts.lit(1, 0.1),
        tooltip=_tooltip(frame, statistic),
    )
    every = (*layers, line, points, *above, parts.floor_note())
    return alt.layer(*every, data=frame, width="container", height=160)


def _final(of_it: Any, frame: pd.DataFrame, statistic: Statistic, styles: Styles) -> Any:
    """A hollow mark for the state after the closing norm, a little to the right of the last block's."""
    return (
        of_it.transform_filter(f"datum.site === '{FINAL}'")
        .transform_calculate(where="'after the closing norm'")
        .mark_point(filled=False, size=46, strokeWidth=1.6, xOffset=9)
        .encode(
            x=parts.depth_axis(),
            y=parts.value_axis(),
            color=parts.color(styles),
            shape=parts.shape(styles),
            opacity=parts.lit(1, 0.1),
            tooltip=[alt.Tooltip("where:N", title="state"), *_tooltip(frame, statistic)],
        )
    )


def _has_floor(frame: pd.DataFrame, statistic: Statistic) -> bool:
    return bool((frame["statistic"] == f"{statistic.name}_floor").any())


def _floor(statistic: Statistic, x: Any, y: Any) -> list[Any]:
    """One thin dashed line for each model (floors depend on its width) and a single label."""
    floor = (
        alt.Chart()
        .transform_filter(parts.is_statistic(f"{statistic.name}_floor"))
        .transform_filter(f"isValid(datum.value) && datum.site !== '{FINAL}'")
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
    shown = [alt.Tooltip("model:N"), alt.Tooltip("checkpoint:N")]
    if "model_b" in frame:
        shown.append(alt.Tooltip("model_b:N", title="minus"))
    shown += [
        alt.Tooltip("layer:Q", title="layer" if statistic.per == "layer" else "step from layer"),
        alt.Tooltip("depth:Q", format=".2~f"),
        alt.Tooltip("value:Q", format=parts.NUMBER, title=statistic.title),
    ]
    if parts.has(frame, "ci_low"):
        shown.append(alt.Tooltip("ci_low:Q", format=parts.NUMBER, title="from"))
        shown.append(alt.Tooltip("ci_high:Q", format=parts.NUMBER, title="to"))
    return [*shown, alt.Tooltip("n:Q", format=",")]
