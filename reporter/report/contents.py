"""Everything a study's page shows, read from the database in one go."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from reporter.charts.chart import Chart, Drawn, Read
from reporter.charts.drawing import Sample, draw_chart, read_chart
from reporter.charts.layout import ATTENTION, PATH, CheckpointName, Scene, moments
from reporter.charts.styles import Styles, style_models
from reporter.core.errors import is_out_of_memory, shared_text, with_type
from reporter.metrics.analysis import analyses
from reporter.metrics.base import Definition, Statistic
from reporter.report import tables as queries
from reporter.report.citing import read_hash
from reporter.report.claims import CLAIMS, CLAIMS_BY_MODEL, Claims, read_claims
from reporter.report.compared import Compared, read_compared
from reporter.report.downsampling import sampling
from reporter.report.explorers import Explorer, Reader, besides, pages, read_page
from reporter.report.findings import FINDINGS, Answered, Findings, read_answers, read_findings
from reporter.report.free_charts import explained, of_statistic, of_tables, over_training
from reporter.report.journeys import read_journeys
from reporter.report.tables import Row, SinksOfStudy, TextsOfCorpus, read_sinks, read_texts, rows_of
from reporter.store.rows import in_order, order_of

if TYPE_CHECKING:
    import pandas as pd

VIEW_ORDER = ("words", "all", "no-sinks")
BESIDES = {"vocabulary": besides}
"""What some pages show besides their charts, in a template of the page's own name."""


@dataclass(frozen=True)
class Section:
    """One metric of a study.

    Args:
        name: name of the metric.
        title: heading.
        summary: what question it answers.
        charts: its charts, those that are seen at once first: headlines, followed over training where they can be,
            and what several statistics or other tables show; then those of the other statistics.
        absent: its statistics that have no numbers.
    """

    name: str
    title: str
    summary: str
    charts: tuple[Drawn, ...]
    absent: tuple[Statistic, ...] = ()

    @property
    def open(self) -> list[Drawn]:
        """The charts that are seen at once."""
        return [chart for chart in self.charts if chart.open]

    @property
    def more(self) -> list[Drawn]:
        """The charts that wait until they are asked for."""
        return [chart for chart in self.charts if not chart.open]


@dataclass(frozen=True)
class Contents:
    """A study as the database has it."""

    study: Row
    scene: Scene
    sections: tuple[Section, ...]
    models: list[Row]
    corpora: list[Row]
    cells: list[Row]
    claims: Claims
    findings: Findings
    explorers: tuple[Explorer, ...] = ()
    sinks: SinksOfStudy | None = None
    answers: tuple[Answered, ...] = ()
    compared: Compared | None = None
    texts: Mapping[str, TextsOfCorpus] = field(default_factory=dict)
    numbers_hash: tuple[str, str] = ("", "")

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
    def glance(self) -> list[Drawn]:
        """The headline charts; none that has encoders and decoders on one axis though they cannot be compared."""
        both = len({style.role for style in self.scene.styles.own}) > 1
        return [drawn for drawn in self.charts if drawn.chart.headline and not (both and drawn.chart.within_role)]

    def drawn(self) -> Contents:
        """Return the same study with every chart drawn; needs no database any more."""
        sections = [
            replace(section, charts=tuple(draw_chart(chart, self.scene) for chart in section.charts))
            for section in self.sections
        ]
        return replace(self, sections=tuple(sections))


