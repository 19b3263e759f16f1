"""A folder that any static host serves: the pages of studies with what they need, and nothing of the machine."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from reporter.errors import ReporterError, UsageError
from reporter.report.site import render


def publish(database: Path, target: Path, studies: Sequence[str] | None = None) -> list[Path]:
    """Write studies' pages into a folder of their own: no database, no cache, no study that was not named.

    It is written beside the old one and put in its place, so that a host never serves a half of each.

    Args:
        database: the file of results.
        target: the folder; a new or an empty one, or one that was published before.
        studies: which studies; None for all of them.

    Returns:
        Its pages.

    Raises:
        UsageError: the folder holds something else, or there is no such study.
        ReporterError: the database cannot be read, or the folder cannot be written.
    """
    if target.exists() and not _is_ours(target):
        raise UsageError(f"{target} holds other files; name a new folder, or one that was published before")
    fresh = target.with_name(f".{target.name}.new")
    old = target.with_name(f".{target.name}.old")
    try:
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)
        fresh.mkdir(parents=True)
        if (made := database.parent / "assets").is_dir():
            shutil.copytree(made, fresh / "assets")  # to make the script takes seconds
        pages = [page.relative_to(fresh) for page in render(database, fresh, studies, alone=True)]
        if target.exists():
            target.rename(old)
        fresh.rename(target)
    except OSError as error:
        raise ReporterError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)
    return [target / page for page in pages]


def _is_ours(folder: Path) -> bool:
    """Whether a folder is empty, or has nothing in it but what was published before."""
    if not folder.is_dir():
        return False
    there = {path.name for path in folder.iterdir()}
    if not there:
        return True
    page = folder / "index.html"
    ours = page.is_file() and '<meta name="generator" content="reporter ' in page.read_text("utf-8", "replace")[:1000]
    others = [name for name in there - {"index.html", "assets"} if not (folder / name / "index.html").is_file()]
    return ours and not others
