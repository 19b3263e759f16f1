"""What `reporter diff` prints."""

import json

import pytest
from typer.testing import CliRunner

from reporter.app.cli import app

BARE = (None, None)
OLD = [("norm", 1, 1.0, 0.9, 1.1), ("norm", 2, 1.0, 0.9, 1.1), ("plain", 1, 1.0, *BARE), ("gap", 1, None, *BARE)]
NEW = [("norm", 1, 3.0, 2.9, 3.1), ("norm", 2, 1.05, 0.9, 1.1), ("plain", 1, 1.5, *BARE), ("gap", 1, 2.0, *BARE)]
NEW += [("new", 1, 1.0, *BARE)]
HOSTILE = "\x1b[31m<b>red</b>"


@pytest.fixture
def diff(folder, monkeypatch):
    monkeypatch.chdir(folder("old", OLD).parent)
    folder(
        "new",
        NEW,
        spec='study: s\nmodels: {bert: some/bert}\nmetrics: [motion]\ntitle: "\\e[31m<b>red</b>"\n',
        model={"revision": "bb"},
        options='{"sample": 5}',
        versions='{"torch": "2.14.0"}',
    )
    return lambda *arguments: CliRunner().invoke(app, ["diff", *arguments], prog_name="reporter")


def test_a_summary_then_the_largest_moves(diff):
    result = diff("old:", "new:")
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
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
    assert "\x1b" not in result.stdout


def test_the_same_says_so(diff, folder):
    folder("again", OLD)
    result = diff("old:", "again:", "--exit-code")
    assert result.exit_code == 0
    facts = (
        "Study file: no difference",
        "Provenance: models, corpora",
        "Numbers: 4 compared, 2 with interval, 4 same",
    )
    lines = [line for line in result.stdout.splitlines()[2:] if line]
    assert all(map(str.startswith, lines, (*facts, "Verdicts: none changed"))) and len(lines) == 4


def test_json_holds_everything_and_markdown_has_the_same_tables(diff):
    found = json.loads(diff("old:", "new:", "--format", "json").stdout)
    assert list(found) == ["a", "b", "spec", "provenance", "summary", "numbers", "profiles", "verdicts", "notes"]
    assert found["spec"][1] == {"where": "title", "a": None, "b": HOSTILE}
    assert found["summary"][0]["changed"] == 2
    assert [(row["change"], row["statistic"]) for row in found["numbers"]] == [
        ("changed", "norm"),
        ("changed", "plain"),
        ("NULL in A", "gap"),
        ("only in B", "new"),
    ]

    lines = diff("old:", "new:", "--format", "markdown").stdout.splitlines()
    assert (
        lines[lines.index("### Changed, without an interval") + 2] == "1 statistic"
        and "| metrics.anisotropy | listed | – |" in lines
    )
    assert not any("<b>" in line for line in lines)


def test_exit_codes_and_limits_and_long_texts_from_where_they_differ(diff, folder):
    assert diff("old:", "new:", "--exit-code").exit_code == 1
    wrong = diff("old:", "nowhere:")
    assert (wrong.exit_code, wrong.stdout) == (2, "") and "nowhere/results.duckdb" in wrong.stderr
    assert "Provenance: 3, the first 1 shown; for more use --most N" in diff("old:", "new:", "--most", "1").stdout
    for name, end in (("one", "encoders"), ("two", "decoders")):
        folder(name, spec=f"study: s\nquestion: {'What is there to be seen in ' * 4}{end}?\n")
    output = diff("one:", "two:").stdout
    assert "encoders?" in output and "decoders?" in output
