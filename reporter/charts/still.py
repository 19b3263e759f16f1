"""Charts that stand still: a drawing as SVG, made without a browser."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reporter.charts.numbers import is_null
from reporter.charts.styles import FLOOR_GREY, RAMP, THEMES, colours

if TYPE_CHECKING:
    import pandas as pd

VEGA_LITE = "6.4"
"""The Vega-Lite of Altair 6; a spec must be read by the version it was written for."""
FONTS = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
"""Helvetica, or a font of the same widths: one of them is on every machine and in the converter."""

# XML 1.0 has no way to write these
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Still:
    """A drawing.

    Args:
        width: in the pixels of its drawing.
        height: likewise.
        body: what stands inside of its ``<svg>``.
    """

    width: float
    height: float
    body: str


def draw_still(
    spec: Mapping[str, Any], rows: pd.DataFrame, width: float, values: Mapping[str, Any], name: str, height: float = 0
) -> Still:
    """Draw a Vega-Lite chart in the light theme.

    Args:
        spec: the chart; its dataset ``rows`` is filled here.
        rows: its rows.
        width: how wide it is, axes included.
        values: of its parameters; what it has no parameter for is left out.
        name: begins the ids of what the drawing refers to, so that several can stand in one SVG.
        height: in place of the chart's own.
    """
    import vl_convert

    own = _writable_in(filled(spec, rows, width, values, height))  # the converter dies of a token that XML cannot hold
    svg: str = vl_convert.vegalite_to_svg(
        own, vl_version=VEGA_LITE, config=THEMES["light"] | {"font": FONTS}, show_warnings=False
    )
    return _inside(svg, name)


def filled(
    spec: Mapping[str, Any], rows: pd.DataFrame, width: float, values: Mapping[str, Any], height: float = 0
) -> dict[str, Any]:
    """Return a Vega-Lite chart with its rows in it; see :func:`draw_still`."""
    own = copy.deepcopy(dict(spec))
    own["datasets"] = {**own.get("datasets", {}), "rows": records(rows)}
    for param in own.get("params", ()):
        if values.get(param["name"]) is not None:
            param["value"] = values[param["name"]]
    # a page marks the layer of its slider; here none moves
    if "layer" in own:
        own["layer"] = [one for one in own["layer"] if _datum(one) != {"expr": "at"}]
    own["width"] = width if own.get("width") == "container" else own.get("width", width)
    if height:
        own["height"] = height
    return own


def records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as JSON knows them; NULL is None."""
    columns = {str(name): [_plain(value) for value in rows[name].tolist()] for name in rows.columns}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def points_spec(
    options: Mapping[str, Any], rows: pd.DataFrame, picks: Mapping[str, str], width: float
) -> dict[str, Any]:
    """Return the Vega-Lite of points that the page draws itself: two dimensions of them, in one scale both ways.

    Args:
        options: those of the chart.
        rows: what is drawn; rows whose ``mean`` is true are arrows from the origin.
        picks: what the chart's selectors say.
        width: how wide the drawing will be.
    """
    axes = {"xz": ("x", "z"), "yz": ("y", "z")}.get(picks.get("axes", ""), ("x", "y"))
    x, y = (str(options.get(axis, axis)) for axis in axes)
    names = dict(zip("xyz", options.get("axisNames", ("", "", "")), strict=False))
    by = str(next(iter(options.get("colour", ())), ""))
    arrows = rows["mean"].astype(bool) if "mean" in rows and options.get("arrows") else None
    dots = rows[~arrows] if arrows is not None else rows
    spread = dots[[x, y]].dropna()
    ends = {
        name: [float(spread[name].min()), float(spread[name].max())] if len(spread) else [0.0, 1.0] for name in (x, y)
    }
    if options.get("origin"):
        ends = {name: [min(low, 0.0), max(high, 0.0)] for name, (low, high) in ends.items()}
    height = min(float(options.get("height", 380)), width)
    unit = 1.08 * max((ends[x][1] - ends[x][0]) / width, (ends[y][1] - ends[y][0]) / height) or 1 / width

    def axis(field: str, pixels: float, name: str) -> dict[str, Any]:
        middle = sum(ends[field]) / 2
        scale = {"domain": [middle - unit * pixels / 2, middle + unit * pixels / 2], "nice": False, "zero": False}
        return {"field": field, "type": "quantitative", "scale": scale, "title": name or None, "axis": {"grid": False}}

    place = {"x": axis(x, width, names.get(axes[0], "")), "y": axis(y, height, names.get(axes[1], ""))}
    ramp = by in options.get("ramps", ())
    told = list(options.get("values", {}).get(by, ())) or list(dict.fromkeys(map(str, dots[by]) if by in dots else ()))
    scale = {"range": list(RAMP)} if ramp else {"domain": told, "range": colours(len(told))}
    colour = {"color": {"field": by, "type": "quantitative" if ramp else "nominal", "scale": scale, "legend": None}}
    colour = colour if by in dots else {}
    mark = {"type": "point", "filled": True, "size": 22, "opacity": 0.75, "clip": True}
    layers: list[dict[str, Any]] = []
    if options.get("joined"):
        order: dict[str, Any] = {"order": {"field": by, "type": "quantitative"}}
        line = {"type": "line", "strokeWidth": 0.8, "color": FLOOR_GREY}
        layers.append({"mark": line, "encoding": place | order})
    layers.append({"mark": mark, "encoding": {**place, **colour}})
    if arrows is not None:
        layers[-1]["transform"] = [{"filter": "!datum.mean"}]
        tips: dict[str, Any] = {"transform": [{"filter": "datum.mean"}], "encoding": {**place, **colour}}
        rule = {**place, **colour, "x2": {"datum": 0}, "y2": {"datum": 0}}
        layers.append({**tips, "encoding": rule, "mark": {"type": "rule", "strokeWidth": 2}})
        layers.append({**tips, "mark": {"type": "point", "filled": True, "shape": "diamond", "size": 70}})
    return {"data": {"name": "rows"}, "width": "container", "height": height, "layer": layers}


