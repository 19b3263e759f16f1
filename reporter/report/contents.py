"""Everything a study's page shows, read from the database in one go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

from reporter.charts.chart import Chart, Drawn, Read, filled
from reporter.charts.drawing import Sample, draw_chart, read_chart
from reporter.charts.layout import ATTENTION, PATH, CheckpointName, Scene, moments
from reporter.charts.profile import ROLE_MEANS
from reporter.charts.styles import DECODER, ENCODER, Styles, style_models
from reporter.core.errors import is_out_of_memory, shared_text, with_type
from reporter.core.places import TOKEN_SETS
from reporter.judge.questions.lead import Lead, leads
from reporter.judge.questions.question import Answer
from reporter.judge.questions.texts import Section, sections
from reporter.metrics.analysis import analyses
from reporter.metrics.base import Definition, Statistic
from reporter.report import tables as queries
from reporter.report.card import Card
from reporter.report.citing import read_hash
from reporter.report.claims import Claims, read_claims
from reporter.report.compared import StoredComparison
from reporter.report.downsampling import sampling
from reporter.report.explorers import Explorer, Reader, besides, pages, read_page
from reporter.report.findings import ShownFindings, read_answers, read_behind, read_findings
from reporter.report.free_charts import explained, of_statistic, of_tables, over_training
from reporter.report.journeys import read_journeys
from reporter.report.overview import Overview, read_overview
from reporter.report.tables import Row, read_rows, read_sinks, read_texts, rows_of
from reporter.store.rows import in_order, order_of

if TYPE_CHECKING:
    import pandas as pd

KEYS = {"model": "models", "corpus": "corpora"}
"""The key of a study's file that orders the values of a column."""
BESIDES = {"weights": besides}
"""What some pages show besides their charts, in a template of the page's own name."""


QUESTIONS = {
    "chosen": ("Figures", "The figures that the study names, in its order."),
    "directions": ("Directions", "Do a few directions dominate the states, and do states point the same way?"),
    "similarity": ("Similarity", "How alike are states of two layers, of two models, or of one token in two texts?"),
    "updates": ("Updates", "How much does each block change a state?"),
    "dimension": ("Dimension", "How many dimensions do the states fill?"),
    "sinks": ("Sinks", "Which tokens and coordinates are extreme, and what follows without them?"),
    "prediction": ("Prediction", "What can be predicted from the states of a layer?"),
    "other": ("Other", "Numbers that belong to none of these questions."),
}
"""The questions on *Layers*, each with its title."""
ANSWERED_ON = {"changed": "index", "sinks": "tokens", "journeys": "tokens", "training": "training", "concepts": "texts"}
"""The page on which each answer stands that does not open the report; others stand on *Layers*."""


@dataclass(frozen=True)
class MetricSection:
    """One metric of a study.

    Args:
        name: name of the metric.
        title: heading.
        charts: its charts, those that are seen at once first: main ones, followed over training where they can be,
            and what several statistics or other tables show; then those of the other statistics.
        question: the question on *Layers* under which its charts stand.
        absent: its statistics that have no numbers.
    """

    name: str
    title: str
    charts: tuple[Drawn, ...]
    question: str = "other"
    absent: tuple[Statistic, ...] = ()


