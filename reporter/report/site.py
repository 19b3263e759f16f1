"""The site of a results folder: the list of studies, a page and CSVs for each, a script and a stylesheet."""

from __future__ import annotations

import errno
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from reporter.analyses.registry import analyses
from reporter.errors import ReporterError, UsageError, no_study
from reporter.metrics.base import Definition
from reporter.metrics.registry import catalogue
from reporter.report import queries
from reporter.report.assets import carry_assets, write, write_assets
from reporter.report.citing import cite
from reporter.report.contents import Contents, Row, read_contents, rows_of
from reporter.report.explorers import pages_of, write_explorers
from reporter.report.look import Look, read_look
from reporter.report.sparklines import sparkline
from reporter.report.stills import with_stills
from reporter.report.study_page import facts, study_page
from reporter.report.templating import environment, inline_json
from reporter.store import Store
from reporter.store.formats import inert

if TYPE_CHECKING:
    import pandas as pd

RESERVED = {"assets", "cache"}
"""Folders of a results folder that are no study's."""
_DRAFT = ".data."
_DEAD_SECONDS = 3600  # after which nobody writes to a draft any more


def render(database: Path, out: Path, studies: Sequence[str] | None = None, alone: bool = False) -> list[Path]:
    """Write the report from the database, computing no number.

    Args:
        database: the file of results.
        out: the results folder; gets ``index.html``, ``assets/`` and, for each study, a folder that is whole by itself.
        studies: the studies whose pages are written; None for all of them. The list has all of them nevertheless.
        alone: whether the pages leave the database behind: the list then names no other study, and no database; figures
            have pictures for readers without scripts.

    Returns:
        The pages that were written: the list of studies, then each study's page and its explorers.

    Raises:
        UsageError: where there are no results yet, or not of a study that was asked for.
        ReporterError: where the database cannot be read or a page cannot be written.
    """
    store = Store(database)
    with store.reading() as read:
        rows = rows_of(read(queries.STUDIES.text))
        wanted = _wanted(database, [str(row["study"]) for row in rows], studies)
        known = {**catalogue(), **analyses()}
        found = [
            read_contents(read, row, known, headlines_only=row["study"] not in wanted)
            for row in rows
            if row["study"] in wanted or not alone
        ]
    try:
        return _write(out, found, wanted, known, database.parent, alone)
    except OSError as error:
        raise ReporterError(f"the report cannot be written: {error}") from error


def _wanted(database: Path, known: Sequence[str], studies: Sequence[str] | None) -> list[str]:
    if not known:
        raise UsageError(f"{database}: holds no study yet; run `reporter run STUDY` first")
    wanted = list(dict.fromkeys(known if studies is None else studies))
    for name in wanted:
        if name not in known:
            raise no_study(name, database, known)
        if name in RESERVED or not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
            raise UsageError(f"study {name!r} cannot have a page: its id cannot name a folder; give it another one")
    return wanted


def _write(
    out: Path,
    found: Sequence[Contents],
    wanted: Sequence[str],
    known: Mapping[str, Definition],
    home: Path,
    alone: bool,
) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    write_assets(out)
    templates = environment()
    pages = []
    for contents in found:
        if contents.study["study"] in wanted:
            folder = out / str(contents.study["study"])
            look = read_look(contents.study, home / folder.name)
            drawn = look.of(contents).drawn()
            pages += _write_study(folder, with_stills(drawn, folder) if alone else drawn, look, known)
            carry_assets(out, folder)
    index = out / "index.html"
    cards = [_card(out, contents, known) for contents in found]
    write(index, templates.get_template("index.html").render(cards=cards, alone=alone))
    return [index, *pages]


