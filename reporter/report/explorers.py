"""Further pages of a study, on which a reader chooses what to look at, without a server."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reporter.charts.chart import Chapter, Chart, Drawn, Page, Read, filled
from reporter.charts.drawing import draw_chart, read_chart
from reporter.charts.layout import Scene
from reporter.charts.styles import CATEGORIES, FLOOR_GREY, RAMP, Styles
from reporter.core.numbers import is_null, short, whole
from reporter.core.table import Column
from reporter.metrics.base import Definition
from reporter.report import tables as queries
from reporter.report.free_charts import explained
from reporter.store.schema import find_table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ExplorerRows:
    """Rows behind an explorer's charts: a query, its result (a CSV beside the page) and what its columns mean.

    Args:
        name: names the CSV and the place on the page; it must be no other file's in ``data/``.
        title: what the rows are.
        table: the table of the database whose comments explain the columns.
        sql: the statement that made the frame.
        frame: its result.
    """

    name: str
    title: str
    table: str
    sql: str
    frame: pd.DataFrame

    @property
    def csv(self) -> str:
        """Path of the rows, relative to the page."""
        return f"data/{self.name}.csv"

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.frame)

    @property
    def comment(self) -> str:
        """The meaning of a row of its table."""
        return find_table(self.table).comment

    @property
    def columns(self) -> list[Column]:
        """The table's columns that the frame has."""
        return [column for column in find_table(self.table).columns if column.name in self.frame]


@dataclass(frozen=True)
class Explorer:
    """A further page of a study.

    Args:
        name: names the page, ``<name>.html``, its template and its part of the script.
        title: its heading, and what links to it say.
        about: the question it answers, in a sentence or two.
        facts: what there is to choose from, in short.
        data: what its script needs at once: what there is to choose from, and the styles of models.
        parts: what its script fetches when it is chosen, by a name of letters, digits, dots and hyphens; each becomes
            ``data/<name>.js``.
        sources: the rows behind what it draws, where these are not charts.
        charts: its charts.
        analyses: whose rows it shows; their sections on the study's page link to it.
        static: what its template shows readers without scripts, where these are no charts.
        error: what went wrong while it was read; it then has nothing else.
    """

    name: str
    title: str
    about: str = ""
    facts: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[ExplorerRows, ...] = ()
    charts: tuple[Drawn, ...] = ()
    analyses: tuple[str, ...] = ()
    static: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""

    @property
    def page(self) -> str:
        """File name of the page."""
        return f"{self.name}.html"

    def source(self, name: str) -> ExplorerRows:
        """Return one of its sources by name."""
        return next(source for source in self.sources if source.name == name)


Reader = Callable[[Read, str, Styles], "Explorer | None"]
"""Reads an explorer of a study; None where the study has no rows for it."""


def read_source(read: Read, query: str, study: str, name: str, title: str, table: str) -> ExplorerRows:
    """Run a query whose only parameter is the study."""
    sql = filled(query, study=study)
    frame = read(sql)
    # whole numbers stay whole where one is NULL: a CSV says 512 and not 512.0
    whole = [c.name for c in find_table(table).columns if c.type in {"INTEGER", "BIGINT"} and c.name in frame]
    return ExplorerRows(name, title, table, sql, frame.astype(dict.fromkeys(whole, "Int64")))


def styled(styles: Styles) -> list[dict[str, Any]]:
    """Return how each model is drawn, for a page's script."""
    return [
        {name: getattr(style, name) for name in ("model", "role", "light", "dark", "shape")}
        | {"dash": list(style.dash) if style.dash[1] else [], "baseline": bool(style.baseline)}
        for style in styles.models
    ]


# A page of charts on which a reader chooses models, side by side, and a layer.


SITES = ("embedding", "block", "final", "attention")
Who = tuple[str, str]
"""A model and a checkpoint of it."""


@dataclass(frozen=True)
class ChartPage(Explorer):
    """A page of charts.

    Args:
        chapters: its charts that have rows or went wrong, by the name of the chapter.
        headings: its chapters, by name.
        sites: ``path``, and ``attention`` where there are states of it; none where no chart shows one layer at a time.
        more: what its template shows besides.
    """

    chapters: Mapping[str, tuple[Drawn, ...]] = field(default_factory=dict)
    headings: Mapping[str, Chapter] = field(default_factory=dict)
    sites: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


