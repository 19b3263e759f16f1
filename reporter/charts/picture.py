"""Static images of charts: one Vega-Lite specification for a whole figure, converted to SVG, PDF or PNG.

A figure is laid out in the pixels of the pages, where a label is 11 pixels high, and scaled to the width in millimetres
and the font size that were asked for: lines and marks keep their proportion to the text.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from reporter.charts.chart import Drawn
from reporter.charts.drawing import Choice, axis_shown, captions_of, layer_shown, panels_shown, picked
from reporter.charts.formulas import IN_INTERVAL, as_plain, folded
from reporter.charts.layout import ATTENTION, VIEWS, WITHOUT, Panel, Scene
from reporter.charts.parts import MOST_ROOM, NARROW
from reporter.charts.styles import FLOOR_GREY, RAMP, THEMES, colours
from reporter.core.numbers import is_null, whole

if TYPE_CHECKING:
    import pandas as pd

VEGA_LITE = "6.4"
"""The Vega-Lite of Altair 6; a spec must be read by the version it was written for."""
FONTS = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
"""Helvetica, or a font of the same widths: one of them is on every machine and in the converter."""
LABEL = 11.0
"""Height of the charts' labels in pixels: the font size of a figure is the size of these."""
SIGN = 9.0
"""Text up to this size is a sign in a cell, and stays small; everything else is at least as high as a label."""
MARGIN = 4.0
"""Left and right of a figure, in pixels."""
NAMED = ("profile", "training", "differences")
"""Kinds of charts whose lines have their names at their ends, but for null baselines."""
GAP = 22.0
SYMBOL = 34.0
"""Width of a legend's symbol with the space around it."""
NARROWEST = 210.0
"""Minimum width of a panel in a row of several."""
DOTS_PER_INCH = 300
PREVIEW, PREVIEW_MARGIN = (1200, 630), 48
"""Pixels of the picture that a link to a report shows, and of its margins."""
LEGENDS = {
    "depth": "relative depth (a line is a layer)",
    "cuts": "threshold for sinks (a line is a threshold)",
    "similarity": "similarity (first model upwards, second to the right)",
    "angle": "angle/π between the states before and after (unrelated states: 0.5)",
    "attention": "mean attention weight on the first token",
    "change": "relative change (logarithmic)",
    "cosine": "cosine",
}
"""Titles of the legends of colour scales."""
_THEME = THEMES["light"] | {"font": FONTS, "autosize": {"type": "pad"}}
_QUIET = THEMES["light"]["axis"]["labelColor"]
# XML 1.0 cannot hold these, and the last ones turn the direction of reading around
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]")
_MILLIMETRES = re.compile(r'\b(width|height)="([\d.]+)mm"')


@dataclass(frozen=True)
class FigureSize:
    """The size of a figure.

    Args:
        width: in millimetres.
        font: size of its labels in points.
    """

    width: float
    font: float

    @property
    def pixels(self) -> float:
        """Width of the layout in its own pixels."""
        return self.width / 25.4 * 96 / self.scale

    @property
    def scale(self) -> float:
        """Pixels (96 to the inch) of the picture for each pixel of the layout."""
        return self.font * 96 / 72 / LABEL

    def columns(self, panels: int) -> int:
        """Return how many of some panels stand side by side: 2 and 2 of four, not 3 and 1."""
        most = max(1, min(panels, math.floor((self.pixels + GAP) / (NARROWEST + GAP))))
        return math.ceil(panels / math.ceil(panels / most)) if panels else 1

    def panel(self, panels: int) -> float:
        """Return the width of each of some panels, axes included."""
        columns = self.columns(panels)
        return (self.pixels - GAP * (columns - 1)) / columns


@dataclass(frozen=True)
class FigurePanel:
    """One panel of a figure: its Vega-Lite, its rows, its heading, and the sentence under the heading."""

    spec: Mapping[str, Any]
    rows: pd.DataFrame
    label: str = ""
    says: str = ""


PREVIEW_FIGURE = FigureSize(160.0, 8.0)


