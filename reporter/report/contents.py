"""Everything a study's page shows, read from the database in one go."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reporter.analyses.registry import analyses
from reporter.charts.chart import Chart, Drawn, Read, Thin, draw_chart, read_chart
from reporter.charts.scene import ATTENTION, PATH, CheckpointName, Scene, moments
from reporter.charts.styles import style_models
from reporter.metrics.base import Definition, Statistic
from reporter.paths import shared_text
from reporter.report import queries
from reporter.report.answers import Answered, read_answers
from reporter.report.citing import read_hash
from reporter.report.claims import CLAIMS, CLAIMS_BY_MODEL, Claims, read_claims
from reporter.report.compared import Compared, read_compared
from reporter.report.corpora import TextsOfCorpus, read_texts
from reporter.report.explorer import Explorer
from reporter.report.explorers import read_explorers
from reporter.report.findings import FINDINGS, Findings, read_findings
from reporter.report.free_charts import explained, of_statistic, of_tables, over_training
from reporter.report.sinks import SinksOfStudy, read_sinks
from reporter.report.thinning import thinning
from reporter.store.order import in_order, order_of

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]
VIEW_ORDER = ("words", "all", "no-sinks")


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
    """Read one study.

    Args:
        read: runs a query.
        study: its row of ``studies``.
        catalogue: the metrics and analyses that are installed; numbers of others are shown under their bare names.
        headlines_only: leave out all other charts and the explorers; enough for the list of studies.
    """
    name = str(study["study"])
    found = rows_of(read(queries.CHECKPOINTS.fill(study=name)))
    checkpoints = [CheckpointName(row["model"], row["checkpoint"], row["step"]) for row in found]
    thin = thinning(read, name, [checkpoint.step for checkpoint in checkpoints if checkpoint.step is not None])
    last = {checkpoint.model: checkpoint for checkpoint in checkpoints}
    carried = [one for one in checkpoints if not thin or thin.shows(one.step, one is last[one.model])]
    order = order_of(study.get("spec"))
    roles = {row["model"]: str(row["role"]) for row in in_order(found, "model", order["models"])}
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
        statistics={own.name: own.title for metric in catalogue.values() for own in metric.statistics},
    )
    cells = rows_of(read(queries.CELLS.fill(study=name)))
    trained = any(len(steps) > 1 for steps in _steps(checkpoints).values())
    sections = _sections(
        read, name, catalogue, [row["metric"] for row in cells], trained, headlines_only, thin.applied if thin else None
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
        sinks=None if headlines_only else read_sinks(read, rows_of, name, models),
        answers=() if headlines_only else read_answers(read, rows_of, name, order),
        compared=None if headlines_only else read_compared(read, rows_of, scene, headlines, about),
        texts={} if headlines_only else read_texts(read, rows_of, name),
        numbers_hash=("", "") if headlines_only else read_hash(read, name),
    )


def _steps(checkpoints: Sequence[CheckpointName]) -> dict[str, set[int]]:
    """Return the training steps of each model that has any: where one has several, it can be followed over them."""
    found: dict[str, set[int]] = {}
    for checkpoint in checkpoints:
        if checkpoint.step is not None:
            found.setdefault(checkpoint.model, set()).add(checkpoint.step)
    return found


def _claims(read: Read, study: str) -> Claims:
    sql = CLAIMS.fill(study=study)
    frame = read(sql)
    return read_claims(frame, rows_of(frame), sql, rows_of(read(CLAIMS_BY_MODEL.fill(study=study))))


def _findings(read: Read, study: Row, scene: Scene) -> Findings:
    sql = FINDINGS.fill(study=str(study["study"]))
    frame = read(sql)
    return read_findings(frame, rows_of(frame), study.get("looked_at"), sql, scene.styles)


def _corpora(found: Sequence[Row]) -> list[str]:
    """Return the corpora that metrics have numbers of; what stands in their place for an analysis is none."""
    return list(dict.fromkeys(str(row["corpus"]) for row in found if row["metric"] not in analyses()))


def rows_of(frame: pd.DataFrame) -> list[Row]:
    """Return a frame as rows in which NULL is None."""
    records = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [{str(name): value for name, value in record.items()} for record in records]


def _given_away(frame: pd.DataFrame) -> list[Row]:
    """Return rows without the folders of this machine, which a database of an earlier build may name."""
    return [row | {"location": shared_text(row["location"] or "") or None} for row in rows_of(frame)]


def _views(study: Row, found: list[str]) -> list[str]:
    """Views in the order of the study, then those that only the numbers have."""
    try:
        wanted = json.loads(study["views"] or "[]")
    except (TypeError, ValueError):
        wanted = []
    order = [view for view in (wanted if isinstance(wanted, list) else []) if view in found]
    rest = [view for view in VIEW_ORDER if view in found] + found
    return list(dict.fromkeys(map(str, order + rest)))


def _sections(
    read: Read,
    study: str,
    catalogue: Mapping[str, Definition],
    tried: Sequence[str],
    trained: bool,
    headlines_only: bool,
    thin: Thin | None,
) -> list[Section]:
    """One section for each metric that has numbers, and for each that was tried and has none; analyses come last.

    Analyses without statistics (static embeddings, journeys) have pages of their own and no section.
    """
    shown_here = [name for name in tried if name not in catalogue or catalogue[name].statistics]
    found: dict[str, dict[str, Row]] = {name: {} for name in shown_here}
    for row in rows_of(read(queries.STATISTICS.fill(study=study))):
        found.setdefault(row["metric"], {})[row["statistic"]] = row
    others: dict[str, set[str]] = {}
    for row in [] if headlines_only else rows_of(read(queries.BESIDES.fill(study=study))):
        found.setdefault(row["metric"], {})
        others.setdefault(row["metric"], set()).add(row["name"])
    return [
        _section(
            read, study, name, found[name], others.get(name, set()), catalogue.get(name), trained, headlines_only, thin
        )
        for name in sorted(found, key=lambda name: (name in analyses(), name))
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
    thin: Thin | None,
) -> Section:
    known = metric.statistics if metric else ()
    named = [chart for chart in (metric.charts if metric else ()) if chart.chapter is None]
    together = {statistic for chart in named if chart.alone for statistic in chart.statistics}
    defined = {statistic.name for statistic in known}
    strangers = [s for s in rows if s not in defined and s.removesuffix("_floor") not in rows.keys() - {s}]
    singles = [s for s in known if s.name in rows] + [_undefined(s, rows[s]) for s in strangers]
    singles = [statistic for statistic in singles if statistic.name.removesuffix("_floor") not in together]

    def read_one(statistic: Statistic, chart: Chart, open: bool = True) -> Drawn:
        of_it = {"statistic": statistic.name, "floor": f"{statistic.name}_floor"}
        return read_chart(read, chart, open, thin, study=study, metric=name, **of_it)

    first: list[Drawn] = []
    for statistic in [s for s in singles if s.headline]:
        first.append(read_one(statistic, of_statistic(name, statistic)))
        if trained and not headlines_only:
            training = read_one(statistic, over_training(name, statistic))
            first += [] if training.empty else [training]
    rest: list[Drawn] = []
    if not headlines_only:
        own = [explained(chart, metric) for chart in named] if metric else []
        free = of_tables(name, [s for s in known if s.name not in together], tables)
        more = [read_chart(read, chart, thin=thin, study=study, metric=name) for chart in [*own, *free]]
        first += [drawn for drawn in more if not drawn.empty]
        minor = [s for s in singles if not s.headline]
        # a section opens on something, and a single chart is not worth a lid
        opened = len(minor) if len(minor) + len(first) <= 2 else 0 if first else 1
        for place, statistic in enumerate(minor):
            rest.append(read_one(statistic, of_statistic(name, statistic), open=place < opened))
    elsewhere = "layer_pairs" in tables
    return Section(
        name=name,
        title=metric.title if metric else name,
        summary=metric.summary if metric else "This metric is not installed here: its definitions are missing.",
        charts=(*first, *rest),
        absent=tuple(s for s in known if s.name not in rows and not (s.per == "pair" and elsewhere)),
    )


def _undefined(name: str, row: Row) -> Statistic:
    """Stand in for a statistic whose metric is not installed."""
    return Statistic(
        name,
        name.replace("_", " "),
        "not installed here; see the metric's own package",
        (),
        per="layer" if row["layers"] else "model",
        floor=True,
    )
