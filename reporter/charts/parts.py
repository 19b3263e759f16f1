"""Parts that charts share: scales, the highlight, the axes and their parameters.

What is the same on every chart is made once: Altair takes milliseconds for it, a page has a hundred charts, and layers
are copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from math import ceil
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Protocol

from reporter.charts.layout import Pick
from reporter.charts.styles import CATEGORIES, DIVERGING, FLOOR_GREY, INK, RULE_GREY, Styles, alt

if TYPE_CHECKING:
    import pandas as pd

_LIT = "length(highlight) == 0 || indexof(highlight, datum.model) >= 0"
AXES = ["PC1", "PC2", ""]
"""Names of the axes of points in a plane of two components."""
LABELLED = {"condition": {"test": "datum.label === ''", "value": 0}, "value": 1}
"""Opacity of lines and ticks of a logarithmic axis: there are some where there are labels."""
MOST_LABELLED = 6
"""Up to as many lines have their names at their ends."""
MOST_LAYERS = 6
"""Up to as many steps have the labels of an axis that counts layers."""
NARROW, WIDE = 190, 250
"""Pixels; in a narrower plot names at the ends of lines would take too much of it. The second leaves out the names."""
MOST_ROOM = 130
"""Pixels that names at the ends of lines take at most."""
ROOM = "min(room, 0.4 * width)"
"""What names at the ends of lines take of a plot; long names are cut."""
LABEL_GAP = "(12.5 / height)"
"""Least distance of two names: their height, in shares of that of the plot."""
LABEL = {"align": "left", "baseline": "middle", "dy": {"expr": "datum.shift * height"}, "aria": False}
"""How the name of a line looks, whatever its line is."""
MOST_COLOURED, LEADING, MOST_NAMED = 6, 5, 14
"""Up to as many lines have colours of their own. Of more, five have: nobody tells twelve hues apart. Of more than the
last, only these five have a name at their end."""
LONGEST_NAME = 28
"""Characters; longer names do not stand beside lines."""


class ChartedStatistic(Protocol):
    """The statistic of a chart; its chance level is the statistic ``<name>_floor``."""

    @property
    def name(self) -> str:
        """The part of its public name after the dot."""

    @property
    def title(self) -> str:
        """A short label."""

    @property
    def per(self) -> str:
        """``layer``, ``step`` or ``model``."""

    @property
    def noise(self) -> str:
        """The name of its chance level."""

    @property
    def short(self) -> str:
        """A name for a value axis; empty where the title does."""

    @property
    def unit(self) -> str:
        """Empty for a pure number."""


def set_by_page(**values: Any) -> list[Any]:
    """Return parameters that the page sets, with their values until then."""
    return [alt.param(name=name, value=value) for name, value in values.items()]


def params() -> list[Any]:
    """Parameters that the page sets: the models to highlight, the reach of the value axis, a note on the floor."""
    return [highlight(), *reach()]


def highlight() -> Any:
    """The models to highlight; none of them highlights all."""
    return alt.param(name="highlight", value=[])


def reach() -> list[Any]:
    """The ends of the value axis, and the note on the floor."""
    return set_by_page(low=0, high=1, note="")


AXIS_END = f"width - (width < {NARROW} ? 0 : {ROOM})"
LEAVES_ROOM = {"range": [0, {"expr": AXIS_END}]}
"""Options of a scale along which lines run that end in their names."""


def depth_axis(title: str = "relative depth", labelled: bool = False, layers: int = 0, first: int = 0) -> Any:
    """Relative depth from 0, the embedding, to 1, the last block; with room for names of lines at the right.

    Args:
        title: the title of the axis.
        labelled: whether lines end in their names.
        layers: the layer at depth 1, where all models have as many: the axis then counts layers.
        first: the number at depth 0: 1 where steps are named by their block.
    """
    ticks: dict[str, Any] = {"values": [0, 0.25, 0.5, 0.75, 1], "format": ".2~f"}
    end = 1.0
    if layers:
        counted = range(first, layers + 1, ceil(layers / MOST_LAYERS))
        number = f"format(round(datum.value * {layers}) + {first}, 'd')"
        ticks = {"values": [(layer - first) / layers for layer in counted], "labelExpr": number}
        end = (layers - first) / layers or 1  # the last block begins above depth 1
    return alt.X(
        "depth:Q",
        title=title,
        scale=alt.Scale(domain=[0, end], nice=False, **(LEAVES_ROOM if labelled else {})),
        axis=alt.Axis(grid=False, **ticks),
    )


def typeset(value: str = "datum.value") -> str:
    """Return the expression that writes a number of an axis as ``core.numbers.short`` does: ``0.001``, ``2 × 10⁻⁵``."""
    power = f"floor(log(abs({value})) / LN10 + 1e-9)"
    digit = "slice('⁰¹²³⁴⁵⁶⁷⁸⁹', {0}, {0} + 1)"
    tens, ones = (digit.format(f"floor(-{power} / 10)"), digit.format(f"(-{power} % 10)"))
    tiny = f"format({value} / pow(10, {power}), '.3~r') + ' × 10⁻' + (-{power} < 10 ? '' : {tens}) + {ones}"
    return f"{value} != 0 && abs({value}) < 1e-4 ? {tiny} : format({value}, ',.3~r')"


TYPESET = {"format": "~g", "labelExpr": f"datum.label === '' ? '' : {typeset()}"}
"""Options of a logarithmic axis; the format says which of its ticks have a label."""


def axis_title(subject: ChartedStatistic) -> list[str]:
    """Return what a value axis shows, in lines that fit beside a small chart."""
    return wrap(f"{subject.short or subject.title}{f' ({subject.unit})' if subject.unit else ''}", 28)


def value_scale(log: bool = False) -> Any:
    """Scale of the value axis, between the parameters ``low`` and ``high``; below a logarithmic one is its edge."""
    domain = [alt.ExprRef("low"), alt.ExprRef("high")]
    if log:
        return alt.Scale(type="log", domain=domain, nice=False, clamp=True, padding=5)
    return alt.Scale(domain=domain, nice=True, zero=False)


def value_axis(field: str = "value:Q", log: bool = False, title: Sequence[str] = ()) -> Any:
    """Upright value axis with a faint grid."""
    return alt.Y(field, title=list(title) or None, scale=value_scale(log), axis=ticks(log))


def ticks(log: bool = False) -> Any:
    """About five ticks on a value axis; on a logarithmic one as many as do not touch."""
    if log:
        return alt.Axis(grid=True, tickCount=4, labelOverlap="greedy", gridOpacity=LABELLED, **TYPESET)
    return alt.Axis(grid=True, tickCount=5, labelOverlap="greedy", labelSeparation=4)


def _by_model(channel: Any, styles: Styles, looks: list[Any]) -> Any:
    scale = alt.Scale(domain=[style.model for style in styles.drawn], range=looks)
    return channel("model:N", scale=scale, legend=None)


def color(styles: Styles) -> Any:
    """Each model's own colour. The page draws the legend, one for all charts."""
    return _by_model(alt.Color, styles, [style.light for style in styles.drawn])


