"""The charts of static embeddings: distributions, explained variance, positions, shares of a vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from reporter.report.charts.parts import NUMBER
from reporter.report.exhibits.palette import CATEGORIES, DIVERGING, colours, ordered
from reporter.report.styles import FLOOR_GREY, Styles

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("token", "position", "type", "token–token", "token–position", "position–position", "token–type")
BLUE, ORANGE = list(CATEGORIES)[:2]


def heights(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw distributions over each other, each as high as the others.

    Args:
        frame: rows of the query ``vocabulary_histograms`` or ``cloud_histograms``.
        styles: not used: a chart shows one model.
    """
    y = alt.Y("height:Q", title="share, the peak being 1", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=3))
    return _histogram(frame, y)


def counts(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw distributions over each other by number, on a logarithmic axis.

    Args:
        frame: rows of the query ``vocabulary_histograms`` or ``cloud_histograms``.
        styles: not used.
    """
    top = max(2.0, float(frame["count"].max()))
    scale = alt.Scale(type="log", domain=[0.7, top], clamp=True)
    decades = [10**power for power in range(0, 20, 1 if top < 1e5 else 2) if 10**power <= top]
    y = alt.Y("shown:Q", title="how many", scale=scale, axis=alt.Axis(format="~s", values=decades))
    return _histogram(frame, y, "datum.count < 1 ? 0.7 : datum.count")


def _histogram(frame: pd.DataFrame, y: Any, shown: str = "") -> Any:
    parts = ordered(sorted(set(frame["part"]), key=lambda part: ("–" in part, part)), KINDS)
    color = alt.Color(
        "part:N",
        scale=alt.Scale(domain=parts, range=colours(len(parts))),
        legend=None,
    )
    chart = alt.Chart()
    if shown:
        chart = chart.transform_calculate(shown=shown)
    base = chart.encode(x=alt.X("low:Q", title=None, scale=alt.Scale(zero=False, nice=True)), color=color)
    base = base.encode(tooltip=tips("part", "low", "high", "count", "n"))
    low = 0.7 if shown else 0
    fill = base.mark_area(interpolate="step-after", opacity=0.16).encode(y=y, y2=alt.datum(low))
    line = base.mark_line(interpolate="step-after", strokeWidth=1.6).encode(y=y)
    bar = base.mark_bar(opacity=0).encode(x2="high:Q", y=y)
    return alt.layer(fill.encode(y=_stacked(y)), line, bar).properties(width="container", height=240)


def _stacked(y: Any) -> Any:
    made = y.copy()
    made.stack = None
    return made


def explained(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the share of the variance that the first components hold together.

    Args:
        frame: rows of the query ``vocabulary_explained`` or ``cloud_explained``.
        styles: not used.
    """
    parts = ordered(sorted(set(frame["part"])), KINDS)
    most = max(2, int(frame["components"].max()))
    ticks = [n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if n <= most]
    x = alt.X(
        "components:Q",
        title="principal components",
        scale=alt.Scale(type="log", domain=[1, most], nice=False),
        axis=alt.Axis(values=ticks, format="d"),
    )
    y = alt.Y(
        "share:Q", title="share of the variance", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=5)
    )
    color = alt.Color("part:N", scale=alt.Scale(domain=parts, range=colours(len(parts))), legend=None)
    rules = alt.Chart(alt.InlineData(values=[{"share": 0.5}, {"share": 0.9}]))
    line = alt.Chart().mark_line(strokeWidth=2).encode(x=x, y=y, color=color)
    points = alt.Chart().mark_point(size=60, filled=True, opacity=0)
    points = points.encode(x=x, y=y, color=color, tooltip=tips("part", "components", "share", "n"))
    dashes = rules.mark_rule(strokeDash=[3, 3], color=FLOOR_GREY, strokeWidth=1).encode(y="share:Q")
    return alt.layer(dashes, line, points, data=frame).properties(width="container", height=240)


