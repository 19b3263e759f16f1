"""Settings of the pages of one study, from the key ``report`` of its file.

The choice of figures and parts is read from the study's text in the database. Its templates and its stylesheet are
copied into the folder ``look`` beside its pages when it runs, so that they can be written again, and by others, too.
Templates may come from anybody, with a results folder: they run in Jinja's sandbox.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reporter.core.errors import UsageError
from reporter.report.contents import Contents, Section
from reporter.store.rows import spec_of

FOLDER = "look"
FORMER = {"tokens": "journeys", "texts": "sentences", "weights": "vocabulary"}
"""What pages were called in studies that hide them."""
STYLE = "style.css"


@dataclass(frozen=True)
class ReportLook:
    """The settings of a study for its report.

    Args:
        theme: the theme that pages open in: ``system``, ``light`` or ``dark``.
        style: CSS that comes after the report's own.
        templates: a folder of templates that stand in for the report's; None where there is none.
        figures: the only charts, by id, and metrics to show, in their order; all where there are none.
        hidden: the parts to leave out.
    """

    theme: str = "system"
    style: str = ""
    templates: Path | None = None
    figures: tuple[str, ...] = ()
    hidden: frozenset[str] = frozenset()

    def shows(self, part: str) -> bool:
        """Tell whether a part of a page is shown."""
        return part not in self.hidden

    def of(self, contents: Contents) -> Contents:
        """Return what of a study is shown, in its order."""
        sections = [section for section in contents.sections if self.shows(section.name)]
        unfound = replace(contents.findings, all=(), looked_at=None)
        if self.figures:
            sections = self._chosen(sections)
        return replace(
            contents,
            sections=tuple(sections),
            explorers=tuple(
                explorer
                for explorer in contents.explorers
                if self.shows(explorer.name) and self.shows(FORMER.get(explorer.name, ""))
            ),
            claims=contents.claims if self.shows("claims") else replace(contents.claims, all=()),
            findings=contents.findings if self.shows("findings") else unfound,
            sinks=contents.sinks if self.shows("sinks") else None,
            answers=contents.answers if self.shows("answers") else (),
            compared=contents.compared if self.shows("compared") else None,
        )

    def _chosen(self, sections: Sequence[Section]) -> list[Section]:
        place = {name: number for number, name in reversed(list(enumerate(self.figures)))}
        ranked = []
        for section in sections:
            charts = [chart for chart in section.charts if {chart.id, section.name} & place.keys()]
            charts.sort(key=lambda chart: place.get(chart.id, place.get(section.name, 0)))
            if charts:
                first = min(place.get(chart.id, place.get(section.name, 0)) for chart in charts)
                opened = tuple(replace(chart, open=chart.open or chart.id in place) for chart in charts)
                ranked.append((first, replace(section, charts=opened, question="chosen", absent=())))
        return [section for _, section in sorted(ranked, key=lambda pair: pair[0])]


def read_look(study: Mapping[str, Any], folder: Path) -> ReportLook:
    """Return how a study's pages look; where its file says nothing that can be read, they look as they always do."""
    report = spec_of(study.get("spec")).get("report")
    settings = report if isinstance(report, dict) else {}
    style, theme = folder / FOLDER / STYLE, settings.get("theme")
    css = style.read_text(encoding="utf-8") if settings.get("style") and style.is_file() else ""
    return ReportLook(
        theme=theme if theme in ("light", "dark") else "system",
        # in CSS a backslash before a slash changes nothing, and the element does not end
        style=css.replace("</", "<\\/"),
        templates=folder / FOLDER if settings.get("templates") and (folder / FOLDER).is_dir() else None,
        figures=_names(settings.get("figures")),
        hidden=frozenset(_names(settings.get("hide"))),
    )


def _names(value: Any) -> tuple[str, ...]:
    return tuple(str(name) for name in value) if isinstance(value, list) else ()


def keep_look(study: str, templates: Path | None, style: Path | None, folder: Path) -> bool:
    """Copy a study's templates and stylesheet beside its pages."""
    files: dict[str, bytes] = {}
    if templates is not None:
        if not templates.is_dir():
            raise UsageError(f"study {study!r}, report.templates: there is no folder {templates}")
        files = {path.name: path.read_bytes() for path in sorted(templates.glob("*.html")) if path.is_file()}
        if not files:
            raise UsageError(f"study {study!r}, report.templates: the folder {templates} has no templates (*.html)")
    if style is not None:
        if not style.is_file():
            raise UsageError(f"study {study!r}, report.style: there is no file {style}")
        files[STYLE] = style.read_bytes()
    kept = folder / FOLDER
    if {path.name: path.read_bytes() for path in kept.glob("*") if path.is_file()} == files:
        return False
    shutil.rmtree(kept, ignore_errors=True)
    for name, content in files.items():
        kept.mkdir(parents=True, exist_ok=True)
        (kept / name).write_bytes(content)
    return True