def pages(catalogue: Mapping[str, Definition]) -> dict[str, tuple[Page, list[tuple[Definition, Chart]]]]:
    """Return the pages that metrics and analyses hang charts on, by name, each with these charts and whose they are."""
    charts_by_page: dict[str, tuple[Page, list[tuple[Definition, Chart]]]] = {}
    for metric in catalogue.values():
        for chart in metric.charts:
            if chart.chapter is not None:
                page = chart.chapter.page
                charts_by_page.setdefault(page.name, (page, []))[1].append((metric, chart))
    for _, charts in charts_by_page.values():
        charts.sort(key=lambda item: item[1].chapter.number if item[1].chapter else 0)
    return charts_by_page


def read_page(
    read: Read, study: str, styles: Styles, page: Page, charts: Sequence[tuple[Definition, Chart]], more: Any = None
) -> ChartPage | None:
    """Read a page and draw it, or return None where a study has nothing to show on it."""
    headings: dict[str, Chapter] = {}
    chapters: dict[str, list[Drawn]] = {}
    for metric, chart in charts:
        drawn = read_chart(read, explained(chart, metric), study=study, metric=metric.name)
        titles = {statistic.name: statistic.title for statistic in metric.statistics}
        scene = Scene(study, styles, (), (), (), statistics=titles)
        if not drawn.empty and chart.chapter is not None:
            headings[chart.chapter.name] = chart.chapter
            chapters.setdefault(chart.chapter.name, []).append(draw_chart(drawn, scene))
    every = [drawn for charts_of_chapter in chapters.values() for drawn in charts_of_chapter]
    who = _checkpoint_choices(every, queries.read_rows(read, queries.MODELS, study), styles)
    if not who:
        return None
    places = {key: _places(every, key) for key in who}
    sites = {site for of_model in places.values() for site, _ in of_model}
    twins = {style.model: {"light": style.light, "dark": style.dark} for style in styles.models}
    grey = {"light": FLOOR_GREY, "dark": FLOOR_GREY}
    return ChartPage(
        name=page.name,
        title=page.title,
        about=page.about,
        charts=tuple(every),
        data={
            "who": [
                {"key": "|".join(key), "label": label, **twins.get(key[0], grey), **_stops(places[key])}
                for key, label in who.items()
            ],
            "dark": styles.dark_colours,
            "categories": list(CATEGORIES),
            "ramp": RAMP,
            "grey": FLOOR_GREY,
        },
        chapters={name: tuple(charts_of_chapter) for name, charts_of_chapter in chapters.items()},
        headings=headings,
        sites=("path", "attention") if "attention" in sites else ("path",) if sites else (),
        more=more(read, study, list(who), styles) if more else {},
    )


def _places(charts: Sequence[Drawn], who: Who) -> set[tuple[str, int]]:
    places: set[tuple[str, int]] = set()
    for drawn in charts:
        if drawn.chart.by_layer and drawn.rows:
            frame = drawn.frame
            rows = frame[(frame["model"] == who[0]) & (frame["checkpoint"] == who[1])]
            pairs = rows[["site", "layer"]].dropna().drop_duplicates()
            places |= {(str(site), int(layer)) for site, layer in pairs.itertuples(index=False)}
    return {place for place in places if place[0] in SITES}


def _stops(places: set[tuple[str, int]]) -> dict[str, list[dict[str, Any]]]:
    stops: dict[str, list[dict[str, Any]]] = {"path": [], "attention": []}
    for site, layer in sorted(places, key=lambda place: (SITES.index(place[0]), place[1])):
        label = {"embedding": "embedding", "final": "after the final norm"}.get(site, f"layer {layer}")
        stops["attention" if site == "attention" else "path"].append({"site": site, "layer": layer, "label": label})
    return stops


def _checkpoint_choices(charts: Sequence[Drawn], models: Sequence[queries.Row], styles: Styles) -> dict[Who, str]:
    """Return what can be chosen, with what the page calls it: the last checkpoint of each model comes first."""
    rows = {(row["model"], row["checkpoint"]): row for row in models}
    order = {name: place for place, name in enumerate(styles.names)}

    def rank(key: Who) -> tuple[int, str, int]:
        return order.get(key[0], len(order)), key[0], -int(rows[key]["position"]) if key in rows else 0

    keys = sorted({key for chart in charts for key in chart.who}, key=rank)
    counts = Counter(model for model, _ in keys)
    labels = {}
    for model, checkpoint in keys:
        step = rows.get((model, checkpoint), {}).get("step")
        label = checkpoint if step is None else f"step {int(step):,}"
        labels[model, checkpoint] = f"{model} · {label}" if counts[model] > 1 else model
    return labels


