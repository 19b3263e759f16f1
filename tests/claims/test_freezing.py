"""A guard from a run: the same numbers pass it, others do not, and nothing is uncertain in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reporter.claims import judge
from reporter.claims.freezing import _down, frozen, said
from reporter.errors import UsageError
from reporter.runs.studies import read_study


def measured(world: Any, study: str, change: float = 0.0) -> None:
    world.store.put("studies", ["study"], {"study": study})
    world.put("bert", "anisotropy.top_variance_share", [0.1, 0.2, 0.3, 0.4 + change, 0.5], study=study)
    world.put("bert", "anisotropy.mean_cosine", [0.1, 0.0, 0.2, 0.3, 0.4], error=None, study=study)
    world.put("bert", "convergence.similarity", [0.2, 0.4, 0.6 + change, 0.8, 1.0], error=0.02, study=study)


def test_a_guard_passes_the_same_numbers_and_refutes_others(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world.folder)
    study = world.study("c: value: {metric: anisotropy.mean_cosine, model: bert, layer: 1}, below: 1", models="bert")
    with pytest.raises(UsageError, match=r"no study 's' in .*; run it first"):
        frozen(world.store, study, {"extends": "study.yaml"})
    measured(world, "s")
    with pytest.raises(UsageError, match="the study has no metric 'convergense'; did you mean 'convergence'"):
        frozen(world.store, study, {"extends": "study.yaml"}, ["convergense"])
    with pytest.raises(UsageError, match="no headline number"):
        frozen(world.store, study, {"extends": "study.yaml"}, ["variance"])
    Path("guard.yaml").write_text(frozen(world.store, study, {"extends": "study.yaml"}))
    guard = read_study(Path("guard.yaml")).study
    assert guard.texts == "fixed"
    bounds = {name: claim.between for name, claim in guard.claims.items()}
    wanted = {  # the middle and the last block; the similarity is 1 at the last by definition
        "bert-wiki-anisotropy.top_variance_share-2": (0.2804, 0.3196),
        "bert-wiki-anisotropy.top_variance_share-4": (0.4804, 0.5196),
        "bert-wiki-anisotropy.mean_cosine-2": (0.198, 0.202),  # one in a hundred where there is no interval
        "bert-wiki-anisotropy.mean_cosine-4": (0.396, 0.404),
        "bert-wiki-convergence.similarity-2": (0.5608, 0.6392),
    }
    assert bounds.keys() == wanted.keys()
    for name, ends in wanted.items():
        assert bounds[name] == pytest.approx(ends, abs=2e-6)

    measured(world, "s-frozen")
    found = judge(world.store, guard)
    assert {verdict.verdict for verdict in found} == {"supported"}
    assert all(verdict.p is None and verdict.ci_low is None for verdict in found)
    assert all("its texts are fixed" in note for verdict in found for note in verdict.detail["notes"][-1:])
    measured(world, "s-frozen", change=0.05)
    assert [v.claim for v in judge(world.store, guard) if v.verdict == "refuted"] == [
        "bert-wiki-convergence.similarity-2"
    ]


@pytest.mark.parametrize(("value", "down"), [(0.123456789, 0.123456), (-0.123456789, -0.123457), (0.0, 0.0), (12, 12)])
def test_bounds_are_rounded_outwards(value: float, down: float) -> None:
    assert _down(value) == down


def test_a_study_that_is_named_by_its_id_is_said_in_full(world: Any) -> None:
    study = world.study("c: value: {metric: anisotropy.mean_cosine, model: bert, layer: 1}, below: 1", models="bert")
    measured(world, "s")
    written = (world.folder / "study.yaml").read_text()
    guard = world.folder / "guard.yaml"
    guard.write_text(frozen(world.store, study, said(written)))
    assert "extends" not in guard.read_text()
    found = read_study(guard).study
    assert (found.study, found.texts, found.models, found.corpora) == (
        "s-frozen", "fixed", study.models, study.corpora
    )  # fmt: skip
    assert len(found.claims) == 5 and "c" not in found.claims
