"""The charts of sentences: groups, directions of pairs, probes, over the layers of a model or over depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from reporter.report.charts import parts
from reporter.report.exhibits.palette import CATEGORIES, DARK_ON_LIGHT, colours
from reporter.report.exhibits.static_charts import cosine_colour, tips, zero
from reporter.report.styles import FLOOR_GREY, INK, Styles

if TYPE_CHECKING:
    import pandas as pd

CONTROLS = {"none": [1, 0], "random-characters": [2, 3], "random-words": [6, 4]}
"""Dash of a group's own texts and of what was made to match them."""
KINDS = {"accuracy": [1, 0], "control": [6, 3], "floor": [1, 3]}
MOST_NAMED = 14  # concepts whose cosines are written into the heat map


def _layers(frame: pd.DataFrame) -> Any:
    last = max(1, int(frame["layer"].max()))
    axis = alt.Axis(tickMinStep=1, format="d", tickCount=min(last, 12), grid=False)
    return alt.X("layer:Q", title="layer", scale=alt.Scale(domain=[0, last], nice=False), axis=axis)


def _reach(frame: pd.DataFrame, *columns: str) -> Any:
    """The same reach for every model, so that two can be compared by eye."""
    values = frame[list(columns)].stack().dropna()
    if values.empty:
        return alt.Scale(zero=False)
    return alt.Scale(domain=[min(0.0, float(values.to_numpy().min())), float(values.to_numpy().max())], nice=True)


def _here() -> Any:
    """A line at the layer of the page's slider."""
    rule = alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=FLOOR_GREY, strokeWidth=7, opacity=0.22)
    return rule.encode(x=alt.XDatum(alt.ExprRef("at"), type="quantitative"))


def _params(**values: Any) -> list[Any]:
    return [alt.param(name=name, value=value) for name, value in {"at": 0, **values}.items()]


def of_groups(column: str) -> Any:
    """Return what draws a column of ``groups`` over the layers, each group a colour, each control a dash.

    Args:
        column: ``silhouette`` or ``ratio``.
    """

    def draw(frame: pd.DataFrame, styles: Styles) -> Any:
        names = list(dict.fromkeys(frame["text_group"]))
        x = _layers(frame)
        y = alt.Y(f"{column}:Q", title=None, scale=_reach(frame, column))
        color = alt.Color("text_group:N", scale=alt.Scale(domain=names, range=colours(len(names))), legend=None)
        dash = alt.StrokeDash(
            "control:N", scale=alt.Scale(domain=list(CONTROLS), range=list(CONTROLS.values())), legend=None
        )
        seen = "controls === 'with' || datum.control === 'none'"
        base = alt.Chart().transform_filter(seen).encode(x=x, y=y, color=color, detail="control:N")
        line = base.mark_line(strokeWidth=1.8).encode(strokeDash=dash)
        points = base.transform_filter("datum.control === 'none'").mark_point(filled=True, size=36, opacity=1)
        points = points.encode(tooltip=tips("text_group", "layer", "silhouette", "within", "between", "ratio", "n"))
        far = base.mark_point(size=60, opacity=0, filled=True)
        far = far.encode(tooltip=tips("text_group", "control", "layer", "silhouette", "within", "between", "ratio"))
        chart = alt.layer(_here(), line, far, points, data=frame).add_params(*_params(controls="with"))
        return chart.properties(width="container", height=400)

    return draw


def directions(column: str) -> Any:
    """Return what draws a column of ``pair_directions`` over the layers, the concept that is brought out above all.

    Args:
        column: ``consistency`` or ``relative_norm``.
    """

    def draw(frame: pd.DataFrame, styles: Styles) -> Any:
        names = list(dict.fromkeys(frame["concept"]))
        x = _layers(frame)
        ends = ("consistency", "ci_low", "ci_high") if column == "consistency" else (column,)
        y = alt.Y(f"{column}:Q", title=None, scale=_reach(frame, *ends))
        color = alt.Color("concept:N", scale=alt.Scale(domain=names, range=colours(len(names))), legend=None)
        lit = alt.OpacityValue(0.14, condition={"test": "bring === '' || datum.concept === bring", "value": 0.95})
        base = alt.Chart().encode(x=x, y=y, color=color)
        layers = [_here(), zero()]
        if column == "consistency":
            band = alt.Chart().transform_filter("datum.concept === bring").mark_area(opacity=0.2)
            layers.append(band.encode(x=x, y=alt.Y("ci_low:Q", title=None), y2="ci_high:Q", color=color))
        line = base.mark_line(strokeWidth=1.8).encode(opacity=lit)
        points = base.mark_point(filled=True, size=40).encode(
            opacity=lit,
            tooltip=tips("concept", "layer", "consistency", "ci_low", "ci_high", "p", "relative_norm", "n"),
        )
        chart = alt.layer(*layers, line, points, data=frame).add_params(*_params(bring=""))
        return chart.properties(width="container", height=300)

    return draw