@dataclass(frozen=True)
class Contents:
    """A study as the database has it.

    ``preview`` is the address of the picture that a link to a published page shows; empty where there is none.
    """

    study: Row
    scene: Scene
    sections: tuple[MetricSection, ...]
    models: list[Row]
    corpora: list[Row]
    cells: list[Row]
    claims: Claims
    findings: ShownFindings
    explorers: tuple[Explorer, ...] = ()
    sinks: Row | None = None
    answers: tuple[Row, ...] = ()
    behind: Answer | None = None
    compared: StoredComparison | None = None
    overview: Overview | None = None
    texts: Mapping[str, Row] = field(default_factory=dict)
    numbers_hash: tuple[str, str] = ("", "")
    preview: str = ""
    cards: Sequence[Card] = ()

    @property
    def charts(self) -> list[Drawn]:
        """All charts, in the order of the page."""
        return [chart for section in self.sections for chart in section.charts]

    @property
    def every(self) -> list[Drawn]:
        """All charts, those of its other pages included."""
        return [*self.charts, *(drawn for explorer in self.explorers for drawn in explorer.charts)]

    @property
    def numbered(self) -> dict[str, int]:
        """The number of each figure by its id: those of the study's page, then those of its other pages."""
        shown = (drawn for drawn in self.every if drawn.shown)
        return {drawn.id: number for number, drawn in enumerate(shown, start=1)}

    @property
    def layered(self) -> list[Drawn]:
        """The charts of the page *Layers*."""
        return [drawn for drawn in self.charts if drawn.chart.kind != "training"]

    @property
    def trained(self) -> list[Drawn]:
        """The charts of the page *Training*."""
        return [drawn for drawn in self.charts if drawn.chart.kind == "training"]

    @property
    def groups(self) -> list[tuple[str, str, list[Drawn], list[Drawn]]]:
        """The charts of *Layers* by question: its title, what it asks, charts that are seen at once, and the others.

        A chart whose values are all the same number is among the others.
        """
        groups = []
        for name, (title, asks) in QUESTIONS.items():
            charts = [d for s in self.sections if s.question == name for d in s.charts if d.chart.kind != "training"]
            shown = [drawn for drawn in charts if drawn.placed]
            if shown:
                first = [drawn for drawn in shown if drawn.open and not drawn.flat]
                groups.append((title, asks, first, [drawn for drawn in shown if not drawn.open or drawn.flat]))
        return groups

    @property
    def pages(self) -> list[tuple[str, str]]:
        """File name and title of each page, in order."""
        explorers = [(explorer.page, explorer.title) for explorer in self.explorers]
        judged = bool(self.claims.all) or bool(self.findings.looked_at)
        return [
            ("index.html", "Overview"),
            *([("layers.html", "Layers")] if self.layered else []),
            *([("training.html", "Training")] if self.trained else []),
            *explorers,
            *([("claims.html", "Claims" if self.claims.all else "Findings")] if judged else []),
            *([("examples.html", "Examples")] if self.examples else []),
            ("method.html", "Method"),
        ]

    @cached_property
    def leads(self) -> list[Lead]:
        """The answers that open the report; of several the first one has its picture."""
        tables = {
            str(answer["name"]): {name: rows_of(frame) for name, frame in answer["tables"].items()}
            for answer in self.answers
        }
        roles = {style.role for style in self.scene.styles.own}
        return leads(tables, {ENCODER, DECODER} <= roles, bool(self.claims.all))

    @property
    def answers_of(self) -> dict[str, list[Row]]:
        """The answers by the name of the page that asks their question, those that open the report on the first."""
        page_names = {page.removesuffix(".html") for page, _ in self.pages}
        by_page: dict[str, list[Row]] = {}
        opening = [lead.name for lead in self.leads]
        for answer in self.answers:
            name = str(answer["name"])
            page = "index" if name in opening else ANSWERED_ON.get(name, "layers")
            behind = [section for section in self.examples if section.answer == name]
            row = answer | {"tables": list(answer["tables"]), "behind": behind}  # pages need the names of tables alone
            by_page.setdefault(page if page in page_names else "index", []).append(row)
        return by_page

    @cached_property
    def examples(self) -> list[Section]:
        """The sections of the page about texts and tokens behind the numbers."""
        return [] if self.behind is None else sections(self.behind.tables)

    @property
    def glance(self) -> list[Drawn]:
        """The main charts; none that has encoders and decoders on one axis though they cannot be compared."""
        both = len({style.role for style in self.scene.styles.own}) > 1
        return [drawn for drawn in self.charts if drawn.chart.main and not (both and drawn.chart.within_role)]

    def drawn(self) -> Contents:
        """Return the same study with every chart drawn; needs no database any more."""
        return self.with_charts(lambda chart: draw_chart(chart, self.scene))

    def with_charts(self, change: Callable[[Drawn], Drawn]) -> Contents:
        """Return the same study with its page's charts changed."""
        sections = [replace(section, charts=tuple(map(change, section.charts))) for section in self.sections]
        return replace(self, sections=tuple(sections))


