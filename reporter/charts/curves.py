"""Curves of one model: eigenvalues, dimension by scale, thresholds; distributions; the variance of token types."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from reporter.charts import parts
from reporter.charts.layout import Pick, Scene, choices, corpora
from reporter.charts.parts import tooltips
from reporter.charts.styles import FLOOR_GREY, GREEN, GREY, INK, RAMP, Styles, alt, colours, ordered
from reporter.core.numbers import digits_of, short, span, whole

if TYPE_CHECKING:
    import pandas as pd


def spectra(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw eigenvalue curves on two logarithmic axes."""
    # Eigenvalues that are zero but for rounding would squeeze the others: a norm takes one direction away, and with
    # fewer tokens than dimensions there are many. They are drawn at the edge.
    values = frame.loc[frame["rank"] < frame.groupby("model")["rank"].transform("max"), "value"].dropna()
    real = values[values > values.max() * 1e-9]
    low, most = float(real.min()) if len(real) else 1e-6, int(frame["rank"].max())
    ranks = alt.Scale(type="log", domain=[1, max(2, most)], nice=False)
    shares = alt.Scale(type="log", domain=[low, 1], nice=False, clamp=True)
    x = alt.X("rank:Q", title="rank", scale=ranks, axis=alt.Axis(values=_decades(1, most), grid=False, **parts.TYPESET))
    axis = alt.Axis(grid=True, values=_decades(low, 1), labelOverlap="greedy", **parts.TYPESET)
    y = alt.Y("value:Q", title="share of the variance", scale=shares, axis=axis)
    tooltip = tooltips("model", "checkpoint", "layer", "rank", "value", "n", value="share")
    return _curves(alt.Chart(), x, y, _BY_DEPTH, tooltip, size=9, data=frame)


