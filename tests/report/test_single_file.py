"""Reports that are handed on: a study in one file, and a folder for any static host."""

import base64
import gzip
import hashlib
import json
import re
import struct
from xml.etree import ElementTree

import pytest
from report.made_up import HOSTILE, SMALL, fill, fill_explorers
from report.reading import read, text_of, values_of

from reporter.core.errors import UsageError
from reporter.core.outputs import LIST
from reporter.report.single_file import publish

PACKED = re.compile(r'<script type="text/plain" data-packed="([^"]+)">([A-Za-z0-9+/=]*)</script>')


@pytest.fixture(scope="module")
def text(single):
    return read(single / "made-up.html")


def unpacked(text):
    found = {}
    for names, packed in PACKED.findall(text):
        texts = gzip.decompress(base64.b64decode(packed)).decode().split("\0")
        found |= dict(zip(names.split(" "), texts, strict=True))
    return found


def test_it_holds_every_page_and_part_and_the_script_once(reports, text):
    held, folder = unpacked(text), reports / "made-up"
    assert held["index.html"] == read(folder / "index.html")
    assert held["reporter.js"] == read(folder / "assets" / "reporter.js")
    parts = {path.stem for path in (folder / "data").glob("*.js")}
    assert parts and all(json.loads(held[name]) for name in parts)
    assert held["cells.csv"] == read(folder / "data" / "cells.csv")
    pages = {path.name for path in folder.glob("*.html")}
    assert set(held) <= {*pages, "reporter.js", *parts, *(p.name for p in (folder / "data").iterdir())}


def test_its_policy_names_its_scripts_and_nothing_else_and_names_stay_inert(text):
    plain = PACKED.sub("", text)
    assert HOSTILE not in plain and "&lt;script&gt;alert(1)" in plain
    assert len(re.findall(r"<script", plain)) == 2, "what it says first, and the loader"
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    policy = policy.replace("&#39;", "'")
    scripts = [*re.findall(r"<script>(.*?)</script>", text, re.DOTALL), unpacked(text)["reporter.js"]]
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in scripts}
    (allowed,) = re.findall(r"script-src ([^;]+)", policy)
    assert set(allowed.split()) == hashes
    assert "default-src 'none'" in policy and "http" not in policy


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A database with a small study and one with journeys."""
    folder = tmp_path_factory.mktemp("small")
    fill(folder / "results.duckdb", "small", **SMALL)
    fill_explorers(folder / "results.duckdb", "explored")
    return folder / "results.duckdb"


def test_a_published_folder_has_what_its_pages_name_and_other_folders_are_left_as_they_are(small, tmp_path):
    site = tmp_path / "site"
    pages = publish(small, site, ["explored"])
    expected = {"index.html", *(f"explored/{name}.html" for name in ("index", "tokens", "method"))}
    assert {str(page.relative_to(site)) for page in pages} == expected
    index, journeys = read(site / "index.html"), read(site / "explored" / "tokens.html")
    assert "small" not in text_of(index) and "results.duckdb" not in index
    for page in pages:
        for link in re.findall(r'(?:href|src)="([^"#:,?]+)["?#]', read(page)):
            assert (page.parent / link).is_file(), f"{page}: {link}"
    assert {path.name for path in site.iterdir()} == {"index.html", "assets", "explored", LIST}
    for name in ("path", "cosine", "step_length"):
        assert f'<noscript><img class="static" src="figures/journeys-{name}.svg"' in journeys
    assert journeys.count("<noscript><div") == 2, "the nearest tokens, and the rank of every token"
    assert "reporter export --site" not in journeys + read(site / "explored" / "index.html"), "it was published already"
    before = {path for path in site.rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match="no study 'mine'"):
        publish(small, site, ["mine"])
    (site / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"notes\.txt was not written by this command"):
        publish(small, site, ["small"])
    assert {path for path in site.rglob("*") if path.is_file()} == before | {site / "notes.txt"}
    assert list(tmp_path.iterdir()) == [site]


def test_a_published_folder_replaces_the_one_before_and_has_pictures_and_previews(small, tmp_path):
    site = tmp_path / "site"
    publish(small, site, ["small"], "https://example.org/reports/")
    suffixes = {path.suffix for path in site.rglob("*") if path.is_file()}
    assert suffixes == {".html", ".js", ".css", ".csv", ".bib", ".svg", ".png", ".json"}
    png = (site / "small" / "figures" / "preview.png").read_bytes()
    assert struct.unpack(">II", png[16:24]) == (1200, 630)
    for name in ("index.html", "small/index.html", "small/layers.html"):
        page = read(site / name)
        assert 'property="og:image" content="https://example.org/reports/small/figures/preview.png"' in page
        assert re.search(r'<meta name="description" content="[^"]{3,}">', page) and 'property="og:title"' in page
    page = read(site / "small" / "layers.html")
    images = [source for source in values_of(page, "img", "src") if source.startswith("figures/")]
    assert images and len(images) == page.count("<noscript><img")
    for image in images:  # for readers without scripts, and without any in it
        text = read(site / "small" / image)
        assert ElementTree.fromstring(text).tag.endswith("svg") and "<script" not in text
    publish(small, site, [])
    assert not (site / "small").exists()