def read_contents(read: Read, study: Row, catalogue: Mapping[str, Definition], main_only: bool = False) -> Contents:
    """Read one study."""
    name = str(study["study"])
    order = order_of(study.get("spec"))

    def rows(query: str, key: str = "") -> list[Row]:
        """Return the rows of a query; models and corpora in the order of the study's file."""
        return in_order(read_rows(read, query, name), key, order[KEYS[key]]) if key else read_rows(read, query, name)

    checkpoint_rows = rows(queries.CHECKPOINTS)
    checkpoints = [CheckpointName(row["model"], row["checkpoint"], row["step"]) for row in checkpoint_rows]
    steps = {(checkpoint.model, checkpoint.step) for checkpoint in checkpoints if checkpoint.step is not None}
    sample = sampling(read, name, sorted(step for _, step in steps))
    last = {checkpoint.model: checkpoint for checkpoint in checkpoints}
    carried = [mark for mark in checkpoints if not sample or sample.shows(mark.step, mark is last[mark.model])]
    roles = {row["model"]: str(row["role"]) for row in in_order(checkpoint_rows, "model", order["models"])}
    models, corpora = (
        [row | {"location": shared_text(row["location"] or "") or None} for row in rows(query, key)]
        for query, key in ((queries.MODELS, "model"), (queries.CORPORA, "corpus"))
    )
    null = {r["model"]: (str(r["base"]), str(r["baseline"])) for r in models if r.get("baseline")}
    corpus_names = (row["corpus"] for row in rows(queries.CORPUS_NAMES, "corpus") if row["metric"] not in analyses())
    scene = Scene(
        study=name,
        styles=style_models(roles, null),
        views=_views(study, [row["view"] for row in rows(queries.VIEW_NAMES)]),
        moments=moments(carried) if checkpoints else [],
        corpora=list(dict.fromkeys(map(str, corpus_names))),
        sites=[PATH, ATTENTION] if {"site": ATTENTION} in rows(queries.SITES) else [PATH],
        statistics={f"{metric.name}.{s.name}": s.title for metric in catalogue.values() for s in metric.statistics},
    )
    cells = rows(queries.CELLS)
    trained = len(steps) > len({model for model, _ in steps})
    apply = sample.apply if sample else None
    sections = _sections(read, name, catalogue, [row["metric"] for row in cells], trained, main_only, apply)
    claims = read_claims(read, name)
    findings = read_findings(read, scene, study.get("looked_at"))
    contents = Contents(study, scene, tuple(sections), models, corpora, cells, claims, findings)
    if main_only:
        return contents
    # models that only an explorer shows come last, so that the others look the same on every page
    loaded = roles | {row["model"]: str(row["role"]) for row in models if row["role"] and row["model"] not in roles}
    named = (*(row["corpus"] for row in corpora), *order["groups"], *order["pairs"])
    if scene.styles.means:
        means = read(filled(ROLE_MEANS, study=name))
        contents = contents.with_charts(lambda drawn: replace(drawn, means=_means_of(means, drawn)))
    explorers = read_explorers(read, name, replace(style_models(loaded, null), named=named), catalogue)
    sinks = read_sinks(read, name, models)
    if sinks and not any(explorer.name == "tokens" for explorer in explorers):
        explorers = (Explorer("tokens", "Tokens", about="Which tokens have extreme states?"), *explorers)
    contents = replace(contents, answers=read_answers(read, name, order))
    overview = read_overview(read, contents)
    return replace(
        contents,
        overview=overview,
        explorers=explorers,
        sinks=sinks,
        compared=overview.stored if len(scene.styles.own) > 1 and len(overview.stored.frame) else None,
        texts=read_texts(read, name),
        behind=read_behind(read, name),
        numbers_hash=read_hash(read, name),
    )


def _means_of(means: pd.DataFrame, drawn: Drawn) -> pd.DataFrame | None:
    """Return the role means of a statistic's profile and of its chance level; None for other charts."""
    metric, _, statistic = drawn.id.partition(".")
    if drawn.chart.kind != "profile":
        return None
    rows = means[(means["metric"] == metric) & means["statistic"].isin([statistic, f"{statistic}_floor"])]
    return rows.drop(columns="metric") if len(rows) else None


def _views(study: Row, stored: list[str]) -> list[str]:
    declared = queries.parsed(study["views"], list)
    order = [view for view in (*declared, *TOKEN_SETS) if view in stored]
    return list(dict.fromkeys(map(str, order + stored)))


