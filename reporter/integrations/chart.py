"""A figure of a report as an Altair chart, for a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.charts.figure import Figure, filled_spec
from reporter.charts.styles import THEMES
from reporter.errors import UsageError, hint
from reporter.export.choosing import choice_of, chosen_figures
from reporter.export.write import read_study

if TYPE_CHECKING:
    import altair as alt

WIDTH = 460.0


def chart(study: str, out: Path, name: str, panel: str = "", choose: Mapping[str, str] | None = None) -> alt.Chart:
    """Return a panel of a figure as an Altair chart with its rows, to show, to change and to save.

    Args:
        study: id of a study.
        out: the results folder.
        name: the figure's id, such as ``anisotropy.mean_cosine``, or its number.
        panel: the panel, by its heading (most often a corpus); the first one if left out.
        choose: where the controls of the page stand, as ``{"view": "no-sinks"}``.

    Raises:
        UsageError: there is no such figure, panel or control, or the figure is no chart.
        ReporterError: the database cannot be read.
    """
    import altair

    contents = read_study(study, out)
    figures = chosen_figures(contents, [name])
    if len(figures) > 1:
        raise UsageError(f"'{name}' are {len(figures)} figures; name one{hint(name, list(figures), 'such as')}")
    (drawn,) = figures.values()
    figure = Figure(drawn, contents.scene, choice_of(contents, dict(choose or {}), figures))
    panels = {one.label: rows for one, rows in figure.panels()}
    if panel and panel not in panels:
        raise UsageError(f"no panel '{panel}' in {drawn.id}{hint(panel, list(panels), 'it has')}")
    label, rows = (panel, panels[panel]) if panel else next(iter(panels.items()), ("", None))
    if rows is None or drawn.chart.draw == "table":
        raise UsageError(f"{drawn.id} is no chart here; its rows are results.sql({drawn.sql!r})")
    spec = filled_spec(figure, rows, WIDTH)
    spec |= {"title": f"{figure.title}: {label}" if label else figure.title, "config": THEMES["light"]}
    return altair.Chart.from_dict(_explained(spec, figure.title))


def _explained(part: Any, title: str) -> Any:
    """Return a specification with legends and a title of the y axis, which a page prints around its charts."""
    if isinstance(part, list):
        return [_explained(one, title) for one in part]
    if not isinstance(part, dict):
        return part
    explained = {name: value if name == "datasets" else _explained(value, title) for name, value in part.items()}
    encoding = explained.get("encoding", {})
    for channel in {"color", "strokeDash"} & encoding.keys():
        if encoding[channel].get("legend", "") is None:
            encoding[channel] |= {"legend": {"title": None}}
    if "y" in encoding and encoding["y"].get("title", "") is None:
        encoding["y"] |= {"title": title}
    return explained
