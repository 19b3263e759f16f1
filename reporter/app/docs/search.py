"""The search of the site: the sections of its pages as a script, and the code that ranks them."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

_HEADINGS = {"h1", "h2", "h3", "h4", "dt"}
_BLOCKS = {"p", "li", "dd", "td", "th", "pre", "tr", "div"}
_SOUGHT = {
    "cluster": "slurm job array ray several gpus machines workers distributed",
    "commands": "command line options cache",
    "errors": "out of memory",
    "extending": "plugin plug-in custom new source of texts analysis",
    "guard": "continuous integration regression",
    "index": "install installation",
    "paper": "latex tables figures methods paragraph references.bib bibtex",
    "reliability": "coverage of confidence intervals tests",
    "which-layer": "best layer for embeddings search retrieval classifier pooling",
    "write-a-claim": "syntax example hypothesis",
}
"""Words that readers look for a page by, besides those in its title and headings."""
_LEFT_OUT = {"genindex.html", "search.html", "py-modindex.html"}


class _Sections(HTMLParser):
    """Collects the sections of a page: anchor, heading and text. A name of Python has a section of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.sections: list[list[str]] = []
        self._inside = 0  # how deep in the article
        self._heading = ""  # the tag of the heading that is open
        self._anchor = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open a section where it has an id."""
        given = dict(attrs)
        if tag == "article":
            self._inside += 1
        if tag == "section":
            self._anchor = given.get("id") or ""
        if not self._inside:
            return
        is_name = tag == "dt" and "sig" in (given.get("class") or "").split()
        if is_name:
            self._anchor = given.get("id") or ""
        if tag in _HEADINGS and (tag != "dt" or is_name):
            self.sections.append([self._anchor, self._anchor if is_name else "", ""])
            self._heading = "" if is_name else tag
        elif tag in _BLOCKS:
            self._add(" ")

    def handle_endtag(self, tag: str) -> None:
        """Close a heading, or the article."""
        if tag == "article":
            self._inside -= 1
        if tag == self._heading:
            self._heading = ""

    def handle_data(self, data: str) -> None:
        """Add text to the heading or to the section."""
        if self._inside and data != "¶":
            self._add(data)

    def _add(self, text: str) -> None:
        if self.sections:
            self.sections[-1][1 if self._heading else 2] += text


def sections(site: Path) -> list[tuple[str, ...]]:
    """Return page, title, anchor, heading, text and further words of every section of a site."""
    found = []
    for path in sorted(site.rglob("*.html")):
        page = path.relative_to(site).as_posix()
        if page in _LEFT_OUT:
            continue
        parser = _Sections()
        parser.feed(path.read_text("utf-8"))
        parts = [[" ".join(text.split()) for text in section] for section in parser.sections]
        title, sought = parts[0][1], _SOUGHT.get(page.removesuffix(".html"), "")
        found += [(page, title, *part, "" if place else sought) for place, part in enumerate(parts)]
    return found


def write_search(site: Path) -> None:
    """Put the search in place of Sphinx's own, which fetches pages for its snippets and so fails on a disk."""
    code = Path(__file__).with_name("search.js").read_text("utf-8")
    (site / "_static" / "searchtools.js").write_text(re.sub(r"^export ", "", code, flags=re.MULTILINE), "utf-8")
    data = json.dumps(sections(site), ensure_ascii=False, separators=(",", ":"))
    (site / "searchindex.js").write_text(f"globalThis.searchSections={data}\n", "utf-8")
    (site / "_static" / "language_data.js").write_text("", "utf-8")  # the page asks for it
