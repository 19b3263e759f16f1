"""The command ``reporter``: each command is a few lines that call the library.

A command imports what it needs inside its function, so that ``--help`` and ``validate`` start quickly.
"""

from __future__ import annotations

import atexit
import errno
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import TextIOWrapper
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from reporter.core.errors import ReporterError, UsageError, bounded, hint, is_out_of_memory, one_line, suggest
from reporter.core.imports import importing
from reporter.core.numbers import counted
from reporter.core.threads import let_threads_share_memory, let_waiting_threads_sleep

if TYPE_CHECKING:
    from reporter.metrics.base import Definition
    from reporter.runs.plan import Plan
    from reporter.study import Problem, StudyFile


_T = TypeVar("_T")
Names = list[str] | None
_PILOT = 20
"""Texts of each corpus that a pilot measures."""
_TO_DETECT = (
    f"to see which differences the texts can detect, measure {_PILOT} of them: `reporter plan {{}} --detect DIFFERENCE`"
)
_RESUME = "finished work is saved; rerun the same command to resume"
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}  # a full, read-only or broken disk
_CLUSTER = "Several processes or machines"
_GROUPS = {
    "Start": ("look", "init", "validate", "plan"),
    "Run": ("run", "merge", "verify", "cache"),
    "Read": ("answer", "sql", "diff", "metrics", "docs"),
    "Share": ("export",),
}


class _Terminated(BaseException):
    """SIGTERM arrived, which a scheduler sends some seconds before it kills the process."""