def _sections(
    read: Read,
    study: str,
    catalogue: Mapping[str, Definition],
    tried: Sequence[str],
    trained: bool,
    main_only: bool,
    sample: Sample | None,
) -> list[MetricSection]:
    """One section for each metric that has numbers, and for each that was tried and has none; analyses come last.

    Analyses without statistics (static embeddings, journeys) have pages of their own and no section.
    """
    with_statistics = (name for name in tried if name not in catalogue or catalogue[name].statistics)
    rows: dict[str, dict[str, Row]] = {name: {} for name in with_statistics}
    for row in read_rows(read, queries.STATISTICS, study):
        rows.setdefault(row["metric"], {})[row["statistic"]] = row
    tables: dict[str, set[str]] = {}
    for row in [] if main_only else read_rows(read, queries.BESIDES, study):
        rows.setdefault(row["metric"], {})
        tables.setdefault(row["metric"], set()).add(row["name"])

    def section(name: str) -> MetricSection:
        metric, present, beside = catalogue.get(name), rows[name], tables.get(name, set())
        statistics = metric.statistics if metric else ()
        named = [chart for chart in (metric.charts if metric else ()) if chart.chapter is None]
        together = {statistic for chart in named if chart.alone for statistic in chart.statistics}
        defined = {statistic.name for statistic in statistics}
        strangers = [s for s in present if s not in defined and s.removesuffix("_floor") not in present.keys() - {s}]
        singles = [s for s in statistics if s.name in present] + [_undefined(s, present[s]) for s in strangers]
        singles = [s for s in singles if s.charted and s.name.removesuffix("_floor") not in together]

        def drawn(chart: Chart, statistic: Statistic | None = None, open: bool = True) -> Drawn:
            of_it = {"statistic": statistic.name, "floor": f"{statistic.name}_floor"} if statistic else {}
            return read_chart(read, chart, open, sample, study=study, metric=name, **of_it)

        first: list[Drawn] = []
        for statistic in [s for s in singles if s.main]:
            first.append(drawn(of_statistic(name, statistic), statistic))
            if trained and not main_only:
                training = drawn(over_training(name, statistic), statistic)
                first += [] if training.empty else [training]
        rest: list[Drawn] = []
        if not main_only:
            charts = [explained(chart, metric) for chart in named] if metric else []
            charts += of_tables(name, [s for s in statistics if s.name not in together], beside)
            present_charts = [drawn(chart, open=not chart.behind) for chart in charts]
            first += [chart for chart in present_charts if chart.open and not chart.empty]
            rest += [chart for chart in present_charts if not chart.open and not chart.empty]
            minor = [s for s in singles if not s.main]
            # a section opens on something, and a single chart needs no collapsible section
            opened = len(minor) if len(minor) + len(first) <= 2 else 0 if first else 1
            for place, statistic in enumerate(minor):
                rest.append(drawn(of_statistic(name, statistic), statistic, open=place < opened))
        in_pairs = {s.name for s in statistics if s.per == "pair" and "layer_pairs" in beside}
        return MetricSection(
            name=name,
            title=metric.title if metric else name,
            charts=(*first, *rest),
            question=metric.question if metric else "other",
            absent=tuple(s for s in statistics if s.name not in {*present, *in_pairs}),
        )

    return [section(name) for name in sorted(rows, key=lambda name: (name in analyses(), name))]


def _undefined(name: str, row: Row) -> Statistic:
    per: Literal["layer", "model"] = "layer" if row["layers"] else "model"
    definition = "Not installed here; see the package of the metric."
    return Statistic(name, name.replace("_", " "), definition, (), per=per, floor=True)


def readers(catalogue: Mapping[str, Definition]) -> dict[str, tuple[str, Reader]]:
    """Return the title and the reader of each explorer by the name of its page, in the order of the pages."""
    of_charts = {
        name: (page.title, partial(read_page, page=page, charts=charts, more=BESIDES.get(name)))
        for name, (page, charts) in pages(catalogue).items()
    }
    return {"tokens": ("Tokens", read_journeys), **of_charts}


def read_explorers(read: Read, study: str, styles: Styles, catalogue: Mapping[str, Definition]) -> tuple[Explorer, ...]:
    """Read the explorers that a study has rows for; ``styles`` has also models without numbers of layers."""
    explorers = []
    for name, (title, reader) in readers(catalogue).items():
        try:
            explorer = reader(read, study, styles)
        except Exception as error:  # one broken page must not take the others down
            if is_out_of_memory(error):
                raise
            explorer = Explorer(name, title, error=with_type(error))
        if explorer is not None:
            explorers.append(explorer)
    return tuple(explorers)
