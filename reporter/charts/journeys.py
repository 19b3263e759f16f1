"""The charts on the page of journeys: a token's numbers over the layers, and its path in a plane.

Their rows are there only when a reader has chosen a token: the page's script fills the data called ``rows`` and the
parameters. A row's ``tip`` is what the pointer reads, ``hue`` names its colour: a model, or a side of a comparison.
"""

from itertools import product
from typing import Any

from reporter.charts.drawing import bare_spec
from reporter.charts.parts import TYPESET, set_by_page, typeset
from reporter.charts.styles import FLOOR_GREY, INK, RULE_GREY, Styles, alt, unvalidated

SIDES = {"a": ("#1c5fb8", "#6aa8ff"), "b": ("#ae388f", "#f27cc0")}
"""Colours of the two sides of a comparison, and of texts by turns, as in the stylesheet: light, dark."""
SURFACE = ("#ffffff", "#171b22")
_RANKS = [0, *(10**power for power in range(8))]


def dark_colours(styles: Styles) -> dict[str, str]:
    """Return the dark theme's colour for each colour in these charts."""
    return styles.dark_colours | dict([*SIDES.values(), SURFACE])


def specs(styles: Styles) -> dict[str, Any]:
    """Return the charts as Vega-Lite: ``value``, ``log`` and ``rank`` over the layers, and ``path``."""
    with unvalidated():
        charts = {name: lines(styles, y) for name, y in _axes().items()} | {"path": path()}
        return {name: bare_spec(chart) for name, chart in charts.items()}


def lines(styles: Styles, y: Any) -> Any:
    """Draw one number of chosen tokens over the layers.

    A row is a token at a layer: ``line`` (which token), ``hue``, ``x``, ``value``, ``here`` (the chosen layer),
    ``main`` (the line that the pointer reads), ``strong`` (a thicker line), ``closing`` (the state after the closing
    norm) and ``tail`` (the last two states, where there is a final norm).
    """
    hues = [f"model {name}" for name in styles.names] + [f"side {side}" for side in SIDES]
    colours = [style.light for style in styles.models] + [light for light, _ in SIDES.values()]
    dashes = [list(style.dash) for style in styles.models] + [[1, 0] for _ in SIDES]
    axis = alt.Axis(
        values=alt.ExprRef("ticks"),
        grid=False,
        labelOverlap="greedy",
        labelFlush=False,
        labelExpr="datum.value > 1 ? 'norm' : !layers ? format(datum.value, '.2~f') : "
        "round(datum.value * layers) == 0 ? 'emb' : format(round(datum.value * layers), 'd')",
    )
    x = alt.X("x:Q", title=None, scale=alt.Scale(domain=[0, alt.ExprRef("end")], nice=False), axis=axis)
    color = alt.Color("hue:N", scale=alt.Scale(domain=hues, range=colours), legend=None)
    rows, single = alt.Chart(), alt.Chart(alt.InlineData(values=[{}]))
    now = single.mark_rule(color=INK, strokeDash=[2, 3], opacity=0.6, clip=True)
    now = now.encode(x=alt.XDatum(alt.ExprRef("at"), type="quantitative", title=None))
    now = now.add_params(*set_by_page(end=1, ticks=[], layers=0, at=-1, low=0, high=1))
    name = alt.ExprRef("layers ? 'layer' : 'depth: layer / layers'")
    title = single.mark_text(baseline="top", color=FLOOR_GREY, text=name)
    title = title.encode(x=alt.XValue(alt.ExprRef("width / 2")), y=alt.YValue(alt.ExprRef("height + 24")))
    line = rows.encode(x=x, y=y, color=color, detail=alt.Detail("line:N"))
    course = line.transform_filter("!datum.closing").mark_line(strokeCap="round", strokeJoin="round")
    course = course.encode(
        strokeWidth=_conditional("datum.strong", alt.StrokeWidthValue, 2.6, 1.8),
        strokeDash=alt.StrokeDash("hue:N", scale=alt.Scale(domain=hues, range=dashes), legend=None),
    )
    tail = line.transform_filter("datum.tail").mark_line(strokeDash=[2, 3], strokeWidth=1.2)
    size = _conditional("datum.here", alt.SizeValue, 80, 34)
    points = line.transform_filter("!datum.closing").mark_point(filled=True, opacity=1).encode(size=size)
    closing = line.transform_filter("datum.closing").mark_point(fill=SURFACE[0], strokeWidth=1.6).encode(size=size)
    near = rows.transform_filter("datum.main").encode(x=x, y=y)
    return _chart(now, title, course, tail, points, closing, _pointed(near, ["x"]))


def _axes() -> dict[str, Any]:
    """Return the value axes by the name of the chart."""
    low, high = alt.ExprRef("low"), alt.ExprRef("high")
    decades = alt.ExprRef(f"slice({_RANKS}, 0, 2 + floor(log(high) / LN10 + 1e-9))")
    axes = {
        "value": (
            alt.Scale(domain=[low, high], nice=True, zero=False),
            alt.Axis(grid=True, tickCount=5, format=",.6~g"),
        ),
        "log": (
            alt.Scale(type="log", domain=[low, high], nice=False),
            alt.Axis(grid=True, tickCount=4, labelOverlap="greedy", **TYPESET),
        ),
        "rank": (
            alt.Scale(type="symlog", domain=[0, high], nice=False, reverse=True),
            alt.Axis(grid=True, values=decades, labelExpr=typeset()),
        ),
    }
    return {name: alt.Y("value:Q", title=None, scale=scale, axis=axis) for name, (scale, axis) in axes.items()}


