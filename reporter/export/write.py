"""Writes a folder for a paper: figures, tables, LaTeX to include them, methods, references."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.analyses.registry import analyses
from reporter.charts.chart import Drawn
from reporter.charts.choice import Choice
from reporter.charts.figure import Figure, as_pdf, as_png, begun, figure_svg
from reporter.charts.formulas import as_plain, pieces
from reporter.charts.sheet import Size
from reporter.errors import ReporterError, UsageError, hint, no_study, one_line
from reporter.export.choosing import HEADLINES, choice_of, chosen_figures
from reporter.metrics.registry import catalogue
from reporter.report import queries
from reporter.report.citing import Cited, cite
from reporter.report.contents import Contents, read_contents, rows_of
from reporter.report.references import entries
from reporter.report.tables import parsed
from reporter.store import Store
from reporter.store.formats import Format, Result, write
from reporter.store.latex import latex

if TYPE_CHECKING:
    import pandas as pd

WIDTHS, FONTS = (30.0, 600.0), (3.0, 40.0)
TABLES: tuple[tuple[str, Format], ...] = (("csv", "csv"), ("md", "markdown"), ("tex", "latex"))
PICTURES: Mapping[str, Callable[[str], bytes]] = {"svg": str.encode, "pdf": as_pdf, "png": as_png}
ONE_COLUMN = 100.0
"""A figure up to so many millimetres stands in one column of a paper of two."""
OF_MODELS = ("model", "role", "family", "layers", "width", "parameters", "positions", "norm_placement", "precision")
OF_CORPORA = ("corpus", "texts", "words", "dropped", "content_hash")
OF_CLAIMS = ("claim", "says", "view", "baseline", "verdict", "value", "ci_low", "ci_high", "p", "paper")
OF_FINDINGS = ("rank", "says", "value", "ci_low", "ci_high", "p")


@dataclass(frozen=True)
class Wanted:
    """What is to be exported.

    Args:
        figures: see :func:`reporter.export.choosing.chosen_figures`.
        formats: of pictures: ``svg``, ``pdf``, ``png``.
        width: of a figure in millimetres.
        font_size: of its labels in points.
        choose: where the controls of the page stand, by their names.
        bare: figures without title, sentences and caption, which ``figures.tex`` then has.
    """

    figures: Sequence[str] = (HEADLINES,)
    formats: Sequence[str] = ("svg", "pdf")
    width: float = 170.0
    font_size: float = 8.0
    choose: Mapping[str, str] = field(default_factory=dict)
    bare: bool = False


def export(study: str, out: Path, to: Path, wanted: Wanted) -> list[Path]:
    """Write figures, tables, methods and references of a study into a folder, computing no number.

    Args:
        study: its id.
        out: the results folder.
        to: the folder to write into; files of the same names are replaced, others stay.
        wanted: what.

    Returns:
        The files that were written.

    Raises:
        UsageError: there is no such study, figure, format or control, or a size that no page has.
        ReporterError: the database cannot be read, or a file cannot be written.
    """
    _check(wanted)
    contents = read_study(study, out)
    figures = chosen_figures(contents, wanted.figures)
    choice = choice_of(contents, wanted.choose, figures)
    files = _Files(to)
    try:
        _figures(contents, figures, choice, wanted, files)
        _tables(contents, files)
        cited = cite(contents, figures.values())
        files.text("methods.md", f"{as_plain(cited.methods)}\n\n{_hashes(cited)}\n")
        files.text("methods.tex", f"{_typeset(cited.methods)}\n")
        files.text("references.bib", cited.bibtex)
    except OSError as error:
        raise ReporterError(f"{to}: cannot be written: {error}") from error
    return files.written


class _Files:
    """A folder, and what was written into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written: list[Path] = []

    def text(self, name: str, text: str) -> None:
        self.bytes(name, text.encode())

    def bytes(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_bytes(content)
        temporary.replace(path)
        self.written.append(path)

    def table(self, name: str, frame: pd.DataFrame, columns: Sequence[str] = ()) -> None:
        """A table in each form; in texts some columns alone, as far as they say anything, and no row twice."""
        shown = [column for column in columns if column in frame]
        brief = frame[shown].dropna(axis="columns", how="all").drop_duplicates() if shown else frame
        for ending, form in TABLES:
            self.text(f"tables/{name}.{ending}", write(_result(frame if form == "csv" else brief), form) + "\n")


def _check(wanted: Wanted) -> None:
    for name in wanted.formats:
        if name not in PICTURES:
            raise UsageError(f"no format '{one_line(name)}'{hint(name, list(PICTURES), 'there are')}")
    for value, (low, high), what in ((wanted.width, WIDTHS, "width"), (wanted.font_size, FONTS, "font size")):
        if not low <= value <= high:
            raise UsageError(f"the {what} must lie between {low:g} and {high:g}, not {value:g}")


def read_study(study: str, out: Path) -> Contents:
    """Return what a study's page shows, drawn.

    Args:
        study: its id.
        out: the results folder.

    Raises:
        UsageError: there is no such study.
        ReporterError: the database cannot be read.
    """
    store = Store(out / "results.duckdb")
    with store.reading() as read:
        rows = {str(row["study"]): row for row in rows_of(read(queries.STUDIES.text))}
        if study not in rows:
            raise no_study(study, store.path, list(rows))
        found = read_contents(read, rows[study], {**catalogue(), **analyses()})
    return found.drawn()


def _figures(contents: Contents, figures: Mapping[str, Drawn], choice: Choice, wanted: Wanted, files: _Files) -> None:
    size = Size(wanted.width, wanted.font_size)
    version = parsed(contents.study["versions"], dict).get("reporter", "")
    source = f"Study {contents.study['study']}, reporter {version}".strip() + "."
    included, left_out = [], []
    for name, drawn in figures.items():
        figure = Figure(drawn, contents.scene, choice, f"Figure {contents.numbered[name]}.", source)
        try:
            svg = figure_svg(figure, size, wanted.bare)
        except ValueError as reason:
            left_out.append(f"{name}: {str(reason).partition(chr(10))[0][:200]}")
            if drawn.chart.draw != "table":
                continue
        else:
            for ending in wanted.formats:
                files.bytes(f"figures/{_file(name)}.{ending}", PICTURES[ending](svg))
            included.append(_included(figure, size))
        import pandas as pd

        files.table(_file(name), pd.concat([rows for _, rows in figure.panels()]))
    if included:
        files.text("figures.tex", "\n\n".join([_PREAMBLE, *included]) + "\n")
    if left_out:
        files.text("left-out.txt", "\n".join(["No picture was made of:", *left_out]) + "\n")


_PREAMBLE = r"""% \input this file, or copy from it. It needs \usepackage{graphicx}, and figures/ beside it.
% That is, as PDF or PNG. \cite needs references.bib. A figure wider than a column stands across both: figure*."""


def _file(name: str) -> str:
    """A file's name without dots, behind which LaTeX looks for a format."""
    return name.replace(".", "-")


def _included(figure: Figure, size: Size) -> str:
    """A figure environment with its caption, label and citations."""
    drawn = figure.drawn
    keys = ",".join(one.key for one in entries(drawn.chart.sources))
    cited = rf" \cite{{{keys}}}" if keys else ""
    definition = drawn.chart.definition.rstrip(".")
    said = [f"{replace(figure, lead='').title}.", *([f"{begun(definition)}."] if definition else [])]
    caption = " ".join(
        filter(
            None,
            (_typeset(" ".join(said)), latex(_prose(" ".join(figure.chosen()))), _typeset(" ".join(figure.rests_on()))),
        )
    )
    environment = "figure" if size.width <= ONE_COLUMN else "figure*"
    return "\n".join(
        [
            rf"\begin{{{environment}}}",
            r"  \centering",
            rf"  \includegraphics[width={size.width:g}mm]{{figures/{_file(drawn.id)}}}",
            rf"  \caption{{{caption}{cited}}}",
            rf"  \label{{fig:{drawn.id}}}",
            rf"\end{{{environment}}}",
        ]
    )


def _typeset(text: str) -> str:
    """Text as LaTeX sets it, its formulas as formulas."""
    return "".join(_SET[kind](part) for kind, part in pieces(text))


def _variable(letters: str) -> str:
    return letters if letters.isascii() else latex(letters).strip("$")


_BAR = "\u0304"
_SET: dict[str, Callable[[str], str]] = {
    "text": lambda part: " " * part[:1].isspace() + latex(part.replace("'", "’")) + " " * part[-1:].isspace(),
    "code": lambda part: rf"\texttt{{{latex(part)}}}",
    "variable": lambda part: rf"$\bar{{{_variable(part[0])}}}$" if part[1:] == _BAR else f"${_variable(part)}$",
    "below": lambda part: rf"\textsubscript{{{_typeset(part)}}}",
    "above": lambda part: rf"\textsuperscript{{{_typeset(part)}}}",
}


def _prose(text: str) -> str:
    """Text with the quotation marks of print."""
    return re.sub(r"`([^`]*)`", r"‘\1’", text).replace("'", "’")


def _tables(contents: Contents, files: _Files) -> None:
    import pandas as pd

    for name, rows, columns in (
        ("models", contents.models, OF_MODELS),
        ("corpora", contents.corpora, OF_CORPORA),
    ):
        if rows:
            files.table(name, pd.DataFrame(rows), columns)
    if contents.claims.all:
        files.table("claims", contents.claims.frame, OF_CLAIMS)
    if contents.findings.all:
        files.table("findings", contents.findings.frame, OF_FINDINGS)
    if contents.compared is not None:
        files.table("compared", contents.compared.frame)
    for answer in contents.answers:
        for name, frame in answer.tables.items():
            files.table(name, frame)


def _result(frame: pd.DataFrame) -> Result:
    rows = [tuple(_plain(value) for value in row.values()) for row in rows_of(frame)]
    return Result(tuple(map(str, frame.columns)), rows, len(rows))


def _plain(value: Any) -> Any:
    item = getattr(value, "item", None)  # of NumPy
    return item() if item is not None and getattr(value, "shape", None) == () else value


def _hashes(cited: Cited) -> str:
    if not cited.numbers_hash:
        return "Numbers by layer: none."
    return f"SHA-256 of the numbers: `{cited.numbers_hash}`, made by\n\n```sql\n{cited.sql}\n```"
