"""Everything a study's page shows, read from the database in one go."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reporter.metrics.base import Metric, Statistic
from reporter.report import queries
from reporter.report.figures import Figure, Read, Scene, draw_figure, kind_of, read_figure, training_kind_of
from reporter.report.moments import CheckpointName, moments
from reporter.report.styles import style_models

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
        figures: its charts, each statistic's profile or dots first, followed over training where it can be.
        absent: its statistics that have no numbers.
    """

    name: str
    title: str
    summary: str
    figures: tuple[Figure, ...]
    absent: tuple[Statistic, ...] = ()


@dataclass(frozen=True)
class Contents:
    """A study as the database has it."""

    study: Row
    scene: Scene
    sections: tuple[Section, ...]
    models: list[Row]
    corpora: list[Row]
    cells: list[Row]

    @property
    def figures(self) -> list[Figure]:
        """All figures, in the order of the page."""
        return [figure for section in self.sections for figure in section.figures]

    @property
    def glance(self) -> list[Figure]:
        """The headline figures."""
        return [f for f in self.figures if f.statistic.headline and f.kind.name != "training"]

    def drawn(self) -> Contents:
        """Return the same study with every chart drawn; needs no database any more."""
        sections = [
            replace(section, figures=tuple(draw_figure(figure, self.scene) for figure in section.figures))
            for section in self.sections
        ]
        return replace(self, sections=tuple(sections))


def read_contents(read: Read, study: Row, catalogue: Mapping[str, Metric]) -> Contents:
    """Read one study.

    Args:
        read: runs a query.
        study: its row of ``studies``.
        catalogue: the metrics that are installed; numbers of others are shown under their bare names.
    """
    name = str(study["study"])
    names = read(queries.CHECKPOINTS.fill(study=name))
    checkpoints = [
        CheckpointName(str(model), str(checkpoint), None if step != step else int(step))
        for model, checkpoint, step in zip(names["model"], names["checkpoint"], names["step"], strict=True)
    ]
    roles = {str(m): str(r) for m, r in zip(names["model"], names["role"], strict=True)}
    scene = Scene(
        study=name,
        styles=style_models(roles),
        views=_views(study, list(read(queries.VIEW_NAMES.fill(study=name))["view"])),
        moments=moments(checkpoints) if checkpoints else [],
        corpora=[str(c) for c in read(queries.CORPUS_NAMES.fill(study=name))["corpus"]],
    )
    cells = rows_of(read(queries.CELLS.fill(study=name)))
    return Contents(
        study=study,
        scene=scene,
        sections=tuple(_sections(read, name, catalogue, tried=[row["metric"] for row in cells])),
        models=rows_of(read(queries.MODELS.fill(study=name))),
        corpora=rows_of(read(queries.CORPORA.fill(study=name))),
        cells=cells,
    )


def rows_of(frame: pd.DataFrame) -> list[Row]:
    """Return a frame as rows in which NULL is None."""
    frame = frame.astype(object)
    return [
        {str(key): None if value is None or value != value else value for key, value in row.items()}
        for row in frame.where(frame.notna(), None).to_dict("records")
    ]


def _views(study: Row, found: list[str]) -> list[str]:
    """Views in the order of the study, then those that only the numbers have."""
    try:
        wanted = json.loads(study["views"] or "[]")
    except (TypeError, ValueError):
        wanted = []
    order = [view for view in (wanted if isinstance(wanted, list) else []) if view in found]
    rest = [view for view in VIEW_ORDER if view in found] + found
    return list(dict.fromkeys(map(str, order + rest)))


def _sections(read: Read, study: str, catalogue: Mapping[str, Metric], tried: Sequence[str]) -> list[Section]:
    """One section for each metric that has numbers, and for each that was tried and has none."""
    found: dict[str, dict[str, Row]] = {name: {} for name in sorted(set(tried))}
    for row in rows_of(read(queries.STATISTICS.fill(study=study))):
        found.setdefault(row["metric"], {})[row["statistic"]] = row
    return [_section(read, study, name, found[name], catalogue.get(name)) for name in sorted(found)]


def _section(read: Read, study: str, name: str, rows: dict[str, Row], metric: Metric | None) -> Section:
    known = metric.statistics if metric else ()
    defined = {statistic.name for statistic in known}
    strangers = [s for s in rows if s not in defined and s.removesuffix("_floor") not in rows.keys() - {s}]
    figures: list[Figure] = []
    for statistic in [s for s in known if s.name in rows] + [_undefined(s, rows[s]) for s in strangers]:
        figures.append(read_figure(read, study, name, statistic, kind_of(statistic)))
        if statistic.headline:
            training = read_figure(read, study, name, statistic, training_kind_of(statistic))
            if training.error or (training.frame is not None and len(training.frame)):
                figures.append(training)
    return Section(
        name=name,
        title=metric.title if metric else name,
        summary=metric.summary if metric else "This metric is not installed here: its definitions are missing.",
        figures=tuple(figures),
        absent=tuple(s for s in known if s.name not in rows),
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
