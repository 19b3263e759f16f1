"""Reads and draws charts, chooses the rows that a panel shows, and packs rows for a page.

The page's script chooses the same rows for a reader who moves the controls (``Chart.rows`` in ``templates/panels.js``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.charts.axes import CLOSE, FIXED, FLAT, LOG, Axis, axes_of, hull, reaches_of
from reporter.charts.chart import WHO, Chart, Draw, Drawn, Read, filled
from reporter.charts.layout import ATTENTION, MEAN, PATH, WITH, WITHOUT, Panel, Pick, Scene, panels_of
from reporter.charts.profile import BLANK, features, profile, worded
from reporter.charts.styles import Styles, alt, ordered, unvalidated
from reporter.core.errors import failures, is_out_of_memory, with_type
from reporter.core.numbers import is_null

if TYPE_CHECKING:
    import pandas as pd

INTEGERS = ("step", "layer", "layers", "layer_a", "layer_b", "scale", "rank", "count", "n")
"""Columns that are whole numbers in the database; pandas would show them as floats where one is NULL."""
NUMBERS = ("depth", "part", "value", "ci_low", "ci_high", "floor", "p", "norm_of_mean", "variance", "rho")
SITES = ("embedding", "block", "final")
DIGITS = 6
"""Significant digits of a page's rows: enough for a picture. The CSV beside the page has all of them."""
Sample = Callable[[str, Chart, Read], tuple[str, str]]
"""Makes of a chart's query one whose rows a page can carry, and says which rows it keeps."""


def read_chart(read: Read, chart: Chart, open: bool = True, sample: Sample | None = None, **values: str) -> Drawn:
    """Run a chart's query; it is drawn later, when the database is closed again."""
    import pandas as pd

    sql = chart.query
    try:
        sql = filled(sql, **values)
        sql, kept = sample(sql, chart, read) if sample else (sql, "")
        return Drawn(chart, sql, typed(read(sql)), open=open, kept=kept)
    except failures() as error:  # one broken query must not take the page down
        if is_out_of_memory(error):  # nothing is broken: the report is written where there is more
            raise
        return Drawn(chart, sql, pd.DataFrame(), open=open, error=with_type(error))


def draw_chart(drawn: Drawn, scene: Scene) -> Drawn:
    """Return a chart with drawings, selectors and captions; an error is shown in the chart's place."""
    chart, frame = drawn.chart, drawn.frame
    no_number = chart.chapter is None and chart.value in frame and not frame[chart.value].notna().any()
    if frame.empty or no_number:
        return drawn
    try:
        names = {name.removeprefix(f"{chart.id.partition('.')[0]}."): name for name in scene.statistics}
        own = {name: scene.statistics[full] for name, full in names.items() if "." not in name}
        picks = chart.picks(frame, replace(scene, statistics=own))
        panels = [] if chart.chapter else panels_of(frame, chart.facet, scene)
        with unvalidated():
            specs = {name: _spec(make, frame, scene.styles) for name, make in _variants(chart, picks)}
        drawn = replace(drawn, specs=specs, panels=panels, picks=picks, named=scene.styles.named)
        if chart.reach:
            reaches = reaches_of(frame, chart.reach, scene, picks)
            drawn = replace(drawn, axes=axes_of(frame, chart.reach, scene), reaches=reaches)
        return replace(drawn, captions=captions_of(drawn, scene, first_choice(scene)))
    except failures() as error:  # one broken chart must not take the page down
        if is_out_of_memory(error):
            raise
        return replace(drawn, error=with_type(error))


def _variants(chart: Chart, picks: Sequence[Pick]) -> list[tuple[str, Draw]]:
    """Return the drawings that are offered, first the one with which the chart opens."""
    axes = next((list(pick.choices) for pick in picks if pick.name == "axis"), None)
    drawings = [(name, make) for name, make in chart.drawings.items() if axes is None or name != LOG or name in axes]
    return sorted(drawings, key=lambda drawing: axes is not None and (drawing[0] == LOG) != (axes[0] == LOG))


_profiles: dict[Any, str] = {}