def compose(
    parts: Sequence[FigurePanel],
    size: FigureSize,
    values: Mapping[str, Any],
    title: str = "",
    notes: Sequence[str] = (),
    legend: str | None = None,
    named: bool = False,
) -> str:
    """Return panels as one SVG whose width and height are in millimetres.

    Args:
        parts: the panels.
        size: of the figure.
        values: of the parameters of the panels.
        title: stands above the figure.
        notes: stand below it.
        legend: the title of the legend of colours; None for no legend.
        named: whether all lines have their names at their ends where there is room, so that they need no legend.
    """
    columns, width = size.columns(len(parts)), size.panel(len(parts))
    datasets: dict[str, Any] = {}
    params: dict[str, Any] = {}
    panels = []
    for number, part in enumerate(parts):
        spec = {name: value for name, value in part.spec.items() if name not in ("datasets", "params")}
        params |= {param["name"]: param for param in part.spec.get("params", ()) if "select" not in param}
        datasets |= part.spec.get("datasets", {}) | {f"rows{number}": records(part.rows)}
        panels.append(spec | {"data": {"name": f"rows{number}"}})
        if part.label:
            heading = {"text": _lines(part.label, LABEL, width), "subtitle": []}
            for sentence in part.says.split(" · ") if part.says else ():
                heading["subtitle"] += _lines(sentence, LABEL, width)
            panels[-1]["title"] = heading
    figure = {
        "params": [
            {"name": name, "value": values.get(name) if values.get(name) is not None else param.get("value")}
            for name, param in params.items()
        ],
        "datasets": datasets,
    }
    shared = {"resolve": {"scale": dict.fromkeys(("color", "shape", "strokeDash"), "shared")}, "spacing": GAP}

    def grid(inner: float) -> dict[str, Any]:
        sized = [_sized(panel, inner, panel.get("height", 160)) | {"width": inner} for panel in panels]
        return {"concat": sized, "columns": columns, **shared}

    # Vega gives a panel's width without its axes: what the axes take is measured first
    room = size.pixels - 2 * MARGIN
    inner = max(40.0, width - 60)
    taken, _, _ = _rendered(figure | grid(inner))
    inner = max(40.0, inner + (room - taken) / columns - 1)
    names = params.get("room", {}).get("value", 0)  # that are cut need a legend
    is_named = named and inner >= NARROW and 0 < names < min(MOST_ROOM, 0.4 * inner)
    if legend is not None and not is_named:
        panels = [_with_legends(panel, legend, parts, size.pixels) for panel in panels]
    rows: list[dict[str, Any]] = [grid(inner)]
    for note in notes:
        lines = _lines(note, LABEL, size.pixels - width + inner)
        mark = {"type": "text", "text": lines, "align": "left", "baseline": "top", "fontSize": LABEL, "color": _QUIET}
        rows.append(
            {"data": {"values": [{}]}, "mark": mark, "encoding": {"x": {"value": 0}, "y": {"value": 0}},
             "width": inner, "height": 14 * len(lines), "view": {"stroke": None}}
        )  # fmt: skip
    if title:
        text = _lines(title, 13.5, size.pixels - width + inner)
        figure["title"] = {"text": text, "anchor": "start", "fontSize": 13.5, "offset": 12}
    across, height, body = _rendered(figure | {"vconcat": rows, "spacing": 10, "bounds": "full"})
    across = max(across, room) + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="{size.width:g}mm" '
        f'height="{height * size.width / across:.2f}mm" viewBox="0 0 {across:.2f} {height:.2f}" '
        f'font-family="{escape(FONTS)}">'
        f'<rect width="100%" height="100%" fill="{_THEME["background"]}"/>'
        f'<g transform="translate({MARGIN:g},0)">{body}</g></svg>\n'
    )


def _rendered(spec: Mapping[str, Any]) -> tuple[float, float, str]:
    """Return width, height and content of a spec's SVG."""
    import vl_convert

    spec = {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", **_writable_in(spec)}
    config = _THEME | {"title": {"anchor": "start", "frame": "group", "fontSize": LABEL, "subtitleFontSize": LABEL,
                                 "subtitleColor": _QUIET, "offset": 8}}  # fmt: skip
    svg = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE, config=config, show_warnings=False)
    match = re.match(r"<svg[^>]*?viewBox=\"([^\"]*)\"[^>]*>(.*)</svg>\s*$", svg, re.DOTALL)
    if match is None:
        raise ValueError("the drawing is no SVG with a viewBox")
    _, _, width, height = (float(number) for number in match[1].split())
    return width, height, writable(match[2])


