"""All explorers, in the order in which pages name them, and how they get onto a disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment

from reporter.charts.chart import Read
from reporter.charts.styles import Styles
from reporter.errors import is_out_of_memory
from reporter.metrics.base import Definition
from reporter.report import vocabulary_page
from reporter.report.assets import write
from reporter.report.chart_page import ChartPage, pages, read_page
from reporter.report.explorer import Explorer, Reader
from reporter.report.explorer_journeys import read_journeys

BESIDES = {"vocabulary": vocabulary_page.besides}
"""What some pages show besides their charts, in a template of the page's own name."""


def readers(catalogue: Mapping[str, Definition]) -> dict[str, tuple[str, Reader]]:
    """Return what reads each explorer, and its title, by the name of its page.

    Args:
        catalogue: the metrics and analyses whose charts may stand on pages of their own.
    """
    of_charts = {
        name: (page.title, partial(read_page, page=page, charts=charts, more=BESIDES.get(name)))
        for name, (page, charts) in pages(catalogue).items()
    }
    return {"journeys": ("Journeys", read_journeys), **of_charts}


def read_explorers(read: Read, study: str, styles: Styles, catalogue: Mapping[str, Definition]) -> tuple[Explorer, ...]:
    """Read the explorers that a study has rows for.

    Args:
        read: runs a query.
        study: id of the study.
        styles: how all models of the study are drawn, those without numbers of layers included.
        catalogue: the metrics and analyses that are installed.
    """
    found = []
    for name, (title, reader) in readers(catalogue).items():
        try:
            explorer = reader(read, study, styles)
        except Exception as error:  # one broken page must not take the others down
            if is_out_of_memory(error):  # which says nothing of this page
                raise
            explorer = Explorer(name, title, error=f"{type(error).__name__}: {error}")
        if explorer is not None:
            found.append(explorer)
    return tuple(found)


def pages_of(folder: Path, catalogue: Mapping[str, Definition]) -> list[tuple[str, str]]:
    """Return (file name, title) of each explorer that a study's folder has."""
    titles = [(f"{name}.html", title) for name, (title, _) in readers(catalogue).items()]
    return [(page, title) for page, title in titles if (folder / page).exists()]


def write_explorers(
    folder: Path,
    explorers: Sequence[Explorer],
    study: dict[str, Any],
    templates: Environment,
    catalogue: Mapping[str, Definition],
    numbers: Mapping[str, int],
) -> list[Path]:
    """Write the pages of a study's explorers, and drop those that it no longer has.

    Args:
        folder: the study's folder.
        explorers: what to write.
        study: its row of ``studies``.
        templates: where the templates are.
        catalogue: the metrics and analyses whose pages there may be.
        numbers: of figures, by their ids.
    """
    written = []
    for explorer in explorers:
        page = folder / explorer.page
        template = "charts.html" if isinstance(explorer, ChartPage) and explorer.name not in BESIDES else explorer.page
        template = "explorer.html" if explorer.error else template
        html = templates.get_template(template).render(
            explorer=explorer,
            explorers=explorers,
            study=study,
            here=explorer.page,
            numbers=numbers,
            for_page={"name": explorer.name, "study": study["study"], **explorer.data},
        )
        write(page, html)
        written.append(page)
    for name in readers(catalogue).keys() - {explorer.name for explorer in explorers}:
        (folder / f"{name}.html").unlink(missing_ok=True)
    return written
