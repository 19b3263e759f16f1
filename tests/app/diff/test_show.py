"""What `reporter diff` prints."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from app.diff.conftest import SPEC, compare, fill
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.app.diff.causes import Change
from reporter.app.diff.show import show

OLD = [("norm", 1, 1.0, 0.9, 1.1), ("norm", 2, 1.0, 0.9, 1.1), ("plain", 1, 1.0), ("gap", 1, None)]
NEW = [("norm", 1, 3.0, 2.9, 3.1), ("norm", 2, 1.05, 0.9, 1.1), ("plain", 1, 1.5), ("gap", 1, 2.0), ("new", 1, 1.0)]
HOSTILE = "\x1b[31m<b>red</b>"


@pytest.fixture(scope="module")
def place(tmp_path_factory, empty):
    folder = tmp_path_factory.mktemp("diff")
    fill(folder / "old", empty, OLD)
    fill(folder / "again", empty, OLD)
    spec = SPEC.replace(", anisotropy]", ']\ntitle: "\\e[31m<b>red</b>"')
    more = {"model": {"revision": "bb"}, "options": '{"sample": 5}', "versions": '{"torch": "2.14.0"}'}
    fill(folder / "new", empty, NEW, spec=spec, **more)
    return folder


@pytest.fixture
def found(place, few_tables, monkeypatch):
    monkeypatch.chdir(place)
    return compare("old:", "new:", Path("x"))


def test_a_summary_then_the_largest_moves(found):
    shown = show(found)
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    for line in (
        "A old:s",
        "B new:s",
        "Study file: 2",
        "metrics.anisotropy listed –",
        "title – \\x1b[31m<b>red</b>",
        "Provenance: 3",
        "version of torch 2.13.0 2.14.0",
        "model bert revision aa bb",
        "metric motion (bert, wiki) option sample – 5",
        "Numbers: 4 compared, 2 with interval, 1 within interval, 2 changed, 1 NULL in A, 1 only in B",
        "norm motion.norm bert wiki words at 1 of 2 layers +2 (layer 1: 1 → 3)",
        "Changed, without an interval: 1 statistic",
        "plain motion bert wiki words at layer 1 +0.5 (1 → 1.5)",
        "NULL on one side: 1",
        "NULL in A motion gap bert wiki 1",
        "Only on one side: 1",
        "only in B motion bert wiki 1",
    ):
        assert line in lines
    headings = [line.split(":")[0] for line in lines if ": " in line]
    assert headings.index("Study file") < headings.index("Provenance") < headings.index("Numbers")
    assert any(line.startswith("Changed beyond their intervals: 1 statistic. Intervals are 95 %") for line in lines)
    assert "\x1b" not in shown


def test_json_holds_everything_and_markdown_has_the_same_tables(found):
    read = json.loads(show(found, "json"))
    assert list(read) == ["a", "b", "spec", "provenance", "summary", "numbers", "profiles", "verdicts", "notes"]
    assert read["spec"][1] == {"where": "title", "a": None, "b": HOSTILE}
    assert read["summary"][0]["changed"] == 2
    rows = [f"{row['change']}: {row['statistic']}" for row in read["numbers"]]
    assert rows == ["changed: norm", "changed: plain", "NULL in A: gap", "only in B: new"]
    lines = show(found, "markdown").splitlines()
    assert lines[lines.index("### Changed, without an interval") + 2] == "1 statistic"
    assert "| metrics.anisotropy | listed | – |" in lines and not any("<b>" in line for line in lines)


def test_long_lists_are_cut_and_long_texts_are_shown_from_where_they_differ(found):
    assert "Provenance: 3, the first 1 shown; for more use --most N" in show(found, most=1)
    texts = (f"{'What is there to be seen in ' * 4}{end}?" for end in ("encoders", "decoders"))
    output = show(replace(found, spec=[Change("question", *texts)]))
    assert "encoders?" in output and "decoders?" in output


def test_the_exit_code_tells_whether_a_number_changed(found):
    calls = (["diff", "old:", side, "--exit-code"] for side in ("new:", "again:", "nowhere:"))
    changed, same, wrong = (CliRunner().invoke(app, call, prog_name="reporter") for call in calls)
    assert (changed.exit_code, changed.stdout) == (1, show(found) + "\n")
    assert same.exit_code == 0
    facts = ("Study file: no difference", "Provenance: models, corpora", "Numbers: 4 compared, 2 with interval, 4 same")
    lines = [line for line in same.stdout.splitlines()[2:] if line]
    assert all(map(str.startswith, lines, (*facts, "Verdicts: none changed"))) and len(lines) == 4
    assert (wrong.exit_code, wrong.stdout) == (2, "") and "nowhere/results.duckdb" in wrong.stderr