def path() -> Any:
    """Draw the paths of tokens through the layers in one plane.

    A row is a token at a layer: ``way`` (which token), ``order``, ``hue``, ``x``, ``y``, ``weight`` from 0 (in the
    background) to 3 (chosen), ``mark`` (``number``, ``head`` or ``dot``), with ``number``, ``turn`` in degrees or
    ``size``, ``here`` (the chosen layer), and at the end of a way whose name has room ``name`` and ``align``.
    """
    x = alt.X("x:Q", title=None, axis=None, scale=_axis_scale("x"))
    y = alt.Y("y:Q", title=None, axis=None, scale=_axis_scale("y"))
    hues = [f"side {side}" for side in SIDES]
    color = alt.Color("hue:N", scale=alt.Scale(domain=hues, range=[light for light, _ in SIDES.values()]), legend=None)
    rows = alt.Chart().encode(x=x, y=y, color=color, opacity=_by_weight(alt.Opacity, [0.4, 0.65, 1, 1]))
    origin = alt.Chart(alt.InlineData(values=[{}]))
    rule = origin.mark_rule(color=RULE_GREY, clip=True)
    name = {"color": FLOOR_GREY, "clip": True}
    x0, y0 = alt.XDatum(0, title=None, axis=None), alt.YDatum(0, title=None, axis=None)
    axes = (
        rule.encode(y=y0).add_params(*set_by_page(x0=-1, x1=1, y0=-1, y1=1)),
        rule.encode(x=x0),
        origin.mark_text(text="PC 1", align="right", dy=-6, **name).encode(x=alt.XValue("width"), y=y0),
        origin.mark_text(text="PC 2", align="left", dx=5, **name).encode(x=x0, y=alt.YValue(8)),
    )
    course = rows.mark_line(strokeCap="round", strokeJoin="round", clip=True)
    stroke = _by_weight(alt.StrokeWidth, [1, 1.4, 1.8, 3])
    course = course.encode(detail=alt.Detail("way:N"), order=alt.Order("order:Q"), strokeWidth=stroke)
    dots = rows.transform_filter("datum.mark == 'dot'").mark_point(filled=True, clip=True)
    dots = dots.encode(size=alt.Size("size:Q", scale=None))
    heads = rows.transform_filter("datum.mark == 'head'").mark_point(filled=True, shape="triangle", size=42, clip=True)
    heads = heads.encode(angle=alt.Angle("turn:Q", scale=None))
    numbered = rows.transform_filter("datum.mark == 'number'")
    discs = numbered.mark_point(filled=True, strokeWidth=2, clip=True).encode(
        size=_conditional("datum.here", alt.SizeValue, 254, 154),
        stroke=_conditional("datum.here", alt.StrokeValue, INK, None),
    )
    numbers = numbered.mark_text(fontSize=9, fontWeight=700, clip=True)
    numbers = numbers.encode(text=alt.Text("number:N"), color=alt.ColorValue(SURFACE[0]))
    near = alt.Chart().encode(x=x, y=y)
    ends = product((False, True), (True, False), ("left", "right"))
    names = [_name(rows, align, strong, halo) for strong, halo, align in ends]
    return _chart(*axes, course, dots, heads, discs, numbers, *names, _pointed(near, ["x", "y"]))


def _name(rows: Any, align: str, strong: bool, halo: bool) -> Any:
    """Names of ways beside their ends; a halo of the surface lies under each."""
    away = (13 if strong else 6) * (1 if align == "left" else -1)
    mark = {"stroke": SURFACE[0], "strokeWidth": 3} if halo else {}
    mark |= {"fontSize": 13, "fontWeight": 700} if strong else {"fontSize": 11, "fontWeight": 400}
    ending = rows.transform_filter(f"datum.align == '{align}' && (datum.weight >= 2) == {str(strong).lower()}")
    text = ending.mark_text(align=align, dx=away, strokeJoin="round", clip=True, **mark)
    text = text.encode(text=alt.Text("name:N"))
    return text if strong and not halo else text.encode(color=alt.ColorValue(SURFACE[0] if halo else INK))


def _conditional(test: str, channel: Any, then: Any, otherwise: Any) -> Any:
    return channel(otherwise, condition={"test": test, "value": then})


def _axis_scale(axis: str) -> Any:
    return alt.Scale(domain=[alt.ExprRef(f"{axis}0"), alt.ExprRef(f"{axis}1")], nice=False, zero=False)


def _by_weight(channel: Any, values: list[float]) -> Any:
    return channel("weight:Q", scale=alt.Scale(type="linear", domain=[0, 1, 2, 3], range=values), legend=None)


def _pointed(rows: Any, encodings: list[str]) -> Any:
    nearest = alt.selection_point(name="near", on="pointerover", nearest=True, encodings=encodings)
    return rows.mark_point(opacity=0, size=40, tooltip=alt.ExprRef("(datum.datum || datum).tip")).add_params(nearest)


def _chart(*layers: Any) -> Any:
    return alt.layer(*layers, data=alt.NamedData("rows")).properties(width="container", height=140)
