"""Claims in a run: when they are tested, what is said, and what becomes of the exit code."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.runs.runner import Outcome
from reporter.runs.whole import also
from reporter.store.schema import Verdict

CLAIMS = """claims:
  ends-at-one: {says: It ends., value: {metric: convergence.similarity, model: enc, corpus: nested, layer: 2},
                between: [0.99, 1.01]}
  wrong: {says: It is two., source: Nobody, value: {metric: convergence.rate, model: enc, corpus: nested},
          paper: 2, within: 0.1}
  broken: {says: "?", value: {sql: SELECT nothing}, above: 0}
  needs-inline: {says: It needs both.,
                 differ: {metric: convergence.rate, a: nested, b: inline, is: different, models: enc}}
run:"""
ONLY = ["enc", "nested"]


@pytest.fixture
def claiming(study, monkeypatch):
    """Return a function that writes the tiny study with claims; its report is somebody else's business."""
    monkeypatch.setattr("reporter.runs.runner._report", lambda *_: ())
    light = (
        ("[convergence, {anisotropy: {sample: 64, batches: 2}}, motion]", "[convergence]"),
        ("views: [words, all]", "views: [words]"),
    )
    return lambda *replace: study(("run:", CLAIMS), *light, *replace)


def verdicts(store) -> dict[str, str]:
    return dict(store.frame("SELECT claim, verdict FROM claims WHERE reading = 1 ORDER BY number").values.tolist())


def test_claims_are_tested_said_and_stored_with_every_run(claiming, run, store):
    file = claiming()
    outcome, said = run(file)
    assert (outcome.refuted, outcome.untested, outcome.exit_code) == (1, 1, 0)
    stored = verdicts(store)
    assert list(stored) == ["ends-at-one", "wrong", "broken", "needs-inline"]
    assert (stored["ends-at-one"], stored["wrong"], stored["broken"]) == ("supported", "refuted", "failed")
    assert "  claim ends-at-one: supported  1" in said
    assert "  claim wrong: refuted  " in said
    assert "  claim broken: failed  the query does not work: " in said
    assert "tiny: 4 claims: " in said
    row = store.frame("FROM claims WHERE claim = 'wrong'").iloc[0]
    assert (row["says"], row["source"], row["kind"], row["paper"]) == ("It is two.", "Nobody", "value", 2.0)
    assert f"  claim wrong: refuted  {row['value']:.4g} [{row['ci_low']:.4g}, {row['ci_high']:.4g}], paper 2" in said
    rate = "SELECT value FROM layer_metrics WHERE (model, step, corpus, statistic) = ('enc', 2, 'nested', 'rate')"
    assert row["value"] == store.frame(rate).iloc[0, 0]
    # Where nothing changed, they are tested and said again, and the database stays as it is.
    written = store.path.stat().st_mtime_ns
    again, said = run(file)
    assert (again.computed, again.refuted) == (0, 1) and "  claim wrong: refuted  " in said
    assert store.path.stat().st_mtime_ns == written
    # A guard in continuous integration asks for its exit code.
    arguments = ["run", str(file.path), "--out", str(store.path.parent), "--offline"]
    assert CliRunner().invoke(app, [*arguments, "--strict"]).exit_code == 3
    assert CliRunner().invoke(app, [*arguments, "--strict=inconclusive"]).exit_code == 3
    assert CliRunner().invoke(app, [*arguments, "--strict=no-such-word"]).exit_code == 2
    assert CliRunner().invoke(app, arguments).exit_code == 0
    # Other claims on the same numbers need no measurement.
    changed, _ = run(claiming(("paper: 2, within: 0.1", "paper: 0, within: 5")))
    assert (changed.computed, changed.refuted) == (0, 0) and verdicts(store)["wrong"] == "supported"
    # A study without claims has no rows.
    from_study, said = run(claiming((CLAIMS, "run:")))
    assert from_study.refuted == 0 and verdicts(store) == {} and "claim " not in said


def test_a_run_of_a_part_leaves_what_it_cannot_tell(claiming, run, store):
    none = ("sql: SELECT nothing", "metric: convergence.rate, model: enc, corpus: nested")
    outcome, said = run(claiming(none), only=["dec", "inline"])
    assert (outcome.untested, said.count("not tested"), verdicts(store)) == (0, 4, {})
    assert "tiny: " not in said.partition("not tested")[2].partition("exploratory")[0], "of none nothing is counted"
    _, said = run(claiming(), only=ONLY)
    assert list(verdicts(store)) == ["ends-at-one", "wrong"]
    assert "claim needs-inline: not tested, this run measured only a part of the study" in said
    every = (
        "needs-inline: {says: It needs both.,",
        "turns: {says: Both turn., value: {metric: convergence.rate, model: all, corpus: inline}, above: 0}\n"
        "  needs-inline: {says: It needs both.,",
    )
    run(claiming(every))
    whole, by_model = verdicts(store), store.frame("FROM claims_by_model ORDER BY ALL")
    assert len(by_model)
    outcome, _ = run(claiming(every), only=ONLY, force=True)
    assert verdicts(store) == whole and outcome.untested == 0
    assert by_model.equals(store.frame("FROM claims_by_model ORDER BY ALL"))


@pytest.mark.parametrize(
    ("failed", "refuted", "untested", "undecided", "strict", "code"),
    [
        (0, 0, 0, 0, "refuted", 0),
        (0, 2, 1, 0, None, 0),
        (0, 1, 0, 0, "refuted", 3),
        (0, 1, 1, 0, "refuted", 3),
        (1, 1, 0, 0, "refuted", 3),
        (0, 0, 1, 0, "refuted", 1),
        (1, 0, 0, 0, "refuted", 1),
        (1, 1, 0, 0, None, 1),
        (0, 0, 0, 2, None, 0),
        (0, 0, 0, 2, "refuted", 0),
        (0, 0, 0, 2, "inconclusive", 3),
        (0, 1, 0, 0, "inconclusive", 3),
        (0, 0, 1, 0, "inconclusive", 1),
        (0, 0, 0, 0, "inconclusive", 0),
    ],
)
def test_exit_codes(failed, refuted, untested, undecided, strict, code):
    assert Outcome(1, 0, failed, (), refuted, untested, strict, undecided).exit_code == code


def test_a_view_under_which_a_claim_breaks_is_said():
    said = {"number": 1, "says": "", "source": "", "kind": "value", "paper": None, "verdict": "failed"}
    found = Verdict(claim="c", reading=2, view="all", baseline="shuffled", detail={"reason": "KeyError: 'x'"}, **said)
    assert also(found) == "claim c (view 'all', baseline shuffled): not tested there  KeyError: 'x'"
