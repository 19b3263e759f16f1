"""A page of charts on which a reader chooses models, side by side, and a layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reporter.charts.chart import Chapter, Chart, Drawn, Page, Read, draw_chart, read_chart
from reporter.charts.numbers import is_null
from reporter.charts.scene import Scene
from reporter.charts.styles import CATEGORIES, FLOOR_GREY, RAMP, Styles
from reporter.metrics.base import Definition
from reporter.report import queries
from reporter.report.explorer import Explorer
from reporter.report.free_charts import explained

if TYPE_CHECKING:
    import pandas as pd

SITES = ("embedding", "block", "final", "attention")
Who = tuple[str, str]
"""A model and a checkpoint of it."""


@dataclass(frozen=True)
class Chosen:
    """A model, or one of its checkpoints, that can be chosen.

    Args:
        model: its name.
        checkpoint: which checkpoint.
        label: what the page calls it.
    """

    model: str
    checkpoint: str
    label: str

    @property
    def key(self) -> Who:
        """What names its rows."""
        return self.model, self.checkpoint


@dataclass(frozen=True)
class ChartPage(Explorer):
    """A page of charts.

    Args:
        chapters: its charts that have rows or went wrong, by the name of the chapter.
        headings: its chapters, by name.
        who: what can be chosen, the last checkpoint of each model first.
        sites: ``path``, and ``attention`` where there are states of it; none where no chart shows one layer at a time.
        more: what its template shows besides.
    """

    chapters: Mapping[str, tuple[Drawn, ...]] = field(default_factory=dict)
    headings: Mapping[str, Chapter] = field(default_factory=dict)
    who: tuple[Chosen, ...] = ()
    sites: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


def pages(catalogue: Mapping[str, Definition]) -> dict[str, tuple[Page, list[tuple[Definition, Chart]]]]:
    """Return the pages that metrics and analyses hang charts on, by name, each with these charts and whose they are."""
    found: dict[str, tuple[Page, list[tuple[Definition, Chart]]]] = {}
    for metric in catalogue.values():
        for chart in metric.charts:
            if chart.chapter is not None:
                page = chart.chapter.page
                found.setdefault(page.name, (page, []))[1].append((metric, chart))
    for _, charts in found.values():
        charts.sort(key=lambda own: own[1].chapter.number if own[1].chapter else 0)
    return found


def read_page(
    read: Read, study: str, styles: Styles, page: Page, charts: Sequence[tuple[Definition, Chart]], more: Any = None
) -> ChartPage | None:
    """Read a page and draw it, or return None where a study has nothing to show on it.

    Args:
        read: runs a query.
        study: id of the study.
        styles: how its models are drawn, in their order.
        page: which page.
        charts: what may be shown, each with the metric or analysis that names it.
        more: reads what its template shows besides, from ``read``, the study, ``who`` and ``styles``.
    """
    headings: dict[str, Chapter] = {}
    chapters: dict[str, list[Drawn]] = {}
    for metric, chart in charts:
        drawn = read_chart(read, explained(chart, metric), study=study, metric=metric.name)
        scene = Scene(study, styles, (), (), (), statistics={own.name: own.title for own in metric.statistics})
        if not drawn.empty and chart.chapter is not None:
            headings[chart.chapter.name] = chart.chapter
            chapters.setdefault(chart.chapter.name, []).append(draw_chart(drawn, scene))
    every = [drawn for own in chapters.values() for drawn in own]
    who = _who(every, read(queries.MODELS.fill(study=study)), styles)
    if not who:
        return None
    places = {one.key: _places(every, one.key) for one in who}
    sites = {site for own in places.values() for site, _ in own}
    twins = {style.model: (style.light, style.dark) for style in styles.models}
    grey = (FLOOR_GREY, FLOOR_GREY)
    return ChartPage(
        name=page.name,
        title=page.title,
        about=page.about,
        charts=tuple(every),
        data={
            "who": [
                {"key": "|".join(one.key), "label": one.label}
                | dict(zip(("light", "dark"), twins.get(one.model, grey), strict=True))
                | _stops(places[one.key])
                for one in who
            ],
            "dark": styles.dark_twins,
            "categories": list(CATEGORIES),
            "ramp": RAMP,
            "grey": FLOOR_GREY,
        },
        chapters={name: tuple(own) for name, own in chapters.items()},
        headings=headings,
        who=tuple(who),
        sites=("path", "attention") if "attention" in sites else ("path",) if sites else (),
        more=more(read, study, who, styles) if more else {},
    )


def _places(charts: Sequence[Drawn], who: Who) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for drawn in charts:
        if drawn.chart.by_layer and drawn.frame is not None and not drawn.frame.empty:
            frame = drawn.frame
            own = frame[(frame["model"] == who[0]) & (frame["checkpoint"] == who[1])]
            pairs = own[["site", "layer"]].dropna().drop_duplicates()
            found |= {(str(site), int(layer)) for site, layer in pairs.itertuples(index=False)}
    return {place for place in found if place[0] in SITES}


def _stops(places: set[tuple[str, int]]) -> dict[str, list[dict[str, Any]]]:
    """The stops of the slider: the residual stream, and after attention."""
    stops: dict[str, list[dict[str, Any]]] = {"path": [], "attention": []}
    for site, layer in sorted(places, key=lambda place: (SITES.index(place[0]), place[1])):
        label = {"embedding": "embedding", "final": "after the final norm"}.get(site, f"layer {layer}")
        stops["attention" if site == "attention" else "path"].append({"site": site, "layer": layer, "label": label})
    return stops


def _who(charts: Sequence[Drawn], models: pd.DataFrame, styles: Styles) -> list[Chosen]:
    found = {key for one in charts for key in one.who}
    columns = (models[name] for name in ("model", "checkpoint", "step", "position"))
    steps, positions = dict[Who, int | None](), dict[Who, int]()
    for model, checkpoint, step, position in zip(*columns, strict=True):
        steps[model, checkpoint] = None if is_null(step) else int(step)
        positions[model, checkpoint] = int(position)
    order = {name: place for place, name in enumerate(styles.names)}
    keys = sorted(found, key=lambda key: (order.get(key[0], len(order)), key[0], -positions.get(key, 0)))
    many = {model for model, _ in keys if sum(model == other for other, _ in keys) > 1}
    return [Chosen(model, name, _label(model, name, steps, many)) for model, name in keys]


def _label(model: str, checkpoint: str, steps: Mapping[Who, Any], many: set[str]) -> str:
    if model not in many:
        return model
    step = steps.get((model, checkpoint))
    return f"{model} · {checkpoint if step is None else f'step {step:,}'}"