def shape(styles: Styles) -> Any:
    """Each model's own mark."""
    return _by_model(alt.Shape, styles, [style.shape for style in styles.drawn])


def dash(styles: Styles) -> Any:
    """Each model's own dash."""
    return _by_model(alt.StrokeDash, styles, [list(style.dash) for style in styles.drawn])


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
    return {"condition": {"test": _is_baseline(styles), "value": value}} if styles.baselines else {}


def _is_baseline(styles: Styles) -> str:
    return f"indexof([{', '.join(map(quoted, styles.baselines))}], datum.model) >= 0"


def lit(on: float, off: float) -> Any:
    """Opacity of a model that is highlighted, or of all where none is; and of the others."""
    return alt.OpacityValue(off, condition={"test": _LIT, "value": on})


def course(rows: Any, styles: Styles, x: Any, y: Any, tooltip: list[Any], open_marks: bool = False) -> list[Any]:
    """Return a line for each model and the points on it; rows that the page lays over them are a thin dashed line.

    Args:
        rows: the rows.
        styles: the models.
        x: the axis along which a line runs.
        y: the axis of its values.
        tooltip: what a point says.
        open_marks: whether points may be undetermined, which are drawn open.
    """
    shared = {"x": x, "y": y, "color": color(styles), "opacity": lit(1, 0.1)}
    main = without_overlay(rows)
    line = main.mark_line(strokeCap="round", strokeJoin="round", clip=True, aria=False)
    overlay = rows.transform_filter("datum.beside").mark_line(strokeDash=[7, 3], strokeWidth=1.2, clip=True, aria=False)
    determined = main.transform_filter("!datum.undetermined") if open_marks else main
    marks = [determined.mark_point(filled=True)]
    if open_marks:
        unknown = main.transform_filter("datum.undetermined")
        marks.append(unknown.mark_point(filled=False, strokeWidth=1.6))
    look = {"shape": shape(styles), "size": size(styles, 42), "tooltip": tooltip}
    return [
        overlay.encode(**shared),
        line.encode(**shared, strokeDash=dash(styles), strokeWidth=width(styles)),
        *(mark.encode(**shared, **look) for mark in marks),
    ]