def _terminate(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second SIGTERM ends the process at once
    raise _Terminated


class _Commands(TyperGroup):
    """Prints an expected failure as a sentence, with its exit code; any other error is a bug with a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ReporterError as error:
            text = "\n".join(map(bounded, str(error).split("\n")))
            code = 2 if isinstance(error, UsageError) else 1
        except (KeyboardInterrupt, _Terminated) as stop:
            name, code = ("interrupted", 130) if isinstance(stop, KeyboardInterrupt) else ("terminated", 143)
            text = f"{name}; {'nothing was changed' if ctx.invoked_subcommand == 'verify' else _RESUME}"
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            text, code = f"out of memory; {_RESUME}", 1
        with suppress(OSError):  # the exit code counts, also where a full disk takes no line
            typer.echo(text, err=True)
        raise typer.Exit(code)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = []
        for group, names in _GROUPS.items():
            for label, name in zip_longest([group], names, fillvalue=""):
                rows.append((f"{label:<7}{name}", self.commands[name].get_short_help_str(limit=60)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class _Run(TyperCommand):
    """Reads ``--strict`` without a value as ``--strict=refuted``; ``--help`` has everyday options first."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["--strict=refuted" if arg == "--strict" else arg for arg in args])

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[Any]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
                panels.setdefault(getattr(parameter, "rich_help_panel", None) or kind, []).append(record)
        for panel, records in panels.items():
            with formatter.section(panel):
                formatter.write_dl(records)


app = typer.Typer(
    cls=_Commands,
    help="Measure transformer layers: from a YAML study to a database and a report.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def option(help: str, metavar: str | None = None, name: str | None = None, **more: Any) -> Any:
    """Return an option with its help, its metavar and its name where that does not follow from the parameter."""
    return typer.Option(*([name] if name else []), metavar=metavar, help=help, **more)


def flag(name: str, help: str) -> Any:
    """Return an option without a value."""
    return typer.Option(name, help=help)


Study = Annotated[str, typer.Argument(metavar="STUDY", help="A study that ran: its YAML file or its id.")]
Out = Annotated[Path, option("The results folder: database, reports and cache.")]
Offline = Annotated[bool, flag("--offline", "Do not use the network.")]
Override = Annotated[
    Names,
    option("Override a value of the study, such as models.bert=./mine; may be repeated.", "KEY=VALUE", name="--set"),
]


def main() -> None:
    """Run the command line and exit with its code.

    Python collects all objects of torch and transformers as it ends, which takes 1.0 to 1.4 s. The process ends without
    that, once the functions that libraries registered for its end have run.
    """
    _use_utf8()
    _open_closed_streams()
    let_waiting_threads_sleep()  # before torch is loaded
    let_threads_share_memory()
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal without "∞" must not end the command
            stream.reconfigure(errors="backslashreplace")
    code: object = 0
    try:
        try:
            app(prog_name="reporter")
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has closed it. Python would complain again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.errno not in _DISK:
            raise
        with suppress(OSError):
            sys.stderr.write(f"{error.filename or 'the output'} cannot be written: {error.strerror}\n")
        code = code or 1
    atexit._run_exitfuncs()
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0)


def _use_utf8() -> None:
    """Start again where the locale has another encoding: names of files and values are UTF-8 on every machine."""
    if sys.getfilesystemencoding() != "utf-8":
        command = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONUTF8": "1"})


def _open_closed_streams() -> None:
    """Open what the caller closed, as services do: the next file would get the number of the stream, and its output."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            stream = Path(os.devnull).open("w" if number else "r")  # noqa: SIM115 (until the process ends)
            if stream.fileno() != number:
                os.dup2(stream.fileno(), number)
            setattr(sys, name, stream)


def _show_version(requested: bool) -> None:
    if requested:
        from reporter.core.version import VERSION

        typer.echo(f"reporter {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def look(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL...", help="Hub ids, folders, GGUF files or folders of adapters."),
    ] = None,
    base: Annotated[
        str | None, option("The model that MODEL was made from. The card then shows what changed.", "MODEL")
    ] = None,
    text: Annotated[
        str | None,
        option(
            "Texts to read: a file, a folder of .txt files, or a corpus in the syntax of a study, such as "
            "'{dataset: ID}'. Default: paragraphs that ship with reporter.",
            "FILE",
        ),
    ] = None,
    label: Annotated[
        str | None, option("Column of a table with the labels of the texts: which layer tells them apart?", "COLUMN")
    ] = None,
    limit: Annotated[int | None, option("Read at most N texts, the first ones. Default: 102.", "N", min=1)] = None,
    out: Out = Path("results"),
    card: Annotated[Path | None, option("Also write the layer cards as Markdown, for a model page.", "FILE.md")] = None,
    open: Annotated[bool, flag("--open", "Open the report in a browser.")] = False,
    json: Annotated[bool, flag("--json", "Print JSON instead of the cards. `reporter docs` has its fields.")] = False,
    offline: Offline = False,
) -> None:
    """Look at one or more models without writing a study.

    Writes a short study into the folder `look`, runs it, and prints a layer
    card of each model and the path of the report. Edit the study to measure
    more, and run it with `reporter run`.

    Exit code: 0 all done, 1 a model was not found or a cell failed, 2 the call is
    wrong.
    """
    from reporter.app.look.study import write_study
    from reporter.core.outputs import is_untouched, replace_file, require_replaceable_file, with_checksum

    if card is not None and not card.parent.is_dir():
        raise UsageError(f"--card: there is no folder {card.parent}; create it first")
    if card is not None:
        require_replaceable_file(card, is_untouched)
    names = _required(models, "MODEL")
    file = write_study(names, base, text, label=label, limit=limit, cache=out / "cache", offline=offline)
    with importing():
        from reporter.runs.runner import run_studies

    began, page = time.perf_counter(), out / file.study.study / "index.html"

    def show(computed: int) -> None:
        from reporter.report.card import as_markdown, as_text, cards
        from reporter.store import Store

        seconds = time.perf_counter() - began if computed else None
        made = cards(Store(out / "results.duckdb"), file.study.study, seconds)
        if json:
            from reporter.app.short_forms import look_form

            typer.echo(look_form(made, file, out).model_dump_json(indent=1))
        else:
            typer.echo(f"\n{as_text(made, min(shutil.get_terminal_size().columns, 100))}\n")
        if card is not None:
            replace_file(card, with_checksum(as_markdown(made), "<!-- {} -->").encode(), is_untouched)
            typer.echo(f"card    {card}", err=json)

    outcome = run_studies([file], out=out, offline=offline, ahead=True, measured=show)
    if not json:
        typer.echo(f"report  {page}\nstudy   {file.path}")
    if open:
        _open(page)
    raise typer.Exit(outcome.exit_code)


@app.command()
def init(
    name: Annotated[
        str, typer.Argument(help="The file to write, or the name of a shipped study, such as quickstart.")
    ] = "study",
) -> None:
    """Write a study to start from, or copy a shipped study."""
    from reporter.study.load import shipped
    from reporter.study.study import write_starter

    typer.echo(f"wrote {write_starter(name, shipped())}")
    if name not in shipped() and (meant := suggest(name, shipped())):
        typer.echo(f"to copy the shipped study '{meant}' instead: reporter init {meant}")


@app.command()
def validate(
    specs: Annotated[list[Path] | None, typer.Argument(metavar="SPEC...", help="Studies, as YAML files.")] = None,
    out: Out = Path("results"),
    set: Override = None,
    register: Annotated[bool, flag("--register", "Also write the claims and a date to STUDY.registered.json.")] = False,
    schema: Annotated[bool, flag("--schema", "Print the JSON Schema of a study instead, for editors.")] = False,
) -> None:
    """Check studies and their files, register claims.

    No model is loaded and the network is not used; a line says what was not
    looked at. With --register, the report says of each claim whether it was registered
    before the first number, and what changed since. A registration is never
    overwritten. With numbers in OUT, validate also says which differences the
    texts can detect.

    Exit code: 0 all are valid, 2 a study has a mistake, or differs from its
    registration.
    """
    from reporter.metrics.analysis import analyses
    from reporter.runs.studies import absent, beyond_limits, cautions_of, not_looked_at, offer, read_study
    from reporter.study import SpecError, study_schema

    if schema:
        import json

        typer.echo(json.dumps(study_schema(offer()), indent=2, ensure_ascii=False))
        return
    problems: list[Problem] = []
    for path in _required(specs, "SPEC"):
        try:
            file = read_study(path, set or ())
            if lacks := absent(file, set or ()):
                raise SpecError(lacks)
        except SpecError as error:
            problems += error.problems
            continue
        study = file.study
        counts = [counted(len(study.models), "model"), counted(len(study.corpora), "corpus", "corpora")]
        counts.append(counted(len(study.metrics), "metric"))
        for key, items in study.sections.items():
            if items and (nouns := analyses()[key].section.called):
                counts.append(counted(len(items), *nouns))
        counts += [counted(len(study.claims), "claim")] if study.claims else []
        typer.echo(f"{one_line(str(path))}: ok ({', '.join(counts)})")
        lines = [*file.notes, *beyond_limits(file), *cautions_of(file), not_looked_at(file)]
        if study.corpora and (study.claims or study.metrics):
            lines += _stored_power(file, out) or [_TO_DETECT.format(one_line(str(path)))]
        if register:
            from reporter.runs.registered import register as write_registration

            lines.append(write_registration(file))
        _echo_lines(f"  {line}" for line in lines if line)
    if problems:
        raise SpecError(problems)


@app.command()
def plan(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A study, as a YAML file.")],
    out: Out = Path("results"),
    set: Override = None,
    offline: Offline = False,
    cells: Annotated[bool, flag("--cells", "List every cell, also the cached ones.")] = False,
    slurm: Annotated[
        bool, flag("--slurm", "Print the script of a Slurm job array that does the forward passes instead.")
    ] = False,
    at_once: Annotated[int, option("With --slurm: the most jobs that run at the same time.", "K", min=1)] = 64,
    detect: Annotated[
        float | None,
        option(
            "Also say how many texts detect this difference. Without stored numbers, this measures 20 texts of each "
            "corpus first, in OUT/pilot.",
            "DIFFERENCE",
        ),
    ] = None,
) -> None:
    """Show what would run, how much is cached, and why.

    With numbers in OUT, it also says which differences the texts can detect.

    Exit code: 0 every cell is cached or can run, 1 a cell cannot run, 2 the study
    or the call is wrong.
    """
    from reporter.runs.planner import plan_study
    from reporter.runs.studies import read_study

    if detect is not None and not detect > 0:
        raise UsageError("--detect DIFFERENCE must be greater than 0")
    planned = plan_study(read_study(spec, set or ()), out=out, offline=offline)
    if slurm:
        from reporter.runs.engines import job_array

        typer.echo(job_array(planned, spec, out, set or (), offline=offline, at_once=at_once))
        return

    from reporter.runs.plan import estimate

    _echo_lines(planned.lines(each=cells))
    _echo_lines(_detectable(planned, spec, out, set or (), detect, offline=offline))
    expected = estimate(planned, out / "cache")  # fails if the device is missing
    failed = planned.count("failed")
    if planned.count("run") or not failed:
        _echo_lines(expected.lines())
    raise typer.Exit(1 if failed else 0)


def _stored_power(file: StudyFile, out: Path) -> list[str]:
    """Return what the texts of a study can detect, from its stored numbers or a pilot; nothing without numbers."""
    folders = [folder for folder in (out, out / "pilot") if (folder / "results.duckdb").exists()]
    if not folders:  # the usual case costs no import
        return []
    from reporter.runs.planner import plan_study
    from reporter.store import Store

    is_stored = any(file.study.study in Store(folder / "results.duckdb").studies() for folder in folders)
    return _power(plan_study(file, out=out, offline=True), folders) if is_stored else []


def _power(planned: Plan, folders: Sequence[Path], difference: float | None = None) -> list[str]:
    """Return what the texts of a plan can detect, from its numbers in the first folder that has any."""
    from reporter.judge.detecting import lines
    from reporter.store import Store

    study, texts = planned.file.study, {name: corpus.units for name, corpus in planned.read.items()}
    says = (lines(Store(folder / "results.duckdb"), study, texts, difference) for folder in folders)
    return next(filter(None, says), [])


def _detectable(
    planned: Plan, spec: Path, out: Path, changes: Sequence[str], difference: float | None, *, offline: bool
) -> list[str]:
    """Return what the texts of a plan can detect, from its stored numbers or from a pilot, which it may run."""
    if difference is None:
        return _power(planned, [out, out / "pilot"]) or [_TO_DETECT.format(one_line(str(spec)))] * bool(planned.texts)
    if says := _power(planned, [out], difference):
        return says
    from reporter.runs.runner import run_studies
    from reporter.runs.studies import read_study

    limits = [f"corpora.{name}.limit={corpus.holding(_PILOT)}" for name, corpus in planned.read.items()]
    run_studies([read_study(spec, [*changes, *limits])], out / "pilot", offline=offline)
    no_number = f"{_PILOT} texts give no number an interval, so they cannot say what the study can detect"
    return _power(planned, [out, out / "pilot"], difference) or [no_number]


@app.command(cls=_Run)
def run(
    specs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="SPEC...", help="Studies, as YAML files; with --report-only also ids."),
    ] = None,
    out: Out = Path("results"),
    set: Override = None,
    only: Annotated[
        Names,
        option(
            "Run only these models, corpora, metrics, analyses or items. May be repeated: names of one kind are "
            "alternatives, different kinds must all match.",
            "NAME,…",
        ),
    ] = None,
    force: Annotated[bool, flag("--force", "Compute finished cells again.")] = False,
    offline: Offline = False,
    strict: Annotated[
        Literal["refuted", "inconclusive"] | None,
        option(
            "Exit with 3 if a claim was refuted and with 1 if it could not be tested. --strict=inconclusive: "
            "exit with 3 also if a claim was inconclusive.",
            "[=WORD]",
            name="--strict",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        option("Do the passes in N processes, each on its own GPU or core.", "N", min=1, rich_help_panel=_CLUSTER),
    ] = None,
    engine: Annotated[
        Literal["local", "ray"] | None,
        option("Do the passes on this machine (local) or on a Ray cluster (ray).", "NAME", rich_help_panel=_CLUSTER),
    ] = None,
    address: Annotated[
        str | None,
        option("Address of the head of the Ray cluster; auto: the cluster on this machine.", rich_help_panel=_CLUSTER),
    ] = None,
    share: Annotated[
        str | None,
        option(
            "Only do forward passes, beginning with share I of N, such as 3/16. A later `run` without --share merges "
            "the results.",
            "I/N",
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
    report_only: Annotated[
        bool, flag("--report-only", "Only write the report again from the database. Without SPEC: of all studies.")
    ] = False,
) -> None:
    """Measure, test the claims, write the report.

    Several machines that see the same folder can share the passes of a study
    with --share. Each machine begins with its own share, then takes over
    unfinished or abandoned tasks. These runs leave the database closed. Each
    worker has run.threads threads (default: 1), so numbers are bit-identical
    for any number of workers.

    Exit code: 0 all done, 1 some cells failed, 2 the study or the call is
    wrong, 3 a claim was refuted (with --strict).
    """
    if report_only:
        from reporter.report import render

        written = render(out / "results.duckdb", out, [_id_of(str(spec)) for spec in specs or ()] or None)
        typer.echo(f"wrote {counted(len(written), 'file')}; open {out / 'index.html'}")
        return
    specs = _required(specs, "SPEC, or use --report-only")
    if share is not None:
        if len(specs) > 1 or any((only, force, strict, workers, engine, address)):
            raise UsageError("--share takes one SPEC and the options --out, --set and --offline; remove other options")
        raise typer.Exit(_do_share(specs[0], out, share, set or (), offline))
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


def _do_share(spec: Path, out: Path, text: str, overrides: Iterable[str], offline: bool) -> int:
    from reporter.runs.tasks import do_share, parse_share

    number, shares = parse_share(text)
    with importing():
        from reporter.core.progress import Progress
        from reporter.runs.studies import read_study

    file = read_study(spec, list(overrides))
    return 1 if do_share(file, out, number, shares, offline=offline, progress=Progress()) else 0


@app.command()
def merge(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The results folder to write.")],
    folders: Annotated[list[Path], typer.Argument(metavar="A B...", help="Results folders; they are not changed.")],
    prefer: Annotated[Path | None, option("Use the values of this folder where folders differ.", "FOLDER")] = None,
    most: Annotated[int, option("Most conflicts to print.", min=1)] = 20,
) -> None:
    """Join results folders of several machines into a new one.

    Cells are equal if their fingerprints are equal: weights, texts, options
    and definition. The new folder has each cell once; the column cells.folder
    names its source. Claims, findings and answers are computed again from all
    numbers. Folders conflict if they differ in a fingerprint, or in a number
    by more than 0.00001 of it. The command then prints both values and writes
    nothing, unless --prefer decides. The order of folders does not matter.

    Exit code: 0 merged, 1 conflicts, 2 the call is wrong.
    """
    with importing():
        from reporter.runs.whole import merge as join

    merged = join(out, folders, prefer)
    _echo_lines(merged.notes)
    conflicts = merged.undecided or merged.conflicts
    lines = [f"conflict: {conflict}" for conflict in conflicts[:most]]
    lines += [f"and {counted(len(conflicts) - most, 'more conflict')} (--most)"] * (len(conflicts) > most)
    _echo_lines(lines, err=bool(merged.undecided))
    if merged.undecided:
        raise ReporterError(
            f"nothing was written, because of {counted(len(merged.undecided), 'conflict')}; name the folder to trust "
            "with --prefer FOLDER, or measure one of the folders again"
        )
    sources = f"{counted(len(merged.folders), 'folder')} ({counted(merged.twice, 'cell')} in more than one folder)"
    typer.echo(f"wrote {out / 'results.duckdb'}: {counted(merged.cells, 'cell')} from {sources}")
    typer.echo(f"to write its pages: reporter run --report-only --out {out}")


@app.command()
def export(
    studies: Annotated[
        Names,
        typer.Argument(
            metavar="STUDY...", help="A study that ran: its YAML file or its id. With --site several, or none for all."
        ),
    ] = None,
    out: Out = Path("results"),
    to: Annotated[Path | None, option("The folder to write. Default: OUT/STUDY/export.", "DIR")] = None,
    figures: Annotated[
        Names,
        option("Figures by name or number, a metric for all its figures, 'all', or 'main' (the default).", "NAME,…"),
    ] = None,
    format: Annotated[
        Names,
        option("Formats of figures: svg, pdf, png. Default: svg,pdf. Or parquet alone: the tables.", "NAME,…"),
    ] = None,
    width: Annotated[float, option("Width of a figure in millimetres.", "MM")] = 170,
    font_size: Annotated[float, option("Size of its labels in points.", "PT")] = 8,
    choose: Annotated[
        Names,
        option("State of the page's controls: view, checkpoint, baselines, layer, or a figure's own.", "NAME=VALUE"),
    ] = None,
    bare: Annotated[
        bool, option("Figures without title and caption (for papers) or with (for slides).", name="--bare/--captions")
    ] = True,
    single_file: Annotated[Path | None, option("Write the report as one HTML file instead.", "FILE.html")] = None,
    site: Annotated[
        Path | None, option("Write a folder of pages for a static host instead; replaces an older one.", "DIR")
    ] = None,
    url: Annotated[
        str | None, option("With --site: its address on the web, which previews of links need.", "URL")
    ] = None,
    guard: Annotated[
        bool, flag("--guard", "Print a study instead that tests whether the numbers stay the same.")
    ] = False,
    only: Annotated[Names, option("With --guard: only these metrics; may be repeated.", "NAME,…")] = None,
    tool: Annotated[
        str | None,
        option(
            "Write for another tool instead: tensorboard, mlflow, wandb (main statistics over training), "
            "huggingface (a data set with its card, and a model-index) or mergekit (models without the blocks that "
            "can go). Nothing is sent.",
            "TOOL",
            name="--for",
        ),
    ] = None,
) -> None:
    """Write figures, tables, pages or a guard from results.

    Default: figures, tables (CSV, Markdown, LaTeX), a methods paragraph and
    references.bib for a paper. Figures are drawn as on the opened page;
    figures.tex includes them in LaTeX. Token trajectories are not exported:
    their page saves them.

    --single-file, --site: the report without database and cache.
    --format parquet: all tables, by study and model, for other engines;
    studies may share a folder, and `reporter sql --out DIR` reads it.
    --guard: a study that extends STUDY. Each main statistic becomes a claim
    with its values at every layer, on the same texts, within the tolerance of
    float32 rounding. A run in mixed precision cannot become a guard. If STUDY
    is an id, the guard is self-contained: it has the whole text of the study,
    and its relative paths start from the folder of the study's file.
    """
    formats = _names(format, "--format")
    kinds = {
        "--single-file": single_file,
        "--site": site,
        "--guard": guard or None,
        "--for": tool,
        "--format parquet": "parquet" in formats or None,
    }
    if len(requested := [option for option, value in kinds.items() if value is not None]) > 1:
        raise UsageError(f"{' and '.join(requested)} cannot be combined; run the command once for each option")
    if url and site is None:
        raise UsageError("--url needs --site DIR")
    if only and not guard:
        raise UsageError("--only needs --guard; choose figures with --figures")
    database = out / "results.duckdb"
    if site is not None:
        from reporter.report.single_file import publish

        pages = publish(database, site, [_id_of(study) for study in studies or ()] or None, url or "")
        typer.echo(f"wrote {counted(len(pages), 'page')} ({_megabytes([site])}); open {site / 'index.html'}")
        return
    if len(studies := _required(studies, "STUDY")) > 1:
        raise UsageError("only --site takes several studies; run the command once for each study")
    if guard:
        typer.echo(_guard(studies[0], out, _names(only)), nl=False)
        return
    study = _id_of(studies[0])
    folder = to or out / study / "export"
    if "parquet" in formats:
        from reporter.store.parquet import write_parquet

        if formats != ["parquet"]:
            raise UsageError(
                "--format parquet cannot be combined with formats of figures; run the command once for each"
            )
        folder = to or folder / "parquet"
        files = write_parquet(database, study, folder)
        typer.echo(f"wrote {counted(len(files), 'file')} ({_megabytes(files)}) into {folder}")
    elif single_file is not None:
        from reporter.report.single_file import write_single_file

        write_single_file(database, study, single_file)
        typer.echo(f"wrote {single_file} ({_megabytes([single_file])})")
    elif tool is not None:
        from reporter.app.integrations import write_for

        typer.echo(f"wrote {write_for(tool, study, out, folder)}")
    else:
        from reporter.report.export import Wanted
        from reporter.report.export import export as write

        controls = {name: value for name, _, value in (text.partition("=") for text in choose or ())}
        named = _names(figures, "--figures") or ("main",)
        request = Wanted(named, formats or ("svg", "pdf"), width, font_size, controls, bare)
        written = write(study, out, folder, request)
        typer.echo(f"wrote {counted(len(written), 'file')} into {folder}")
        for path in written:
            if path.name == "left-out.txt":
                typer.echo(path.read_text(encoding="utf-8").rstrip())


def _guard(study: str, out: Path, metrics: list[str]) -> str:
    from reporter.judge.claims.stays import frozen, inherited
    from reporter.runs.studies import find_study
    from reporter.store import Store

    file, path = find_study(study, out), Path(study)
    begins = {"extends": path.as_posix()} if file.path == path else inherited(file.text)
    return frozen(Store(out / "results.duckdb"), file.study, begins, metrics)


@app.command()
def answer(
    study: Study,
    out: Out = Path("results"),
    only: Annotated[Names, option("Answer only these questions; may be repeated.", "NAME,…")] = None,
    texts: Annotated[bool, flag("--texts", "Print the texts and tokens behind the answers instead.")] = False,
    brief: Annotated[bool, flag("--brief", "Print ten lines, for a pull request or a job summary.")] = False,
    json: Annotated[bool, flag("--json", "Print JSON. `reporter docs` has its fields.")] = False,
) -> None:
    """Print verdicts, findings and answers of a study.

    Prints Markdown: the verdicts on claims, the findings, then answers, such
    as which tokens are sinks. The report shows the same texts. The last line
    names the questions that the study does not answer.
    """
    from reporter.app import short_forms
    from reporter.core.progress import terminal_width
    from reporter.judge.questions.question import markdown
    from reporter.runs.whole import ask, ask_texts

    if brief and (json or texts):
        raise UsageError(f"--brief and {'--json' if json else '--texts'} cannot be combined; choose one")
    study = _id_of(study)
    answers = [ask_texts(study, out, _names(only))] if texts else ask(study, out, _names(only))
    form = short_forms.as_form(study, out, answers) if brief or json else None
    if form and json:
        typer.echo(form.model_dump_json(indent=1))
        return
    text = short_forms.brief(form) if form else markdown(answers, bool(only) or texts)
    typer.echo(short_forms.on_terminal(text, terminal_width()))


@app.command()
def sql(
    query: Annotated[
        str | None, typer.Argument(help="One SQL query. With --tables: a table or view to explain.")
    ] = None,
    out: Out = Path("results"),
    format: Annotated[
        Literal["table", "csv", "json", "markdown", "latex", "parquet"],
        option(
            "How to print rows: table, csv, json, markdown, latex or parquet. Send parquet to a file: > rows.parquet.",
            "FORM",
            name="--format",
        ),
    ] = "table",
    tables: Annotated[
        bool, flag("--tables", "List the tables and views, or explain the named one with its columns.")
    ] = False,
) -> None:
    """Query the results with read-only SQL.

    `reporter sql --tables` lists tables and views, also those of plug-ins,
    with their numbers of rows; `reporter sql --tables layers` explains one.
    --out may also be a folder of Parquet tables that `reporter export` wrote.
    """
    database = out / "results.duckdb"
    if tables:
        from reporter.app.docs.reference import described, table_page, tables_page

        catalog = described(database)
        if query is not None and query not in catalog:
            raise UsageError(f"no table or view '{one_line(query)}'{hint(query, list(catalog), 'tables')}")
        typer.echo(tables_page(catalog) if query is None else table_page(catalog[query]))
        return
    if query is None:
        raise UsageError("missing QUERY; `reporter sql --tables` lists the tables")
    if format == "parquet":
        from reporter.store import write_parquet

        if sys.stdout.isatty():
            raise UsageError("Parquet is binary; send it to a file: reporter sql … --format parquet > rows.parquet")
        write_parquet(database, query, sys.stdout.buffer)
        return
    from reporter.core.progress import terminal_width
    from reporter.store import stream

    # typer leaves out the escape sequences that a value has: a file gets them, and a terminal shows them as text
    shown = sys.stdout.isatty()
    for text in stream(database, query, format, width=terminal_width()):
        sys.stdout.write("\n".join(map(one_line, text.split("\n"))) if shown else text)
    sys.stdout.write("\n")


@app.command()
def diff(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", help="STUDY, STUDY:MODEL, FOLDER:STUDY, or FOLDER: for the study that B names or the only one."
        ),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="The other side, written like A.")],
    out: Out = Path("results"),
    format: Annotated[
        Literal["table", "markdown", "json"],
        option("How to print it: table, markdown or json.", "FORM", name="--format"),
    ] = "table",
    most: Annotated[int, option("Most rows to print of each list.", min=1)] = 20,
    exit_code: Annotated[
        bool, flag("--exit-code", "Exit with 1 if a number changed, came or went, or a verdict changed.")
    ] = False,
) -> None:
    """Compare two studies, two runs or two models.

    A and B are studies of the folder --out or of another results folder:
    'reporter diff bert gpt2', 'reporter diff old:bert new:bert', 'reporter
    diff old: new:'. Two models of a study: 'reporter diff bert:base bert:tuned',
    each at its last checkpoint.

    Prints the differences of study files, provenance, numbers and verdicts. A
    number changed if A and B differ by more than the 95 % interval of their
    difference, that of claims and the overview: paired over texts where both
    read the same ones and it is known how each text moves the number, else of
    independent numbers. Chance alone changes 1 in 20. A number without an
    interval changed if it differs by more than 0.00001 of its size.

    Models of different depth are compared at equal relative depth: the
    numbers of the deeper model are interpolated.
    """
    from reporter.app.diff import compare
    from reporter.app.diff.show import show

    comparison = compare(a, b, out)
    typer.echo(show(comparison, format, most))
    if exit_code and comparison.has_consequences:
        raise typer.Exit(1)


@app.command()
def verify(
    study: Study,
    out: Out = Path("results"),
    cells: Annotated[int, option("How many checkpoints × corpora to measure, the smallest first.", min=1)] = 2,
    model: Annotated[str | None, option("Only this model or baseline.")] = None,
    corpus: Annotated[str | None, option("Only this corpus.")] = None,
    max_texts: Annotated[int, option("Skip corpora with more texts than this.", min=1)] = 500,
    format: Annotated[Literal["table", "json"], flag("--format", "How to print it.")] = "table",
    offline: Offline = False,
) -> None:
    """Measure a few cells again by an independent path.

    Reads one text at a time without padding, takes the model's own hidden
    states, and computes each definition in float64 NumPy with a different
    number of threads. Prints the largest deviation of each statistic, and
    which numbers were not verified.

    Exit code: 0 all agree, 1 a number deviates beyond its tolerance or could
    not be measured again.
    """
    from reporter.app.verify import show
    from reporter.app.verify.cells import Asked
    from reporter.app.verify.verification import verify as measure_again

    result = measure_again(study, out, Asked(cells, max_texts, model, corpus), offline=offline)
    typer.echo(show(result, format))
    if not result.passed:
        raise typer.Exit(1)


@app.command()
def cache(
    out: Out = Path("results"),
    older_than: Annotated[
        str | None, option("Remove entries that were last used longer ago: 12h, 30d, 2w.", "AGE")
    ] = None,
    larger_than: Annotated[
        str | None, option("Remove the oldest entries until this size is left: 10GB, 500MiB.", "SIZE")
    ] = None,
    study: Annotated[str | None, option("Remove entries that only this study uses.")] = None,
    dry_run: Annotated[bool, flag("--dry-run", "List what would be removed, and remove nothing.")] = False,
) -> None:
    """Show what the cache holds, or remove a part of it.

    Lists passes (a checkpoint on a corpus), tokens and texts of corpora, and
    trained models: their size, when they were last used, and the studies that
    use them. Removed entries are computed again when a run needs them; numbers
    in the database stay. With several options, an entry must match all of
    them. Entries that a run is using are kept.
    """
    from reporter.runs.cache import bytes_of, entries, lines, prunable, pruned_lines, remove, seconds_of
    from reporter.store import Store

    age = None if older_than is None else seconds_of(older_than)
    size = None if larger_than is None else bytes_of(larger_than)
    store = Store(out / "results.duckdb")
    if study is not None:
        store.require(study)
    listed = entries(out, store)
    if age is None and size is None and study is None:
        _echo_lines(lines(out, listed))
        return
    candidates = prunable(listed, older_than=age, larger_than=size, study=study)
    removed, held = (candidates, []) if dry_run else remove(candidates)
    _echo_lines(pruned_lines(removed, held, dry_run))


@app.command()
def metrics(
    name: Annotated[
        str | None, typer.Argument(help="A metric to explain, or a word to search for. Default: list all metrics.")
    ] = None,
    study: Annotated[Path | None, option("A study whose plug-ins are included.", "FILE")] = None,
    new: Annotated[
        str | None, option("Write NAME.py, a metric of your own to start from.", "NAME", name="--new")
    ] = None,
) -> None:
    """Explain or search metrics, or begin a new one.

    Prints the definition, source, options and columns of a metric or an
    analysis. Any other word is searched for in the names, titles and
    definitions of all statistics.
    """
    from reporter.metrics.analysis import analyses
    from reporter.metrics.base import catalogue

    if study is not None:
        from reporter.runs.studies import read_study

        read_study(study)  # registers the plug-ins of the study
    definitions: dict[str, Definition] = {**catalogue(), **analyses()}
    if new is not None:
        from reporter.study.study import packaging, write_metric

        path = write_metric(new, definitions)
        typer.echo(f"wrote {path}. A study in the same folder uses it with\n\nplugins: [{path}]\nmetrics: [{new}]\n")
        typer.echo(
            "To install it for all studies, save this as pyproject.toml in the same folder and run "
            f"`pip install .`\n\n{packaging(new)}"
        )
        return
    if name is None:
        for metric in definitions.values():
            typer.echo(f"{metric.name}: {metric.title} ({counted(len(metric.statistics), 'statistic')})")
            typer.echo(f"    {metric.summary}")
        return
    from reporter.app.docs.reference import metric_page, search

    if name in definitions:
        typer.echo(metric_page(definitions[name]))
    elif matches := search(name, definitions.values()):
        _echo_lines(matches)
    else:
        raise UsageError(f"unknown metric '{one_line(name)}'{hint(name, list(definitions), 'metrics')}")


@app.command()
def docs(
    out: Annotated[Path | None, option("Write the pages into this folder and do not open them.", "DIR")] = None,
) -> None:
    """Open the documentation, which needs no network.

    It has guides, every metric, table and key of a study, and a search.
    """
    from reporter.app.docs.site import build, site

    if out is not None:
        typer.echo(f"wrote the documentation; open {build(out)}")
        return
    page = site(lambda text: typer.echo(text, err=True))
    typer.echo(f"open {page}")
    if sys.stdout.isatty():
        _open(page)


def _open(page: Path) -> None:
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        typer.echo(f"no browser opens; open {page} yourself", err=True)


def _required(values: list[_T] | None, name: str) -> list[_T]:
    if not values:
        raise typer.BadParameter(f"name at least one {name}")
    return values


def _id_of(study: str) -> str:
    if not Path(study).is_file():
        return study
    from reporter.runs.studies import read_study

    return read_study(Path(study)).study.study


def _names(values: list[str] | None, option: str = "--only") -> list[str]:
    names = [name.strip() for value in values or () for name in value.split(",") if name.strip()]
    if values and not names:  # such as "$MODEL" that is not set, which must not mean everything
        raise UsageError(f"{option} '{','.join(values)}' has no name in it; write a name, or leave {option} out")
    return names


def _megabytes(paths: Iterable[Path]) -> str:
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
    return f"{sum(file.stat().st_size for file in files) / 1e6:.1f} MB"


def _echo_lines(lines: Iterable[str], err: bool = False) -> None:
    for line in lines:
        typer.echo(line, err=err)
