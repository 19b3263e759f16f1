"""The works that a report rests on, as BibTeX."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from reporter.store.latex import latex

_CITED = re.compile(r"(?P<authors>[^:]+?),? (?P<year>(?:1[89]|20)\d\d),? (?P<rest>.+)", re.DOTALL)
_TITLE = re.compile(r"'(?P<title>.+?)'(?=[,:;.]| \(|$)[,:;. ]*(?P<venue>.*)", re.DOTALL)
_ARXIV = re.compile(r",? ?\barXiv:(?P<id>[\w.-]+(?:/\d+)?)")
_ARTICLE = re.compile(
    r"(?P<journal>[^\d:]+?) (?P<volume>\d+)(?:\((?P<number>\d+)\))?(?::(?P<pages>\w+(?:–\w+)?))?"
    r"(?:[,:; ]+(?P<note>.*))?"
)
_PROCEEDINGS = re.compile(r"\(?(?P<booktitle>[A-Z][^,]*?(?:19|20)\d\d[^,()]*)\)?(?:[,; ]+(?P<note>.*))?")
_SMALL = {"a", "an", "the", "on", "of", "how", "what", "is", "are", "in", "to", "your"}


@dataclass(frozen=True)
class Entry:
    r"""An entry of a bibliography.

    Args:
        key: what ``\cite`` calls it.
        kind: ``article``, ``inproceedings`` or ``misc``.
        fields: from the name of each field to what stands in it, as LaTeX.
    """

    key: str
    kind: str
    fields: tuple[tuple[str, str], ...]

    @property
    def work(self) -> str:
        """What tells its work from others; empty where nothing does."""
        found = dict(self.fields)
        return found.get("eprint") or found.get("title", "")

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.fields)
        lines = [f"  {name.ljust(width)} = {{{value}}}," for name, value in self.fields]
        return "\n".join([f"@{self.kind}{{{self.key},", *lines, "}"])


def entry(citation: str) -> Entry:
    """Read a citation, ``authors year, 'title', venue, arXiv:id``; what is written otherwise becomes a note.

    Args:
        citation: see :class:`reporter.metrics.base.Source`.
    """
    found = _CITED.fullmatch(" ".join(citation.split()))
    if found is None:
        return Entry(key := _key(citation, "", ""), "misc", (("key", key), ("note", _text(citation))))
    authors, year, rest = found["authors"], found["year"], found["rest"]
    arxiv = _ARXIV.search(rest)
    rest = _ARXIV.sub("", rest).strip(" ,")
    titled = _TITLE.fullmatch(rest)
    title, venue = (titled["title"], titled["venue"].strip(" ,")) if titled else ("", rest)
    kind, where = _venue(venue)
    fields = [("author", " and ".join(map(_author, _authors(authors))))]
    fields += [("title", f"{{{_text(title)}}}")] if title else []
    fields += [("year", year), *((name, _text(value)) for name, value in where if value)]
    fields += [("eprint", arxiv["id"]), ("archiveprefix", "arXiv")] if arxiv else []
    return Entry(_key(_authors(authors)[0], year, title), kind, tuple(fields))


def entries(citations: Iterable[str]) -> list[Entry]:
    """Read citations, each work once, in the order of their keys; works of one key are told apart by a letter."""
    found: dict[str, list[Entry]] = {}
    for one in map(entry, dict.fromkeys(" ".join(citation.split()) for citation in citations)):
        own = found.setdefault(one.key, [])
        if not any(one.work and one.work == other.work for other in own):
            own.append(one)
    return [
        Entry(f"{key}{chr(ord('a') + place)}" if len(own) > 1 else key, one.kind, one.fields)
        for key, own in sorted(found.items())
        for place, one in enumerate(own)
    ]


def _venue(venue: str) -> tuple[str, list[tuple[str, str]]]:
    if (article := _ARTICLE.fullmatch(venue)) and (article["number"] or article["pages"]):
        pages = (article["pages"] or "").replace("–", "--")
        names = ("journal", "volume", "number", "note")
        where = [(name, article[name] or "") for name in names]
        return "article", [*where[:3], ("pages", pages), where[3]]
    if proceedings := _PROCEEDINGS.fullmatch(venue):
        return "inproceedings", [("booktitle", proceedings["booktitle"]), ("note", proceedings["note"] or "")]
    return "misc", [("note", venue[:1].upper() + venue[1:])]


def _authors(text: str) -> list[str]:
    names = [name.strip() for name in re.split(r",| & | and ", text.replace(" et al.", ", et al.")) if name.strip()]
    return ["others" if name == "et al." else name for name in names]


def _author(name: str) -> str:
    """A name of several words is one family name, since citations give no first names."""
    return f"{{{_text(name)}}}" if " " in name and name != "others" else _text(name)


def _key(author: str, year: str, title: str) -> str:
    words = re.findall(r"[a-z0-9]+", _plain(title))
    word = next((word for word in words if word not in _SMALL and len(word) > 1), "")
    name = "".join(re.findall(r"[a-z0-9]+", _plain(author))[: None if year else 3])
    return f"{name}{year}{word}" or "work"


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()


def _text(text: str) -> str:
    return latex(text.replace("'", "’"))
