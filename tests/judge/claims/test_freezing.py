"""A guard from a run: the same numbers pass it, others do not, and nothing is uncertain in between."""

import pytest

from reporter.core.errors import UsageError
from reporter.judge.claims.stays import frozen, inherited
from reporter.judge.judging import judge
from reporter.runs.studies import read_study


def measured(world, study, change=0.0):
    world.store.put("studies", ["study"], {"study": study})
    world.put("bert", "anisotropy.top_variance_share", [0.1, 0.2, 0.3, 0.4 + change, 0.5], study=study)
    world.put("bert", "anisotropy.mean_cosine", [0.1, 0.0, 0.2, 0.3, 0.4], error=None, study=study)
    world.put("bert", "convergence.similarity", [0.2, 0.4, 0.6 + change, 0.8, 1.0], error=0.02, study=study)


@pytest.fixture
def study(world):
    return world.study("c: value: {metric: anisotropy.mean_cosine, model: bert, layer: 1}, below: 1", models="bert")


def guard_of(world, study, base):
    (world.folder / "guard.yaml").write_text(frozen(world.store, study, base))
    return read_study(world.folder / "guard.yaml").study


BASE = {"extends": "study.yaml"}


def test_a_guard_passes_the_same_numbers_and_refutes_others(world, study):
    with pytest.raises(UsageError, match=r"no study 's' in .*; run the study first"):
        frozen(world.store, study, BASE)
    measured(world, "s")
    with pytest.raises(UsageError, match="the study has no metric 'convergense'; did you mean 'convergence'"):
        frozen(world.store, study, BASE, ["convergense"])
    with pytest.raises(UsageError, match="no main statistic"):
        frozen(world.store, study, BASE, ["variance"])
    guard = guard_of(world, study, BASE)
    assert guard.texts == "fixed"
    kept = {name: claim.values for name, claim in guard.claims.items()}
    assert kept == {  # one claim for each profile; the similarity is 1 at the last layer by definition
        "bert-wiki-anisotropy.top_variance_share": (0.1, 0.2, 0.3, 0.4, 0.5),
        "bert-wiki-anisotropy.mean_cosine": (0.1, 0.0, 0.2, 0.3, 0.4),
        "bert-wiki-convergence.similarity": (0.2, 0.4, 0.6, 0.8, None),
    }

    measured(world, "s-frozen", change=1e-5)  # rounding
    found = judge(world.store, guard)
    assert {verdict.verdict for verdict in found} == {"supported"}
    assert all(verdict.p is None and verdict.ci_low is None for verdict in found)
    measured(world, "s-frozen", change=1e-3)  # far inside of the interval over texts
    refuted = {v.claim: v for v in judge(world.store, guard) if v.verdict == "refuted"}
    assert refuted.keys() == {"bert-wiki-anisotropy.top_variance_share", "bert-wiki-convergence.similarity"}
    moved = refuted["bert-wiki-anisotropy.top_variance_share"]
    assert moved.value == pytest.approx(0.401)
    assert any("moved is at block 3;" in note for note in moved.detail["notes"])
    ahead = refuted["bert-wiki-convergence.similarity"].detail["notes"]
    assert any("does not show where the change began" in note for note in ahead)  # it is compared with the last layer


def test_a_missing_block_is_refuted(world, study):
    measured(world, "s")
    guard = guard_of(world, study, BASE)
    measured(world, "s-frozen")
    world.put("bert", "anisotropy.mean_cosine", [0.1, 0.0, 0.2, 0.3, 0.4, 0.5], study="s-frozen")
    refuted = {v.claim: v for v in judge(world.store, guard) if v.verdict == "refuted"}
    assert list(refuted) == ["bert-wiki-anisotropy.mean_cosine"]
    notes = refuted["bert-wiki-anisotropy.mean_cosine"].detail["notes"]
    assert "6 layers have numbers; in the earlier run 5 had numbers" in notes


def test_a_run_in_mixed_precision_is_not_frozen(world, study):
    measured(world, "s")
    mixed = study.model_copy(update={"run": study.run.model_copy(update={"precision": "mixed"})})
    with pytest.raises(UsageError, match=r"ran in precision 'mixed'.*run.precision=float32"):
        frozen(world.store, mixed, BASE)


def test_a_study_that_is_named_by_its_id_is_said_in_full(world, study):
    measured(world, "s")
    guard = guard_of(world, study, inherited((world.folder / "study.yaml").read_text()))
    assert "extends" not in (world.folder / "guard.yaml").read_text()
    assert (guard.study, guard.texts, guard.models) == ("s-frozen", "fixed", study.models)
    assert guard.corpora == study.corpora and len(guard.claims) == 3 and "c" not in guard.claims