def heat(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the cosine of each two positions.

    Args:
        frame: rows of the query ``position_cosines``.
        styles: not used.
    """
    axis = alt.Axis(labelOverlap="greedy", labelSeparation=14, grid=False, ticks=False, domain=False, labelAngle=0)
    scale = alt.Scale(paddingInner=0, paddingOuter=0)
    chart = alt.Chart().mark_rect()
    return chart.encode(
        x=alt.X("position_b:O", title="position", axis=axis, scale=scale),
        y=alt.Y("position_a:O", title="position", axis=axis, scale=scale),
        color=cosine_colour(),
        tooltip=tips("position_a", "position_b", "cosine"),
    ).properties(width="container", height=400)


def cosine_colour(field: str = "cosine:Q") -> Any:
    """Return the colours of a cosine from −1 to 1; the legend is part of the page."""
    return alt.Color(
        field, scale=alt.Scale(domain=[-1, -0.4, 0, 0.4, 1], range=list(DIVERGING), interpolate="rgb"), legend=None
    )


def offsets(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the mean cosine of two positions by how far apart they are, and one standard deviation around it.

    Args:
        frame: rows of the query ``position_offsets``.
        styles: not used.
    """
    x = alt.X("distance:Q", title="positions apart", scale=alt.Scale(nice=False))
    low, high = min(0.0, float(frame["low"].min())), max(0.0, float(frame["high"].max()))
    y = alt.Y("cosine:Q", title="cosine", scale=alt.Scale(domain=[max(-1.0, low), min(1.0, high)]))
    chart = alt.Chart()
    band = chart.mark_area(opacity=0.2, color=BLUE).encode(x=x, y=alt.Y("low:Q", title="cosine"), y2="high:Q")
    line = chart.mark_line(color=BLUE, strokeWidth=1.8).encode(x=x, y=y)
    points = chart.mark_point(size=70, filled=True, opacity=0, color=BLUE)
    points = points.encode(x=x, y=y, tooltip=tips("distance", "cosine", "sd", "n"))
    return alt.layer(zero(), band, line, points, data=frame).properties(width="container", height=240)


def zero() -> Any:
    """Return a faint line at 0."""
    return alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=FLOOR_GREY, strokeWidth=1).encode(y=alt.datum(0))


def by_position(column: str) -> Any:
    """Return what draws a column of ``positions`` over the position, with the places where it changes marked.

    Args:
        column: ``norm``, ``step_length`` or ``mean_cosine``.
    """

    def draw(frame: pd.DataFrame, styles: Styles) -> Any:
        x = alt.X("position:Q", title="position", scale=alt.Scale(nice=False))
        y = alt.Y(f"{column}:Q", title=None, scale=alt.Scale(zero=False))
        chart = alt.Chart()
        line = chart.mark_line(color=BLUE, strokeWidth=1.2).encode(x=x, y=y)
        points = chart.mark_point(size=40, filled=True, opacity=0, color=BLUE)
        points = points.encode(x=x, y=y, tooltip=tips("position", "norm", "step_length", "mean_cosine"))
        changes = chart.transform_filter("isValid(datum.change_p)")
        rule = changes.mark_rule(color=ORANGE, strokeDash=[5, 3], strokeWidth=1.5)
        rule = rule.encode(x=x, tooltip=tips("position", "change_p"))
        note = changes.mark_text(align="left", dx=4, dy=7, color=ORANGE, fontSize=11, baseline="top")
        note = note.encode(x=x, y=alt.value(0), text="position:Q")
        return alt.layer(line, rule, note, points, data=frame).properties(width="container", height=240)

    return draw


def shares(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the sorts of each model's vocabulary as one bar.

    Args:
        frame: rows of the query ``vocabulary_shares``.
        styles: gives the order of the models.
    """
    models = [name for name in styles.names if name in set(frame["model"])]
    own = [list(dict.fromkeys(rows["sort"])) for _, rows in frame.groupby("sorted_by", sort=False)]
    coloured = {sort: colour for sorts in own for sort, colour in zip(sorts, colours(len(sorts)), strict=True)}
    scale = alt.Scale(domain=list(coloured), range=list(coloured.values()))
    color = alt.Color("sort:N", scale=scale, legend=None)
    chart = alt.Chart().mark_bar(height=20, stroke="#ffffff", strokeWidth=0.4)
    return chart.encode(
        y=alt.Y("model:N", sort=models, title=None, axis=alt.Axis(labelLimit=220, domain=False, grid=False)),
        x=alt.X(
            "share:Q",
            stack="zero",
            title="share of the vocabulary",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format="%", tickCount=5),
        ),
        color=color,
        order=alt.Order("share:Q", sort="descending"),
        tooltip=tips("model", "sort", "share", "count"),
    ).properties(width="container", height=max(60, 30 * len(models)))


FORMATS = {
    "count": ",", "n": ",", "components": "d", "position": "d", "position_a": "d", "position_b": "d", "distance": "d",
    "layer": "d", "n_a": ",", "n_b": ",",
}  # fmt: skip
TEXTS = {
    "part", "model", "checkpoint", "sort", "concept", "concept_a", "concept_b", "text_group", "control", "classifier",
    "kind",
}  # fmt: skip


def tips(*columns: str) -> list[Any]:
    """Return what a chart says of a mark: text as text, whole numbers whole, others with four digits."""
    return [
        alt.Tooltip(f"{name}:N", title=name.replace("_", " "))
        if name in TEXTS
        else alt.Tooltip(f"{name}:Q", format=FORMATS.get(name, NUMBER), title=name.replace("_", " "))
        for name in columns
    ]
