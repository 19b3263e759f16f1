"""Pictures of a study's figures that stand still: for readers without scripts, screen readers and search engines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from reporter.charts.chart import Drawn
from reporter.charts.choice import first_choice
from reporter.charts.figure import Figure, figure_svg
from reporter.charts.sheet import Size
from reporter.report.contents import Contents

FOLDER = "figures"
SIZE = Size(width=180.0, font=8.0)


def with_stills(contents: Contents, folder: Path) -> Contents:
    """Draw each figure of a study's page as the page shows it when it opens, and return the study with them.

    Args:
        contents: the study with its charts drawn.
        folder: that of its page; gets ``figures/``. What cannot be drawn (a table, a chart without numbers for the
            first choice) has none.
    """
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)

    def still(drawn: Drawn) -> Drawn:
        if not drawn.shown:
            return drawn
        try:
            svg = figure_svg(Figure(drawn, contents.scene, first_choice(contents.scene)), SIZE)
        except ValueError:
            return drawn
        name = f"{FOLDER}/{drawn.id}.svg"
        (folder / name).write_text(svg, encoding="utf-8")
        return replace(drawn, still=name)

    sections = [replace(section, charts=tuple(map(still, section.charts))) for section in contents.sections]
    return replace(contents, sections=tuple(sections))