def without_overlay(rows: Any) -> Any:
    """Return the rows without a second token set or training step, which the page marks with ``beside``."""
    return rows.transform_filter("!datum.beside")


def room_for(styles: Styles) -> int:
    """Return the pixels right of the plot that the names of the lines take; 0 where there are too many lines."""
    names = [style.model for style in styles.own]
    return min(MOST_ROOM, 26 + 7 * max(map(len, names))) if 1 < len(names) <= MOST_LABELLED else 0


def end_labels(lines: Any, styles: Styles, x: Any, y: Any, along: str, log: bool = False, gap: int = 8) -> Any:
    """Return the name of each model at the end of its line, where the page has room for it."""
    rows = without_overlay(without_baselines(lines, styles))
    shown = f"room && width >= {NARROW}"
    end = str(x["scale"]["domain"][1]) if along == "depth" else ""
    text = ends_of_lines(rows, "model", "value", along, _from_top(log), end)
    text = text.transform_calculate(label="replace(datum.model, /^mean of /, '')")
    text = text.mark_text(
        **LABEL,
        dx=gap,
        fontSize=alt.ExprRef(f"{shown} ? 11 : 0"),
        fillOpacity=alt.ExprRef(f"{shown} ? 1 : 0"),  # of no size a text may still be a dot
        limit=alt.ExprRef(f"max({ROOM} - {gap}, 1)"),
    )
    return text.encode(x=x, y=y, text="label:N", color=color(styles), opacity=lit(1, 0.15))


def ends_of_lines(rows: Any, name: str, value: str, along: str, place: str, end: str = "") -> Any:
    """Return the place of the name of each line, right of all lines, and in ``shift`` how far it moves to overlap none.

    Places run from the top of the axis, in shares of its height. The new ones are the mean of two orders with a least
    distance, of which one pushes names down only and the other up only.

    Args:
        rows: the rows of all lines.
        name: the column that names a line.
        value: the column of its values.
        along: the column along which it runs.
        place: an expression for the place of ``datum.last``.
        end: the end of the axis, where names stand; that of the longest line by default.
    """
    ends = rows.transform_filter(f"isValid(datum.{value})")
    ends = ends.transform_aggregate(last=f"argmax({along})", groupby=[name])
    ends = ends.transform_calculate(place=place, **{column: f"datum.last.{column}" for column in (value, along)})
    order = [alt.SortField("place"), alt.SortField(name)]
    ends = ends.transform_window(rank="row_number()", sort=order)
    ends = ends.transform_joinaggregate(lines="count()", end=f"max({along})")
    ends = ends.transform_calculate(free=f"datum.place - datum.rank * {LABEL_GAP}")
    ends = ends.transform_window(down="max(free)", sort=order, frame=[None, 0])
    ends = ends.transform_window(up="min(free)", sort=order, frame=[0, None])
    even = f"(datum.down + datum.up) / 2 + datum.rank * {LABEL_GAP}"
    inside = f"max((datum.rank - 0.5) * {LABEL_GAP}, min({even}, 1 - (datum.lines - datum.rank) * {LABEL_GAP}))"
    # a shorter line's name stands beside the others, not over them, and right of the axis
    return ends.transform_calculate(shift=f"{inside} - datum.place", **{along: end or "datum.end"})


