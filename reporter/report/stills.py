"""Pictures of a study's figures that stand still: for readers without scripts, screen readers and search engines."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path

from reporter.charts.chart import Drawn
from reporter.charts.choice import first_choice
from reporter.charts.figure import Figure, figure_svg
from reporter.charts.sheet import Size
from reporter.report.chart_page import ChartPage
from reporter.report.contents import Contents
from reporter.report.explorer import Explorer
from reporter.report.journey_stills import drawn_journey, first_journey, told_journey

FOLDER = "figures"
SIZE = Size(width=180.0, font=8.0)


def with_stills(contents: Contents, folder: Path) -> Contents:
    """Draw each figure of a study's pages as the page shows it when it opens, and return the study with them.

    Args:
        contents: the study with its charts drawn.
        folder: that of its pages; gets ``figures/``. What cannot be drawn (a table, a chart without numbers for the
            first choice) has none.
    """
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)

    def kept(name: str, svg: str) -> str:
        (folder / FOLDER / f"{name}.svg").write_text(svg, encoding="utf-8")
        return f"{FOLDER}/{name}.svg"

    def still(drawn: Drawn) -> Drawn:
        if not drawn.shown:
            return drawn
        try:
            svg = figure_svg(Figure(drawn, contents.scene, first_choice(contents.scene)), SIZE)
        except ValueError:
            return drawn
        return replace(drawn, still=kept(drawn.id, svg))

    def page(explorer: Explorer) -> Explorer:
        if isinstance(explorer, ChartPage):
            chapters = {name: tuple(map(still, own)) for name, own in explorer.chapters.items()}
            return replace(explorer, chapters=chapters, charts=tuple(chain.from_iterable(chapters.values())))
        if explorer.name == "journeys" and not explorer.error:
            journey = first_journey(explorer)
            drawings = drawn_journey(explorer, journey, SIZE)
            pictures = {name: kept(f"journeys-{name}", svg) for name, svg in drawings.items()}
            return replace(explorer, still={**told_journey(explorer, journey), "pictures": pictures})
        return explorer

    sections = [replace(section, charts=tuple(map(still, section.charts))) for section in contents.sections]
    return replace(contents, sections=tuple(sections), explorers=tuple(map(page, contents.explorers)))
