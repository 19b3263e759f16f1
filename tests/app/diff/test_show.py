"""What `reporter diff` finds besides numbers, by its meaning and told once; and what it prints of all."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from app.diff.conftest import SPEC, alter, compare, compared, insert
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.app.diff.causes import Cause, provenance_changes, spec_changes
from reporter.app.diff.show import show
from reporter.app.diff.sides import find_sides, side_by_side

pytestmark = pytest.mark.usefixtures("few_tables")

BASE = """
study: s
models:
  bert: {hub: some/bert, checkpoints: [step1, step512]}
  gpt2: some/gpt2
corpora:
  few: {texts: ["One text.", "A second one.", "A third one."]}
  wiki: {file: wiki.txt, limit: 2000}
metrics: [all, {intrinsic_dimension: {sample: 4096}}, lens]
views: [text tokens, with special tokens]
run: {seed: 0}
"""
SAME = """
# another comment
run:
  seed: 0x0
views: ["text tokens", with special tokens]
metrics: [all, intrinsic_dimension: {sample: 4096.0}, lens: {}]
corpora:
  wiki: {limit: 2000, file: 'wiki.txt'}
  few: {texts: [One text., A second one., A third one.]}
models: {gpt2: {hub: some/gpt2}, bert: {checkpoints: [step1, step512], hub: some/bert, revision: }}
study: s
"""


def test_each_change_of_a_study_file_is_one_line_with_its_path_and_layout_says_nothing():
    assert spec_changes(BASE, SAME) == []
    of_the_api = json.dumps({"study": "s", "models": {"bert": {"hub": "a/b"}}})
    assert spec_changes(of_the_api, "study: s\nmodels: {bert: a/b}") == []
    step = "models.bert.checkpoints.step"
    for old, new, *expected in (
        ("limit: 2000", "limit: 500", ("corpora.wiki.limit", 2000, 500)),
        ("sample: 4096", "sample: 64", ("metrics.intrinsic_dimension.sample", 4096, 64)),
        (", lens", "", ("metrics.lens", "listed", None)),
        (
            "[text tokens, with special tokens]",
            "[with special tokens, text tokens]",
            ("views (order)", ["text tokens", "with special tokens"], ["with special tokens", "text tokens"]),
        ),
        ("some/gpt2", "{hub: some/gpt3}", ("models.gpt2.hub", "some/gpt2", "some/gpt3")),
        ("step512", "step64", (f"{step}512", "listed", None), (f"{step}64", None, "listed")),
        ('"A second one."', '"Another one."', ("corpora.few.texts[1]", "A second one.", "Another one.")),
        ('"A second one.", ', "", ("corpora.few.texts[1]", "A second one.", None)),
        ('["One', '["Zero.", "One', ("corpora.few.texts[0]", None, "Zero.")),
        ("seed: 0", "seed: false", ("run.seed", 0, False)),
        ("  gpt2: some/gpt2\n", "", ("models.gpt2", {"hub": "some/gpt2"}, None)),
    ):
        assert BASE.count(old) == 1
        assert spec_changes(BASE, BASE.replace(old, new)) == [Cause(*change) for change in expected]
    for broken in ("study: [", "a: 1\na: 2", None, "- a list"):
        (change,) = spec_changes(BASE, broken)
        assert (change.where, change.a) == ("(the whole study file)", "a study")


def test_what_differs_is_told_once_but_neither_measurements_nor_a_metric_that_compares_with_a_base(sides):
    cell = {"model": "bert", "checkpoint": "final", "corpus": "wiki", "status": "done", "tokens": 100}
    rows = [("cells", cell | {"metric": metric}) for metric in ("anisotropy", "entropy")]
    rows += [("models", {"model": "gpt2", "checkpoint": f"step{i}", "fingerprint": f"f{i}"}) for i in (1, 2, 3)]
    for side in sides:
        insert(side, *rows)

    def changes(*statements):
        alter(sides[1], *statements)
        with side_by_side(find_sides(*(f"{side}:" for side in sides), Path("x"))) as connection:
            return [(change.where, change.a, change.b) for change in provenance_changes(connection)]

    assert not changes(
        "UPDATE models SET self_test = 0.1",
        "UPDATE cells SET seconds = 9, why = 'forced'",
        "INSERT INTO cells (study, model, checkpoint, corpus, metric, status, tokens, inputs) "
        """VALUES ('s', 'bert', 'final', 'wiki', 'change', 'done', 200, '{"pass": 3, "compared with": [{}]}')""",
    )
    assert changes(
        "UPDATE models SET fingerprint = 'new' WHERE model = 'gpt2' AND checkpoint <> 'step2'",
        "UPDATE cells SET tokens = 90 WHERE metric <> 'change'",
        "UPDATE cells SET status = 'failed', error = 'no memory' WHERE metric = 'entropy'",
        """UPDATE cells SET options = '{"sample": 64, "batches": 2}' WHERE metric = 'motion'""",
        "UPDATE corpora SET content_hash = 'cd'",
        """UPDATE studies SET versions = '{"torch": "3.0", "numpy": "2"}'""",
        "DELETE FROM models WHERE model = 'bert'",
    ) == [
        ("version of torch", "2.13.0", "3.0"),
        ("version of numpy", None, "2"),
        ("model bert", "present", None),
        ("model gpt2 (step1) fingerprint, and 1 more checkpoints", "f1", "new"),
        ("corpus wiki content_hash", "ab", "cd"),
        ("input of bert (wiki) tokens", 100, 90),
        ("metric entropy (bert, wiki) status", "done", "failed"),
        ("metric entropy (bert, wiki) error", None, "no memory"),
        ("metric motion (bert, wiki) option sample", None, 64),
        ("metric motion (bert, wiki) option batches", None, 2),
    ]


CLAIMS = (  # claim, reading, view, baseline, verdict there, verdict here
    ("same", 1, "text tokens", None, "supported", "supported"),
    ("turned", 1, "text tokens", None, "supported", "refuted"),
    ("turned", 2, "without sinks", None, "refuted", "refuted"),
    ("turned", 3, "text tokens", "random-init", "refuted", "inconclusive"),
    ("by-sql", 1, None, None, "failed", "supported"),
    ("gone", 1, "text tokens", None, "supported", None),
    ("new", 1, "text tokens", None, None, "supported"),
)


def test_verdicts_are_matched_by_claim_view_and_baseline(sides):
    for place, side in enumerate(sides, 4):
        rows = [{"claim": c[0], "reading": c[1], "view": c[2], "baseline": c[3], "verdict": c[place]} for c in CLAIMS]
        insert(side, *(("claims", row | {"value": 0.5, "says": "It is."}) for row in rows if row["verdict"]))
    found = compared(*sides)
    expected = {(claim, view, baseline, old, new) for claim, _, view, baseline, old, new in CLAIMS if old != new}
    assert {row[:5] for row in found.verdicts.rows} == expected
    assert found.has_consequences
    shown = show(found)
    assert "Verdicts: 5\n" in shown
    turned = ["turned", "text tokens", "random-init", "refuted", "inconclusive"]
    assert turned in [re.split(r"  +", line.strip())[:5] for line in shown.splitlines()]
    assert len(json.loads(show(found, "json"))["verdicts"]) == 5


OLD = [("norm", 1, 1.0, 0.9, 1.1), ("norm", 2, 1.0, 0.9, 1.1), ("plain", 1, 1.0), ("gap", 1, None)]
NEW = [("norm", 1, 3.0, 2.9, 3.1), ("norm", 2, 1.05, 0.9, 1.1), ("plain", 1, 1.5), ("gap", 1, 2.0), ("new", 1, 1.0)]


def test_a_summary_then_the_largest_moves_in_every_form_and_an_exit_code(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = SPEC.replace(", anisotropy]", ']\ntitle: "\\e[31m<b>red</b>"')
    more = {"model": {"revision": "bb"}, "options": '{"sample": 5}', "versions": '{"torch": "2.14.0"}'}
    folder("old", OLD)
    folder("again", OLD)
    folder("new", NEW, spec=spec, **more)
    found = compare("old:", "new:", Path("x"))
    shown = show(found)
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert set(lines) >= {
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
        "norm motion.norm bert wiki text tokens at 1 of 2 layers +2.0 [1.9, 2.1] (layer 1: 1.0 → 3.0)",
        "Changed, without an interval: 1 statistic",
        "plain motion bert wiki text tokens at layer 1 +0.5 (1.0 → 1.5)",
        "NULL on one side: 1",
        "NULL in A motion gap bert wiki 1",
        "Only on one side: 1",
        "only in B motion bert wiki 1",
    }
    headings = [line.split(":")[0] for line in lines if ": " in line]
    assert headings.index("Study file") < headings.index("Provenance") < headings.index("Numbers")
    assert any(line.startswith("Changed beyond their intervals: 1 statistic. Intervals are 95 %") for line in lines)
    assert "\x1b" not in shown

    read = json.loads(show(found, "json"))
    assert list(read) == ["a", "b", "spec", "provenance", "summary", "numbers", "profiles", "verdicts", "notes"]
    assert read["spec"][1] == {"where": "title", "a": None, "b": "\x1b[31m<b>red</b>"}
    assert read["summary"][0]["changed"] == 2
    rows = [f"{row['change']}: {row['statistic']}" for row in read["numbers"]]
    assert rows == ["changed: norm", "changed: plain", "NULL in A: gap", "only in B: new"]
    lines = show(found, "markdown").splitlines()
    assert lines[lines.index("### Changed, without an interval") + 2] == "1 statistic"
    assert "| metrics.anisotropy | listed | – |" in lines and not any("<b>" in line for line in lines)

    assert "Provenance: 3, the first 1 shown; for more use --most N" in show(found, most=1)
    texts = (f"{'What is there to be seen in ' * 4}{end}?" for end in ("encoders", "decoders"))
    output = show(replace(found, spec=[Cause("question", *texts)]))
    assert "encoders?" in output and "decoders?" in output

    calls = (["diff", "old:", side, "--exit-code"] for side in ("new:", "again:", "nowhere:"))
    changed, same, wrong = (CliRunner().invoke(app, call, prog_name="reporter") for call in calls)
    assert (changed.exit_code, changed.stdout) == (1, show(found) + "\n")
    assert same.exit_code == 0
    facts = ("Study file: no difference", "Provenance: models, corpora", "Numbers: 4 compared, 2 with interval, 4 same")
    lines = [line for line in same.stdout.splitlines()[2:] if line]
    assert all(map(str.startswith, lines, (*facts, "Verdicts: none changed"))) and len(lines) == 4
    assert (wrong.exit_code, wrong.stdout) == (2, "") and "nowhere/results.duckdb" in wrong.stderr
