"""The site: Sphinx makes HTML of all pages, without network, to be searched and read from a disk."""

import hashlib
import io
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reporter import __version__
from reporter.core.errors import ReporterError
from reporter.core.files import writing
from reporter.core.imports import optional

HERE = Path(__file__).resolve().parent
SHIPPED = HERE / "site"
"""The site in an installed package; a checkout has its sources instead."""
ROOT = HERE.parents[2]
# Pages that a checkout keeps elsewhere, and their names on the site. An installed package has them beside this file.
_ELSEWHERE = {"CONTRIBUTING.md": "contributing.md", "studies/quickstart.md": "first-study.md"}

_SETTINGS: dict[str, Any] = {
    "project": "reporter",
    "html_title": f"reporter {__version__}",
    "version": __version__,
    "release": __version__,
    "extensions": ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"],
    "exclude_patterns": ["parts"],
    "myst_enable_extensions": ["deflist"],
    "myst_heading_anchors": 3,
    "html_theme": "furo",
    "html_copy_source": False,  # its pages are in the repository
    "html_show_search_summary": False,  # it would fetch the pages, which a browser refuses below file://
    "html_use_index": False,
    "html_domain_indices": False,
    "autodoc_default_options": {"members": True, "exclude-members": "model_config"},
    "autodoc_member_order": "bysource",
    "autodoc_typehints": "signature",
    "smartquotes": False,
    "default_role": "code",
}


def site(tell: Callable[[str], None] = lambda text: None) -> Path:
    """Return the first page of the site: that of the package, or made now and kept in the user's cache.

    Args:
        tell: is called with a line before pages are made, which takes a while.

    Raises:
        ReporterError: it has to be made, and Sphinx is not there.
    """
    if SHIPPED.is_dir():
        return SHIPPED / "index.html"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reporter" / "docs"
    folder = cache / _state()
    if not (folder / "index.html").is_file():
        tell("making the pages, about half a minute; the next call is instant")
        shutil.rmtree(cache, ignore_errors=True)  # those of older states
        build(folder)
    return folder / "index.html"


def build(folder: Path) -> Path:
    """Write the site into a folder, in place of one that is there, and return its first page.

    Raises:
        ReporterError: Sphinx is not there, a page has a mistake, or the folder is somebody else's or cannot be written.
    """
    first = folder / "index.html"
    theirs = folder.is_dir() and any(folder.iterdir()) and not (folder / "searchindex.js").is_file()
    if theirs or (folder.exists() and not folder.is_dir()):
        raise ReporterError(f"{folder} exists and is not a folder of this documentation; name a new folder")
    with writing(folder), tempfile.TemporaryDirectory() as place:
        made = SHIPPED
        if not SHIPPED.is_dir():
            made = Path(place) / "site"
            _make(Path(place) / "sources", made)
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(made, folder)
    return first


def write_sources(folder: Path) -> None:
    """Write all pages into a folder, in MyST's Markdown."""
    from reporter.app.docs.reference import reference_pages

    written = HERE / "pages"
    pages = {str(path.relative_to(written)): path.read_text("utf-8") for path in written.rglob("*.md")}
    pages |= reference_pages()
    for place, path in _elsewhere().items():
        pages[_ELSEWHERE[place]] = _relinked(path.read_text("utf-8"))
    for heading, text in _sections(pages["contributing.md"]).items():  # other pages include some, such as words.md
        pages[f"parts/contributing/{re.sub('[^a-z0-9]+', '-', heading.lower()).strip('-')}.md"] = text
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def _elsewhere() -> dict[str, Path]:
    beside = {place: HERE / name for place, name in _ELSEWHERE.items()}
    return {place: path if path.is_file() else ROOT / place for place, path in beside.items()}


def _sections(text: str) -> dict[str, str]:
    """Return the text under each heading of the second level of a page."""
    return dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))


def _relinked(text: str) -> str:
    def link(match: re.Match[str]) -> str:
        label, to = match.groups()
        page = to if "://" in to else _ELSEWHERE.get(to) or to.removeprefix("reporter/app/docs/pages/")
        return f"[{label}]({page})" if "://" in page or (page != to or to in _ELSEWHERE) else label

    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)\)", link, text)


def _make(sources: Path, out: Path) -> None:
    application = optional("sphinx.application", "docs", "building the documentation")
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    from reporter.app.docs.plain import write_plain

    write_sources(sources)
    warnings_text = io.StringIO()
    with warnings.catch_warnings(), patch_docutils(), docutils_namespace():
        warnings.simplefilter("ignore")  # what Sphinx and its extensions deprecate is between them
        maker = application.Sphinx(
            sources, None, out, sources.parent / "doctrees", "html", dict(_SETTINGS), status=None, warning=warnings_text
        )
        maker.build()
    if problems := warnings_text.getvalue().strip():
        raise ReporterError(f"the sources of the documentation have mistakes:\n{problems}")
    write_plain(sources, out)
    (out / "objects.inv").unlink(missing_ok=True)
    (out / ".buildinfo").unlink(missing_ok=True)
    shutil.rmtree(out / "_sources", ignore_errors=True)


def _state() -> str:
    checksum = hashlib.sha256()
    sources = [
        *HERE.parents[1].rglob("*.py"),
        *(HERE / "pages").rglob("*.md"),
        *_elsewhere().values(),
    ]
    for path in sorted(sources):
        checksum.update(path.read_bytes())
    return checksum.hexdigest()[:16]
