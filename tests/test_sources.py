"""Every source has a full entry in ``references.bib``, and every entry is used."""

import re

from reporter.core.sources import BIBLIOGRAPHY, Source, read_sources
from reporter.metrics.analysis import analyses
from reporter.metrics.base import catalogue
from reporter.report.citing import entries

DEFINITIONS = (*catalogue().values(), *analyses().values())
USED = {source for one in DEFINITIONS for own in one.statistics for source in own.works}
USED |= {source for one in DEFINITIONS for chart in one.charts for source in chart.sources}
WANTED = {"article": {"journal", "volume", "pages"}, "inproceedings": {"booktitle"}}
WANTED |= {"book": {"publisher"}, "misc": {"howpublished"}}


def test_an_entry_is_full():
    for key, source in BIBLIOGRAPHY.items():
        kind = re.match(rf"@(\w+){{{key},\n", source.bibtex)[1]
        _, *lines, end = source.bibtex.splitlines()
        fields = dict(re.fullmatch(r"  (\w+) = \{(.+)\},", line).groups() for line in lines)
        assert end == "}" and len(fields) == len(lines), key
        assert fields.keys() >= {"author", "title", "year"} | WANTED[kind], key
        for author in fields["author"].split(" and "):
            assert re.fullmatch(r"[^,]+, [^,]+|nostalgebraist", author), author  # family name, first names
        assert re.fullmatch(r"(?:19|20)\d\d", fields["year"])
        assert all(value.count("{") == value.count("}") and value.isascii() for value in fields.values()), key
        assert re.fullmatch(r"[a-z]+" + fields["year"] + "[a-z]+", key)


def test_every_source_has_an_entry_and_every_entry_is_used():
    assert set(BIBLIOGRAPHY.values()) == USED


def test_a_citation_is_read_off_its_entry():
    (found,) = read_sources(
        "@article{glielmo2022ranking,\n"
        "  author = {Cs{\\'a}nyi, G{\\'a}bor and Ga{\\v s}i{\\'c}, Milica},\n"
        "  title = {$\\alpha$-{ReQ}: a Title},\n  journal = {PNAS Nexus},\n  volume = {1},\n  number = {2},\n"
        "  pages = {53--65},\n  year = {2022},\n  eprint = {2104.15079},\n}"
    ).values()
    assert found.key == "Csányi & Gašić 2022"
    assert found.citation == ("Csányi & Gašić 2022, 'α-ReQ: a Title', PNAS Nexus 1(2):53–65, arXiv:2104.15079")


def test_each_work_stands_once_and_a_plugin_may_have_no_entry():
    mine = Source("Mine & Yours 2026", "Mine & Yours 2026, '50 % of {words}'")
    facco = BIBLIOGRAPHY["facco2017estimating"]
    found = entries([mine, facco, facco])
    assert list(found) == ["facco2017estimating", "mine-yours-2026"]
    assert found["facco2017estimating"] == facco.bibtex
    assert r"50 \% of \textbraceleft{}words\textbraceright{}" in found["mine-yours-2026"]
