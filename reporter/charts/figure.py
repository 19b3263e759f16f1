"""A chart of a report as a whole figure that stands still."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reporter.charts.chart import Drawn
from reporter.charts.choice import Choice, layer_shown, panels_shown, picked, rows_of_panel, state_of
from reporter.charts.formulas import as_plain
from reporter.charts.layout import Panel
from reporter.charts.numbers import whole
from reporter.charts.scene import ATTENTION, WITHOUT, Scene
from reporter.charts.sheet import PanelStill, Sheet, Size, sheet_svg
from reporter.charts.still import Still, draw_still, filled, found_in, points_spec

if TYPE_CHECKING:
    import pandas as pd

DOTS_PER_INCH = 300
_MILLIMETRES = re.compile(r'\b(width|height)="([\d.]+)mm"')


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
    def title(self) -> str:
        """Its title, with its number and unit."""
        chart = self.drawn.chart
        return f"{self.lead} {begun(chart.title)}{f' ({chart.unit})' if chart.unit else ''}".strip()

    def chosen(self) -> list[str]:
        """Say what of the chart is shown: tokens, checkpoint, site, what its selectors say."""
        drawn, scene, choice = self.drawn, self.scene, self.choice
        chart, frame = drawn.chart, drawn.frame
        said = []
        if frame is not None and "view" in frame and choice.view:
            said.append(f"Tokens: {choice.view}.")
        if chart.facet == "corpus" and not chart.chapter and len(drawn.panels) == 1:
            said.append(f"Corpus: {drawn.panels[0].label}.")
        if "moment" in chart.keys and not chart.chapter and len(scene.moments) > 1:
            said.append(f"Checkpoint: {scene.moments[choice.moment].label}.")
        if "site" in chart.keys and not chart.chapter and choice.site == ATTENTION:
            said.append("States after attention.")
        if "baselines" in chart.keys and choice.baselines == WITHOUT:
            said.append("Without null baselines.")
        picks = picked(drawn, choice)
        for pick in drawn.picks:
            if pick.name == "axes" and picks["axes"] == "xyz":
                said.append("The first two of three dimensions.")
            elif len(pick.choices) > 1:
                said.append(f"{pick.label}: {pick.choices[picks[pick.name]]}.")
        return said

    def rests_on(self) -> list[str]:
        """Say which panels have no numbers, how intervals are made, and how many observations there are."""
        panels = self.panels()
        empty = [panel.label for panel, rows in panels if not _valued(self.drawn, rows)]
        shown = [rows for _, rows in panels if len(rows)]
        n = [int(value) for rows in shown if "n" in rows for value in rows["n"].dropna()]
        ends = list(dict.fromkeys((whole(min(n)), whole(max(n))))) if n else []
        interval = self.drawn.chart.interval.rstrip(".") if any(_has_intervals(rows) for rows in shown) else ""
        return [
            *([f"No numbers: {', '.join(empty)}."] if empty else []),
            *([f"Intervals: {interval}."] if interval else []),
            *([f"n = {' to '.join(ends)}."] if ends else []),
            *([f"Thinned: {self.drawn.kept}."] if self.drawn.kept else []),
        ]

    def panels(self) -> list[tuple[Panel, pd.DataFrame]]:
        """Return its panels, each with the rows that it draws."""
        found = panels_shown(self.drawn, self.scene, self.choice)
        return [(panel, rows_of_panel(self.drawn, panel, self.scene, self.choice)) for panel in found]

    def caption(self) -> str:
        """Return the caption of the picture: what is shown and what it rests on."""
        return " ".join([*self.chosen(), *map(as_plain, self.rests_on()), self.source]).strip()


def begun(text: str) -> str:
    """Return a text that begins with a capital, unless it begins with a name or a sign of mathematics."""
    word = text.partition(" ")[0]
    return text[:1].upper() + text[1:] if word[:2].isascii() and word[:2].isalpha() and "_" not in word else text


def figure_svg(figure: Figure, size: Size, bare: bool = False) -> str:
    """Draw a figure.

    Args:
        figure: what is drawn.
        size: how large.
        bare: leave out title, sentences and caption, for a paper that sets its own.

    Raises:
        ValueError: nothing of it can be drawn: a table, or no numbers for this choice.
    """
    drawn = figure.drawn
    if drawn.chart.draw == "table":
        raise ValueError("it is a table and no drawing")
    panels = [(panel, rows) for panel, rows in figure.panels() if _valued(drawn, rows)]
    if not panels:
        raise ValueError("there are no numbers for this choice")
    width = size.panel(len(panels))
    says = {} if bare else state_of(drawn, figure.choice).readings
    stills = [
        PanelStill(_label(figure, panel, own), _drawing(figure, own, width, f"p{place}"), says.get(panel.value, ""))
        for place, (panel, own) in enumerate(panels)
    ]
    rows = [own for _, own in panels]
    sheet = Sheet(
        title="" if bare else figure.title,
        panels=stills,
        models=_models(figure, rows),
        legend=drawn.chart.legend,
        key=_key(figure, rows),
        caption=() if bare else (figure.caption(),),
    )
    return sheet_svg(sheet, size)


def as_pdf(svg: str) -> bytes:
    """Return a figure as PDF, its fonts embedded; a page as large as the figure."""
    import vl_convert

    # the converter makes a point of each pixel, whatever the unit: its pixels have to be points
    points = _MILLIMETRES.sub(lambda found: f'{found[1]}="{float(found[2]) * 72 / 25.4:.4f}"', svg, count=2)
    made: bytes = vl_convert.svg_to_pdf(points)
    return made


def as_png(svg: str) -> bytes:
    """Return a figure as PNG of 300 dots to the inch, which the file itself says."""
    import vl_convert

    made: bytes = vl_convert.svg_to_png(svg, scale=72 / 96, ppi=DOTS_PER_INCH)
    return made


def _label(figure: Figure, panel: Panel, rows: pd.DataFrame) -> str:
    """The heading of a panel; a single corpus is named in the caption."""
    chart = figure.drawn.chart
    place = layer_shown(rows, figure.choice) if chart.by_layer and len(rows) else None
    where = (
        {"embedding": "embedding", "final": "after the final norm"}.get(place[0], f"layer {place[1]}") if place else ""
    )
    return " · ".join(part for part in (panel.label, where) if part)


def _valued(drawn: Drawn, rows: pd.DataFrame) -> bool:
    """Whether there is anything to draw."""
    value = drawn.chart.value
    if value not in rows:
        return bool(len(rows))
    numbers = rows[value].dropna()
    return bool((numbers > 0).any() if drawn.chart.positive else len(numbers))


def _has_intervals(rows: pd.DataFrame) -> bool:
    return "ci_low" in rows and bool(rows["ci_low"].notna().any())


def filled_spec(figure: Figure, rows: pd.DataFrame, width: float) -> dict[str, Any]:
    """Return a panel of a figure in Vega-Lite, as it would be drawn, with its rows in it.

    Args:
        figure: the figure.
        rows: those of the panel.
        width: in pixels, axes included.

    Raises:
        ValueError: it is a table.
    """
    return filled(*_prepared(figure, rows, width))


def _drawing(figure: Figure, rows: pd.DataFrame, width: float, name: str) -> Still:
    return draw_still(*_prepared(figure, rows, width), name)


def _prepared(figure: Figure, rows: pd.DataFrame, width: float) -> tuple[Any, pd.DataFrame, float, dict[str, Any]]:
    drawn, choice = figure.drawn, figure.choice
    picks = picked(drawn, choice)
    reach = state_of(drawn, choice).axis
    place = layer_shown(rows, choice) if {"site", "layer"} <= set(rows.columns) and drawn.chart.chapter else None
    values: dict[str, Any] = {"at": place[1] if place else None}
    values |= {"low": reach.low, "high": reach.high, "note": reach.note} if reach else {}
    values |= {key[1:]: value for key, value in picks.items() if key.startswith("$")}
    points = isinstance(drawn.chart.draw, str)
    return points_spec(drawn.options, rows, picks, width) if points else _spec(figure), rows, width, values


def _spec(figure: Figure) -> Any:
    specs = figure.drawn.specs
    variant = picked(figure.drawn, figure.choice).get("variant", "")
    return specs.get(variant) or next(iter(specs.values()), {})


def _models(figure: Figure, rows: Sequence[pd.DataFrame]) -> list[Any]:
    """The models of the legend: those that are drawn in their colours."""
    if found_in(_spec(figure), "model") is None:
        return []
    present = {name for own in rows if "model" in own for name in own["model"]}
    return [style for style in figure.scene.styles.models if style.model in present]


def _key(figure: Figure, rows: Sequence[pd.DataFrame]) -> list[tuple[str, str]]:
    """What else is told apart by colour, in the order of its scale."""
    drawn = figure.drawn
    field, spec = drawn.chart.key, _spec(figure)
    if drawn.chart.draw == "points":
        field = str(next(iter(drawn.options.get("colour", ())), ""))
        spec = points_spec(drawn.options, rows[0], {}, 100) if rows else {}
    told = found_in(spec, field) if field not in ("", "model") else None  # models stand in the legend
    present = {str(value) for own in rows if field in own for value in own[field].dropna()}
    return [pair for pair in told or () if pair[0] in present]