def concepts(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the cosine of each two concepts' directions; a dot where it is further from 0 than chance explains.

    Args:
        frame: rows of the query ``direction_cosines``.
        styles: not used.
    """
    most = int(frame.groupby("pairs")["concept_a"].nunique().max())
    axis = alt.Axis(grid=False, ticks=False, domain=False, labelLimit=130, title=None)
    scale = alt.Scale(paddingInner=0.04, paddingOuter=0)
    base = alt.Chart().encode(
        x=alt.X("concept_b:N", scale=scale, axis=_slanted()),
        y=alt.Y("concept_a:N", scale=scale, axis=axis),
        tooltip=tips("concept_a", "concept_b", "cosine", "p", "level", "n_a", "n_b", "layer"),
    )
    cells = base.mark_rect(cornerRadius=2).encode(color=cosine_colour())
    ink = alt.ColorValue(INK, condition={"test": "abs(datum.cosine) > 0.62", "value": DARK_ON_LIGHT})
    layers = [cells]
    if most <= MOST_NAMED:
        layers.append(
            base.mark_text(
                fontSize=9.5, dy=3, baseline="middle", opacity=alt.ExprRef(f"width < {25 * most} ? 0 : 1")
            ).encode(text=alt.Text("cosine:Q", format=".2f"), color=ink)
        )
    high = -8 if len(layers) > 1 else 0
    for sign, test in (("●", "datum.beyond"), ("○", "!datum.beyond && datum.p !== null && datum.p < 0.05")):
        layers.append(base.transform_filter(test).mark_text(text=sign, fontSize=7, dy=high).encode(color=ink))
    return alt.layer(*layers, data=frame).properties(width="container", height=min(640, 60 + 34 * most))


def _slanted() -> Any:
    return alt.Axis(grid=False, ticks=False, domain=False, labelLimit=110, title=None, labelAngle=-45)


def separability(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw how well clouds are told apart, as high as the picture beside it."""
    return by_depth(frame, styles).properties(height=400)


def by_depth(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw a statistic over relative depth, a line for each model.

    Args:
        frame: rows with model, depth, value, ci_low, ci_high.
        styles: the models.
    """
    x = parts.depth_axis()
    y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=False, nice=True))
    color, dash, shape = parts.color(styles), parts.dash(styles), parts.shape(styles)
    base = alt.Chart().encode(x=x, color=color)
    band = base.mark_area(opacity=0.14).encode(y=alt.Y("ci_low:Q", title=None), y2="ci_high:Q")
    line = base.mark_line(strokeWidth=1.9).encode(y=y, strokeDash=dash)
    points = base.mark_point(filled=True, size=44, opacity=1).encode(
        y=y, shape=shape, tooltip=tips("model", "layer", "depth", "value", "ci_low", "ci_high", "n")
    )
    return alt.layer(band, line, points, data=frame).properties(width="container", height=260)


def probes(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw what classifiers read at each layer, and what they read of classes drawn at random.

    Args:
        frame: rows of the query ``probes``.
        styles: not used: a chart shows one model.
    """
    kinds = list(dict.fromkeys(frame["classifier"]))
    x = _layers(frame)
    y = alt.Y("value:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=5))
    color = alt.Color("classifier:N", scale=alt.Scale(domain=kinds, range=list(CATEGORIES)[: len(kinds)]), legend=None)
    dash = alt.StrokeDash("kind:N", scale=alt.Scale(domain=list(KINDS), range=list(KINDS.values())), legend=None)
    base = alt.Chart().encode(x=x, color=color, detail="kind:N")
    band = base.transform_filter("datum.kind === 'accuracy'").mark_area(opacity=0.15)
    band = band.encode(y=alt.Y("ci_low:Q", title=None), y2="ci_high:Q")
    line = base.mark_line(strokeWidth=1.9).encode(y=y, strokeDash=dash)
    points = base.mark_point(filled=True, size=40, opacity=0.9).encode(
        y=y, tooltip=tips("classifier", "kind", "layer", "value", "ci_low", "ci_high", "n")
    )
    return (
        alt.layer(_here(), band, line, points, data=frame)
        .add_params(*_params())
        .properties(width="container", height=260)
    )
