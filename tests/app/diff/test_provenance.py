"""What numbers were made from, told once and only what identifies it; and claims that come out differently."""

import json
from pathlib import Path

import pytest
from app.diff.conftest import alter, compared, insert

from reporter.app.diff.causes import provenance_changes
from reporter.app.diff.show import show
from reporter.app.diff.sides import find_sides, side_by_side

pytestmark = pytest.mark.usefixtures("few_tables")


@pytest.fixture
def changes(sides):
    """Run statements on the second of two equal sides, and return what is told then."""
    cell = {"model": "bert", "checkpoint": "final", "corpus": "wiki", "status": "done", "tokens": 100}
    cells = [("cells", cell | {"metric": metric}) for metric in ("anisotropy", "entropy")]
    steps = [
        ("models", {"model": "gpt2", "checkpoint": f"step{step}", "fingerprint": f"f{step}"}) for step in (1, 2, 3)
    ]
    for side in sides:
        insert(side, *cells, *steps)

    def run(*statements):
        alter(sides[1], *statements)
        with side_by_side(find_sides(*(f"{side}:" for side in sides), Path("x"))) as connection:
            return [(change.where, change.a, change.b) for change in provenance_changes(connection)]

    return run


def test_neither_what_was_measured_on_the_way_nor_a_metric_that_compares_with_a_base_is_told(changes):
    assert not changes(
        "UPDATE models SET self_test = 0.1",
        "UPDATE cells SET seconds = 9, why = 'forced'",
        "INSERT INTO cells (study, model, checkpoint, corpus, metric, status, tokens, inputs) "
        """VALUES ('s', 'bert', 'final', 'wiki', 'change', 'done', 200, '{"pass": 3, "compared with": [{}]}')""",
    )


def test_checkpoints_and_inputs_that_all_metrics_share_are_told_once(changes):
    assert changes(
        "UPDATE models SET fingerprint = 'new' WHERE model = 'gpt2' AND checkpoint <> 'step2'",
        "UPDATE cells SET tokens = 90",
    ) == [
        ("model gpt2 (step1) fingerprint, and 1 more checkpoints", "f1", "new"),
        ("input of bert (wiki) tokens", 100, 90),
    ]


def test_failures_options_corpora_and_versions(changes):
    assert changes(
        "UPDATE cells SET status = 'failed', error = 'no memory' WHERE metric = 'entropy'",
        """UPDATE cells SET options = '{"sample": 64, "batches": 2}' WHERE metric = 'motion'""",
        "UPDATE corpora SET content_hash = 'cd'",
        """UPDATE studies SET versions = '{"torch": "3.0", "numpy": "2"}'""",
        "DELETE FROM models WHERE model = 'bert'",
    ) == [
        ("version of torch", "2.13.0", "3.0"),
        ("version of numpy", None, "2"),
        ("model bert", "present", None),
        ("corpus wiki content_hash", "ab", "cd"),
        ("metric entropy (bert, wiki) status", "done", "failed"),
        ("metric entropy (bert, wiki) error", None, "no memory"),
        ("metric motion (bert, wiki) option sample", None, 64),
        ("metric motion (bert, wiki) option batches", None, 2),
    ]


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


def test_verdicts_are_matched_by_claim_view_and_baseline(sides):
    for side, place in zip(sides, (4, 5), strict=True):
        claims = [
            dict(zip(("claim", "reading", "view", "baseline", "verdict"), (*c[:4], c[place]), strict=True))
            for c in CLAIMS
        ]
        insert(side, *(("claims", row | {"value": 0.5, "says": "It is."}) for row in claims if row["verdict"]))
    found = compared(*sides)
    assert {row[:5] for row in found.verdicts.rows} == {
        (claim, view, baseline, old, new) for claim, _, view, baseline, old, new in CLAIMS if old != new
    }
    assert found.has_consequences
    shown = show(found)
    assert "Verdicts: 5\n" in shown
    turned = ["turned", "words", "random-init", "refuted", "inconclusive"]
    assert turned in [line.split()[:5] for line in shown.splitlines()]
    assert len(json.loads(show(found, "json"))["verdicts"]) == 5
