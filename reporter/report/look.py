"""Settings of the pages of one study, from the key ``report`` of its file.

The choice of figures and parts is read from the study's text in the database. Its templates and its stylesheet are
copied into the folder ``look`` beside its pages when it runs, so that they can be written again, and by others, too.
They may come from anybody, with a results folder: see :mod:`reporter.report.restricted`. No link there is followed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reporter.core.errors import UsageError
from reporter.core.outputs import LIST, is_written, replacing
from reporter.report.contents import Contents, MetricSection
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
        templates: the texts of templates that stand in for the report's, by name; None where there are none.
        figures: the only charts, by id, and metrics to show, in their order; all where there are none.
        hidden: the parts to leave out.
    """

    theme: str = "system"
    style: str = ""
    templates: Mapping[str, str] | None = None
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

    def _chosen(self, sections: Sequence[MetricSection]) -> list[MetricSection]:
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


MOST_BYTES = 4_000_000
"""Of one template or stylesheet."""


def read_look(study: Mapping[str, Any], folder: Path) -> ReportLook:
    """Return how a study's pages look; where its file says nothing that can be read, they look as they always do.

    Raises:
        UsageError: a template or the stylesheet is a link, too large, or no text in UTF-8.
    """
    report = spec_of(study.get("spec")).get("report")
    settings = report if isinstance(report, dict) else {}
    theme = settings.get("theme")
    css = _texts(folder, STYLE).get(STYLE, "") if settings.get("style") else ""
    return ReportLook(
        theme=theme if theme in ("light", "dark") else "system",
        # in CSS a backslash before a slash changes nothing, and the element does not end
        style=css.replace("</", "<\\/"),
        templates=_texts(folder, "*.html") or None if settings.get("templates") else None,
        figures=_names(settings.get("figures")),
        hidden=frozenset(_names(settings.get("hide"))),
    )


def _texts(folder: Path, pattern: str) -> dict[str, str]:
    """Return the texts of files of a study's look; a link could lead to any file of this machine."""
    kept = folder / FOLDER
    texts: dict[str, str] = {}
    for path in (kept, *sorted(kept.glob(pattern))):
        if path.is_symlink():
            raise UsageError(f"{path} is a link, which may lead out of the results folder; put the file itself there")
        if path == kept or not path.is_file():
            continue
        if path.stat().st_size > MOST_BYTES:
            raise UsageError(f"{path} is larger than {MOST_BYTES // 1_000_000} MB; templates and stylesheets are short")
        try:
            texts[path.name] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"{path} is no text in UTF-8; save it in UTF-8") from error
    return texts


def _names(value: Any) -> tuple[str, ...]:
    return tuple(str(name) for name in value) if isinstance(value, list) else ()


def keep_look(study: str, templates: Path | None, style: Path | None, out: Path) -> bool:
    """Copy a study's templates and stylesheet beside its pages in a results folder; return whether they are new."""
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
    kept = out / study / FOLDER
    if not files and not is_written(kept):
        return False  # a folder of this name may be somebody's
    if {path.name: path.read_bytes() for path in kept.glob("*") if path.is_file() and path.name != LIST} == files:
        return False
    with replacing(out, f"{study}/{FOLDER}", alone=True) as fresh:
        for name, content in files.items():
            (fresh / name).write_bytes(content)
    return True