def _datum(layer: Mapping[str, Any]) -> Any:
    x = layer.get("encoding", {}).get("x", {})
    return x.get("datum") if isinstance(x, Mapping) else None


def _inside(svg: str, name: str) -> Still:
    found = re.match(r"<svg[^>]*?viewBox=\"([^\"]*)\"[^>]*>(.*)</svg>\s*$", svg, re.DOTALL)
    if found is None:
        raise ValueError("the drawing is no SVG with a viewBox")
    _, _, width, height = (float(part) for part in found[1].split())
    body = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", writable(found[2]))
    return Still(width, height, body)


def _plain(value: Any) -> Any:
    if is_null(value) or (isinstance(value, float) and value in (float("inf"), float("-inf"))):
        return None
    return value if isinstance(value, str | bool | int | float) else str(value)


def _writable_in(spec: Any) -> Any:
    if isinstance(spec, Mapping):
        return {name: _writable_in(part) for name, part in spec.items()}
    if isinstance(spec, list | tuple):
        return [_writable_in(part) for part in spec]
    return writable(spec) if isinstance(spec, str) else spec


def writable(text: str) -> str:
    """Return a text without what XML cannot hold, and without what turns the direction of reading around."""
    return _UNWRITABLE.sub("", text)


def found_in(spec: Any, field: str) -> Sequence[tuple[str, str]] | None:
    """Return what a drawing tells apart by a column, with its colours; None where it does not.

    Args:
        spec: Vega-Lite, or a part of it.
        field: the column.
    """
    if isinstance(spec, Mapping):
        scale = spec.get("scale")
        if spec.get("field") == field and isinstance(scale, Mapping) and "domain" in scale and "range" in scale:
            return list(zip(map(str, scale["domain"]), scale["range"], strict=False))
    parts = spec.values() if isinstance(spec, Mapping) else spec if isinstance(spec, list) else ()
    return next((found for part in parts if (found := found_in(part, field)) is not None), None)
