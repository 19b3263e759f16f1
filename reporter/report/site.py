"""The site of a results folder: the list of studies, a page and CSVs for each, a script and a stylesheet."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reporter.analyses.registry import analyses
from reporter.errors import ReporterError, UsageError
from reporter.metrics.base import Definition
from reporter.metrics.registry import catalogue
from reporter.report import queries
from reporter.report.assets import write, write_assets
from reporter.report.contents import Contents, Row, read_contents, rows_of
from reporter.report.explorers import pages_of, write_explorers
from reporter.report.sparklines import sparkline
from reporter.report.study_page import facts, study_page
from reporter.report.templating import environment, inline_json
from reporter.store import Store

RESERVED = {"assets", "cache"}
"""Folders of a results folder that are no study's."""


def render(database: Path, out: Path, studies: Sequence[str] | None = None) -> list[Path]:
    """Write the report from the database, computing no number.

    Args:
        database: the file of results.
        out: the results folder; gets ``index.html``, ``assets/`` and a folder for each study.
        studies: the studies whose pages are written; None for all of them. The list always has all.

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
        found = [read_contents(read, row, known, headlines_only=row["study"] not in wanted) for row in rows]
    try:
        return _write(out, found, wanted, known)
    except OSError as error:
        raise ReporterError(f"the report cannot be written: {error}") from error


def _wanted(database: Path, known: Sequence[str], studies: Sequence[str] | None) -> list[str]:
    if not known:
        raise UsageError(f"{database}: holds no study yet; run `reporter run STUDY` first")
    wanted = list(dict.fromkeys(known if studies is None else studies))
    for name in wanted:
        if name not in known:
            raise UsageError(f"no study {name!r} in {database}; it has: {', '.join(known)}")
        if name in RESERVED or not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
            raise UsageError(f"study {name!r} cannot have a page: its id cannot name a folder; give it another one")
    return wanted


def _write(out: Path, found: Sequence[Contents], wanted: Sequence[str], known: Mapping[str, Definition]) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    write_assets(out)
    templates = environment()
    pages = []
    for contents in found:
        if contents.study["study"] in wanted:
            pages += _write_study(out / str(contents.study["study"]), contents.drawn(), templates, known)
    index = out / "index.html"
    cards = [_card(out, contents, known) for contents in found]
    write(index, templates.get_template("index.html").render(cards=cards))
    return [index, *pages]


def _write_study(folder: Path, contents: Contents, templates: Any, known: Mapping[str, Definition]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    html = study_page(contents, templates)
    _write_data(folder, contents)
    page = folder / "index.html"
    write(page, html)
    return [page, *write_explorers(folder, contents.explorers, contents.study, templates, known)]


def _write_data(folder: Path, contents: Contents) -> None:
    """Write CSVs and chart data into a fresh folder and put it in the old one's place, so that none is left over."""
    import pandas as pd

    def write_csv(name: str, frame: pd.DataFrame) -> None:
        frame.to_csv(fresh / f"{name}.csv", index=False, lineterminator="\n")

    def as_in_sql(frame: pd.DataFrame) -> pd.DataFrame:
        flags = [str(flag) for flag in frame.select_dtypes("bool")]
        return frame.assign(**{flag: frame[flag].map({True: "true", False: "false"}) for flag in flags})

    fresh, data, old = folder / ".data.new", folder / "data", folder / ".data.old"
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    fresh.mkdir()
    parts: dict[str, Any] = {}
    for drawn in [*contents.charts, *(chart for explorer in contents.explorers for chart in explorer.charts)]:
        if drawn.frame is not None:
            write_csv(drawn.id, as_in_sql(drawn.frame))
        if drawn.shown:
            parts |= drawn.for_page
    for name, rows in (("models", contents.models), ("corpora", contents.corpora), ("cells", contents.cells)):
        write_csv(name, pd.DataFrame(rows))
    if contents.sinks:
        write_csv("sinks", pd.DataFrame(contents.sinks.all))
    for answer in contents.answers:
        for name, frame in answer.tables.items():
            write_csv(name, as_in_sql(frame))
    if contents.claims.all:
        write_csv("claims", contents.claims.frame)
    for explorer in contents.explorers:
        parts |= explorer.parts
        for source in explorer.sources:
            write_csv(source.name, as_in_sql(source.frame))
    for name, value in parts.items():
        # scripts and not JSON: a page that was opened as a file may load no other file than a script
        text = f"reporterPart({inline_json(name)},{inline_json(value)});\n"
        (fresh / f"{name}.js").write_text(text, encoding="utf-8")
    if data.exists():
        data.rename(old)
    fresh.rename(data)
    shutil.rmtree(old, ignore_errors=True)


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
