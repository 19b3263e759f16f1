"""Claims that come out differently."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import duckdb
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.app.diff import compare

Folder = Callable[..., Path]
# claim, reading, view, baseline, verdict there, verdict here
CLAIMS = (
    ("same", 1, "words", None, "supported", "supported"),
    ("turned", 1, "words", None, "supported", "refuted"),
    ("turned", 2, "no-sinks", None, "refuted", "refuted"),
    ("turned", 3, "words", "random-init", "refuted", "inconclusive"),
    ("by-sql", 1, None, None, "failed", "supported"),
    ("gone", 1, "words", None, "supported", None),
    ("new", 1, "words", None, None, "supported"),
)


def test_verdicts_are_matched_by_claim_view_and_baseline(folder: Folder) -> None:
    sides = [folder("old"), folder("new")]
    for side, place in zip(sides, (4, 5), strict=True):
        with duckdb.connect(str(side / "results.duckdb")) as connection:
            for claim in CLAIMS:
                if claim[place]:
                    row = ["s", *claim[:4], claim[place], 0.5, "Says it."]
                    connection.execute(
                        "INSERT INTO claims (study, claim, reading, view, baseline, verdict, value, says) "
                        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                        row,
                    )
    found = compare(f"{sides[0]}:", f"{sides[1]}:", Path("x"))
    assert {row[:5] for row in found.verdicts.rows} == {
        ("turned", "words", None, "supported", "refuted"),
        ("turned", "words", "random-init", "refuted", "inconclusive"),
        ("by-sql", None, None, "failed", "supported"),
        ("gone", "words", None, "supported", None),
        ("new", "words", None, None, "supported"),
    }
    assert found.has_consequences
    called = ["diff", f"{sides[0]}:", f"{sides[1]}:"]
    shown = CliRunner().invoke(app, called).stdout
    assert "Verdicts: 5\n" in shown
    assert ["turned", "words", "random-init", "refuted", "inconclusive"] in [
        line.split()[:5] for line in shown.splitlines()
    ]
    assert len(json.loads(CliRunner().invoke(app, [*called, "--format", "json"]).stdout)["verdicts"]) == 5


def test_a_file_from_before_there_were_claims(folder: Folder) -> None:
    old, new = folder("old"), folder("new")
    with duckdb.connect(str(old / "results.duckdb")) as connection:
        connection.execute("DROP TABLE claims")
    with duckdb.connect(str(new / "results.duckdb")) as connection:
        connection.execute("INSERT INTO claims (study, claim, verdict) VALUES ('s', 'c', 'supported')")
    assert [row[:5] for row in compare(f"{old}:", f"{new}:", Path("x")).verdicts.rows] == [
        ("c", None, None, None, "supported")
    ]