def _write_study(folder: Path, contents: Contents, look: Look, known: Mapping[str, Definition]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    templates = environment(look.templates)
    templates.globals["look"] = look
    try:
        return _write_pages(folder, contents, templates, known)
    except TemplateError as error:
        if look.templates is None:
            raise
        name, line = getattr(error, "filename", None) or getattr(error, "name", None), getattr(error, "lineno", None)
        where = f"{Path(name).name}{f', line {line}' if line else ''}" if name else "one of them"
        raise ReporterError(
            f"the templates of study {contents.study['study']!r}: {where}: {error}; mend it, or take report.templates "
            "out of the study"
        ) from error


def _write_pages(folder: Path, contents: Contents, templates: Any, known: Mapping[str, Definition]) -> list[Path]:
    html = study_page(contents, templates)
    _write_data(folder, contents)
    page = folder / "index.html"
    write(page, html)
    return [page, *write_explorers(folder, contents.explorers, contents.study, templates, known, contents.numbered)]


def _write_data(folder: Path, contents: Contents) -> None:
    """Write CSVs and chart data into a fresh folder and put it in the old one's place, so that none is left over."""
    import pandas as pd

    def write_csv(name: str, frame: pd.DataFrame) -> None:
        for column in [str(name) for name in frame if _may_run(frame[name])]:
            frame = frame.assign(**{column: [inert(v) if isinstance(v, str) else v for v in frame[column].tolist()]})
        frame.to_csv(fresh / f"{name}.csv", index=False, lineterminator="\n")

    def as_in_sql(frame: pd.DataFrame) -> pd.DataFrame:
        flags = [str(flag) for flag in frame.select_dtypes("bool")]
        return frame.assign(**{flag: frame[flag].map({True: "true", False: "false"}) for flag in flags})

    def write_parts(parts: Mapping[str, Any]) -> None:
        for name, value in parts.items():
            # scripts and not JSON: a page that was opened as a file may load no other file than a script
            text = f"reporterPart({inline_json(name)},{inline_json(value)});\n"
            (fresh / f"{name}.js").write_text(text, encoding="utf-8")

    fresh = _fresh(folder)
    for drawn in contents.every:
        if drawn.frame is not None:
            write_csv(drawn.id, as_in_sql(drawn.frame))
        if drawn.shown:
            write_parts(drawn.for_page)  # each at once: all together would be a few times the database
    for name, rows in (("models", contents.models), ("corpora", contents.corpora), ("cells", contents.cells)):
        write_csv(name, pd.DataFrame(rows))
    if contents.sinks:
        write_csv("sinks", pd.DataFrame(contents.sinks.all))
    for answer in contents.answers:
        for name, frame in answer.tables.items():
            write_csv(name, as_in_sql(frame))
    if contents.claims.all:
        write_csv("claims", contents.claims.frame)
    if contents.compared:
        write_csv("compared", contents.compared.frame)
    if contents.findings.all:
        write_csv("findings", contents.findings.frame)
    for explorer in contents.explorers:
        write_parts(explorer.parts)
        for source in explorer.sources:
            write_csv(source.name, as_in_sql(source.frame))
    (fresh / "references.bib").write_text(cite(contents, contents.every).bibtex, encoding="utf-8")
    _put(fresh, folder / "data")


def _fresh(folder: Path) -> Path:
    """Return a new folder that no other run of the study writes to; what killed runs left goes."""
    for left in folder.glob(f"{_DRAFT}*"):
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > _DEAD_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
    fresh = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=folder))
    fresh.chmod(0o755)  # mkdtemp's folders are closed to everybody else
    return fresh


def _put(fresh: Path, place: Path) -> None:
    """Put a folder in the place of another; of several runs that do so at a time the last one stays."""
    old = fresh.with_name(f"{fresh.name}-old")
    while True:
        with suppress(FileNotFoundError):
            place.rename(old)
        try:
            fresh.rename(place)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        finally:
            shutil.rmtree(old, ignore_errors=True)


def _may_run(column: pd.Series[Any]) -> bool:
    """Whether a spreadsheet might take a text of a column for a formula."""
    from pandas.api.types import is_object_dtype, is_string_dtype

    if not (is_object_dtype(column.dtype) or is_string_dtype(column.dtype)):
        return False
    return any(inert(value) != value for value in {value for value in column.tolist() if isinstance(value, str)})


def _card(out: Path, contents: Contents, known: Mapping[str, Definition]) -> Row:
    study = contents.study
    failed = sum(row["status"] == "failed" for row in [*contents.cells, *contents.models, *contents.corpora])
    unfinished = study["started"] is not None and study["finished"] is None
    return {
        "study": study["study"],
        "title": study["title"] or study["study"],
        "question": study["question"],
        "facts": facts(contents),
        "models": contents.scene.styles.own,
        "finished": study["finished"],
        "status": "unfinished" if unfinished else f"{failed} failed" if failed else "complete",
        "good": not failed and not unfinished,
        "page": (out / str(study["study"]) / "index.html").exists(),
        "claims": contents.claims,
        "explorers": pages_of(out / str(study["study"]), known),
        "spark": sparkline(contents),
    }