def _mapped(spec: Any, change: Callable[[dict[str, Any]], Any]) -> Any:
    """Return a spec in which each mapping was changed, the inner ones first; data stay as they are."""
    if isinstance(spec, list):
        return [_mapped(part, change) for part in spec]
    if not isinstance(spec, Mapping):
        return spec
    return change({name: part if name == "datasets" else _mapped(part, change) for name, part in spec.items()})


def _with_legends(spec: Any, title: str, parts: Sequence[FigurePanel], width: float) -> Any:
    """Return a spec in which the columns that have a colour have a legend, of a width, of the values that occur."""

    def change(spec: dict[str, Any]) -> dict[str, Any]:
        channels = {
            channel: encoding
            for channel in ("color", "shape", "strokeDash")
            if isinstance(encoding := spec.get("encoding", {}).get(channel), Mapping) and "field" in encoding
        }
        for channel, encoding in channels.items():
            field = encoding["field"]
            if "color" not in channels or field != channels["color"]["field"]:
                continue
            sized = {"labelFontSize": LABEL, "titleFontSize": LABEL}
            legend: dict[str, Any] = {"orient": "top", "title": title or None, **sized}
            if encoding.get("type") == "quantitative":
                spec["encoding"].pop("stroke", None)  # a second channel of the same scale makes it a legend of dots
                legend |= {"type": "gradient", "gradientLength": 140, "gradientThickness": 8, "titleLimit": 600}
                legend |= {"columns": max(1, int(width / 60))}  # a logarithmic scale has a legend of dots
            else:
                present = {str(value) for part in parts if field in part.rows for value in part.rows[field].dropna()}
                domain = encoding.get("scale", {}).get("domain", sorted(present))
                shown = [value for value in domain if value in present]
                if not shown:  # a legend of nothing has no finite bounds
                    continue
                legend |= {
                    "values": shown,
                    "columns": max(1, int(width / (SYMBOL + 0.55 * LABEL * max(8, *map(len, shown), 8)))),
                    "symbolOpacity": 1,
                    "symbolSize": 70,
                    "labelLimit": 400,
                    "labelExpr": r"replace(replace(datum.label, /_share$/, ' types'), /^(model|side) /, '')",
                }
            spec["encoding"][channel] = {**encoding, "legend": legend}
        return spec

    return _mapped(spec, change)


def _sized(spec: Any, width: float, height: float) -> Any:
    """Return a spec whose expressions have its width and height as numbers: a part of a figure has no such signals."""

    def change(spec: dict[str, Any]) -> dict[str, Any]:
        if isinstance(font := spec.get("fontSize"), int | float) and SIGN < font < LABEL:
            return spec | {"fontSize": LABEL}
        return {
            name: re.sub(r"(?<!\.)\bheight\b", f"{height:g}", re.sub(r"(?<!\.)\bwidth\b", f"{width:g}", text))
            if name in ("expr", "calculate") and isinstance(text, str)
            else text
            for name, text in spec.items()
        }

    return _mapped(spec, change)


def _lines(text: str, size: float, width: float) -> list[str]:
    """Break a text into lines of about a width; Vega cuts off what a font makes wider."""
    return textwrap.wrap(writable(text), max(8, int(width / (0.55 * size))))


