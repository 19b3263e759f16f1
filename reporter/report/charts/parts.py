"""What charts share: scales, the highlight, the axes and their parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from reporter.report.axes import Axis
from reporter.report.styles import FLOOR_GREY, Styles

if TYPE_CHECKING:
    import pandas as pd

_LIT = "length(highlight) == 0 || indexof(highlight, datum.model) >= 0"
NUMBER = ".4~g"


def params(axis: Axis) -> list[Any]:
    """What the page sets: the models to highlight, the reach of the value axis, a note on the floor."""
    return [highlight(), *reach(axis)]


def highlight() -> Any:
    """The models to highlight; none of them highlights all."""
    return alt.param(name="highlight", value=[])


def reach(axis: Axis) -> list[Any]:
    """Where the value axis begins and ends, and the note on the floor."""
    return [
        alt.param(name="low", value=axis.low),
        alt.param(name="high", value=axis.high),
        alt.param(name="note", value=axis.note),
    ]


def depth_axis(title: str = "relative depth") -> Any:
    """Relative depth from 0, the embedding, to 1, the last block."""
    return alt.X(
        "depth:Q",
        title=title,
        scale=alt.Scale(domain=[0, 1], nice=False),
        axis=alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".2~f", grid=False),
    )


def value_scale() -> Any:
    """Scale of the value axis, between the parameters ``low`` and ``high``."""
    return alt.Scale(domain=[alt.ExprRef("low"), alt.ExprRef("high")], nice=True, zero=False)


def value_axis(field: str = "value:Q") -> Any:
    """Upright value axis with a faint grid."""
    return alt.Y(field, title=None, scale=value_scale(), axis=alt.Axis(grid=True, tickCount=5))


def color(styles: Styles) -> Any:
    """Each model's own colour. The page draws the legend, one for all charts."""
    scale = alt.Scale(domain=styles.names, range=[style.light for style in styles.models])
    return alt.Color("model:N", scale=scale, legend=None)


def shape(styles: Styles) -> Any:
    """Each model's own mark."""
    scale = alt.Scale(domain=styles.names, range=[style.shape for style in styles.models])
    return alt.Shape("model:N", scale=scale, legend=None)


def dash(styles: Styles) -> Any:
    """Each model's own dash."""
    scale = alt.Scale(domain=styles.names, range=[list(style.dash) for style in styles.models])
    return alt.StrokeDash("model:N", scale=scale, legend=None)


def width(styles: Styles) -> Any:
    """Thin lines for null baselines."""
    return alt.StrokeWidthValue(2, **_of_baselines(styles, 1.2))


def size(styles: Styles, area: float) -> Any:
    """Small marks for null baselines."""
    return alt.SizeValue(area, **_of_baselines(styles, area / 3))


def without_baselines(chart: Any, styles: Styles) -> Any:
    """The chart without the rows of null baselines."""
    return chart.transform_filter(f"!({_is_baseline(styles)})") if styles.baselines else chart


def _of_baselines(styles: Styles, value: float) -> dict[str, Any]:
    """A condition that gives null baselines another value; none where there are none."""
    return {"condition": {"test": _is_baseline(styles), "value": value}} if styles.baselines else {}


def _is_baseline(styles: Styles) -> str:
    return f"indexof([{', '.join(map(_quoted, styles.baselines))}], datum.model) >= 0"


def lit(on: float, off: float) -> Any:
    """Opacity of a model that is highlighted, or of all where none is; and of the others."""
    return alt.OpacityValue(off, condition={"test": _LIT, "value": on})


def is_statistic(name: str) -> str:
    """Filter for the rows of one statistic (the frame also holds those of its floor)."""
    return f"datum.statistic === {_quoted(name)}"


def floor_note() -> Any:
    """A line above the top right corner that says where the floor is when it lies off the axis."""
    return (
        alt.Chart(alt.InlineData(values=[{}]))
        .mark_text(align="right", baseline="bottom", fontSize=10.5, color=FLOOR_GREY, text=alt.ExprRef("note"))
        .encode(x=alt.value("width"), y=alt.value(-4))
    )


def has(frame: pd.DataFrame, column: str) -> bool:
    """Whether a column holds any number."""
    return column in frame and bool(frame[column].notna().any())


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
