from __future__ import annotations

import csv
import io
import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from oracles.columns import unpack_column

from reporter.store import Store, query
from reporter.store.schema import find_table

HOSTILE = "<script>alert(1)</script>"
LONG = "long" * 125


@pytest.fixture(scope="module")
def folder(results: Path) -> Path:
    return results / "explored"


@pytest.fixture(scope="module")
def html(folder: Path) -> str:
    return (folder / "journeys.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def offered(html: str) -> dict[str, Any]:
    found = json.loads(re.findall(r'id="page">(.*?)</script>', html)[0])
    assert isinstance(found, dict)
    return found


def part(folder: Path, name: str) -> dict[str, Any]:
    text = (folder / "data" / f"{name}.js").read_text(encoding="utf-8")
    found = json.loads(re.fullmatch(r'reporterPart\("[^"]+",(.*)\);\n', text, re.DOTALL)[1])  # type: ignore[index]
    return {
        what: pd.DataFrame({column: unpack_column(values) for column, values in packed["columns"].items()})
        for what, packed in found.items()
        if packed
    }


def test_pages_of_a_study_name_each_other(results: Path, html: str) -> None:
    study = (results / "explored" / "index.html").read_text(encoding="utf-8")
    assert '<a href="journeys.html">Journeys</a>' in study
    assert '<a href="index.html">Layers</a>' in html
    assert '<a href="journeys.html" aria-current="page">Journeys</a>' in html
    assert "No metric of a corpus has numbers" in study and "No numbers yet" not in study
    assert 'href="explored/journeys.html"' in (results / "index.html").read_text(encoding="utf-8")
    assert not (results / "made-up" / "journeys.html").exists()


def test_every_journey_of_every_checkpoint_is_offered_in_its_order(offered: dict[str, Any]) -> None:
    assert offered["journeys"] == ["hostile", "mouse"]
    checkpoints = [("bert", "final", None), ("gpt2", "step50", 50), ("gpt2", "step600", 600)]
    entries = [(entry["model"], entry["checkpoint"], entry["step"]) for entry in offered["entries"]]
    assert entries == checkpoints * 2
    assert [style["model"] for style in offered["models"]] == ["bert", "gpt2"]


def test_a_part_holds_the_rows_of_the_database(results: Path, folder: Path, offered: dict[str, Any]) -> None:
    (entry,) = [e for e in offered["entries"] if (e["journey"], e["checkpoint"]) == ("mouse", "step600")]
    held = part(folder, entry["part"])
    where = "study = 'explored' AND model = 'gpt2' AND checkpoint = 'step600'"
    read = Store(results / "results.duckdb").frame
    for what, table, own in (
        ("steps", "journeys", "journey = 'mouse'"),
        ("neighbours", "neighbours", "journey = 'mouse'"),
        ("paths", "projections", "item = 'mouse'"),
    ):
        columns = list(held[what].columns)
        stored = read(f"SELECT {', '.join(columns)} FROM {table} WHERE {where} AND {own} ORDER BY ALL")
        found = held[what].sort_values(columns).reset_index(drop=True)
        pd.testing.assert_frame_equal(found, stored, check_dtype=False, rtol=1e-5)


def test_tokens_are_data_and_never_markup(folder: Path, html: str, offered: dict[str, Any]) -> None:
    assert HOSTILE not in html
    for path in (folder / "data").glob("journey-*.js"):
        assert "<" not in path.read_text(encoding="utf-8")
    tokens = set(part(folder, offered["entries"][0]["part"])["steps"]["token"])
    assert {HOSTILE, "", LONG, "\x07bell\x1b", "zero\u200bwidth", "back\\slash", "\"quoted'", "\u202eturned"} <= tokens


def test_the_sql_on_the_page_gives_the_rows_of_the_csv(results: Path, folder: Path, html: str) -> None:
    for name, table in (("journeys", "journeys"), ("neighbours", "neighbours"), ("journey-paths", "projections")):
        (own,) = re.findall(rf'id="about-{name}">(.*?)</article>', html, re.DOTALL)
        (sql,) = re.findall(r"<pre><code>(.*?)</code>", own, re.DOTALL)
        shown = list(csv.reader(io.StringIO(query(results / "results.duckdb", unescape(sql), "csv"))))
        text = (folder / "data" / f"{name}.csv").read_text(encoding="utf-8")
        stored = list(csv.reader(io.StringIO(text)))
        assert shown[0] == stored[0]
        assert len(shown) == len(stored) > 1
        assert [row[:10] for row in shown] == [row[:10] for row in stored]
        for column in find_table(table).columns:
            assert (column.name in stored[0]) == (unescape(f"<dt><code>{column.name}</code></dt>") in own)
        # each chart's own copy is what its script narrows
        assert f'data-sql="{name}">{sql}' in html


def test_what_the_page_asks_for_lies_beside_it(folder: Path, html: str, offered: dict[str, Any]) -> None:
    links = re.findall(r'(?:href|src)="([^"#]+)"', html)
    assert all((folder / link).exists() for link in links if not link.startswith("data:")), links
    assert all((folder / "data" / f"{entry['part']}.js").exists() for entry in offered["entries"])


def test_parts_are_compact(results: Path, folder: Path) -> None:
    read = Store(results / "results.duckdb").frame
    rows = sum(
        int(read(f"SELECT count(*) n FROM {name}")["n"][0]) for name in ("journeys", "neighbours", "projections")
    )
    assert sum(path.stat().st_size for path in (folder / "data").glob("journey-*.js")) < 60 * rows