def records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as JSON has them; NULL and infinity are None."""
    columns = {str(name): [_json_value(value) for value in rows[name].tolist()] for name in rows.columns}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _json_value(value: Any) -> Any:
    if is_null(value) or (isinstance(value, float) and math.isinf(value)):
        return None
    return value if isinstance(value, str | bool | int | float) else str(value)


def writable(text: str) -> str:
    """Return a text without what XML cannot hold, and without what turns the direction of reading around."""
    return _UNWRITABLE.sub("", text)


def _writable_in(spec: Any) -> Any:
    """Return a spec whose texts can be written: the converter dies of a token that XML cannot hold."""
    if isinstance(spec, Mapping):
        return {name: _writable_in(part) for name, part in spec.items()}
    if isinstance(spec, list | tuple):
        return [_writable_in(part) for part in spec]
    return writable(spec) if isinstance(spec, str) else spec


def as_pdf(svg: str) -> bytes:
    """Return a figure as PDF, its fonts embedded; a page as large as the figure."""
    import vl_convert

    # the converter makes a point of each pixel, whatever the unit: its pixels have to be points
    points = _MILLIMETRES.sub(lambda match: f'{match[1]}="{float(match[2]) * 72 / 25.4:.4f}"', svg, count=2)
    pdf: bytes = vl_convert.svg_to_pdf(points)
    return pdf


def as_png(svg: str) -> bytes:
    """Return a figure as PNG of 300 dots to the inch, which the file itself says."""
    import vl_convert

    png: bytes = vl_convert.svg_to_png(svg, scale=72 / 96, ppi=DOTS_PER_INCH)
    return png


# Figures of a report.


@dataclass(frozen=True)
class Figure:
    """A chart with what of it is shown.

    Args:
        drawn: the chart, read and drawn.
        scene: what all charts of its page share.
        choice: where the controls stand.
        lead: what stands before its title, such as ``Figure 3.``
        source: where its numbers are from, for the caption.
    """

    drawn: Drawn
    scene: Scene
    choice: Choice
    lead: str = ""
    source: str = ""

    @property
    def quantity(self) -> str:
        """Its title with the unit."""
        title, unit = self.drawn.title_for(picked(self.drawn, self.choice)), self.drawn.chart.unit
        return f"{capitalised(title)}{f' ({unit})' if unit else ''}"

    @property
    def title(self) -> str:
        """Its title, with its number."""
        return f"{self.lead} {self.quantity}".strip()

    def panels(self) -> list[tuple[Panel, pd.DataFrame]]:
        """Return its panels, each with the rows that it draws."""
        return panels_shown(self.drawn, self.scene, self.choice)

    def sentences(self) -> list[str]:
        """Say what is shown and what it rests on, in words that need no page beside them."""
        drawn, scene, choice = self.drawn, self.scene, self.choice
        chart, panels, follows = drawn.chart, self.panels(), drawn.follows
        shown = [rows for _, rows in panels if len(rows)]
        n = [int(value) for rows in shown if "n" in rows for value in rows["n"].dropna()]
        picks = picked(drawn, choice)
        offered = [pick for pick in drawn.picks if len(pick.choices) > 1 and pick.name not in ("axis", "axes")]
        selected = "; ".join(f"{pick.label.lower()}: {pick.choices[picks[pick.name]]}" for pick in offered)
        sentences = [capitalised(folded(chart.definition)[0]), capitalised(selected)]
        if "view" in drawn.frame and choice.view:
            sentences.append(f"Computed from {VIEWS.get(choice.view, f'the token set {choice.view}')}")
        if chart.facet == "corpus" and not chart.chapter and len(drawn.panels) == 1:
            sentences.append(f"Corpus: {drawn.panels[0].label}")
        if "moment" in follows and len(scene.moments) > 1:
            sentences.append(f"Checkpoint: {scene.moments[choice.moment].label}")
        if "site" in follows and choice.site == ATTENTION:
            sentences.append("States are read after attention")
        sentences.append(self.hollow)
        if empty := [panel.label for panel, rows in panels if not _has_numbers(drawn, rows)]:
            sentences.append(f"No numbers: {', '.join(empty)}")
        if chart.interval and any("ci_low" in rows and rows["ci_low"].notna().any() for rows in shown):
            sentences.append(f"Intervals: {folded(chart.interval, IN_INTERVAL)[0]}")
        if n:
            sentences.append(f"n = {' to '.join(dict.fromkeys((whole(min(n)), whole(max(n)))))}")
        if drawn.kept:
            sentences.append(f"Downsampled: {drawn.kept}")
        return [f"{sentence.rstrip('.')}." for sentence in sentences if sentence]

    @property
    def hollow(self) -> str:
        """The meaning of hollow marks; empty where there are none."""
        shown = [rows for _, rows in self.panels() if self.drawn.chart.kind == "profile"]
        open_marks = any("undetermined" in rows and rows["undetermined"].any() for rows in shown)
        is_final = any("site" in rows and (rows["site"] == "final").any() for rows in shown)
        meanings = ["values that are not determined"] * open_marks + ["the state after the final norm"] * is_final
        return f"Hollow marks: {', or '.join(meanings)}" if meanings else ""

    def spec(self, rows: pd.DataFrame, width: float) -> dict[str, Any]:
        """Return the Vega-Lite of a panel without its rows; its axis says what the numbers are."""
        drawn, picks = self.drawn, picked(self.drawn, self.choice)
        if isinstance(drawn.chart.draw, str):
            return points_spec(drawn.options, rows, picks, width)
        variant = "log" if picks.get("axis") == "log" else "" if "axis" in picks else picks.get("variant", "")
        spec = drawn.specs.get(variant) or next(iter(drawn.specs.values()))
        height = spec.get("height", 160)
        return dict(_titled(spec, {"x": [self.quantity], "y": _lines(self.quantity, LABEL, height)}))

    def values(self, panels: Sequence[tuple[Panel, pd.DataFrame]]) -> dict[str, Any]:
        """Return the values of the specs' parameters."""
        reach = axis_shown(self.drawn, self.scene, self.choice)
        values: dict[str, Any] = {"at": -1}  # the slider is the page's
        values |= {"low": reach.low, "high": reach.high, "note": reach.note} if reach else {}
        picks = picked(self.drawn, self.choice)
        return values | {name[1:]: value for name, value in picks.items() if name.startswith("$")}


