"""Every work that a number comes from is a valid entry of a bibliography."""

from __future__ import annotations

import re

import pytest

from reporter.analyses.registry import analyses
from reporter.metrics.registry import catalogue
from reporter.report.references import entries, entry

KINDS = {
    "article": {"author", "title", "journal", "year"},
    "inproceedings": {"author", "title", "booktitle", "year"},
    "misc": {"note"},
}
DEFINITIONS = {**catalogue(), **analyses()}
CITATIONS = sorted(
    {source.citation for one in DEFINITIONS.values() for own in one.statistics for source in own.sources}
    | {citation for one in DEFINITIONS.values() for chart in one.charts for citation in chart.sources}
)


def parse(text: str) -> list[tuple[str, str, dict[str, str]]]:
    """Read BibTeX as BibTeX does: by counting braces."""
    found = []
    place = 0
    while (start := text.find("@", place)) >= 0:
        head = re.compile(r"@(\w+)\{([\w-]+),").match(text, start)
        (kind, key), place = head.groups(), head.end()
        fields = {}
        while match := re.compile(r"\s*(\w+)\s*=\s*\{").match(text, place):
            place, depth = match.end(), 1
            begin = place
            while depth:
                letter = text[place]
                assert letter != "\0"
                if letter == "\\":
                    place += 1
                depth += (letter == "{") - (letter == "}")
                place += 1
            fields[match[1]] = text[begin : place - 1]
            assert text[place] == ","
            place += 1
        assert re.compile(r"\s*\}").match(text, place), text[place : place + 20]
        place = text.index("}", place)
        found.append((kind, key, fields))
    return found


@pytest.mark.parametrize("citation", CITATIONS)
def test_every_source_is_a_valid_entry(citation):
    ((kind, key, fields),) = parse(str(entry(citation)))
    assert key and all(fields.values())
    known = KINDS[kind] - {"note"} if "title" in fields or kind != "misc" else KINDS[kind]
    assert known <= fields.keys(), (kind, fields)
    if years := re.findall(r"\b(?:19|20)\d\d\b", citation.partition("'")[0]):
        assert fields["year"] == years[-1]
    if "arXiv:" in citation:
        assert fields["eprint"] == re.search(r"arXiv:([\w./-]*\w)", citation)[1]
    if title := re.search(r"'(.+?)'[,:]", citation.partition(" 2")[2] or citation):
        assert "title" in fields, title


def test_keys_are_unique_and_a_work_stands_once():
    found = entries([*CITATIONS, *reversed(CITATIONS)])
    assert len({one.key for one in found}) == len(found)
    works = [one.work for one in found if one.work]
    assert len(set(works)) == len(works)


@pytest.mark.parametrize(
    ("citation", "kind", "fields"),
    [
        (
            "Facco, d'Errico, Rodriguez & Laio 2017, 'A title: of two', Scientific Reports 7:12140, arXiv:1803.06992",
            "article",
            {
                "author": "Facco and d'Errico and Rodriguez and Laio",
                "title": "{A title: of two}",
                "year": "2017",
                "journal": "Scientific Reports",
                "volume": "7",
                "pages": "12140",
                "eprint": "1803.06992",
                "archiveprefix": "arXiv",
            },
        ),
        (
            "Li, van Schijndel et al. 2025, 'α_x & {y} at 5 %', NeurIPS 2025",
            "inproceedings",
            {
                "author": "Li and {van Schijndel} and others",
                "title": r"{$\alpha$\_x \& \textbraceleft{}y\textbraceright{} at 5 \%}",
                "year": "2025",
                "booktitle": "NeurIPS 2025",
            },
        ),
        ("mine, this notebook", "misc", {"key": "minethisnotebook", "note": "mine, this notebook"}),
    ],
)
def test_fields(citation, kind, fields):
    found = entry(citation)
    assert (found.kind, dict(found.fields)) == (kind, fields)


def test_works_of_one_key_are_told_apart():
    found = entries(["A 2020, 'On words', ACL 2020", "A 2020, 'Words again', ACL 2020", "A 2020, 'On words', ACL 2020"])
    assert [one.key for one in found] == ["a2020wordsa", "a2020wordsb"]
