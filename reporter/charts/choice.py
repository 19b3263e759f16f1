"""What of a chart is shown: which rows, axis and sentences the controls of a page choose.

The page's script does the same for a reader who moves the controls (``Chart.rows`` in ``templates/panels.js``); here it
is done for pictures that stand still.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reporter.charts.chart import Drawn
from reporter.charts.layout import Panel
from reporter.charts.numbers import is_null
from reporter.charts.readings import MEAN, Shown
from reporter.charts.scene import ATTENTION, PATH, WITH, WITHOUT, Scene

if TYPE_CHECKING:
    import pandas as pd

WHO = (("model", "checkpoint"), ("model_a", "checkpoint_a"), ("model_b", "checkpoint_b"))
SITES = ("embedding", "block", "final")


@dataclass(frozen=True)
class Choice:
    """Where the controls of a page stand.

    Args:
        view: which tokens count.
        moment: position of the checkpoint slider.
        site: ``path`` or ``attention``.
        baselines: ``with`` or ``without``.
        layer: of charts that show one layer at a time; None for the one in the middle, as on the page.
        picks: what a chart's own selectors say, by name; those that are left out say their first choice.
    """

    view: str
    moment: int
    site: str = PATH
    baselines: str = WITH
    layer: int | None = None
    picks: Mapping[str, str] = field(default_factory=dict)


def first_choice(scene: Scene) -> Choice:
    """Return what a page shows when it opens.

    Args:
        scene: what its charts share.
    """
    return Choice(scene.views[0] if scene.views else "", len(scene.moments) - 1)


def picked(drawn: Drawn, choice: Choice) -> dict[str, str]:
    """Return what each selector of a chart says.

    Args:
        drawn: the chart.
        choice: where the controls stand; what a selector does not offer is passed over.
    """
    first = {pick.name: next(iter(pick.choices), "") for pick in drawn.picks}
    offered = {pick.name: pick.choices for pick in drawn.picks}
    return first | {name: value for name, value in choice.picks.items() if value in offered.get(name, ())}


def state_of(drawn: Drawn, choice: Choice) -> Shown:
    """Return the axis and the sentences of a chart; nothing is said where it has none for this choice."""
    controls = {
        "view": choice.view,
        "site": choice.site,
        "moment": str(choice.moment),
        "baselines": choice.baselines,
        **picked(drawn, choice),
    }
    keys = () if drawn.chart.chapter else drawn.chart.keys
    return drawn.states.get("|".join(controls.get(key, "") for key in keys), Shown({}))


def panels_shown(drawn: Drawn, scene: Scene, choice: Choice) -> list[Panel]:
    """Return the panels that a choice leaves: on a page of its own a chart has one for each model, or one for all."""
    if drawn.chart.chapter is not None:
        return _of_models(drawn, scene, choice)
    found = list(drawn.panels)
    for pick in drawn.picks:
        if pick.shows:
            shown = pick.shows.get(picked(drawn, choice)[pick.name], ())
            found = [panel for panel in found if panel.value in shown]
    hidden = set(scene.styles.baselines) if choice.baselines == WITHOUT else set()
    return [panel for panel in found if not hidden & set(panel.models)]


def rows_of_panel(drawn: Drawn, panel: Panel, scene: Scene, choice: Choice) -> pd.DataFrame:
    """Return the rows that a panel draws.

    Args:
        drawn: the chart, with its frame.
        panel: one of :func:`panels_shown`.
        scene: what all charts share.
        choice: where the controls stand.
    """
    picks = picked(drawn, choice)
    rows = _rows(drawn, panel, scene, choice, picks)
    instead = drawn.chart.options.get("instead")
    if rows.empty and instead:  # a model of one kind of vectors has no picture of several
        column = instead["column"]
        rows = _rows(drawn, panel, scene, choice, picks | {column: instead["values"].get(picks.get(column), "")})
    return rows


def layer_shown(rows: pd.DataFrame, choice: Choice) -> tuple[str, int] | None:
    """Return the site and layer that a chart of one layer at a time shows, of a model's rows; None without any."""
    pairs = {(str(site), int(layer)) for site, layer in rows[["site", "layer"]].dropna().itertuples(index=False)}
    wanted = (ATTENTION,) if choice.site == ATTENTION else SITES
    stops = sorted((pair for pair in pairs if pair[0] in wanted), key=lambda pair: (wanted.index(pair[0]), pair[1]))
    if choice.layer is not None:
        return next((stop for stop in stops if stop[1] == choice.layer and stop[0] != "final"), None)
    return stops[(len(stops) - 1) // 2] if stops else None


def _rows(drawn: Drawn, panel: Panel, scene: Scene, choice: Choice, picks: Mapping[str, str]) -> pd.DataFrame:
    chart, frame = drawn.chart, drawn.frame
    assert frame is not None
    keys: Sequence[str] = () if chart.chapter else chart.keys
    rows = frame
    if chart.chapter is None and chart.facet:
        rows = rows[rows[chart.facet].astype(str) == panel.value]
    if chart.chapter is not None and not chart.together:
        model, _, checkpoint = panel.value.rpartition("|")
        rows = rows[(rows["model"] == model) & (rows["checkpoint"] == checkpoint)]
    if chart.by_layer:
        place = layer_shown(rows, choice)
        rows = rows[(rows["site"] == place[0]) & (rows["layer"] == place[1])] if place else rows[:0]
    if "view" in rows and choice.view:
        rows = rows[rows["view"] == choice.view]
    if "site" in keys:
        rows = rows[(rows["site"] == ATTENTION) == (choice.site == ATTENTION)]
    for model, checkpoint in WHO:
        if model not in rows:
            continue
        if "moment" in keys and checkpoint in rows and scene.moments:
            rows = rows[rows[checkpoint] == rows[model].map(scene.moments[choice.moment].shown)]
        if choice.baselines == WITHOUT:
            rows = rows[~rows[model].isin(scene.styles.baselines)]
    for name, wanted in picks.items():
        own = name.split("|")
        if all(column in rows for column in own):
            said = [
                "|".join(MEAN if is_null(value) else str(value) for value in values)
                for values in zip(*(rows[column] for column in own), strict=True)
            ]
            rows = rows[[one == wanted for one in said]]
    return rows


def _of_models(drawn: Drawn, scene: Scene, choice: Choice) -> list[Panel]:
    if drawn.chart.together:
        return [Panel("", "")]
    shown = scene.moments[choice.moment].shown if scene.moments else {}
    last: dict[str, str] = {}
    for model, checkpoint in drawn.who:
        if model not in last or last[model] != shown.get(model):
            last[model] = checkpoint
    order = {name: place for place, name in enumerate(scene.styles.names)}
    hidden = set(scene.styles.baselines) if choice.baselines == WITHOUT else set()
    names = sorted((name for name in last if name not in hidden), key=lambda name: order.get(name, len(order)))
    return [Panel(f"{name}|{last[name]}", name, (name,)) for name in names]