def figure_svg(figure: Figure, size: FigureSize, bare: bool = False) -> str:
    """Draw a figure."""
    drawn = figure.drawn
    if drawn.chart.draw == "table":
        raise ValueError("it is a table and no drawing")
    panels = [(panel, rows) for panel, rows in figure.panels() if _has_numbers(drawn, rows)]
    if not panels:
        raise ValueError("there are no numbers for this choice")
    width = size.panel(len(panels))
    says = {} if bare else captions_of(drawn, figure.scene, figure.choice)
    parts = [
        FigurePanel(figure.spec(rows, width), rows, _label(figure, panel, rows), says.get(panel.value, ""))
        for panel, rows in panels
    ]
    caption = " ".join([*map(as_plain, figure.sentences()), figure.source]).strip()
    return compose(
        parts,
        size,
        figure.values(panels),
        title="" if bare else figure.title,
        notes=[note for note in ([figure.hollow] if bare else [caption]) if note],
        legend=LEGENDS.get(drawn.chart.legend, ""),
        named=drawn.chart.kind in NAMED and (figure.choice.baselines == WITHOUT or not figure.scene.styles.baselines),
    )


def preview_png(figure: Figure, title: str, sentence: str) -> bytes:
    """Return the picture that a link to a report shows: the report's title, a sentence, and below them a figure."""
    import vl_convert

    width, height = PREVIEW
    lines = _lines(sentence, 36, width - 2 * PREVIEW_MARGIN)[:3]
    texts = [
        (title, 24, 400, _QUIET, 64),
        *((line, 36, 700, _THEME["text"]["color"], 118 + 44 * row) for row, line in enumerate(lines)),
    ]
    top = 96 + 44 * len(lines)
    room = f'x="{PREVIEW_MARGIN}" y="{top}" width="{width - 2 * PREVIEW_MARGIN}" height="{height - top - 24}"'
    drawn = re.sub(r'width="[^"]*" height="[^"]*"', room, figure_svg(figure, PREVIEW_FIGURE, bare=True), count=1)
    words = "".join(
        f'<text x="{PREVIEW_MARGIN}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{fill}">'
        f"{escape(writable(text))}</text>"
        for text, size, weight, fill, y in texts
    )
    png: bytes = vl_convert.svg_to_png(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="{escape(FONTS)}">'
        f'<rect width="100%" height="100%" fill="{_THEME["background"]}"/>{words}{drawn}</svg>',
        scale=1,
        ppi=72,
    )
    return png


def panel_spec(figure: Figure, panel: Panel, rows: pd.DataFrame, width: float) -> dict[str, Any]:
    """Return one panel of a figure as a whole Vega-Lite chart, with its rows, its legend and the light theme."""
    part = FigurePanel(figure.spec(rows, width), rows)
    values = figure.values([(panel, rows)])
    params = [param | {"value": values.get(param["name"], param.get("value"))} for param in part.spec.get("params", ())]
    return {
        **_with_legends(part.spec, "", [part], width),
        "title": f"{figure.title}: {panel.label}" if panel.label else figure.title,
        "config": THEMES["light"],
        "datasets": part.spec.get("datasets", {}) | {"rows": records(rows)},
        "data": {"name": "rows"},
        "params": params,
        "width": width,
    }


