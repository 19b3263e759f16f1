"""How sides are named, and what is said when one is not there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from reporter.diff.side import find_sides, side_by_side
from reporter.errors import ReporterError, UsageError
from reporter.store.schema import tables

Folder = Callable[..., Path]


def test_every_way_to_name_a_study(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder("results").parent)
    folder("results", study="t")
    folder("old")
    old = Path("old/results.duckdb")

    def named(a: str, b: str) -> list[tuple[str, str]]:
        return [(str(side.database.parent), side.study) for side in find_sides(a, b, Path("results"))]

    assert named("s", "t") == [("results", "s"), ("results", "t")]
    assert named("s", "old:") == [("results", "s"), ("old", "s")]
    assert named("old:", "t") == [("old", "s"), ("results", "t")]
    assert named("old:", "results:") == [("old", "s"), ("results", "s")]
    assert named("old:s", f"{Path('results').resolve()}:t")[1][1] == "t"
    assert named(f"{old}:", "s") == [("old", "s"), ("results", "s")]


NOT_THERE = (
    ("s", "s", "both sides are results:s"),
    ("s", "./results:s", "both sides are results:s"),
    ("x", "t", "no study 'x' in results/results.duckdb; it has: s, t"),
    ("s", "results:tt", "did you mean 't'?"),
    ("s", "nowhere:s", "nowhere/results.duckdb: no results there"),
    ("old", "s", "write 'old:'"),
    ("./old", "s", "neither STUDY nor FOLDER:STUDY"),
    ("two:", "old:u", "it has s, t"),
    ("s", "empty:", "holds no study yet"),
    ("s", "text:s", "is not a DuckDB database"),
)


def test_what_is_not_there_is_told(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder("results").parent)
    for place, study in (("results", "t"), ("old", "u"), ("two", "s"), ("two", "t")):
        folder(place, study=study)
    for name in ("empty", "text"):
        Path(name).mkdir()
    duckdb.connect("empty/results.duckdb").close()
    Path("text/results.duckdb").write_text("x" * 8192)
    for a, b, told in NOT_THERE:
        with pytest.raises(ReporterError) as caught:
            find_sides(a, b, Path("results"))
        assert told in str(caught.value)
        assert "\n" not in str(caught.value)
        assert isinstance(caught.value, UsageError) or "not a DuckDB" in told


def test_an_older_file_is_seen_in_the_shape_of_today_and_left_alone(folder: Folder) -> None:
    old, new = folder("old", [("norm", 1, 1.0, None, None)]), folder("new", [("norm", 1, 1.0, None, None)])
    with duckdb.connect(str(old / "results.duckdb")) as connection:
        connection.execute("DROP TABLE correlations")
        connection.execute("ALTER TABLE models DROP COLUMN attention")
        connection.execute("UPDATE schema_version SET version = 1")
    before = (old / "results.duckdb").read_bytes()
    with side_by_side(find_sides(f"{old}:", f"{new}:", Path("x"))) as connection:
        for table in tables().values():
            columns = [column.name for column in table.columns if column.name != "study"]
            for side in "ab" if len(columns) < len(table.columns) else "":
                found = connection.execute(f"FROM {side}_{table.name}")
                assert [column[0] for column in found.description] == columns
        assert connection.execute("SELECT attention, layers FROM a_models").fetchall() == [(None, 4)]
        assert connection.execute("FROM a_correlations").fetchall() == []
        with pytest.raises(duckdb.Error):
            connection.execute("CREATE TABLE file_0.x (y INTEGER)")
    assert (old / "results.duckdb").read_bytes() == before


def test_a_file_of_a_newer_reporter_is_refused(folder: Folder) -> None:
    old, new = folder("old"), folder("new")
    with duckdb.connect(str(new / "results.duckdb")) as connection:
        connection.execute("UPDATE schema_version SET version = 999, reporter = '9.9'")
    with pytest.raises(ReporterError, match="newer than this one"):
        find_sides(f"{old}:", f"{new}:", Path("x"))
