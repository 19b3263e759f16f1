"""The command ``reporter``: each verb is a few lines that call the library.

What a verb needs is imported inside it, so that ``--help`` and ``validate`` answer at once.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

from reporter.errors import ReporterError, UsageError, bounded, is_out_of_memory
from reporter.imports import importing
from reporter.threads import let_waiting_threads_sleep

if TYPE_CHECKING:
    from reporter.metrics.base import Definition
    from reporter.spec import Problem


_KEPT = "what is finished is kept, and the same command goes on from there"


class _Verbs(TyperGroup):
    """Turns expected failures into a sentence and an exit code; anything else is a bug with a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ReporterError as error:
            typer.echo("\n".join(map(bounded, str(error).split("\n"))), err=True)
            raise typer.Exit(2 if isinstance(error, UsageError) else 1) from None
        except (KeyboardInterrupt, _Terminated) as stop:
            said = "interrupted" if isinstance(stop, KeyboardInterrupt) else "terminated"
            kept = "nothing was changed" if ctx.invoked_subcommand == "verify" else _KEPT
            typer.echo(f"{said}; {kept}", err=True)
            raise typer.Exit(130 if isinstance(stop, KeyboardInterrupt) else 143) from None
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            typer.echo(f"memory does not suffice; {_KEPT} with more", err=True)
            raise typer.Exit(1) from None


class _Terminated(BaseException):
    """Somebody asks the process to end, as a scheduler does some seconds before it kills it."""