def _label(figure: Figure, panel: Panel, rows: pd.DataFrame) -> str:
    place = layer_shown(rows, figure.choice) if figure.drawn.chart.by_layer and len(rows) else None
    names = {"embedding": "embedding", "final": "after the final norm"}
    where = names.get(place[0], f"layer {place[1]}") if place else ""
    return " · ".join(part for part in (panel.label, where) if part)


def _has_numbers(drawn: Drawn, rows: pd.DataFrame) -> bool:
    value = drawn.chart.value
    return bool(rows[value].notna().any()) if value in rows else bool(len(rows))


def _titled(spec: Any, titles: Mapping[str, list[str]]) -> Any:
    """Return a spec whose untitled number axes have a title."""

    def change(spec: dict[str, Any]) -> dict[str, Any]:
        for axis in titles.keys() & spec.get("encoding", {}).keys():
            channel = spec["encoding"][axis]
            if channel.get("type") == "quantitative" and channel.get("title", "") is None:
                spec["encoding"][axis] = channel | {"title": titles[axis]}
        return spec

    return _mapped(spec, change)


def capitalised(text: str) -> str:
    """Return a text that begins with a capital, unless it begins with a name or a sign of mathematics."""
    word = text.partition(" ")[0]
    is_word = word[:2].isascii() and word[:2].isalpha() and not {"_", "("} & set(word)
    return text[:1].upper() + text[1:] if is_word else text


def points_spec(
    options: Mapping[str, Any], rows: pd.DataFrame, picks: Mapping[str, str], width: float
) -> dict[str, Any]:
    """Return the Vega-Lite of points that the page draws without Vega: two dimensions, in one scale both ways."""
    axes = {"xz": ("x", "z"), "yz": ("y", "z")}.get(picks.get("axes", ""), ("x", "y"))
    x, y = (str(options.get(axis, axis)) for axis in axes)
    names = dict(zip("xyz", options.get("axisNames", ("", "", "")), strict=False))
    by = str(next(iter(options.get("colour", ())), ""))
    is_mean = rows["mean"].astype(bool) if "mean" in rows and options.get("arrows") else None
    dots = rows[~is_mean] if is_mean is not None else rows
    origin = [0.0] if options.get("origin") else []
    places = {name: [*dots[name].dropna().astype(float), *origin] or [0.0, 1.0] for name in (x, y)}
    ends = {name: (min(values), max(values)) for name, values in places.items()}
    height = min(float(options.get("height", 380)), width)
    unit = 1.08 * max((ends[x][1] - ends[x][0]) / width, (ends[y][1] - ends[y][0]) / height) or 1 / width

    def axis(field: str, pixels: float, name: str) -> dict[str, Any]:
        middle = sum(ends[field]) / 2
        scale = {"domain": [middle - unit * pixels / 2, middle + unit * pixels / 2], "nice": False, "zero": False}
        return {"field": field, "type": "quantitative", "scale": scale, "title": name or None, "axis": {"grid": False}}

    place = {"x": axis(x, width, names.get(axes[0], "")), "y": axis(y, height, names.get(axes[1], ""))}
    color: dict[str, Any] = {}
    if by in dots:
        domain = list(options.get("values", {}).get(by, ())) or list(dict.fromkeys(map(str, dots[by])))
        is_ramp = by in options.get("ramps", ())
        scale = {"range": list(RAMP)} if is_ramp else {"domain": domain, "range": colours(len(domain))}
        color = {"color": {"field": by, "type": "quantitative" if is_ramp else "nominal", "scale": scale}}
    layers: list[dict[str, Any]] = []
    if options.get("joined"):
        order = {"order": {"field": by, "type": "quantitative"}}
        layers.append({"mark": {"type": "line", "strokeWidth": 0.8, "color": FLOOR_GREY}, "encoding": place | order})
    mark = {"type": "point", "filled": True, "size": 22, "opacity": 0.75, "clip": True}
    layers.append({"mark": mark, "encoding": place | color})
    if is_mean is not None:
        layers[-1]["transform"] = [{"filter": "!datum.mean"}]
        tips: dict[str, Any] = {"transform": [{"filter": "datum.mean"}], "encoding": place | color}
        rule = place | color | {"x2": {"datum": 0}, "y2": {"datum": 0}}
        layers.append({**tips, "encoding": rule, "mark": {"type": "rule", "strokeWidth": 2}})
        layers.append({**tips, "mark": {"type": "point", "filled": True, "shape": "diamond", "size": 70}})
    return {"height": height, "layer": layers}
