"""Choose figures, and what to show of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reporter.charts.chart import Drawn
from reporter.charts.drawing import Choice, first_choice
from reporter.charts.formulas import as_plain
from reporter.charts.layout import Scene
from reporter.charts.picture import Figure, FigureSize, as_pdf, as_png, figure_svg
from reporter.core.errors import UsageError, hint, no_study, one_line
from reporter.core.outputs import inside, replacing
from reporter.metrics.analysis import analyses
from reporter.metrics.base import catalogue
from reporter.report import tables as queries
from reporter.report.citing import cite, entries
from reporter.report.contents import Contents, read_contents
from reporter.report.paper_comparison import comparison_tables, results_text
from reporter.report.tables import parsed
from reporter.report.tex import PREAMBLE, PaperTable, environment, profile_tables, table, tables_of, typeset
from reporter.store import Store

if TYPE_CHECKING:
    import pandas as pd

MAIN, ALL = "main", "all"


def chosen_figures(contents: Contents, names: Sequence[str]) -> dict[str, Drawn]:
    """Return the figures that names stand for, in the order of the report."""
    figures = {drawn.id: drawn for drawn in contents.every if drawn.shown}  # in the order of their numbers
    numbers = {str(number): name for name, number in contents.numbered.items()}
    sections = {section.name: [drawn.id for drawn in section.charts] for section in contents.sections}
    names_found: set[str] = set()
    for name in names:
        if name == ALL:
            names_found |= figures.keys()
        elif name == MAIN:
            names_found |= {drawn.id for drawn in contents.glance}
        elif name in figures or name in numbers:
            names_found.add(numbers.get(name, name))
        elif name in sections:
            names_found |= set(sections[name])
        elif name in {drawn.id for drawn in contents.charts}:
            raise UsageError(f"figure {name!r} has no numbers in this study; choose another figure")
        elif name.partition(".")[0] == "journeys":
            raise UsageError("token trajectories are not exported; open their page and save them there, or print it")
        else:
            offered = [MAIN, ALL, *sections, *figures]
            raise UsageError(f"no figure '{one_line(name)}'{hint(name, offered, 'figures')}")
    return {name: drawn for name, drawn in figures.items() if name in names_found}


def choice_of(contents: Contents, options: Mapping[str, str], figures: Mapping[str, Drawn]) -> Choice:
    """Return where the controls of the page shall stand."""
    scene = contents.scene
    choice, picks = first_choice(scene), dict[str, str]()
    moments = [moment.label for moment in scene.moments]
    controls = {"view": scene.views, "checkpoint": moments, "site": scene.sites, "baselines": scene.baselines}
    for name, value in options.items():
        if name in controls:
            if value not in controls[name]:
                offers = hint(value, list(controls[name]), "its choices")
                raise UsageError(f"--choose {name}: no {name} '{one_line(value)}' in this study{offers}")
            changed = {"moment": moments.index(value)} if name == "checkpoint" else {name: value}
            choice = replace(choice, **changed)
        elif name == "layer":
            if not value.isdecimal():
                raise UsageError(f"--choose layer: expected a whole number, got '{one_line(value)}'")
            choice = replace(choice, layer=int(value))
        else:
            picks[name] = _offered(name, value, figures, scene)
    return replace(choice, picks=picks)


def _offered(name: str, value: str, figures: Mapping[str, Drawn], scene: Scene) -> str:
    selectors = [pick for drawn in figures.values() for pick in drawn.picks if name in (pick.name, pick.label.lower())]
    if not selectors:
        names = dict.fromkeys(pick.name for drawn in figures.values() for pick in drawn.picks)
        offers = ["view", "checkpoint", *["site"][: len(scene.sites) - 1], "baselines", "layer", *names]
        raise UsageError(f"--choose: no control '{one_line(name)}'{hint(name, offers, 'controls')}")
    for pick in selectors:
        for offered, text in pick.choices.items():
            if value in (offered, text):
                return offered
    offers = list(dict.fromkeys(value for pick in selectors for value in pick.choices))
    raise UsageError(f"--choose {name}: no choice '{one_line(value)}'{hint(value, offers, 'its choices')}")


# Writes a folder for a paper: figures, tables, LaTeX to include them, methods, references.


WIDTHS, FONTS = (30.0, 600.0), (3.0, 40.0)
MOST_FLOATS = 16
"""LaTeX keeps at most 18 figures that wait for a page in older releases, and 52 in newer ones."""
PICTURES: Mapping[str, Callable[[str], bytes]] = {"svg": str.encode, "pdf": as_pdf, "png": as_png}


@dataclass(frozen=True)
class Wanted:
    """The choice of what to export.

    Args:
        figures: see :func:`reporter.report.export.chosen_figures`.
        formats: of pictures: ``svg``, ``pdf``, ``png``.
        width: of a figure in millimetres.
        font_size: of its labels in points.
        choose: where the controls of the page stand, by their names.
        bare: figures without title, sentences and caption, which ``figures.tex`` has.
    """

    figures: Sequence[str] = (MAIN,)
    formats: Sequence[str] = ("svg", "pdf")
    width: float = 170.0
    font_size: float = 8.0
    choose: Mapping[str, str] = field(default_factory=dict)
    bare: bool = True


def export(study: str, out: Path, to: Path, request: Wanted) -> list[Path]:
    """Write figures, tables, methods and references of a study into a folder, computing no number.

    Raises:
        UsageError: there is no such study or figure, or a file of others has the name of one to write.
        ReporterError: the database cannot be read, or the folder cannot be written.
    """
    for name in request.formats:
        if name not in PICTURES:
            raise UsageError(f"no format '{one_line(name)}'{hint(name, list(PICTURES), 'formats')}")
    for value, (low, high), what in ((request.width, WIDTHS, "width"), (request.font_size, FONTS, "font size")):
        if not low <= value <= high:
            raise UsageError(f"the {what} must be between {low:g} and {high:g}, got {value:g}")
    contents = read_study(study, out)
    figures = chosen_figures(contents, request.figures)
    choice = choice_of(contents, request.choose, figures)
    with replacing(to) as fresh:
        _figures(contents, figures, choice, request, fresh)
        _tables(contents, request.width, fresh)
        cited = cite(contents, figures.values())
        made = f"SHA-256 of the numbers: `{cited.numbers_hash}`, made by\n\n```sql\n{cited.sql}\n```"
        hashes = made if cited.numbers_hash else "Numbers by layer: none."
        _write(fresh / "methods.md", f"{as_plain(cited.methods)}\n\n{hashes}\n")
        _write(fresh / "methods.tex", f"{typeset(cited.methods)}\n")
        _write(fresh / "references.bib", cited.bibtex)
        if results := results_text(contents):
            _write(fresh / "results.md", f"{as_plain(results)}\n")
            _write(fresh / "results.tex", f"{typeset(results)}\n")
        names = sorted(path.relative_to(fresh) for path in fresh.rglob("*") if path.is_file())
    return [to / name for name in names]


def _write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def read_study(study: str, out: Path) -> Contents:
    """Return what a study's page shows, drawn."""
    return study_contents(study, out).drawn()