def _spec(make: Draw, frame: pd.DataFrame, styles: Styles) -> dict[str, Any]:
    """Return the Vega-Lite of a drawing. Most are profiles alike but for words, which Altair takes 30 ms to make."""
    if not isinstance(make, partial) or make.func is not profile:
        return bare_spec(make(frame, styles))
    subject, log = make.keywords["subject"], make.keywords.get("log", False)
    key = (styles, log, subject.per, features(frame, subject))
    if key not in _profiles:
        names = {subject.name: BLANK.name, f"{subject.name}_floor": f"{BLANK.name}_floor"}
        blank = frame.assign(statistic=frame["statistic"].map(names))
        _profiles[key] = json.dumps(bare_spec(profile(blank, styles, replace(BLANK, per=subject.per), log)))
    return worded(_profiles[key], subject)


def bare_spec(chart: Any) -> dict[str, Any]:
    """Return the chart's Vega-Lite without data and theme; its rows are expected under the name ``rows``."""
    chart.data = alt.NamedData(name="rows")
    spec: dict[str, Any] = chart.to_dict(validate=False)
    for key in ("$schema", "config"):
        spec.pop(key, None)
    return spec


def typed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with the same types whatever is NULL in it, so that a CSV says 512 and not 512.0."""
    from pandas.api.types import is_numeric_dtype

    kinds = {}
    for name, column in frame.items():
        is_number = name in NUMBERS or name in INTEGERS or str(column.dtype).startswith("int")
        if is_number and (is_numeric_dtype(column) or not column.notna().any()):  # a text stays one
            kinds[name] = "float64" if name in NUMBERS else "Int64"
    return frame.astype(kinds)


# Which rows a panel shows.


@dataclass(frozen=True)
class Choice:
    """The positions of a page's controls.

    Args:
        view: the token set.
        moment: position of the checkpoint slider.
        site: ``path`` or ``attention``.
        baselines: ``with`` or ``without``.
        layer: of charts that show one layer at a time; None for the middle one, as on the page.
        picks: values of a chart's own selectors by name; selectors that are left out have their first value.
    """

    view: str
    moment: int
    site: str = PATH
    baselines: str = WITH
    layer: int | None = None
    picks: Mapping[str, str] = field(default_factory=dict)


def first_choice(scene: Scene) -> Choice:
    """Return what a page shows when it opens."""
    return Choice(scene.views[0] if scene.views else "", len(scene.moments) - 1)


def picked(drawn: Drawn, choice: Choice) -> dict[str, str]:
    """Return the value of each selector of a chart; values that a selector does not offer are ignored."""
    first = {pick.name: next(iter(pick.choices), "") for pick in drawn.picks}
    offered = {pick.name: pick.choices for pick in drawn.picks}
    return first | {name: value for name, value in choice.picks.items() if value in offered.get(name, ())}


def panels_shown(drawn: Drawn, scene: Scene, choice: Choice) -> list[tuple[Panel, pd.DataFrame]]:
    """Return the panels that a choice leaves, with their rows; in a chapter a panel for each model, or one for all."""
    hidden = set(scene.styles.baselines) if choice.baselines == WITHOUT else set()
    picks, instead = picked(drawn, choice), drawn.chart.options.get("instead")
    if drawn.chart.chapter is not None:
        panels = [Panel("", "")] if drawn.chart.together else _of_models(drawn, scene, choice)
    else:
        panels = list(drawn.panels)
        for pick in drawn.picks:
            if pick.shows:
                panels = [panel for panel in panels if panel.value in pick.shows.get(picks[pick.name], ())]
    panels = [panel for panel in panels if not hidden & set(panel.models)]
    rows_of = _rows_by_panel(drawn, scene, choice, picks)
    shown = [(panel, rows_of(panel)) for panel in panels]
    if not instead or not any(rows.empty for _, rows in shown):
        return shown
    # A model of one kind of vectors has no picture of several.
    column = instead["column"]
    picks = picks | {column: instead["values"].get(picks.get(column), "")}
    instead_of = _rows_by_panel(drawn, scene, choice, picks)
    return [(panel, instead_of(panel) if rows.empty else rows) for panel, rows in shown]


def _of_models(drawn: Drawn, scene: Scene, choice: Choice) -> list[Panel]:
    shown = scene.moments[choice.moment].shown if scene.moments else {}
    last: dict[str, str] = {}
    for model, checkpoint in drawn.who:
        if last.get(model) != shown.get(model) or model not in last:
            last[model] = checkpoint
    names = ordered(list(last), scene.styles.names)
    return [Panel(f"{name}|{last[name]}", name, (name,)) for name in names]


def layer_shown(rows: pd.DataFrame, choice: Choice) -> tuple[str, int] | None:
    """Return the site and layer that a chart of one layer at a time shows, of a model's rows; None without any."""
    pairs = {(str(site), int(layer)) for site, layer in rows[["site", "layer"]].dropna().itertuples(index=False)}
    sites = (ATTENTION,) if choice.site == ATTENTION else SITES
    stops = sorted((pair for pair in pairs if pair[0] in sites), key=lambda pair: (sites.index(pair[0]), pair[1]))
    if choice.layer is not None:
        return next((stop for stop in stops if stop[1] == choice.layer and stop[0] != "final"), None)
    return stops[(len(stops) - 1) // 2] if stops else None


def _rows_by_panel(
    drawn: Drawn, scene: Scene, choice: Choice, picks: Mapping[str, str]
) -> Callable[[Panel], pd.DataFrame]:
    """Return a function that chooses the rows of a panel."""
    chart, frame = drawn.chart, drawn.frame
    if not chart.by_layer:
        return _divided(chart, _chosen(frame, drawn, scene, choice, picks))
    of_panel = _divided(chart, frame)  # which layers there are depends on the panel, whatever else is chosen
    return lambda panel: _chosen(_of_layer(of_panel(panel), choice), drawn, scene, choice, picks)


def _divided(chart: Chart, rows: pd.DataFrame) -> Callable[[Panel], pd.DataFrame]:
    """Return a function that takes the rows of a panel."""
    if not chart.facet if chart.chapter is None else chart.together:
        return lambda panel: rows
    columns = [chart.facet] if chart.chapter is None else ["model", "checkpoint"]
    places: dict[str, list[int]] = {}
    for place, key in enumerate(zip(*(rows[column].tolist() for column in columns), strict=True)):
        places.setdefault("|".join(map(str, key)), []).append(place)
    return lambda panel: rows.take(places.get(panel.value, []))


def _of_layer(rows: pd.DataFrame, choice: Choice) -> pd.DataFrame:
    place = layer_shown(rows, choice)
    return rows[(rows["site"] == place[0]) & (rows["layer"] == place[1])] if place else rows[:0]


def _chosen(rows: pd.DataFrame, drawn: Drawn, scene: Scene, choice: Choice, picks: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows that the page's controls and the chart's selectors leave, taken from the frame at once."""
    follows, kept = drawn.follows, np.ones(len(rows), bool)
    if "view" in rows and choice.view:
        kept &= [view == choice.view for view in rows["view"].tolist()]
    if "site" in follows:
        kept &= [(site == ATTENTION) == (choice.site == ATTENTION) for site in rows["site"].tolist()]
    for model, checkpoint in WHO:
        if model not in rows:
            continue
        models = rows[model].tolist()
        if checkpoint in rows and "moment" in follows and scene.moments:
            shown = scene.moments[choice.moment].shown
            who = zip(models, rows[checkpoint].tolist(), strict=True)
            kept &= [name in shown and shown[name] == stored for name, stored in who]
        if choice.baselines == WITHOUT:
            kept &= [name not in scene.styles.baselines for name in models]
    for name, value in picks.items():
        columns = name.split("|")
        if set(columns) <= set(rows.columns):
            keys = list(zip(*(rows[column].tolist() for column in columns), strict=True))
            selected = {key for key in set(keys) if "|".join(MEAN if is_null(x) else str(x) for x in key) == value}
            kept &= [key in selected for key in keys]
    return rows if kept.all() else rows[kept]


def captions_of(drawn: Drawn, scene: Scene, choice: Choice) -> dict[str, str]:
    """Return the sentence under each panel that has one, by the value of the panel."""
    chart = drawn.chart
    if chart.say is None:
        return {}
    if chart.chapter is not None:
        groups = drawn.frame.groupby(["model", "checkpoint"])
        panels = [(Panel("|".join(map(str, who)), str(who[0])), rows) for who, rows in groups]
    else:
        panels = panels_shown(drawn, scene, choice)
    return {panel.value: text for panel, rows in panels if len(rows) and (text := chart.say(rows, scene))}


def axis_shown(drawn: Drawn, scene: Scene, choice: Choice) -> Axis | None:
    """Return the reach of the value axis that the panels share; None where the drawing decides."""
    reach = drawn.chart.reach
    if reach is None or drawn.reaches is None:
        return None
    picks = picked(drawn, choice)
    axes = drawn.axes.get(picks.get(reach.by, ""), {})
    pick = picks.get("axis")
    log, fewer = pick == LOG, choice.baselines == WITHOUT
    every, close = axes.get(LOG if log else FIXED), pick == CLOSE or not (pick or fewer)
    if every is None or not (close or fewer):
        return every
    if not close:
        choice, scene = replace(choice, view=""), replace(scene, moments=[])
    shown = hull(_chosen(drawn.reaches, drawn, scene, choice, picks), every, log, close)
    return shown if pick or fewer or (shown.high - shown.low) * FLAT < every.high - every.low else every


# What a page fetches.


def page_data(drawn: Drawn) -> dict[str, Any]:
    """Return what the page's script fetches, by the name of its file: the chart under its id, rows apart or with it."""
    chart, frame, reach = drawn.chart, drawn.frame, drawn.chart.reach
    facts = {
        "title": drawn.title,
        "naming": drawn.naming,
        "kind": chart.plot,
        "specs": dict(drawn.specs),
        "keys": drawn.follows,
        "facet": "" if chart.chapter else chart.facet,
        "value": chart.value,
        "key": chart.key,
        "together": chart.together,
        "byLayer": chart.by_layer,
        "options": drawn.options,
        "captions": drawn.captions,
        "axes": {
            key: {name: [axis.low, axis.high, axis.note] for name, axis in axes.items()}
            for key, axes in drawn.axes.items()
        },
        **({} if drawn.means is None else {"means": pack(drawn.means)}),
        **({"by": reach.by, "flat": FLAT} if reach else {}),
        **({} if drawn.reaches is None else {"reaches": pack(drawn.reaches)}),
    }
    if not drawn.parts:
        return {drawn.id: facts | {"data": pack(frame)}}
    if chart.chapter is None:
        groups = {str(value): rows for value, rows in frame.groupby(chart.facet, sort=False)}
    else:
        who = ["model", "checkpoint"]
        groups = {"|".join(map(str, key)): rows.drop(columns=who) for key, rows in frame.groupby(who, sort=False)}
    rows_of = {name: pack(groups[key]) for key, name in drawn.parts.items()}
    return {drawn.id: facts | {"parts": drawn.parts}, **rows_of}


def pack(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the frame as ``{"rows": count, "columns": {name: packed column}}``, ready for JSON."""
    return {"rows": len(frame), "columns": {str(name): pack_column(column) for name, column in frame.items()}}


def pack_column(column: pd.Series[Any]) -> dict[str, Any]:
    """Return one column in the shortest of three forms.

    These are ``{"plain": […]}``, ``{"levels": […], "codes": […]}`` and ``{"levels": […], "runs": [code, count, …]}``.
    """
    values, rounded = column.tolist(), _number if column.dtype == float else tidy
    place: dict[Any, int] = {}
    code_of = {value: place.setdefault(rounded(value), len(place)) for value in dict.fromkeys(values)}
    codes, levels = list(map(code_of.__getitem__, values)), list(place)  # most columns repeat few values
    packed = _packed(levels, codes) if codes and len(levels) <= max(1, len(codes) // 2) else None
    return packed or {"plain": list(map(levels.__getitem__, codes))}


def _packed(levels: Sequence[Any], codes: Sequence[int]) -> dict[str, Any] | None:
    """Return the shorter of the two forms with levels; None where plain values are the shortest."""
    numbers = np.array(codes)
    starts = np.flatnonzero(np.append(True, np.diff(numbers)))
    runs = np.stack([numbers[starts], np.diff(starts, append=len(codes))], axis=1).ravel().tolist()
    # Characters of each form as JSON: what its numbers and texts take, and ", " between them.
    of_level = [len(json.dumps(x) if x is None or isinstance(x, str) else repr(x)) + 2 for x in levels]
    table = len('{"levels": [], ') + sum(of_level)
    sizes = {
        "plain": len('{"plain": []}') + sum(map(of_level.__getitem__, codes)),
        "codes": table + len('"codes": []}') + len(str(codes)),
        "runs": table + len('"runs": []}') + len(str(runs)) - 2,
    }
    form = min(sizes, key=sizes.__getitem__)
    return None if form == "plain" else {"levels": levels, form: codes if form == "codes" else runs}


def tidy(value: Any) -> Any:
    """Return a value that JSON can hold: NULL, NaN and infinity become None, whole floats become integers."""
    if is_null(value) or isinstance(value, str):
        return None if is_null(value) else value
    return _number(float(value))


def _number(number: float) -> float | None:
    if not math.isfinite(number):
        return None
    if number.is_integer() and abs(number) < 2**53:
        return int(number)
    return float(f"{number:.{DIGITS}g}")
