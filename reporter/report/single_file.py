"""A study's whole report in one file, to attach to a mail: its pages and their data packed, the script once.

It is made of the pages that are written anyway. Its policy lets a browser run the three scripts that stand in it and
no others, so that not even a gap in escaping would let a name or a text act; and it may load nothing.
"""

import base64
import gzip
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from reporter.core.files import writing
from reporter.core.outputs import replace_file, replacing, require_replaceable_file
from reporter.report import tables as queries
from reporter.report.site import render
from reporter.report.templating import SCRIPT, STYLE, environment, guard, inline_json, policy, read_script
from reporter.store import Store

MOST_CSV = 48_000
"""Packed bytes of a table that is carried as it is; those behind journeys are larger, and their rows are in parts."""
MOST_TOGETHER = 300_000
"""Characters of parts that are packed as one: charts of a metric repeat each other, but to read one unpacks all."""
_THEME = re.compile(r'<html[^>]* data-theme="(\w+)"')


def write_single_file(database: Path, study: str, file: Path) -> None:
    """Write a study's report as one HTML file.

    Raises:
        UsageError: there is no such study, or the file is somebody else's.
        ReporterError: the database cannot be read, or the file cannot be written.
    """
    require_replaceable_file(file, _is_page)
    with TemporaryDirectory() as place, writing(file):
        render(database, Path(place), [study])
        text = _file(database, study, Path(place) / study)
    replace_file(file, text.encode(), _is_page)


def _is_page(file: Path) -> bool:
    with file.open("rb") as page:
        return b'<meta name="generator" content="reporter ' in page.read(2000)


def _file(database: Path, study: str, report_folder: Path) -> str:
    script = (report_folder / "assets" / SCRIPT).read_text("utf-8")
    first, loader = read_script("first"), read_script("single_file")
    store = Store(database)
    with store.reading() as read:
        row = next(row for row in queries.rows_of(read(queries.STUDIES)) if row["study"] == study)
        claims = queries.read_rows(read, queries.SAID_CLAIMS, study)
        findings = queries.read_rows(read, queries.SAID_FINDINGS, study)
    template = environment().get_template("single.html")
    return template.render(
        theme=match[1] if (match := _THEME.search((report_folder / "index.html").read_text("utf-8"))) else "",
        title=row["title"] or study,
        question=row["question"],
        claims=claims,
        findings=findings,
        guard=guard(policy(first, loader, script, files=False)),
        style=(report_folder / "assets" / STYLE).read_text("utf-8"),
        first=first,
        loader=loader,
        packed=_packed(report_folder, script),
    )


def _packed(folder: Path, script: str) -> dict[str, str]:
    """Return what the file holds, by name: pages, the script, parts by their own names and tables as ``NAME.csv``.

    Parts of one metric stand together, under all their names.
    """
    packed = {page.name: _pack(page.read_text("utf-8")) for page in sorted(folder.glob("*.html"))}
    packed[SCRIPT] = _pack(script)
    parts = sorted((folder / "data").glob("*.js"))
    together: list[tuple[str, dict[str, str]]] = []
    for part in parts:
        called, metric = f"reporterPart({inline_json(part.stem)},", part.stem.partition(".")[0]
        text = part.read_text("utf-8").removeprefix(called).removesuffix(");\n")
        last, texts = together[-1] if together else ("", {})
        if last != metric or sum(map(len, texts.values())) + len(text) > MOST_TOGETHER:
            together.append((metric, texts := {}))
        texts[part.stem] = text
    packed |= {" ".join(texts): _pack("\0".join(texts.values())) for _, texts in together}
    own_rows = {part.stem for part in parts}
    for table in sorted([*(folder / "data").glob("*.csv"), *(folder / "data").glob("*.bib")]):
        if table.stem not in own_rows and len(text := _pack(table.read_text("utf-8"))) <= MOST_CSV:
            packed[table.name] = text
    return packed


def _pack(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


# A folder that any static host serves: the pages of studies with what they need, and nothing of the machine.


def publish(database: Path, target: Path, studies: Sequence[str] | None = None, address: str = "") -> list[Path]:
    """Write studies' pages into a folder of their own: no database, no cache, no study that was not named.

    Raises:
        UsageError: there is no such study, or the folder has files of others.
        ReporterError: the database cannot be read, or the folder cannot be written.
    """
    with replacing(target, alone=True) as fresh:
        pages = [page.relative_to(fresh) for page in render(database, fresh, studies, alone=True, address=address)]
    return [target / page for page in pages]