# What the page of static embeddings shows besides its charts: how positions are known, and where the rest is.


FACTS = """
SELECT model, checkpoint, fact, value, said FROM vocabulary_facts
WHERE study = $study ORDER BY model, checkpoint
"""

VOCABULARY = """
SELECT token_id, token, class, subword, norm, mean_cosine, mean_distance, repeated
FROM vocabulary
WHERE study = $study AND model = $model
ORDER BY norm DESC
LIMIT 100
"""
"""What the page offers for the rest of the vocabulary."""

COUNT = "SELECT count(*) AS n FROM vocabulary WHERE study = $study"

PLAIN = {
    "learned": "The model adds a learned vector for each position to the token vectors.",
    "sinusoidal": "The model adds fixed sines and cosines to the token vectors.",
    "none": "The model adds no position vectors to the token vectors.",
    "unrecognised": "The model adds something to the token vectors, but no table of positions was found.",
}
"""Descriptions of the kinds of positions; other kinds describe themselves."""
_SPREAD = re.compile(r"(.+) of (.+): (mean|standard deviation)")
_HIDDEN = ("positions", "outlier", "note ", "missing: ")


def besides(read: Read, study: str, who: Sequence[Who], styles: Styles) -> dict[str, Any]:
    """Return what the template shows besides charts."""
    facts = read(filled(FACTS, study=study))
    return {
        "known": known(facts, who),
        "styles": styles.models,
        "rows": whole(int(read(filled(COUNT, study=study))["n"].iloc[0])),
        "sql": filled(VOCABULARY, study=study, model=who[0][0]),
        "columns": [column for column in find_table("vocabulary").columns if column.field],
    }


def known(frame: pd.DataFrame, who: Sequence[Who]) -> list[dict[str, Any]]:
    """Return the facts about each model's vectors: how it encodes positions, notes, numbers."""
    models = []
    for model, checkpoint in who:
        rows_of_model = frame[(frame["model"] == model) & (frame["checkpoint"] == checkpoint)]
        if rows_of_model.empty:  # its static embeddings were not analysed
            continue
        columns = ["fact", "value", "said"]
        rows = {str(fact): (value, text) for fact, value, text in rows_of_model[columns].itertuples(index=False)}
        kind = str(rows.get("positions", (None, "unrecognised"))[1])
        plain = [fact for fact in rows if not _SPREAD.fullmatch(fact) and not fact.startswith(_HIDDEN)]
        models.append(
            {
                "model": model,
                "plain": PLAIN.get(kind, kind),
                "notes": [text for fact, (_, text) in rows.items() if fact.startswith("note ")],
                "lacks": [(fact[9:], text) for fact, (_, text) in rows.items() if fact.startswith("missing: ")],
                "rows": [
                    (fact, whole(rows[fact][0]), "" if is_null(rows[fact][1]) else rows[fact][1]) for fact in plain
                ],
                "outliers": _outliers(rows),
                **_spreads(rows),
            }
        )
    return models


def _outliers(rows: Mapping[str, tuple[Any, Any]]) -> str:
    if "outliers" not in rows:
        return ""
    (count, text), chance = rows["outliers"], rows.get("outliers by chance", (None, None))[0]
    threshold = short(rows.get("outlier threshold", (None, None))[0], 2)
    return (
        f"{whole(count)} {text} of a token and a position have |cosine| > {threshold}. With random directions of one "
        f"side {short(chance)} pairs would."
    )


def _spreads(rows: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    spreads: dict[str, dict[str, Any]] = {}
    for fact, (value, text) in rows.items():
        if match := _SPREAD.fullmatch(fact):
            measure, part, what = match.groups()
            row = spreads.setdefault(part, {"n": str(text).removeprefix("n = ")})
            row.setdefault(measure, {})["mean" if what == "mean" else "sd"] = value
    measures = [name for name in ("norm", "cosine", "distance", "dot") if any(name in row for row in spreads.values())]
    return {"spreads": spreads, "measures": measures}