def read_contents(
    read: Read, study: Row, catalogue: Mapping[str, Definition], headlines_only: bool = False
) -> Contents:
    """Read one study."""
    name = str(study["study"])
    checkpoint_rows = rows_of(read(queries.CHECKPOINTS.fill(study=name)))
    checkpoints = [CheckpointName(row["model"], row["checkpoint"], row["step"]) for row in checkpoint_rows]
    sample = sampling(read, name, [checkpoint.step for checkpoint in checkpoints if checkpoint.step is not None])
    last = {checkpoint.model: checkpoint for checkpoint in checkpoints}
    carried = [mark for mark in checkpoints if not sample or sample.shows(mark.step, mark is last[mark.model])]
    order = order_of(study.get("spec"))
    roles = {row["model"]: str(row["role"]) for row in in_order(checkpoint_rows, "model", order["models"])}
    models = in_order(_given_away(read(queries.MODELS.fill(study=name))), "model", order["models"])
    null = {r["model"]: (str(r["base"]), str(r["baseline"])) for r in models if r.get("baseline")}
    sites = list(read(queries.SITES.fill(study=name))["site"])
    scene = Scene(
        study=name,
        styles=style_models(roles, null),
        views=_views(study, list(read(queries.VIEW_NAMES.fill(study=name))["view"])),
        moments=moments(carried) if checkpoints else [],
        corpora=_corpora(in_order(rows_of(read(queries.CORPUS_NAMES.fill(study=name))), "corpus", order["corpora"])),
        sites=[PATH, ATTENTION] if ATTENTION in sites else [PATH],
        statistics={
            statistic.name: statistic.title for metric in catalogue.values() for statistic in metric.statistics
        },
    )
    cells = rows_of(read(queries.CELLS.fill(study=name)))
    trained = any(len(steps) > 1 for steps in _steps(checkpoints).values())
    sections = _sections(
        read,
        name,
        catalogue,
        [row["metric"] for row in cells],
        trained,
        headlines_only,
        sample.apply if sample else None,
    )
    # models that only an explorer shows come last, so that the others look the same on every page
    loaded = roles | {row["model"]: str(row["role"]) for row in models if row["role"] and row["model"] not in roles}
    corpora = in_order(_given_away(read(queries.CORPORA.fill(study=name))), "corpus", order["corpora"])
    drawn, named = style_models(loaded, null), (*(row["corpus"] for row in corpora), *order["groups"], *order["pairs"])
    claims, findings = _claims(read, name), _findings(read, study, scene)
    headlines = [drawn for section in sections for drawn in section.charts if drawn.chart.headline]
    about = [*findings.about, *claims.about]
    return Contents(
        study=study,
        scene=scene,
        sections=tuple(sections),
        models=models,
        corpora=corpora,
        cells=cells,
        claims=claims,
        findings=findings,
        explorers=() if headlines_only else read_explorers(read, name, replace(drawn, named=named), catalogue),
        sinks=None if headlines_only else read_sinks(read, name, models),
        answers=() if headlines_only else read_answers(read, rows_of, name, order),
        compared=None if headlines_only else read_compared(read, scene, headlines, about),
        texts={} if headlines_only else read_texts(read, name),
        numbers_hash=("", "") if headlines_only else read_hash(read, name),
    )


def _steps(checkpoints: Sequence[CheckpointName]) -> dict[str, set[int]]:
    steps: dict[str, set[int]] = {}
    for checkpoint in checkpoints:
        if checkpoint.step is not None:
            steps.setdefault(checkpoint.model, set()).add(checkpoint.step)
    return steps


def _claims(read: Read, study: str) -> Claims:
    sql = CLAIMS.fill(study=study)
    frame = read(sql)
    return read_claims(frame, rows_of(frame), sql, rows_of(read(CLAIMS_BY_MODEL.fill(study=study))))


def _findings(read: Read, study: Row, scene: Scene) -> Findings:
    sql = FINDINGS.fill(study=str(study["study"]))
    frame = read(sql)
    return read_findings(frame, rows_of(frame), study.get("looked_at"), sql, scene.styles)


def _corpora(found: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(str(row["corpus"]) for row in found if row["metric"] not in analyses()))


def _given_away(frame: pd.DataFrame) -> list[Row]:
    return [row | {"location": shared_text(row["location"] or "") or None} for row in rows_of(frame)]


def _views(study: Row, found: list[str]) -> list[str]:
    try:
        declared = json.loads(study["views"] or "[]")
    except (TypeError, ValueError):
        declared = []
    order = [view for view in (declared if isinstance(declared, list) else []) if view in found]
    rest = [view for view in VIEW_ORDER if view in found] + found
    return list(dict.fromkeys(map(str, order + rest)))


