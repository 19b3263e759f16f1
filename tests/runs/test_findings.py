"""Findings of a run: none of untrained models, kept with the numbers, said in the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reporter.runs.runner import Outcome
from reporter.spec import StudyFile
from reporter.store import Store

Run = Callable[..., tuple[Outcome, str]]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_untrained_models_have_none(study: Callable[..., StudyFile], run: Run, out: Path, seed: int) -> None:
    file = study(
        (
            "architecture: bert, layers: 2, width: 16, heads: 2, train_on: nested, steps: 2, checkpoints: [0, 2],",
            f"architecture: bert, layers: 4, width: 16, heads: 2, train_on: nested, steps: 0, seed: {seed},",
        ),
        (
            "architecture: gpt2, layers: 2, width: 16, heads: 2, train_on: nested, steps: 2,",
            f"architecture: gpt2, layers: 4, width: 16, heads: 2, train_on: nested, steps: 0, seed: {seed + 9},",
        ),
        ("texts: 40", "texts: 60"),
        ("views: [words, all]", "views: [words, no-sinks]"),
    )
    _, said = run(file)
    store = Store(out / "results.duckdb")
    assert store.records("SELECT DISTINCT initialised FROM models") == [{"initialised": True}]
    assert store.records("SELECT * FROM findings") == []
    assert store.records("SELECT looked_at FROM studies") == [{"looked_at": 0}]
    assert "exploratory" not in said


def test_a_trained_model_is_told_from_an_initialisation(study: Callable[..., StudyFile], run: Run, out: Path) -> None:
    run(study())
    known = Store(out / "results.duckdb").records("SELECT model, step, initialised FROM models ORDER BY model, step")
    assert known == [
        {"model": "dec", "step": 2, "initialised": False},
        {"model": "enc", "step": 0, "initialised": True},
        {"model": "enc", "step": 2, "initialised": False},
    ]


def test_headline_layers_have_errors_of_their_differences(study: Callable[..., StudyFile], run: Run, out: Path) -> None:
    run(study())
    rows = Store(out / "results.duckdb").records(
        "SELECT metric, e.corpus, e.layer, errors, (ci_high - ci_low) / 2 / 1.96 AS error FROM layer_errors e JOIN "
        "layer_metrics m USING (model, checkpoint, corpus, view, metric, statistic, layer) WHERE site <> 'final'"
    )
    assert {row["metric"] for row in rows} == {"anisotropy", "convergence", "motion"}
    assert {row["corpus"] for row in rows} == {"nested"}  # three texts have no intervals
    for row in rows:
        *apart, own = json.loads(row["errors"])
        assert len(apart) == row["layer"] and all(error > 0 for error in apart)
        assert own == pytest.approx(row["error"], rel=0.15, abs=1e-9)


def test_findings_are_kept_until_numbers_change(
    study: Callable[..., StudyFile], run: Run, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import reporter.judge.questions as finding

    asked: list[Any] = []
    look = finding.look
    monkeypatch.setattr(finding, "look", lambda subjects: asked.append(1) or look(subjects))
    monkeypatch.setattr(finding, "MATERIAL", 0.0)
    monkeypatch.setattr(finding, "LEVEL", 1e6)  # whatever is largest
    _, said = run(study())
    store = Store(out / "results.duckdb")
    rows = store.records("SELECT rank, says, looked_at FROM findings ORDER BY rank")
    assert len(asked) == 1 and 1 <= len(rows) <= finding.MOST
    assert f"tiny: {len(rows)} findings (exploratory, corrected for {rows[0]['looked_at']} tests)" in said
    assert rows[0]["says"] in said
    _, again = run(study())
    assert len(asked) == 1 and rows[0]["says"] in again  # said again, and not looked for
    run(study(("texts: 40", "texts: 41")))
    assert len(asked) == 2
    for row in store.records("SELECT detail ->> 'sql' AS sql FROM findings"):
        assert store.records(row["sql"])