def _terminate(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # who asks twice gets the end at once
    raise _Terminated


app = typer.Typer(
    cls=_Verbs,
    help="Measure what transformer layers do to text: one YAML study in, a database and a report out.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Spec = Annotated[Path, typer.Argument(metavar="SPEC", help="A study, as a YAML file.")]
Specs = Annotated[list[Path], typer.Argument(metavar="SPEC...", help="Studies, as YAML files.")]
Out = Annotated[Path, typer.Option(help="The folder of the database, the report and the cache.")]
Form = Annotated[
    Literal["table", "csv", "json", "markdown", "latex", "parquet"],
    typer.Option(
        "--format",
        metavar="FORM",
        help="How to print the rows: table, csv, json, markdown, latex, or parquet (into a file: > rows.parquet).",
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Never try the network.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Say something otherwise than the study, such as models.bert=./mine; may be repeated.",
    ),
]


def main() -> None:
    """Run the command line; exit with 0 all done, 1 something failed, 2 a wrong study or call, 3 a claim refuted."""
    let_waiting_threads_sleep()  # before torch is loaded, which no module does before this
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that cannot show "∞" is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    code: object = 0
    try:
        try:
            app(prog_name="reporter")
        except SystemExit as end:
            code = end.code
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BrokenPipeError:
        # Whoever read our output has gone. Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    atexit._run_exitfuncs()
    os._exit(code if isinstance(code, int) else 0)  # or Python goes through all objects once more, which takes a second


def _show_version(wanted: bool) -> None:
    if wanted:
        from reporter import __version__

        typer.echo(f"reporter {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def init(
    name: Annotated[str, typer.Argument(help="The file to write, with or without .yaml.")] = "study",
) -> None:
    """Write a commented study to start from."""
    from reporter.spec.starter import write_starter

    typer.echo(f"wrote {write_starter(name)}")


@app.command()
def validate(
    specs: Specs,
    set: Set = None,
    paths: Annotated[
        bool,
        typer.Option("--paths", help="Look for what they name, too: folders, files, packages, the device."),
    ] = False,
) -> None:
    """Check studies; exit code 2 if anything is wrong."""
    from reporter.analyses.registry import analyses
    from reporter.errors import one_line
    from reporter.runs.studies import absent, read_study
    from reporter.spec import SpecError

    problems: list[Problem] = []
    for path in specs:
        try:
            file = read_study(path, set or ())
            if paths and (lacks := absent(file, set or ())):
                raise SpecError(lacks)
        except SpecError as error:
            problems += error.problems
            continue
        study = file.study
        counts = [
            _count(len(study.models), "model", "models"),
            _count(len(study.corpora), "corpus", "corpora"),
            _count(len(study.metrics), "metric", "metrics"),
            *(
                _count(len(items), *called)
                for name, items in study.sections.items()
                if items and (called := analyses()[name].section.called)
            ),
            *([_count(len(study.claims), "claim", "claims")] if study.claims else []),
        ]
        typer.echo(f"{one_line(str(path))}: ok ({', '.join(counts)})")
        for note in file.notes:
            typer.echo(f"  {note}")
    if problems:
        raise SpecError(problems)


@app.command()
def plan(
    spec: Spec,
    out: Out = Path("results"),
    set: Set = None,
    offline: Offline = False,
    slurm: Annotated[
        bool, typer.Option("--slurm", help="Print instead the script of a job array that does the passes.")
    ] = False,
    at_once: Annotated[int, typer.Option(min=1, metavar="K", help="With --slurm: jobs that run at one time.")] = 64,
) -> None:
    """Show what would run, what is cached, and why."""
    from reporter.runs.planner import plan_study
    from reporter.runs.studies import read_study

    found = plan_study(read_study(spec, set or ()), out=out, offline=offline)
    if slurm:
        from reporter.runs.slurm import job_array

        typer.echo(job_array(found, spec, out, set or (), offline=offline, at_once=at_once))
        return

    from reporter.runs.estimate import estimate

    for line in found.lines():
        typer.echo(line)
    for line in estimate(found, out / "cache").lines():  # which fails where the device is not there
        typer.echo(line)


class _Run(TyperCommand):
    """Knows ``--strict`` alone, too, which is short for ``--strict=refuted``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["--strict=refuted" if arg == "--strict" else arg for arg in args])


@app.command(cls=_Run)
def run(
    specs: Specs,
    out: Out = Path("results"),
    set: Set = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Run only these models, corpora, metrics, analyses or items; may be repeated. Names of one kind are "
            "alternatives, different kinds must all match.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Compute again what is already there.")] = False,
    offline: Offline = False,
    strict: Annotated[
        Literal["refuted", "inconclusive"] | None,
        typer.Option(
            "--strict",
            metavar="[=WORD]",
            help="Exit with 3 if a claim was refuted, with 1 if one could not be tested; --strict=inconclusive: with 3 "
            "if one was not decided, too.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Do the passes in N processes, each on its own GPU or core.")
    ] = None,
    engine: Annotated[
        Literal["local", "ray"] | None, typer.Option(metavar="NAME", help="Who does the passes: local or ray.")
    ] = None,
    address: Annotated[str | None, typer.Option(help="Of the Ray cluster's head; auto: of this machine's.")] = None,
) -> None:
    """Measure into the database, test the claims, write the report.

    Exit code: 0 all done, 1 some cells failed, 2 the study or the call is wrong, 3 a claim was refuted and --strict
    was given, which with =inconclusive counts claims that were not decided, too.
    """
    with importing():
        from reporter.runs.studies import read_studies

        files = read_studies(specs, set or ())

        from reporter.runs.runner import run_studies

    outcome = run_studies(
        files,
        out=out,
        only=tuple(_names(only)),
        force=force,
        offline=offline,
        strict=strict,
        ahead=True,
        workers=workers,
        engine=engine,
        address=address,
    )
    raise typer.Exit(outcome.exit_code)


@app.command()
def work(
    spec: Spec,
    out: Out = Path("results"),
    share: Annotated[
        str, typer.Option(metavar="I/N", help="Which share of the work to begin with, of how many: 3/16.")
    ] = "1/1",
    set: Set = None,
    offline: Offline = False,
) -> None:
    """Do a share of a study's forward passes, for 'run' to merge.

    The database stays closed. Any number of these may run at one time, on
    machines that see the same folder: each begins with its share, then
    takes what others left or died over, and ends when all is done.
    'reporter run' afterwards finds nothing to pass through a model. A
    worker has run.threads threads, 1 if the study does not say: numbers are
    the same to the last bit however many workers there are. Exit code: 0
    all is done, 1 something failed.
    """
    from reporter.runs.studies import read_study
    from reporter.runs.tasks import Worker, parse_share, threads_of
    from reporter.runs.tasks import share as do_share

    number, of = parse_share(share)
    with importing():
        from reporter.runs.planner import plan_study
        from reporter.runs.progress import Progress
        from reporter.threads import given

    plan = plan_study(read_study(spec, set or ()), out, offline=offline, blind=True)
    progress = Progress()
    with progress.awake(), given(threads_of(plan)):
        worker = Worker(plan, out, offline, progress)
        tasks = worker.tasks()
        open_ = sum(not worker.is_done(task) for task in tasks)
        typer.echo(
            f"{plan.file.study.study}: {_count(len(tasks), 'task', 'tasks')}, {open_} to do, share {number}/{of}"
        )
        if do_share(worker, tasks, number, of, progress):
            raise typer.Exit(1)


@app.command()
def report(
    studies: Annotated[
        list[str] | None, typer.Argument(metavar="[STUDY...]", help="Ids of studies; all if left out.")
    ] = None,
    out: Out = Path("results"),
) -> None:
    """Write the report again from the database, computing nothing."""
    from reporter.report import render

    written = render(out / "results.duckdb", out, studies or None)
    typer.echo(f"wrote {_count(len(written), 'file', 'files')}; open {out / 'index.html'}")


@app.command()
def merge(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The results folder to write.")],
    folders: Annotated[list[Path], typer.Argument(metavar="A B...", help="Results folders, left as they are.")],
    prefer: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Of these the one whose side is taken where they contradict each other."),
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="How many conflicts are listed.")] = 20,
) -> None:
    """Join results folders of several machines into a new one.

    Cells are the same if they have the same fingerprint: weights, texts,
    options and definition. What several folders have comes once, the column
    cells.folder says from where, and claims, findings and answers are
    computed from all numbers. Where two folders contradict each other, in a
    fingerprint or by more than 0.00001 of a number, both values are named and
    nothing is written, unless --prefer decides. The order of folders makes no
    difference. Exit code: 0 merged, 1 conflicts, 2 a wrong call.
    """
    with importing():
        from reporter.runs.merging import merge as join

    found = join(out, folders, prefer)
    for note in found.notes:
        typer.echo(note)
    shown = found.undecided or found.conflicts
    for conflict in shown[:most]:
        typer.echo(f"conflict: {conflict}", err=bool(found.undecided))
    if len(shown) > most:
        typer.echo(f"and {len(shown) - most} more conflicts (--most)", err=bool(found.undecided))
    if found.undecided:
        raise ReporterError(
            f"nothing was written: {_count(len(found.undecided), 'conflict', 'conflicts')}; say which folder is right "
            "with --prefer FOLDER, or measure one of them again"
        )
    from_where = f"{_count(len(found.folders), 'folder', 'folders')}, {found.twice} of them in more than one"
    typer.echo(f"wrote {out / 'results.duckdb'}: {_count(found.cells, 'cell', 'cells')} from {from_where}")
    typer.echo(f"`reporter report --out {out}` writes its pages")


@app.command()
def publish(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A new or empty folder, or one that was published before.")
    ],
    studies: Annotated[
        list[str] | None, typer.Argument(metavar="[STUDY...]", help="Ids of studies; all if left out.")
    ] = None,
    out: Out = Path("results"),
) -> None:
    """Write a folder of pages of studies that any static host serves.

    No database, no cache and no other study goes into it. What was published
    into it before is replaced.
    """
    from reporter.report.publish import publish as write

    pages = write(out / "results.duckdb", folder, studies or None)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    typer.echo(f"wrote {_count(len(pages), 'page', 'pages')} ({size / 1e6:.1f} MB); open {folder / 'index.html'}")


@app.command()
def export(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="A study that ran: its YAML file, or its id.")],
    out: Out = Path("results"),
    to: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder to write; the study's folder export if left out.")
    ] = None,
    figures: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,…",
            help="Figures by name or number, all of a metric, 'all', or 'headlines' (if left out); may be repeated.",
        ),
    ] = None,
    format: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,…",
            help="Of pictures: svg, pdf, png; svg and pdf if left out. Or parquet alone: every table of the study.",
        ),
    ] = None,
    width: Annotated[float, typer.Option(metavar="MM", help="Width of a figure in millimetres.")] = 170,
    font_size: Annotated[float, typer.Option(metavar="PT", help="Size of its labels in points.")] = 8,
    choose: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="What the page's controls say: view, checkpoint, baselines, layer, or a figure's own.",
        ),
    ] = None,
    bare: Annotated[
        bool, typer.Option("--bare", help="Figures without title and caption, for a paper that sets its own.")
    ] = False,
    single_file: Annotated[
        Path | None,
        typer.Option("--single-file", metavar="FILE.html", help="Write instead the whole report as one HTML file."),
    ] = None,
    tool: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="TOOL",
            help="Write instead for another tool: tensorboard, mlflow, wandb (headline numbers over training), or "
            "huggingface (a data set with its card, a model-index for each model). Nothing is sent.",
        ),
    ] = None,
) -> None:
    """Write figures, tables, methods and references for a paper.

    Whole figures with title, legend, corpora, tokens and caption, as they
    stand on the page when it opens; figures.tex includes them in LaTeX.
    Tables are written as CSV, Markdown and LaTeX (booktabs), the works that
    the figures rest on as references.bib. Journeys are not among them: their
    page saves them. No browser is needed, and nothing is computed.

    With --single-file the report itself is written, every page of the study
    with its data and its script in one HTML file that needs no network. With
    --format parquet every table is, by study and model, for other engines;
    reporter sql --out reads such a folder, too. Studies may share one.
    """
    name = _id_of(study)
    if "parquet" in _names(format):
        from reporter.store.parquet import write_parquet

        if _names(format) != ["parquet"]:
            raise UsageError("--format parquet writes tables, not pictures, and stands alone")
        folder = to or out / name / "export" / "parquet"
        files = write_parquet(out / "results.duckdb", name, folder)
        size = sum(path.stat().st_size for path in files)
        typer.echo(f"wrote {_count(len(files), 'file', 'files')} ({size / 1e6:.1f} MB) into {folder}")
        return
    if single_file is not None:
        from reporter.report.single_file import write_single_file

        write_single_file(out / "results.duckdb", name, single_file)
        typer.echo(f"wrote {single_file} ({single_file.stat().st_size / 1e6:.1f} MB)")
        return

    if tool is not None:
        from reporter.integrations.tools import write_for

        typer.echo(f"wrote {write_for(tool, name, out, to or out / name / 'export')}")
        return

    from reporter.export import Wanted
    from reporter.export import export as write

    said = {name: value for name, _, value in (one.partition("=") for one in choose or ())}
    wanted = Wanted(_names(figures) or ("headlines",), _names(format) or ("svg", "pdf"), width, font_size, said, bare)
    folder = to or out / name / "export"
    written = write(name, out, folder, wanted)
    typer.echo(f"wrote {_count(len(written), 'file', 'files')} into {folder}")
    for path in written:
        if path.name == "left-out.txt":
            typer.echo(path.read_text(encoding="utf-8").rstrip())


@app.command()
def answer(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="A study that ran: its YAML file, or its id.")],
    out: Out = Path("results"),
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME,…", help="Answer only these questions; may be repeated.")
    ] = None,
) -> None:
    """Answer what the numbers of a study can decide, as Markdown.

    Its claims with their verdicts and its findings come first, then for
    example which tokens are sinks; the report shows the same. What a
    study lacks for an answer is said in one line, with what to add to it.
    """
    from reporter.answers.markdown import markdown
    from reporter.runs.answers import ask

    typer.echo(markdown(ask(_id_of(study), out, _names(only))))


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help="One SQL query; `reporter tables` has the tables.")],
    out: Out = Path("results"),
    format: Form = "table",
) -> None:
    """Ask the results with read-only SQL.

    `reporter tables` says what there is. --out may be a folder of tables that were exported as Parquet.
    """
    if format == "parquet":
        from reporter.store import write_parquet

        if sys.stdout.isatty():
            raise UsageError("Parquet is no text; send it into a file: reporter sql … --format parquet > rows.parquet")
        write_parquet(out / "results.duckdb", query, sys.stdout.buffer)
        return
    from reporter.store import stream

    for text in stream(out / "results.duckdb", query, format):
        typer.echo(text, nl=False)
    typer.echo()


@app.command()
def tables(
    name: Annotated[str | None, typer.Argument(help="A table or view to explain; lists all if left out.")] = None,
    out: Out = Path("results"),
) -> None:
    """Explain the tables and views that SQL can ask.

    Their columns, types and comments; where there are results, also how many
    rows each has, and the tables that plug-ins brought.
    """
    from reporter.docs.table_page import described, table_page, tables_page

    found = described(out / "results.duckdb")
    if name is not None and name not in found:
        from reporter.errors import hint, one_line

        raise UsageError(f"no table or view '{one_line(name)}'{hint(name, list(found), 'there are')}")
    typer.echo(tables_page(found) if name is None else table_page(found[name]))


@app.command()
def diff(
    a: Annotated[
        str, typer.Argument(metavar="A", help="STUDY, STUDY:MODEL, FOLDER:STUDY, or FOLDER: for its study of that id.")
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="The same for the other side.")],
    out: Out = Path("results"),
    format: Annotated[
        Literal["table", "csv", "json", "html"],
        typer.Option(
            "--format",
            metavar="FORM",
            help="How to print it: table, csv, json, or html, a page with old and new profiles.",
        ),
    ] = "table",
    most: Annotated[int, typer.Option(min=1, help="Rows of each list in a table.")] = 20,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 if a number moved, came or went, or a verdict changed.")
    ] = False,
) -> None:
    """Compare two studies, or two runs or two models of one.

    A and B are studies of the folder --out, or of another results folder:
    'reporter diff bert gpt2', 'reporter diff old:bert new:bert', 'reporter
    diff old: new:'. Two models of a study: 'reporter diff bert:base bert:tuned',
    each at its last checkpoint.

    Says first what the study files say differently, then what the numbers
    were made from, then which numbers moved and which claims changed their
    verdict. A number moved if A and B differ by more than the interval of
    the difference of independent estimates (the root of the summed squares
    of the facing half widths), which one in twenty does by chance where runs
    are independent; without intervals, by more than 0.00001 of it. Of a model
    and its base, where the run stored the interval of the difference on the
    same texts, that one counts ("paired"; all others are "not paired").
    """
    from reporter.diff import compare, show

    found = compare(a, b, out)
    typer.echo(show(found, format, most))
    if exit_code and found.consequences:
        raise typer.Exit(1)


@app.command()
def freeze(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="A study that ran: its YAML file, or its id.")],
    out: Out = Path("results"),
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME,…", help="Freeze only these metrics; may be repeated.")
    ] = None,
) -> None:
    """Print a study that guards what another one's run found.

    It extends that study. Each headline number becomes one claim, with its
    values at every layer; each may move by what rounding, batch size,
    threads and machine move. The guard says `texts: fixed`: it reads the
    same texts, so that their choice is no error. A run in mixed precision
    is refused, because its rounding would hide a change.
    Of a study that is named by its id, the guard extends no file but says
    all that the results folder has of the study; its relative paths are
    those of the study's file.
    """
    from reporter.claims.freezing import frozen, said
    from reporter.runs.studies import offer, read_study
    from reporter.store import Store
    from reporter.verify.cells import find_study

    path = Path(study)
    begins = {"extends": path.as_posix()} if path.is_file() or path.suffix in (".yaml", ".yml") else None
    file = read_study(path) if begins else find_study(study, out, offer())
    guard = frozen(Store(out / "results.duckdb"), file.study, begins or said(file.text), _names(only))
    typer.echo(guard, nl=False)


@app.command()
def verify(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="A finished study: its YAML file, or its id.")],
    out: Out = Path("results"),
    cells: Annotated[int, typer.Option(min=1, help="Checkpoints × corpora to measure, the smallest first.")] = 2,
    model: Annotated[str | None, typer.Option(help="Only this model, or baseline of this name.")] = None,
    corpus: Annotated[str | None, typer.Option(help="Only this corpus.")] = None,
    max_texts: Annotated[int, typer.Option(min=1, help="Skip corpora with more texts than this.")] = 500,
    format: Annotated[Literal["table", "json"], typer.Option("--format", help="How to print it.")] = "table",
    offline: Offline = False,
) -> None:
    """Measure a few cells of a study again by an independent path.

    One text at a time without padding, the model's own hidden states,
    float64 NumPy written down from the definitions, another number of
    threads. Prints the largest deviation of each statistic, and what was
    not verified. Exit code: 0 all agree, 1 something deviates beyond its
    tolerance or could not be measured again.
    """
    from reporter.runs.studies import offer, read_study
    from reporter.verify import Asked, show
    from reporter.verify import verify as measure_again

    file = read_study(Path(study)) if Path(study).is_file() else None
    plugins = [file.folder / plugin for plugin in file.study.plugins] if file else []
    found = measure_again(study, out, offer(plugins), Asked(cells, max_texts, model, corpus), offline=offline)
    typer.echo(show(found, format))
    if not found.passed:
        raise typer.Exit(1)


@app.command()
def cache(
    out: Out = Path("results"),
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Remove what was last used longer ago: 12h, 30d, 2w.")
    ] = None,
    larger_than: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Remove the oldest until no more than this is left: 10GB, 500MiB."),
    ] = None,
    study: Annotated[str | None, typer.Option(help="Remove only what this study alone uses.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")] = False,
) -> None:
    """Show what the cache holds, or remove a part of it.

    One line for each pass (a checkpoint on a corpus), each corpus' tokens and
    texts, and each trained model: its size, when it was last used, and the
    studies of the database that use it. What is removed is computed again
    when it is needed; numbers in the database stay. With several options,
    only what all of them name goes; what a run holds at this moment never
    does. Without --older-than, --larger-than and --study nothing is removed.
    """
    from reporter.runs.cache import bytes_of, entries, lines, prunable, pruned_lines, remove, seconds_of
    from reporter.store import Store

    age = None if older_than is None else seconds_of(older_than)
    size = None if larger_than is None else bytes_of(larger_than)
    found = entries(out, Store(out / "results.duckdb"))
    if age is None and size is None and study is None:
        said = lines(out, found)
    else:
        gone = prunable(found, older_than=age, larger_than=size, study=study)
        removed, held = (gone, []) if dry_run else remove(gone)
        said = pruned_lines(removed, held, dry_run)
    for line in said:
        typer.echo(line)


@app.command()
def metrics(
    name: Annotated[
        str | None,
        typer.Argument(help="A metric to explain, or a word to search for; all metrics are listed if left out."),
    ] = None,
    study: Annotated[Path | None, typer.Option(metavar="FILE", help="A study whose plug-ins are included.")] = None,
    new: Annotated[
        str | None,
        typer.Option("--new", metavar="NAME", help="Write NAME.py, a metric of your own to start from."),
    ] = None,
) -> None:
    """Explain or search the metrics and analyses, or begin a new one.

    Definition, source, options and columns of each. A word that is no metric
    is searched for in names, titles and definitions of all statistics.
    """
    from reporter.analyses.registry import analyses
    from reporter.metrics.registry import catalogue

    if study is not None:
        from reporter.runs.studies import read_study

        read_study(study)  # registers the plug-ins of the study
    found: dict[str, Definition] = {**catalogue(), **analyses()}
    if new is not None:
        from reporter.spec.starter import packaging, write_metric

        path = write_metric(new, found)
        typer.echo(f"wrote {path}. A study beside it has it by\n\nplugins: [{path}]\nmetrics: [{new}]\n")
        typer.echo(
            f"As a package, for all studies: this as pyproject.toml beside it, and pip install .\n\n{packaging(new)}"
        )
        return
    if name is None:
        for metric in found.values():
            typer.echo(f"{metric.name}: {metric.title} ({_count(len(metric.statistics), 'statistic', 'statistics')})")
            typer.echo(f"    {metric.summary}")
        return
    if name not in found:
        from reporter.docs.metric_page import search
        from reporter.errors import hint, one_line

        if matches := search(name, found.values()):
            typer.echo("\n".join(matches))
            return
        raise UsageError(f"unknown metric '{one_line(name)}'{hint(name, list(found), 'there are')}")
    from reporter.docs.metric_page import metric_page

    typer.echo(metric_page(found[name]))


@app.command()
def docs(
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the pages into this folder, and open nothing.")
    ] = None,
) -> None:
    """Open the documentation, which needs no network.

    Guides, every number, table and key of a study, and a search.
    """
    from reporter.docs.site import build, site

    if out is not None:
        typer.echo(f"wrote the documentation; open {build(out)}")
        return
    page = site()
    typer.echo(f"open {page}")
    if sys.stdout.isatty():
        typer.launch(str(page))


@app.command()
def schema() -> None:
    """Print the JSON Schema of a study, for editors."""
    import json

    from reporter.runs.studies import offer
    from reporter.spec import study_schema

    typer.echo(json.dumps(study_schema(offer()), indent=2, ensure_ascii=False))


def _id_of(study: str) -> str:
    """Return the id of a study that is named by its YAML file or by its id."""
    if not Path(study).is_file():
        return study
    from reporter.runs.studies import read_study

    return read_study(Path(study)).study.study


def _names(many: list[str] | None) -> list[str]:
    """Return names that stand between commas, in options that may be repeated."""
    return [one.strip() for some in many or () for one in some.split(",") if one.strip()]


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
