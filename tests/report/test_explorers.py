from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from reporter.report import contents as explorers
from reporter.report import render
from reporter.report.explorers import Explorer


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def reader(*_: Any) -> Explorer:
        raise ValueError("no such thing: <b>")

    monkeypatch.setattr(explorers, "read_journeys", reader)


def test_a_broken_explorer_says_so_and_takes_nothing_down(broken: None, made_up: ModuleType, tmp_path: Path) -> None:
    made_up.fill(tmp_path / "results.duckdb", corpora=("one",), metrics=("motion",), models=made_up.MODELS[1:2])
    pages = render(tmp_path / "results.duckdb", tmp_path)
    assert [page.name for page in pages] == ["index.html", "index.html", "journeys.html"]
    assert "ValueError: no such thing: &lt;b&gt;" in pages[2].read_text(encoding="utf-8")
    assert "motion.norm" in pages[1].read_text(encoding="utf-8")


def test_a_page_that_memory_does_not_suffice_for_is_not_written_as_broken(
    made_up: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reader(*_: Any) -> Explorer:
        raise MemoryError

    monkeypatch.setattr(explorers, "read_journeys", reader)
    made_up.fill(tmp_path / "results.duckdb", corpora=("one",), metrics=("motion",), models=made_up.MODELS[1:2])
    with pytest.raises(MemoryError):
        render(tmp_path / "results.duckdb", tmp_path)
    assert not list(tmp_path.rglob("*.html")), "the next run would take it for up to date"


def test_a_page_that_has_no_rows_any_more_goes(made_up: ModuleType, tmp_path: Path) -> None:
    made_up.fill(tmp_path / "results.duckdb", corpora=(), models=())
    stale = tmp_path / "made-up" / "journeys.html"
    stale.parent.mkdir()
    stale.write_text("old")
    index, page = render(tmp_path / "results.duckdb", tmp_path)
    assert not stale.exists()
    assert 'class="pages' not in index.read_text() + page.read_text()
    assert json.loads(re.findall(r'id="page">(.*?)</script>', page.read_text())[0])