def _from_top(log: bool) -> str:
    """Return an expression for how far the last value lies from the top of the axis, in shares of its height."""
    if log:
        share = "log(max(datum.last.value, low) / low) / log(high / low)"
    else:  # the ends of the axis are rounded, as Vega rounds them for ten ticks
        power = "pow(10, floor(log((high - low) / 10) / LN10))"
        error = f"((high - low) / 10 / {power})"
        step = f"({power} * ({error} >= 7.071 ? 10 : {error} >= 3.162 ? 5 : {error} >= 1.414 ? 2 : 1))"
        bottom, top = f"floor(low / {step}) * {step}", f"ceil(high / {step}) * {step}"
        share = f"(datum.last.value - {bottom}) / ({top} - {bottom})"
    return f"clamp(1 - {share}, 0, 1)"


def is_statistic(name: str) -> str:
    """Filter for the rows of one statistic (the frame also holds those of its floor)."""
    return f"datum.statistic === {quoted(name)}"


@cache
def floor_note(least: int = 0) -> Any:
    """A line above the top right corner that says where the floor is off the axis; several in a narrow panel.

    Args:
        least: a panel of fewer pixels has none.
    """
    # a chart is laid out twice: the lines may not depend on the width of its plot where a page gives one to the chart
    narrow = "(containerSize()[0] || width + 60) < 5.6 * length(note)"
    split = "split(replace(note, regexp(' · ', 'g'), ', '), ', ')"
    lines = f"({narrow} && indexof(note, ',') >= 0 ? {split} : [note])"
    text = alt.ExprRef(f"width < {least} ? '' : {lines}")
    up = alt.ExprRef(f"-12.5 * (length({lines}) - 1)")  # Vega puts the first line where the text stands
    return (
        alt.Chart(alt.InlineData(values=[{}]))
        .mark_text(align="right", baseline="bottom", fontSize=10.5, color=FLOOR_GREY, text=text, dy=up)
        .encode(x=alt.XValue("width"), y=alt.YValue(-4))
    )


def has(frame: pd.DataFrame, column: str) -> bool:
    """Whether a column holds any number."""
    return column in frame and bool(frame[column].notna().any())


