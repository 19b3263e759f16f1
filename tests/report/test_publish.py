from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from reporter.core.errors import UsageError
from reporter.report.single_file import publish


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_published_folder_has_what_its_pages_name_and_no_more(results: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    pages = publish(results / "results.duckdb", target, ["explored"])
    assert {str(page.relative_to(target)) for page in pages} == {
        "index.html",
        "explored/index.html",
        "explored/journeys.html",
    }
    index = (target / "index.html").read_text("utf-8")
    assert "torn" not in index and "results.duckdb" not in index
    for page in pages:
        for link in re.findall(r'(?:href|src)="([^"#:,]+)"', page.read_text("utf-8")):
            assert (page.parent / link).is_file(), f"{page}: {link}"
    assert {name.split("/")[0] for name in names(target)} == {"index.html", "assets", "explored"}
    assert {Path(name).suffix for name in names(target)} == {".html", ".js", ".css", ".csv", ".bib", ".svg"}
    journeys = (target / "explored" / "journeys.html").read_text("utf-8")
    for name in ("path", "cosine", "step_length"):
        assert f'<noscript><img class="static" src="figures/journeys-{name}.svg"' in journeys
        ElementTree.fromstring((target / "explored" / "figures" / f"journeys-{name}.svg").read_text("utf-8"))
    assert journeys.count("<noscript><div") == 2, "the nearest tokens, and the rank of every token"
    for page in ("index.html", "journeys.html"):
        assert "reporter export --site" not in (target / "explored" / page).read_text("utf-8"), (
            "it was published already"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_what_was_published_before_is_replaced_and_other_folders_are_left(results: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    publish(results / "results.duckdb", target, ["explored"])
    publish(results / "results.duckdb", target, ["torn"])
    assert not (target / "explored").exists()
    page = (target / "torn" / "index.html").read_text("utf-8")
    images = re.findall(r'<noscript><img class="static" src="([^"]+)"', page)
    assert images and len(images) == page.count("<noscript><img")
    for image in images:  # for readers without scripts, and without any in it
        text = (target / "torn" / image).read_text("utf-8")
        assert ElementTree.fromstring(text).tag.endswith("svg") and "<script" not in text
    before = names(target)
    with pytest.raises(UsageError, match="no study 'mine'"):
        publish(results / "results.duckdb", target, ["mine"])
    assert names(target) == before and [path.name for path in tmp_path.iterdir()] == ["site"]
    (target / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds other files"):
        publish(results / "results.duckdb", target, ["torn"])
    assert names(target) == before | {"notes.txt"}
