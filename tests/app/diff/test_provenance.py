"""What numbers were made from: told once, and only what identifies it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from reporter.app.diff import compare

Folder = Callable[..., Path]


@pytest.fixture
def changes(folder: Folder) -> Callable[..., list[tuple[str, Any, Any]]]:
    """Run statements on the second of two equal sides, and return what is told then."""

    def run(*statements: str) -> list[tuple[str, Any, Any]]:
        old, new = folder("old"), folder("new")
        for side in (old, new):
            with duckdb.connect(str(side / "results.duckdb")) as connection:
                for metric in ("anisotropy", "entropy"):
                    connection.execute(
                        "INSERT INTO cells (study, model, checkpoint, corpus, metric, status, tokens) "
                        f"VALUES ('s', 'bert', 'final', 'wiki', '{metric}', 'done', 100)"
                    )
                for step in (1, 2, 3):
                    connection.execute(
                        "INSERT INTO models (study, model, checkpoint, fingerprint) "
                        f"VALUES ('s', 'gpt2', 'step{step}', 'f{step}')"
                    )
                for statement in statements if side is new else ():
                    connection.execute(statement)
        return [(change.where, change.a, change.b) for change in compare(f"{old}:", f"{new}:", Path("x")).provenance]

    return run


def test_what_was_measured_on_the_way_says_nothing(changes: Callable[..., Any]) -> None:
    assert changes("UPDATE models SET self_test = 0.1", "UPDATE cells SET seconds = 9, why = 'forced'") == []


def test_checkpoints_are_gathered(changes: Callable[..., Any]) -> None:
    assert changes("UPDATE models SET fingerprint = 'new' WHERE model = 'gpt2' AND checkpoint <> 'step2'") == [
        ("model gpt2 (step1) fingerprint, and 1 more checkpoints", "f1", "new")
    ]


def test_an_input_that_all_metrics_share_is_told_once(changes: Callable[..., Any]) -> None:
    assert changes("UPDATE cells SET tokens = 90") == [("input of bert (wiki) tokens", 100, 90)]


def test_a_metric_that_compares_with_a_base_changes_no_input(changes: Callable[..., Any]) -> None:
    assert (
        changes(
            "INSERT INTO cells (study, model, checkpoint, corpus, metric, status, tokens, inputs) "
            """VALUES ('s', 'bert', 'final', 'wiki', 'change', 'done', 200, '{"pass": 3, "compared with": [{}]}')"""
        )
        == []
    )


def test_failures_options_corpora_and_versions(changes: Callable[..., Any]) -> None:
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