def scales(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw dimension by scale, the floor dotted."""
    values = sorted({int(scale) for scale in frame["scale"].dropna()})
    scale = alt.Scale(type="log", base=2, domain=[values[0], max(values[-1], 2)], nice=False, padding=4)
    axis = alt.Axis(values=values, format="d", grid=False, labelOverlap="greedy", labelSeparation=4)
    x = alt.X("scale:Q", title="neighbours n, 2n", scale=scale, axis=axis)
    y = parts.value_axis(title=["intrinsic dimension"])
    columns = ("model", "checkpoint", "layer", "scale", "value", "ci_low", "ci_high", "n")
    tooltip = tooltips(*columns, frame=frame, value="dimension")
    measured = alt.Chart().transform_filter("datum.kind === 'measured'")
    # floors of different layers differ by chance alone: one line
    floor = alt.Chart().transform_filter("datum.kind === 'floor'")
    mean = floor.transform_aggregate(value="mean(value)", groupby=["scale"])
    line = mean.mark_line(color=FLOOR_GREY, strokeWidth=1, strokeDash=[1, 2], clip=True).encode(x=x, y=y)
    below = [line, parts.floor_note(least=150)]
    return _curves(measured, x, y, _BY_DEPTH, tooltip, size=30, data=frame, below=below).add_params(*parts.reach())


def cuts(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw a number over depth, a line for each cut of sinks."""
    x = alt.X("depth:Q", title="relative depth", scale=alt.Scale(domain=[0, 1], nice=False), axis=alt.Axis(grid=False))
    domain = [float(frame["cut"].min()), float(frame["cut"].max())]
    tooltip = tooltips("model", "checkpoint", "layer", "cut", "value", "left_out", "n")
    by_cut = ("cut:Q", "cut:Q", {"type": "log", "domain": domain})
    return _curves(alt.Chart(), x, parts.value_axis(), by_cut, tooltip, size=16, data=frame).add_params(*parts.reach())


_BY_DEPTH = ("depth:Q", "layer:Q", {"domain": [0, 1]})


def _curves(
    rows: Any, x: Any, y: Any, by: tuple[str, str, Any], tooltip: list[Any], size: int, data: Any, below: Any = ()
) -> Any:
    """Draw lines with points; ``by`` has the columns of their colour and of what is a line, and the colours' scale."""
    field, detail, scale = by
    color = alt.Color(field, scale=alt.Scale(**scale, range=list(RAMP)), legend=None)
    line = rows.mark_line(strokeWidth=1.4, strokeJoin="round", clip=True, opacity=0.9)
    points = rows.mark_point(filled=True, size=size, opacity=0.9, clip=True)
    lines = line.encode(x=x, y=y, color=color, detail=alt.Detail(detail))
    chart = alt.layer(*below, lines, points.encode(x=x, y=y, color=color, tooltip=tooltip), data=data)
    return chart.properties(width="container", height=190)


def _decades(low: float, high: float) -> list[float]:
    return [10.0**power for power in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]


def of_spectra(rows: pd.DataFrame, scene: Scene) -> str:
    """Say how the first axis grows over depth."""
    first = rows[rows["rank"] == 1].sort_values("depth")["value"]
    if first.empty:
        return ""
    return f"share of the first axis: {short(first.iloc[0], 2)} (embedding) to {short(first.iloc[-1], 2)} (last block)"


def of_scales(rows: pd.DataFrame, scene: Scene) -> str:
    """Say what layers read at the smallest and the largest scale."""
    measured = rows[rows["kind"] == "measured"].dropna(subset=["value"])
    if measured.empty:
        return ""
    ends = sorted({measured["scale"].min(), measured["scale"].max()})
    parts = [f"at scale {n}: {span(measured.loc[measured['scale'] == n, 'value'].tolist())}" for n in ends]
    noise = rows[rows["kind"] == "floor"]["value"].dropna()
    return " · ".join([*parts, *([f"random vectors: {span(noise.tolist())}"] if len(noise) else [])])


def of_cuts(rows: pd.DataFrame, scene: Scene) -> str:
    """Say where the threshold matters most, and how many tokens it leaves out."""
    by_layer = rows.groupby("layer")["value"]
    spread = by_layer.max() - by_layer.min()
    text = "the threshold changes nothing"
    if spread.max() > 0:
        text = f"largest change {short(spread.max(), 2)} at layer {int(str(spread.idxmax()))}"
    left_out = (100 * rows.groupby("cut")["left_out"].first()).tolist()
    return f"{text} · leaves out {span(left_out)} % of the tokens"


def which_cut(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """Controls for the statistic, the rule that cuts sinks, and the corpus."""
    rules = Pick("rule", "Sinks by", {"dominance": "one coordinate", "factor": "norm alone"})
    return [choices(frame, "statistic", "Statistic"), rules, *corpora(frame, scene)]


# Distributions and explained variance, of the vectors of a vocabulary or of the texts of a corpus.


KINDS = ("token", "position", "type", "token–token", "token–position", "position–position", "token–type")


def heights(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw distributions over each other, each as high as the others."""
    y = alt.Y("height:Q", title="relative to the peak", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=3))
    return _histogram(frame, styles, y)


def counts(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw distributions over each other by number, on a logarithmic axis."""
    top = max(2.0, float(frame["count"].max()))
    scale = alt.Scale(type="log", domain=[0.7, top], clamp=True)
    decades = [10**power for power in range(0, 20, 1 if top < 1e5 else 2) if 10**power <= top]
    y = alt.Y("shown:Q", title="how many", scale=scale, axis=alt.Axis(values=decades, **parts.TYPESET))
    return _histogram(frame, styles, y, "datum.count < 1 ? 0.7 : datum.count")


def _histogram(frame: pd.DataFrame, styles: Styles, y: Any, shown: str = "") -> Any:
    color = _by_part(frame, styles, key=lambda part: ("–" in part, part))
    tooltip = tooltips("part", "low", "high", "count", "n")
    chart = alt.Chart().transform_calculate(shown=shown) if shown else alt.Chart()
    x = alt.X("low:Q", title=None, scale=alt.Scale(zero=False, nice=True))
    base = chart.encode(x=x, color=color, tooltip=tooltip)
    apart = y.copy()
    apart.stack = None
    fill = base.mark_area(interpolate="step-after", opacity=0.16).encode(y=apart, y2=alt.Y2Datum(0.7 if shown else 0))
    line = base.mark_line(interpolate="step-after", strokeWidth=1.6).encode(y=y)
    bar = base.mark_bar(opacity=0).encode(x2=alt.X2("high:Q"), y=y)
    return alt.layer(fill, line, bar).properties(width="container", height=240)


def _by_part(frame: pd.DataFrame, styles: Styles, key: Any = None) -> Any:
    names = ordered(sorted(set(frame["part"]), key=key), (*KINDS, *styles.named))
    return alt.Color("part:N", scale=alt.Scale(domain=names, range=colours(len(names))), legend=None)


def explained(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the share of the variance that the first components hold together."""
    color, most = _by_part(frame, styles), max(2, int(frame["components"].max()))
    axis = alt.Axis(values=[n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if n <= most], format="d")
    scale = alt.Scale(type="log", domain=[1, most], nice=False)
    x = alt.X("components:Q", title="principal components", scale=scale, axis=axis)
    percent = alt.Axis(format="%", tickCount=5)
    y = alt.Y("share:Q", title="share of the variance", scale=alt.Scale(domain=[0, 1]), axis=percent)
    rules = alt.Chart(alt.InlineData(values=[{"share": 0.5}, {"share": 0.9}]))
    line = alt.Chart().mark_line(strokeWidth=2).encode(x=x, y=y, color=color)
    points = alt.Chart().mark_point(size=60, filled=True, opacity=0)
    points = points.encode(x=x, y=y, color=color, tooltip=tooltips("part", "components", "share", "n"))
    dashes = rules.mark_rule(strokeDash=[3, 3], color=FLOOR_GREY, strokeWidth=1).encode(y=alt.Y("share:Q"))
    return alt.layer(dashes, line, points, data=frame).properties(width="container", height=240)


# Variance of token types: its parts within and between types over depth, and the types of one layer.


SPREAD = 8.0
"""Where the largest value is as many times the smallest, the axes are logarithmic."""
FENCE = 3
"""A type that lies so many times the distance of the quartiles beyond them, and more, is drawn there. One whose states
differ by rounding alone would take all of a logarithmic axis, and so would the norm of a sink."""
BELOW, BEYOND = 1.0, 0.3
"""How much more: a decade for a small variance, a factor of two for a large norm."""
DEPTHS = {"0": "0, the embedding", "0.25": "¼", "0.5": "½", "0.75": "¾", "1": "1, the last block"}


def type_shares(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw both shares over depth; together they are 1."""
    axis = alt.Axis(values=[0, 0.5, 1])
    y = alt.Y("value:Q", stack="zero", title="share of the variance", scale=alt.Scale(domain=[0, 1]), axis=axis)
    x = parts.depth_axis()
    # within types lies below: the order of the stack is that of the names, reversed
    order = alt.Order("statistic:N", sort="descending")
    scale = alt.Scale(domain=["within_share", "between_share"], range=[GREY, GREEN])
    color = alt.Color("statistic:N", scale=scale, legend=None)
    area = alt.Chart().mark_area(clip=True).encode(x=x, y=y, color=color, order=order)
    columns = ("model", "checkpoint", "layer", "value", "within", "n")
    between = alt.Chart().transform_filter("datum.statistic === 'between_share'")
    points = between.transform_calculate(within="1 - datum.value")
    points = points.mark_point(filled=True, size=26, color=INK, opacity=0.9)
    tooltip = tooltips(*columns, value="between types", within="within types")
    points = points.encode(x=x, y=alt.Y("within:Q", title="share of the variance"), tooltip=tooltip)
    return alt.layer(area, points, data=frame).properties(width="container", height=130)


def of_shares(rows: pd.DataFrame, scene: Scene) -> str:
    """Say how the share between types moves over depth."""
    between = rows[rows["statistic"] == "between_share"].dropna(subset=["value"]).sort_values("depth")["value"]
    if between.empty:
        return ""
    return f"between types: {short(between.iloc[0], 2)} (embedding) to {short(between.iloc[-1], 2)} (last block)"


def types(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw a mark for each token type."""

    def scale(column: str) -> Any:
        values = frame.loc[(frame["variance"] > 0) & (frame["norm_of_mean"] > 0), column].dropna()
        is_wide = len(values) > 0 and float(values.max() / values.min()) > SPREAD
        return alt.Scale(type="log", nice=False, padding=8) if is_wide else alt.Scale(zero=False, padding=4)

    axis = {"tickCount": 4, **parts.TYPESET, "labelOverlap": "greedy", "labelSeparation": 4, "grid": True}
    axis |= {"gridOpacity": parts.LABELLED, "tickOpacity": parts.LABELLED}
    columns = ("token", "model", "layer", "count", "norm_of_mean", "variance")
    reach = f"{FENCE} * (datum.upper - datum.lower)"
    across = f"{FENCE} * (datum.right - datum.left)"
    return (
        alt.Chart(frame)
        # a type whose states are all alike has no variance, and no place on a logarithmic axis
        .transform_filter("datum.variance > 0 && datum.norm_of_mean > 0")
        .transform_calculate(size="log(datum.variance) / LN10", norm="log(datum.norm_of_mean) / LN10")
        # after filters, so that quartiles are of what is drawn
        .transform_joinaggregate(lower="q1(size)", upper="q3(size)", left="q1(norm)", right="q3(norm)")
        .transform_calculate(
            drawn=f"max(datum.variance, pow(10, datum.lower - {reach} - {BELOW}))",
            along=f"min(datum.norm_of_mean, pow(10, datum.right + {across} + {BEYOND}))",
        )
        .mark_point(filled=True, strokeWidth=0)
        .encode(
            x=alt.X("along:Q", title="‖mean‖", scale=scale("norm_of_mean"), axis=alt.Axis(**axis)),
            y=alt.Y("drawn:Q", title="variance", scale=scale("variance"), axis=alt.Axis(**axis)),
            size=alt.Size("count:Q", scale=alt.Scale(type="sqrt", range=[10, 130], zero=True), legend=None),
            color=parts.color(styles),
            opacity=parts.lit(0.5, 0.1),
            tooltip=tooltips(*columns, count="occurrences", norm_of_mean="‖mean‖"),
        )
        .add_params(parts.highlight())
        .properties(width="container", height=190)
    )


def of_types(rows: pd.DataFrame, scene: Scene) -> str:
    """Say Spearman's ρ of a layer and how many types are drawn, and how many at an edge."""
    rho, layer = rows["rho"].iloc[0], int(rows["layer"].iloc[0])
    measured = f"ρ = {short(rho, digits_of([rho]))}" if rho == rho else "ρ not computed"
    drawn = f"{whole((rows['variance'] > 0).sum())} types of {whole(rows['count'].min())} occurrences or more"
    if not rows["variance"].max() > 0:
        drawn = "all occurrences of a type have the same state here"
    positive = rows.loc[(rows["variance"] > 0) & (rows["norm_of_mean"] > 0), ["variance", "norm_of_mean"]]
    sizes = positive.astype(float).map(math.log10)
    lower, upper = sizes.quantile(0.25), sizes.quantile(0.75)
    fence = FENCE * (upper - lower)
    low = int((sizes["variance"] < lower["variance"] - fence["variance"] - BELOW).sum())
    far = int((sizes["norm_of_mean"] > upper["norm_of_mean"] + fence["norm_of_mean"] + BEYOND).sum())
    edges = [f"{whole(count)} {where} the axis" for count, where in ((low, "below"), (far, "right of")) if count]
    if edges:
        drawn += f" · {' and '.join(edges)}, drawn at the edge"
    return f"layer {layer}: {measured} · {drawn}"


def depths(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """Controls for the corpus and the depth: the middle first, since the ends are special."""
    depths_present = {f"{part:g}" for part in frame["part"]}
    order = dict.fromkeys(part for part in ("0.5", *DEPTHS) if part in depths_present)
    return [Pick("part", "Depth", {part: DEPTHS[part] for part in order}), *corpora(frame, scene)]