def quoted(text: str) -> str:
    """Return a text as an expression of Vega."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@cache
def rule(**encoding: Any) -> Any:
    """A thin line at a value, such as ``y=0``; an upright value axis leaves room for names right of it."""
    line = alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=RULE_GREY, clip=True)
    ends = {"x": alt.XValue(0), "x2": alt.X2Value(alt.ExprRef(AXIS_END))} if "y" in encoding else {}
    return line.encode(
        **ends, **{axis: getattr(alt, f"{axis.upper()}Datum")(value) for axis, value in encoding.items()}
    )


@cache
def zero() -> Any:
    """Return a faint line at 0."""
    return alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=FLOOR_GREY, strokeWidth=1).encode(y=alt.YDatum(0))


def cosine_colour() -> Any:
    """Return the colours of a cosine from −1 to 1; the legend is part of the page."""
    scale = alt.Scale(domain=[-1, -0.4, 0, 0.4, 1], range=list(DIVERGING), interpolate="rgb")
    return alt.Color("cosine:Q", scale=scale, legend=None)


TITLES = {"ci_low": "from", "ci_high": "to"}


def tooltips(*columns: str, frame: pd.DataFrame | None = None, **titles: str) -> list[Any]:
    """Return the tooltip of a mark; the page writes its numbers (``written`` in ``templates/charts.js``)."""
    titles = {name: name.replace("_", " ") for name in columns} | TITLES | titles
    shown = [
        name for name in columns if frame is None or name not in ("ci_low", "ci_high", "floor") or has(frame, name)
    ]
    return [alt.Tooltip(name, title=titles[name], **_as_it_is(name)) for name in shown]


def _as_it_is(name: str) -> dict[str, str]:
    """Return how a tooltip hands over a column: a share as per cent, all others unformatted."""
    return {"type": "quantitative", "format": ".2%"} if name == "left_out" else {"type": "nominal"}


@cache
def layers(room: int = 0) -> Any:
    """The axis of a model's own layers, as long as that model is deep, with room for names of lines at the right."""
    axis = alt.Axis(tickMinStep=1, format="d", tickCount=12, grid=False, labelOverlap="greedy", labelSeparation=4)
    ends = {"range": [0, alt.ExprRef(f"width - (width < {WIDE} + {room} ? 0 : {room})")]} if room else {}
    return alt.X("layer:Q", title="layer", scale=alt.Scale(zero=True, nice=False, **ends), axis=axis)


def shared_axis(frame: pd.DataFrame, *columns: str) -> Any:
    """The same reach for every model, so that two can be compared by eye."""
    values = frame[list(columns)].stack().dropna()
    if values.empty:
        return alt.Scale(zero=False)
    return alt.Scale(domain=[min(0.0, float(values.to_numpy().min())), float(values.to_numpy().max())], nice=True)


@cache
def here() -> Any:
    """A line at the layer of the page's slider; none below 0."""
    return _line_at("at", 0.22, strokeWidth=7)


@cache
def cursor() -> Any:
    """A line at the depth that a reader points at, the same in all charts of the page; none below 0."""
    return _line_at("cursor", 0.9, strokeWidth=1.5, clip=True)


def _line_at(param: str, opacity: float, **look: Any) -> Any:
    rule = alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=FLOOR_GREY, **look)
    place = alt.XDatum(alt.ExprRef(f"max({param}, 0)"), type="quantitative")
    return rule.encode(x=place, opacity=alt.OpacityValue(alt.ExprRef(f"{param} < 0 ? 0 : {opacity}")))


def at_params(**values: Any) -> list[Any]:
    """Parameters that the page sets: the layer of its slider, and the choices of selectors that begin with ``$``."""
    return set_by_page(**{"at": 0, **values})


