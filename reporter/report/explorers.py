"""All explorers, in the order in which pages name them, and how they get onto a disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment

from reporter.report.assets import write
from reporter.report.exhibits.explorer_sentences import read_sentences
from reporter.report.exhibits.explorer_vocabulary import read_vocabulary
from reporter.report.explorer import Explorer, Read, Reader
from reporter.report.explorer_journeys import read_journeys
from reporter.report.styles import Styles
from reporter.report.templating import inline_json

READERS: dict[str, tuple[str, Reader]] = {
    "journeys": ("Journeys", read_journeys),
    "sentences": ("Sentences", read_sentences),
    "vocabulary": ("Static embeddings", read_vocabulary),
}
"""By the name of the page: its title and what reads it."""


def read_explorers(read: Read, study: str, styles: Styles) -> tuple[Explorer, ...]:
    """Read the explorers that a study has rows for.

    Args:
        read: runs a query.
        study: id of the study.
        styles: how all models of the study are drawn, those without numbers of layers included.
    """
    found = []
    for name, (title, reader) in READERS.items():
        try:
            explorer = reader(read, study, styles)
        except Exception as error:  # one broken page must not take the others down
            explorer = Explorer(name, title, error=f"{type(error).__name__}: {error}")
        if explorer is not None:
            found.append(explorer)
    return tuple(found)


def pages_of(folder: Path) -> list[tuple[str, str]]:
    """Return (file name, title) of each explorer that a study's folder has."""
    return [(f"{name}.html", title) for name, (title, _) in READERS.items() if (folder / f"{name}.html").exists()]


def write_explorers(
    folder: Path, explorers: Sequence[Explorer], study: dict[str, Any], templates: Environment
) -> list[Path]:
    """Write the pages of a study's explorers, and drop those that it no longer has.

    Args:
        folder: the study's folder.
        explorers: what to write.
        study: its row of ``studies``.
        templates: where the templates are.
    """
    written = []
    for explorer in explorers:
        page = folder / explorer.page
        template = "explorer.html" if explorer.error else explorer.page
        html = templates.get_template(template).render(
            explorer=explorer,
            explorers=explorers,
            study=study,
            here=explorer.page,
            for_page={"name": explorer.name, "study": study["study"], **explorer.data},
        )
        write(page, html)
        written.append(page)
    for name in READERS.keys() - {explorer.name for explorer in explorers}:
        (folder / f"{name}.html").unlink(missing_ok=True)
    return written


def write_parts(data: Path, explorer: Explorer) -> None:
    """Write an explorer's CSVs and the parts that its script fetches into the folder of data."""
    for source in explorer.sources:
        flags = source.frame.select_dtypes("bool").columns
        as_in_sql = source.frame.assign(
            **{flag: source.frame[flag].map({True: "true", False: "false"}) for flag in flags}
        )
        as_in_sql.to_csv(data / f"{source.name}.csv", index=False, lineterminator="\n")
    for name, value in explorer.parts.items():
        # scripts and not JSON: a page that was opened as a file may load no other file than a script
        text = f"reporterPart({inline_json(name)},{inline_json(value)});\n"
        (data / f"{name}.js").write_text(text, encoding="utf-8")
