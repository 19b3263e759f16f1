from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest

from reporter.core.errors import ReporterError, UsageError
from reporter.report.single_file import write_single_file

HOSTILE = "<script>alert(1)</script>"
PACKED = re.compile(r'<script type="text/plain" data-packed="([^"]+)">([A-Za-z0-9+/=]*)</script>')


@pytest.fixture(scope="module")
def text(results: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("single") / "new" / "torn.html"
    write_single_file(results / "results.duckdb", "torn", file)
    return file.read_text("utf-8")


def unpacked(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for names, held in PACKED.findall(text):
        texts = gzip.decompress(base64.b64decode(held)).decode().split("\0")
        found |= dict(zip(names.split(" "), texts, strict=True))
    return found


def test_it_holds_every_page_and_part_and_the_script_once(results: Path, text: str) -> None:
    held, folder = unpacked(text), results / "torn"
    page = (folder / "index.html").read_text("utf-8")
    tag = re.search(r'<script src="assets/reporter.js"[^>]*></script>', page)
    assert tag and held["index.html"] == page.replace(tag[0], ""), "the script is in the file itself"
    assert held["reporter.js"] == (folder / "assets" / "reporter.js").read_text("utf-8")
    parts = {path.stem for path in (folder / "data").glob("*.js")}
    assert parts and all(json.loads(held[name]) for name in parts)
    packs = [names.split(" ") for names, _ in PACKED.findall(text)]
    assert max(map(len, packs)) > 1, "charts of a metric repeat each other, and are packed together"
    assert all(len({name.partition(".")[0] for name in names}) == 1 for names in packs)
    assert held["cells.csv"] == (folder / "data" / "cells.csv").read_text("utf-8")
    assert set(held) <= {"index.html", "reporter.js", *parts, *(p.name for p in (folder / "data").iterdir())}


def test_names_stay_inert_in_what_is_not_packed(text: str) -> None:
    plain = PACKED.sub("", text)
    assert HOSTILE not in plain and "&lt;script&gt;alert(1)" in plain
    assert len(re.findall(r"<script", plain)) == 2, "what it says first, and the loader"


def test_its_policy_names_its_scripts_and_nothing_else(text: str) -> None:
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    policy = policy.replace("&#39;", "'")
    scripts = [*re.findall(r"<script>(.*?)</script>", text, re.DOTALL), unpacked(text)["reporter.js"]]
    wanted = {f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in scripts}
    (allowed,) = re.findall(r"script-src ([^;]+)", policy)
    assert set(allowed.split()) == wanted | {"'unsafe-eval'"}
    assert "default-src 'none'" in policy and "http" not in policy


def test_it_cannot_be_written_of_nothing_or_to_nowhere(results: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no study 'mine'"):
        write_single_file(results / "results.duckdb", "mine", tmp_path / "a.html")
    (tmp_path / "file").write_text("")
    with pytest.raises(ReporterError, match="cannot be written"):
        write_single_file(results / "results.duckdb", "explored", tmp_path / "file" / "a.html")
