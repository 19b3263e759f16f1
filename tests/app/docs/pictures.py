"""Draws the pictures of the documentation's pages from results, as `reporter export` draws figures.

    python tests/app/docs/pictures.py RESULTS

RESULTS has the studies of the pages, run as the pages have them, and the shipped `quickstart`. `reviews.tsv` of the
study `layer` has the shipped paragraphs of four registers. A picture also has colours for the dark theme.
"""

import re
import sys
from pathlib import Path

from reporter.charts.picture import Figure, FigureSize, figure_svg
from reporter.charts.styles import THEMES
from reporter.report.export import choice_of, chosen_figures, read_study

FOLDER = Path(__file__).resolve().parents[3] / "reporter/app/docs/pages/pictures"
PICTURES = {  # name: study, figure, controls
    "quickstart": ("quickstart", "anisotropy.top_variance_share", {}),
    "training": ("quickstart", "anisotropy.top_variance_share.training", {}),
    "changed": ("tuned", "change.distance", {}),
    "blocks": ("prune", "skip.change", {}),
    "claim": ("claim", "anisotropy.top_variance_share", {}),
    "layer": ("layer", "probes.linear", {}),
}
SIZE = FigureSize(width=150, font=9)


def _themed(svg: str, twins: dict[str, str]) -> str:
    """Return a picture with rules for the dark theme, for each colour that it has."""
    rules = [
        f'[{kind}="{colour}"]{{{kind}:{twins[colour]}}}'
        for kind, colour in sorted(set(re.findall(r'\b(fill|stroke)="(#[0-9a-f]+)"', svg)))
    ]
    style = f"<style>@media (prefers-color-scheme:dark){{{''.join(rules)}}}</style>"
    return re.sub(r"(<svg[^>]*>)", rf"\g<1>{style}", svg, count=1)


def main(results: Path) -> None:
    light, dark = THEMES["light"], THEMES["dark"]
    common = {light["background"]: dark["background"], light["text"]["color"]: dark["text"]["color"]}
    for key in ("titleColor", "labelColor", "gridColor"):
        common[light["axis"][key]] = dark["axis"][key]
    common["#000"] = dark["text"]["color"]
    FOLDER.mkdir(exist_ok=True)
    for name, (study, figure, controls) in PICTURES.items():
        contents = read_study(study, results)
        figures = chosen_figures(contents, [figure])
        (drawn,) = figures.values()
        svg = figure_svg(Figure(drawn, contents.scene, choice_of(contents, controls, figures), "", ""), SIZE, bare=True)
        (FOLDER / f"{name}.svg").write_text(_themed(svg, contents.scene.styles.dark_colours | common), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