@dataclass(frozen=True)
class NamedLines:
    """Lines over layers that are of something else than a model: a concept, a group of texts, a probe.

    Up to six have a colour each. Of more only the five with the largest values have: the others are grey until a reader
    brings one out (the page's parameter ``bring``), and every line has its name at its end.

    Args:
        column: the column that names a line.
        value: the column of its values.
        names: all names, in order.
        leading: those that have a colour.
        reach: the ends of the value axis.
    """

    column: str
    value: str
    names: Sequence[str]
    leading: Sequence[str]
    reach: tuple[float, float]

    @classmethod
    def of(cls, frame: pd.DataFrame, column: str, value: str, names: Sequence[str], *more: float) -> NamedLines:
        """Return the lines of a frame; their axis reaches to further numbers, too."""
        tops = frame[value].abs().groupby(frame[column]).max().sort_values(ascending=False)
        leading = set(names if len(names) <= MOST_COLOURED else tops.index[:LEADING])
        values = [*frame[value].dropna().tolist(), *more] or [0.0, 1.0]
        leading_names = [name for name in names if name in leading]
        return cls(column, value, names, leading_names, (min(values), max(values)))

    @property
    def color(self) -> Any:
        """The colour of each line; ink for the one that is brought out."""
        colours = dict(zip(self.leading, cycle(CATEGORIES), strict=False))
        scale = alt.Scale(domain=list(self.names), range=[colours.get(name, FLOOR_GREY) for name in self.names])
        condition = {"test": f"datum.{self.column} === bring", "value": INK}
        return alt.Color(f"{self.column}:N", scale=scale, legend=None, condition=condition)

    @property
    def _leads(self) -> str:
        return f"indexof([{', '.join(map(quoted, self.leading))}], datum.{self.column}) >= 0"

    @property
    def opacity(self) -> Any:
        """The opacity of each line: faint beside one that is brought out, and where it is one of many."""
        conditions = [{"test": f"bring !== '' && datum.{self.column} !== bring", "value": 0.14},
                      {"test": f"bring !== '' || {self._leads}", "value": 0.95}]  # fmt: skip
        return alt.OpacityValue(0.45, condition=conditions)

    @property
    def x(self) -> Any:
        """The axis of layers, with room for the names."""
        return layers(self.room)

    @property
    def room(self) -> int:
        """The pixels that the names take; 0 where they are too long to stand beside lines."""
        longest = max(map(len, self.names), default=0)
        return 16 + 7 * longest if 0 < longest <= LONGEST_NAME else 0

    def labels(self, rows: Any, y: Any) -> Any:
        """Return the names at the ends of lines."""
        if len(self.names) > MOST_NAMED:
            rows = rows.transform_filter(f"{self._leads} || datum.{self.column} === bring")
        low, high = self.reach
        place = f"clamp(({high} - datum.last.{self.value}) / {high - low or 1}, 0, 1)"
        text = ends_of_lines(rows, self.column, self.value, "layer", place)
        shown = f"{self.room} && width >= {WIDE + self.room}"
        size, ink = alt.ExprRef(f"{shown} ? 10.5 : 0"), alt.ExprRef(f"{shown} ? 1 : 0")
        text = text.mark_text(**LABEL, dx=8, fontSize=size, fillOpacity=ink, limit=max(1, self.room - 8))
        faint = alt.OpacityValue(1, condition={"test": f"bring !== '' && datum.{self.column} !== bring", "value": 0.3})
        return text.encode(x=self.x, y=y, text=f"{self.column}:N", color=self.color, opacity=faint)


def which_to_highlight(frame: pd.DataFrame, column: str) -> Pick:
    """Return the selector of the line that is brought out."""
    return Pick("$bring", "Highlight", {"": "none"} | {str(name): str(name) for name in dict.fromkeys(frame[column])})


def by_kind(
    lines: NamedLines, frame: pd.DataFrame, dashes: Mapping[str, list[int]], y: Any, tooltip: Sequence[Any],
    *below: Callable[[Any], Any],
) -> Any:  # fmt: skip
    """Draw lines over layers, each in the colour of what it is of and dashed by its kind, the first one named.

    Only lines of the first kind have points that are seen: on dashes and dots they would hide them.
    """
    first = quoted(next(iter(dashes)))
    kinds = alt.Scale(domain=list(dashes), range=list(dashes.values()))
    base = alt.Chart().encode(x=lines.x, color=lines.color, detail=alt.Detail("kind:N"))
    line = base.mark_line(strokeWidth=1.9, aria=False)
    line = line.encode(y=y, strokeDash=alt.StrokeDash("kind:N", scale=kinds, legend=None), opacity=lines.opacity)
    seen = alt.FillOpacityValue(0, condition={"test": f"datum.kind === {first}", "value": 1})
    points = base.mark_point(filled=True, size=40).encode(y=y, tooltip=tooltip, opacity=lines.opacity, fillOpacity=seen)
    labels = lines.labels(alt.Chart().transform_filter(f"datum.kind === {first}"), y)
    drawn = alt.layer(here(), *(make(base) for make in below), labels, line, points, data=frame)
    return drawn.add_params(*at_params(bring="")).properties(width="container", height=260)
