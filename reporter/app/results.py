"""Studies from Python: run one, open what was run, and read its tables as DataFrames."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from reporter.core.errors import UsageError, hint, no_study
from reporter.core.imports import optional
from reporter.core.numbers import short
from reporter.runs.studies import study_of
from reporter.store import Store, query_frame
from reporter.store.schema import tables
from reporter.store.views import VIEWS
from reporter.study.problems import choices, show
from reporter.study.study import StudyFile

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


Form = Literal["pandas", "polars", "arrow"]


def as_form(frame: pd.DataFrame, form: Form) -> Any:
    """Return a table as a pandas or Polars DataFrame, or as an Arrow table, in which missing integers are missing.

    Args:
        frame: the table.
        form: ``pandas``, ``polars`` or ``arrow``.

    Raises:
        UsageError: the form is none of these, or its package is not installed.
    """
    if form not in get_args(Form):
        raise UsageError(f"form must be {choices(get_args(Form))}, got {show(form)}")
    if form == "pandas":
        return frame
    arrow = optional("pyarrow", "arrow", "a table of Arrow or Polars")
    table = arrow.Table.from_pandas(frame.convert_dtypes(), preserve_index=False)
    return table if form == "arrow" else optional("polars", "polars", "a table of Polars").from_arrow(table)


WIDTH = 460.0  # of a chart in a notebook, in pixels


DATABASE = "results.duckdb"


def _path(value: Any, name: str) -> Path:
    if isinstance(value, str | Path) and "\0" not in str(value):
        return Path(value)
    raise UsageError(f"{name} must be a path, as text or pathlib.Path, got {show(value)}")


def _text(value: Any, name: str) -> str:
    if isinstance(value, str):
        return value
    raise UsageError(f"{name} must be text, got {show(value)}")


def _texts(value: Any, name: str, each: str) -> list[str]:
    if not isinstance(value, Sequence) or isinstance(value, bytes):
        raise UsageError(f"{name} must be a list of names, got {show(value)}")
    return [_text(text, each) for text in ([value] if isinstance(value, str) else value)]


_UNFINISHED = "its last run did not finish; run the study again to resume"


class Tables:
    """Tables as attributes: ``results.layer_metrics`` is a DataFrame, and tab completion knows them all."""

    def _names(self) -> Sequence[str]:
        raise NotImplementedError

    def _table(self, name: str) -> pd.DataFrame:
        raise NotImplementedError

    def __getattr__(self, name: str) -> pd.DataFrame:
        if name.startswith("_"):  # what Python, pickle and notebooks look for
            raise AttributeError(name)
        if name not in self._names():
            raise AttributeError(f"no table '{name}'{hint(name, list(self._names()), 'tables')}")
        return self._table(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._names()})


class Results(Tables):
    """The results folder of studies, read-only.

    Each table is an attribute, read from the database when it is asked for: ``results.layer_metrics``,
    ``results.claims``, ``results.cells``; the page Tables of ``reporter docs`` lists them. Begin with
    ``results.layers``: one row for each layer of a number, with its title. A notebook shows verdicts.

    Args:
        folder: the results folder.
        ids: the studies whose rows the tables hold.
    """

    def __init__(self, folder: Path, ids: Sequence[str]) -> None:
        self.folder = _path(folder, "folder")
        self._ids = _texts(ids, "ids", "the id of a study")

    @property
    def ids(self) -> tuple[str, ...]:
        """The studies whose rows the tables hold."""
        return tuple(self._ids)

    def sql(self, query: str) -> pd.DataFrame:
        """Return what one SQL statement reads from the whole database, which has every study of the folder.

        It can read the results and nothing else on this machine.

        Raises:
            UsageError: the statement is wrong, or does more than read.
            ReporterError: it took longer than half a minute, or too much memory.
        """
        return query_frame(self._database, _text(query, "query"))

    def table(self, name: str, form: Form = "pandas") -> Any:
        """Return a table for another library: a pandas or Polars DataFrame, or an Arrow table.

        Args:
            name: the table, such as ``layer_metrics``.
            form: ``pandas``, ``polars`` (extra ``polars``) or ``arrow`` (extra ``arrow``).

        Raises:
            UsageError: there is no such table, or the library is not installed.
        """
        if _text(name, "name") not in self._names():
            raise UsageError(f"no table '{name}'{hint(name, list(self._names()), 'tables')}")
        return as_form(self._table(name), form)

    def chart(self, figure: str, panel: str = "", **choose: str) -> alt.Chart:
        """Return a figure of the report as an Altair chart, which a notebook shows.

        Args:
            figure: its id, such as ``anisotropy.mean_cosine``, or its number.
            panel: the heading of the panel, usually a corpus; the first panel by default.
            choose: the state of the page's controls: ``view="without sinks"``.

        Raises:
            UsageError: there is no such figure, panel or control, the figure is a table, or the results have several
                studies.
        """
        import altair

        from reporter.charts.picture import Figure, panel_spec
        from reporter.report.export import choice_of, chosen_figures, read_study

        if len(self._ids) != 1:
            raise UsageError("the results have several studies; open one with reporter.open(folder, study)")
        for name, value in {"figure": figure, "panel": panel, **choose}.items():
            _text(value, name)
        contents = read_study(self._ids[0], self.folder)
        figures = chosen_figures(contents, [figure])
        if len(figures) > 1:
            raise UsageError(
                f"'{figure}' has {len(figures)} figures; name one of them{hint(figure, list(figures), 'such as')}"
            )
        (drawn,) = figures.values()
        filled = Figure(drawn, contents.scene, choice_of(contents, choose, figures))
        panels = {shown.label: (shown, rows) for shown, rows in filled.panels()}
        if panel and panel not in panels:
            raise UsageError(f"no panel '{panel}' in {drawn.id}{hint(panel, list(panels), 'it has')}")
        if not panels or drawn.chart.draw == "table":
            raise UsageError(f"figure {drawn.id} has no chart here; read its rows with results.sql({drawn.sql!r})")
        shown, rows = panels[panel] if panel else next(iter(panels.values()))
        return altair.Chart.from_dict(panel_spec(filled, shown, rows, WIDTH))

    @property
    def report(self) -> Path:
        """The report's page: of the study, or the list of studies where there are several.

        Raises:
            UsageError: it was not written.
        """
        page = self.folder.joinpath(*self._ids if len(self._ids) == 1 else (), "index.html").resolve()
        if not page.is_file():
            raise UsageError(f"{page} does not exist; write the report with `reporter run --report-only`")
        return page

    @property
    def _database(self) -> Path:
        return self.folder / DATABASE

    def _names(self) -> Sequence[str]:
        return [*VIEWS, *(name for name in tables() if name != "schema_version")]

    def _table(self, name: str) -> pd.DataFrame:
        marks = ", ".join("?" for _ in self._ids)
        return Store(self._database).frame(f"SELECT * FROM {name} WHERE study IN ({marks})", self._ids)

    def __repr__(self) -> str:
        return "\n".join(f"{study}: {', '.join(facts)}" for study, facts in self._facts().items())

    def _repr_html_(self) -> str:
        shown = [f"<p><b>{escape(study)}</b>: {escape(', '.join(facts))}</p>" for study, facts in self._facts().items()]
        claims = self.claims.query("reading == 1").sort_values(["study", "number"])
        if len(claims):
            columns = ["claim", "says", "verdict", "value", "ci_low", "ci_high", "paper"]
            columns = [*(["study"] if len(self._ids) > 1 else []), *columns]
            shown.append(claims[columns].to_html(index=False, na_rep="", float_format=short))
        return "\n".join(shown)

    def _facts(self) -> dict[str, list[str]]:
        cells, claims, runs = self.cells, self.claims.query("reading == 1"), self.studies
        facts_of = {}
        for study in self._ids:
            states = cells.query("study == @study")["status"].value_counts()
            verdicts = claims.query("study == @study")["verdict"].value_counts()
            facts = [f"{states.get('done', 0)} cells done"]
            facts += [f"{states['failed']} failed (.cells says why)"] if "failed" in states else []
            facts += [f"claims: {', '.join(f'{n} {word}' for word, n in verdicts.items())}"] if len(verdicts) else []
            facts += [] if _finished(runs, study) else [_UNFINISHED]
            facts_of[study] = facts
        return facts_of


def run(
    study: str | Path | Mapping[str, Any] | StudyFile,
    out: str | Path = "results",
    *,
    only: Sequence[str] = (),
    force: bool = False,
    offline: bool = False,
) -> Results:
    """Run a study as ``reporter run`` does: measure, fill the database, test the claims, write the report.

    What is done already is not computed again. A cell that fails leaves the others alone: its error is in ``cells``.

    Args:
        study: a YAML file; or what such a file says, as a mapping whose relative paths start from the current folder;
            or what :func:`validate` returned.
        out: the results folder.
        only: names of models, corpora, metrics, analyses or items, to run a part.
        force: compute what is done, too.
        offline: never try the network.

    Returns:
        the results of this study.

    Raises:
        SpecError: the study is wrong; the text has one line for each problem.
        UsageError: ``only`` names nothing in it, or a plugin of it cannot be run.
        ReporterError: results cannot be written.
    """
    folder = _path(out, "out")
    names = _texts(only, "only", "a name in only")
    file = study_of(study)

    from reporter.core.progress import Progress
    from reporter.runs.runner import run_studies

    # A notebook shows what goes to standard error as if it were one.
    progress = Progress(sys.stdout if "ipykernel" in sys.modules else sys.stderr)
    with warnings.catch_warnings():
        # of libraries that would show bars of their own
        warnings.filterwarnings("ignore", message="IProgress not found")
        run_studies([file], folder, only=tuple(names), force=force, offline=offline, progress=progress)
    return Results(folder, [file.study.study])


def validate(study: str | Path | Mapping[str, Any]) -> StudyFile:
    """Check a study as ``reporter validate`` does, computing nothing, and return it.

    Raises:
        SpecError: something in it is wrong; the text has one line for each problem.
        UsageError: a plugin of it cannot be run.
    """
    return study_of(study)


def open_results(folder: str | Path = "results", study: str | None = None) -> Results:
    """Open what studies left in a results folder, to read it.

    Warns where the last run of a study did not come to its end, so that numbers may be missing.

    Args:
        folder: the results folder.
        study: the id of one study; all of them if left out.

    Raises:
        UsageError: there is no such folder or study, or nothing was run there.
        ReporterError: the database is damaged, or of a newer version.
    """
    place = _path(folder, "folder")
    if place.name == DATABASE:
        place = place.parent
    if not place.is_dir():
        raise UsageError(f"the folder {place} does not exist; reporter.run(study, out={str(folder)!r}) creates it")
    if not (place / DATABASE).is_file():
        raise UsageError(f"{place} has no {DATABASE}; run a study there with reporter.run(study, out={str(folder)!r})")
    runs = Store(place / DATABASE).frame("SELECT study, finished FROM studies ORDER BY study")
    studies = list(runs["study"])
    if not studies:
        raise UsageError(f"{place / DATABASE} has no study, since its first run stopped early; run the study again")
    if study is not None and _text(study, "study") not in studies:
        raise no_study(study, place, studies)
    ids = studies if study is None else [study]
    for name in ids:
        if not _finished(runs, name):
            warnings.warn(f"study '{name}': {_UNFINISHED}", stacklevel=2)
    return Results(place, ids)


def _finished(runs: pd.DataFrame, study: str) -> bool:
    return bool(runs.loc[runs["study"] == study, "finished"].notna().all())
