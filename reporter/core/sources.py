"""The works that definitions come from. Each is an entry of ``references.bib``, its only record."""

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

_FIELD = re.compile(r"^  (\w+) = \{(.*)\},$", re.MULTILINE)
_ACCENT = re.compile(r"\{\\(['\"vc]) ?(\w)\}")
_PROCEEDINGS = re.compile(r"Proceedings of the .*\((.+)\)")
_ACCENTS = {"'": "\u0301", '"': "\u0308", "v": "\u030c", "c": "\u0327"}


@dataclass(frozen=True)
class Source:
    """The publication that a definition comes from.

    Args:
        key: its short name in text, e.g. ``"Lee 2024"``.
        citation: authors, title, venue, year, and an identifier such as ``arXiv:2411.12345`` where there is one.
        bibtex: its BibTeX entry. If left out, an entry with the citation as its title stands for it.
    """

    key: str
    citation: str
    bibtex: str = ""


def read_sources(bibtex: str) -> dict[str, Source]:
    """Return the works of a bibliography by their BibTeX keys.

    Args:
        bibtex: entries with one field a line and an empty line between two entries.
    """
    entries = [entry.strip() for entry in bibtex.split("\n\n")]
    return {entry[entry.index("{") + 1 : entry.index(",")]: _source(entry) for entry in entries}


def _source(entry: str) -> Source:
    work = {name: _text_of_bibtex(value) for name, value in _FIELD.findall(entry)}
    families = [author.partition(",")[0] for author in work["author"].split(" and ")]
    short = families[0] if len(families) > 2 else " & ".join(families)
    key = f"{short}{' et al.' * (len(families) > 2)} {work['year']}"
    where = next((work[name] for name in ("journal", "booktitle", "howpublished", "publisher") if name in work), "")
    if match := _PROCEEDINGS.fullmatch(where):
        where = match[1]  # the conference in short, which the entry names in full
    if "journal" in work:
        number = f"({work['number']})" if "number" in work else ""
        where += f" {work['volume']}{number}:{work['pages']}"
    arxiv = f"arXiv:{work['eprint']}" if "eprint" in work else ""
    parts = [where, work.get("note", ""), arxiv if arxiv != where else ""]
    return Source(key, ", ".join([f"{key}, '{work['title']}'", *filter(None, parts)]), entry)


def _text_of_bibtex(value: str) -> str:
    value = _ACCENT.sub(lambda match: unicodedata.normalize("NFC", match[2] + _ACCENTS[match[1]]), value)
    return value.replace(r"$\alpha$", "α").replace("--", "–").replace(r"\_", "_").replace("{", "").replace("}", "")


BIBLIOGRAPHY = read_sources(Path(__file__).with_name("references.bib").read_text("utf-8"))
