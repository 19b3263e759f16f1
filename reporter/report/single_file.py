"""A study's whole report in one file, to attach to a mail: its pages and their data packed, the script once.

It is made of the pages that are written anyway. Its policy lets a browser run the three scripts that stand in it and
no others, so that not even a gap in escaping would let a name or a text act; and it may load nothing.
"""

import base64
import gzip
import hashlib
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from reporter.core.errors import ReporterError, UsageError
from reporter.core.files import writing
from reporter.report import tables as queries
from reporter.report.site import render
from reporter.report.templating import SCRIPT, STYLE, environment, folder, inline_json, write
from reporter.store import Store

MOST_CSV = 48_000
"""Packed bytes of a table that is carried as it is; those behind journeys are larger, and their rows are in parts."""
MOST_TOGETHER = 300_000
"""Characters of parts that are packed as one: charts of a metric repeat each other, but to read one unpacks all."""
_THEME = re.compile(r'<html[^>]* data-theme="(\w+)"')
_TAG = re.compile(rf'<script src="assets/{re.escape(SCRIPT)}"[^>]*></script>')


def write_single_file(database: Path, study: str, file: Path) -> None:
    """Write a study's report as one HTML file."""
    with TemporaryDirectory() as place:
        if (made := database.parent / "assets").is_dir():
            shutil.copytree(made, Path(place) / "assets")  # to make the script takes seconds
        render(database, Path(place), [study])
        text = _file(database, study, Path(place) / study)
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, text)


def _file(database: Path, study: str, report_folder: Path) -> str:
    script = (report_folder / "assets" / SCRIPT).read_text("utf-8")
    first = (folder() / "first.js").read_text("utf-8")
    loader = (folder() / "single_file.js").read_text("utf-8")
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
        policy=_policy(first, loader, script),
        style=(report_folder / "assets" / STYLE).read_text("utf-8"),
        first=first,
        loader=loader,
        packed=_packed(report_folder, script),
    )


def _packed(folder: Path, script: str) -> dict[str, str]:
    """Return what the file holds, by name: pages, the script, parts by their own names and tables as ``NAME.csv``.

    Parts of one metric stand together, under all their names.
    """
    # The tag of the script goes: it stands in the file itself, and the policy minds what the tag does on an error.
    packed = {page.name: _pack(_TAG.sub("", page.read_text("utf-8"))) for page in sorted(folder.glob("*.html"))}
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


def _policy(*scripts: str) -> str:
    """Return a content policy: these scripts, inline styles, pictures from data, and nothing else.

    Vega compiles its expressions, so scripts that run may evaluate text.
    """
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


# A folder that any static host serves: the pages of studies with what they need, and nothing of the machine.


def publish(database: Path, target: Path, studies: Sequence[str] | None = None, address: str = "") -> list[Path]:
    """Write studies' pages into a folder of their own: no database, no cache, no study that was not named.

    It is written beside the old one and put in its place, so that a host never serves a half of each.
    """
    if target.exists() and not _is_ours(target):
        raise UsageError(f"{target} has other files in it; name a new folder, or a folder of `reporter export --site`")
    fresh = target.with_name(f".{target.name}.new")
    old = target.with_name(f".{target.name}.old")
    try:
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)
        fresh.mkdir(parents=True)
        if (made := database.parent / "assets").is_dir():
            shutil.copytree(made, fresh / "assets")  # to make the script takes seconds
        pages = [page.relative_to(fresh) for page in render(database, fresh, studies, alone=True, address=address)]
        if target.exists():
            target.rename(old)
        fresh.rename(target)
    except OSError as error:
        raise ReporterError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)
    return [target / page for page in pages]


def _is_ours(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    names = {path.name for path in folder.iterdir()}
    if not names:
        return True
    page = folder / "index.html"
    ours = page.is_file() and '<meta name="generator" content="reporter ' in page.read_text("utf-8", "replace")[:1000]
    foreign = [name for name in names - {"index.html", "assets"} if not (folder / name / "index.html").is_file()]
    return ours and not foreign