def study_contents(study: str, out: Path) -> Contents:
    """Return what a study's page shows, without drawing its charts.

    Raises:
        UsageError: there is no such study.
    """
    store = Store(out / "results.duckdb")
    with store.reading() as read:
        rows = {str(row["study"]): row for row in queries.rows_of(read(queries.STUDIES))}
        if study not in rows:
            raise no_study(study, store.path, list(rows))
        return read_contents(read, rows[study], {**catalogue(), **analyses()})


def _figures(contents: Contents, figures: Mapping[str, Drawn], choice: Choice, request: Wanted, folder: Path) -> None:
    size = FigureSize(request.width, request.font_size)
    version = parsed(contents.study["versions"], dict).get("reporter", "")
    source = f"Study {contents.study['study']}, reporter {version}".strip() + "."
    included, left_out = [], []
    for name, drawn in figures.items():
        figure = Figure(drawn, contents.scene, choice, f"Figure {contents.numbered[name]}.", source)
        try:
            svg = figure_svg(figure, size, request.bare)
        except ValueError as reason:
            left_out.append(f"{name}: {str(reason).partition(chr(10))[0][:200]}")
            if drawn.chart.draw != "table":
                continue
        else:
            for ending in request.formats:
                _write(inside(folder, f"figures/{_file(name)}.{ending}"), PICTURES[ending](svg))
            included.append(_included(figure, request))
        import pandas as pd

        _csv_file(folder, _file(name), pd.concat([rows for _, rows in figure.panels()]))
        if tables := profile_tables(figure, request.width):
            _table_files(folder, _file(name), tables, request.width)
    if included:
        for place in range(MOST_FLOATS, len(included), MOST_FLOATS):
            included[place] = f"\\clearpage\n\n{included[place]}"
        _write(folder / "figures.tex", "\n\n".join([PREAMBLE, *included]) + "\n")
    if left_out:
        _write(folder / "left-out.txt", "\n".join(["No picture was made of:", *left_out]) + "\n")


def _file(name: str) -> str:
    return name.replace(".", "-")


def _included(figure: Figure, request: Wanted) -> str:
    """A figure environment with its caption, label and citations; never wider than the line that it stands in."""
    drawn, width = figure.drawn, request.width
    keys = ",".join(entries(drawn.chart.sources))
    cited = rf"~\cite{{{keys}}}" if keys else ""
    drawn_within = f"{figure.hollow}." if request.bare else ""
    sentences = [sentence for sentence in figure.sentences() if sentence != drawn_within]
    caption = typeset(" ".join([f"{figure.quantity}.", *sentences]))
    return environment(
        "figure",
        width,
        rf"\includegraphics[width=\ifdim{width:g}mm>\linewidth\linewidth\else{width:g}mm\fi]"
        rf"{{figures/{_file(drawn.id)}}}",
        rf"\caption{{{caption}{cited}}}",
        rf"\label{{fig:{drawn.id}}}",
    )


def _tables(contents: Contents, width: float, folder: Path) -> None:
    """Write each table as CSV, complete, and those that a paper shows as Markdown and LaTeX, too."""
    import pandas as pd

    frames = {"models": pd.DataFrame(contents.models), "corpora": pd.DataFrame(contents.corpora)}
    frames |= {"claims": contents.claims.frame, "findings": contents.findings.frame}
    frames |= {"compared": contents.compared.frame} if contents.compared is not None else {}
    for answer in contents.answers:
        frames |= answer["tables"]
    for name, frame in frames.items():
        if len(frame):
            _csv_file(folder, name, frame)
    for name, shown in (tables_of(contents) | comparison_tables(contents, width)).items():
        _table_files(folder, name, shown, width)


def _csv_file(folder: Path, name: str, frame: pd.DataFrame) -> None:
    path = inside(folder, f"tables/{name}.csv")
    path.parent.mkdir(exist_ok=True)
    queries.write_csv(path, frame)


def _table_files(folder: Path, name: str, shown: Sequence[PaperTable], width: float) -> None:
    tables = "\n\n".join([PREAMBLE, *(table(part, width) for part in shown)])
    _write(inside(folder, f"tables/{name}.tex"), f"{tables}\n")
    _write(inside(folder, f"tables/{name}.md"), "\n\n".join(part.markdown for part in shown) + "\n")