def _sections(
    read: Read,
    study: str,
    catalogue: Mapping[str, Definition],
    tried: Sequence[str],
    trained: bool,
    headlines_only: bool,
    sample: Sample | None,
) -> list[Section]:
    """One section for each metric that has numbers, and for each that was tried and has none; analyses come last.

    Analyses without statistics (static embeddings, journeys) have pages of their own and no section.
    """
    shown_here = [name for name in tried if name not in catalogue or catalogue[name].statistics]
    statistics: dict[str, dict[str, Row]] = {name: {} for name in shown_here}
    for row in rows_of(read(queries.STATISTICS.fill(study=study))):
        statistics.setdefault(row["metric"], {})[row["statistic"]] = row
    tables: dict[str, set[str]] = {}
    for row in [] if headlines_only else rows_of(read(queries.BESIDES.fill(study=study))):
        statistics.setdefault(row["metric"], {})
        tables.setdefault(row["metric"], set()).add(row["name"])
    return [
        _section(
            read,
            study,
            name,
            statistics[name],
            tables.get(name, set()),
            catalogue.get(name),
            trained,
            headlines_only,
            sample,
        )
        for name in sorted(statistics, key=lambda name: (name in analyses(), name))
    ]


def _section(
    read: Read,
    study: str,
    name: str,
    rows: dict[str, Row],
    tables: set[str],
    metric: Definition | None,
    trained: bool,
    headlines_only: bool,
    sample: Sample | None,
) -> Section:
    statistics = metric.statistics if metric else ()
    named = [chart for chart in (metric.charts if metric else ()) if chart.chapter is None]
    together = {statistic for chart in named if chart.alone for statistic in chart.statistics}
    defined = {statistic.name for statistic in statistics}
    strangers = [s for s in rows if s not in defined and s.removesuffix("_floor") not in rows.keys() - {s}]
    singles = [s for s in statistics if s.name in rows] + [_undefined(s, rows[s]) for s in strangers]
    singles = [statistic for statistic in singles if statistic.name.removesuffix("_floor") not in together]

    def read_one(statistic: Statistic, chart: Chart, open: bool = True) -> Drawn:
        of_it = {"statistic": statistic.name, "floor": f"{statistic.name}_floor"}
        return read_chart(read, chart, open, sample, study=study, metric=name, **of_it)

    first: list[Drawn] = []
    for statistic in [s for s in singles if s.headline]:
        first.append(read_one(statistic, of_statistic(name, statistic)))
        if trained and not headlines_only:
            training = read_one(statistic, over_training(name, statistic))
            first += [] if training.empty else [training]
    rest: list[Drawn] = []
    if not headlines_only:
        charts = [explained(chart, metric) for chart in named] if metric else []
        free = of_tables(name, [s for s in statistics if s.name not in together], tables)
        more = [read_chart(read, chart, sample=sample, study=study, metric=name) for chart in [*charts, *free]]
        first += [drawn for drawn in more if not drawn.empty]
        minor = [s for s in singles if not s.headline]
        # a section opens on something, and a single chart needs no collapsible section
        opened = len(minor) if len(minor) + len(first) <= 2 else 0 if first else 1
        for place, statistic in enumerate(minor):
            rest.append(read_one(statistic, of_statistic(name, statistic), open=place < opened))
    elsewhere = "layer_pairs" in tables
    return Section(
        name=name,
        title=metric.title if metric else name,
        summary=metric.summary if metric else "This metric is not installed here: its definitions are missing.",
        charts=(*first, *rest),
        absent=tuple(s for s in statistics if s.name not in rows and not (s.per == "pair" and elsewhere)),
    )


def _undefined(name: str, row: Row) -> Statistic:
    return Statistic(
        name,
        name.replace("_", " "),
        "not installed here; see the metric's own package",
        (),
        per="layer" if row["layers"] else "model",
        floor=True,
    )


def readers(catalogue: Mapping[str, Definition]) -> dict[str, tuple[str, Reader]]:
    """Return the title and the reader of each explorer by the name of its page, in the order of the pages."""
    of_charts = {
        name: (page.title, partial(read_page, page=page, charts=charts, more=BESIDES.get(name)))
        for name, (page, charts) in pages(catalogue).items()
    }
    return {"journeys": ("Journeys", read_journeys), **of_charts}


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
