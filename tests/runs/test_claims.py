"""Claims in a run: when they are tested, what is printed and stored, the exit code; corpora of equal size."""

import json
from itertools import product

import pytest
from runs.conftest import DEC, INLINE, select
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.core.numbers import estimate
from reporter.runs.runner import RunOutcome

CLAIMS = """claims:
  ends-at-one: {says: It ends., value: {metric: convergence.similarity, model: enc, corpus: nested, layer: 2},
                between: [0.99, 1.01]}
  wrong: {says: It is two., source: Nobody, value: {metric: convergence.rate, model: enc, corpus: nested},
          paper: 2, within: 0.1}
  broken: {says: "?", value: {sql: SELECT nothing}, above: 0}
  turns: {says: Both turn., value: {metric: convergence.rate, model: all, corpus: inline}, above: 0}
  needs-inline: {says: It needs both.,
                 differ: {metric: convergence.rate, a: nested, b: inline, is: different, models: enc}}
run:"""


def verdicts(store):
    return dict(select(store, "SELECT claim, verdict FROM claims WHERE reading = 1 ORDER BY number"))


def test_claims_are_tested_printed_and_stored_with_every_run(study, run, store, copied, tmp_path):
    file = study(("run:", CLAIMS))
    outcome, log = run(file)
    assert (outcome.computed, outcome.refuted, outcome.untested, outcome.exit_code) == (0, 1, 1, 0)
    stored = verdicts(store)
    assert list(stored) == ["ends-at-one", "wrong", "broken", "turns", "needs-inline"]
    assert (stored["ends-at-one"], stored["wrong"], stored["broken"]) == ("supported", "refuted", "failed")
    (row,) = store.records("FROM claims WHERE claim = 'wrong' AND reading = 1")
    assert (row["says"], row["source"], row["kind"], row["paper"]) == ("It is two.", "Nobody", "value", 2.0)
    for line in (
        "  claim ends-at-one: supported  1",
        f"  claim wrong: refuted  {estimate(row['value'], row['ci_low'], row['ci_high'])}, paper 2",
        "  claim broken: failed  the query failed: ",
        "tiny: 5 claims: ",
    ):
        assert line in log
    of_rate = "(model, step, corpus, statistic, view) = ('enc', 2, 'nested', 'rate', 'text tokens')"
    assert [row["value"]] == select(store, f"SELECT value FROM layer_metrics WHERE {of_rate}")
    # Where nothing changed, they are tested and printed again, and the database stays as it is.
    written = store.path.stat().st_mtime_ns
    again, log = run(file)
    assert (again.computed, again.refuted) == (0, 1) and "  claim wrong: refuted  " in log
    assert store.path.stat().st_mtime_ns == written
    # A guard in continuous integration asks for its exit code.
    arguments = ["run", str(file.path), "--out", str(store.path.parent), "--offline"]
    codes = {"--strict": 3, "--strict=inconclusive": 3, "--strict=no-such-word": 2, "--offline": 0}
    assert {option: CliRunner().invoke(app, [*arguments, option]).exit_code for option in codes} == codes
    (tmp_path / "pilot").symlink_to(store.path.parent)
    for verb, folder in product(("plan", "validate"), (store.path.parent, tmp_path)):
        done = CliRunner().invoke(app, [verb, str(file.path), "--out", str(folder)])
        assert "smallest differences that this study can detect" in done.output
    # A run of a part leaves claims about the others as they are.
    by_model = select(store, "FROM claims_by_model ORDER BY ALL")
    outcome, _ = run(file, only=["enc", "nested"], force=True)
    assert verdicts(store) == stored and outcome.untested == 0 and outcome.computed
    assert by_model and by_model == select(store, "FROM claims_by_model ORDER BY ALL")
    # Other claims on the same numbers need no measurement; a study without claims has no rows.
    changed, _ = run(study(("run:", CLAIMS.replace("paper: 2, within: 0.1", "paper: 0, within: 5"))))
    assert (changed.computed, changed.refuted) == (0, 0) and verdicts(store)["wrong"] == "supported"
    without, log = run(study())
    assert without.refuted == 0 and verdicts(store) == {} and "claim " not in log


def test_claims_that_a_part_cannot_test_are_not_counted(study, run, store):
    claims = CLAIMS.replace("sql: SELECT nothing", "metric: convergence.rate, model: enc, corpus: nested")
    file = study(("run:", claims), metrics="[convergence]", views="[text tokens]")
    outcome, log = run(file, only=["dec", "nested"])
    assert (outcome.untested, log.count("not tested"), verdicts(store)) == (0, 5, {})
    assert "tiny: " not in log.partition("not tested")[2].partition("exploratory")[0]
    _, log = run(file, only=["enc", "nested"])
    assert "claim needs-inline: not tested, because this run measured only a part of the study" in log
    assert list(verdicts(store)) == ["ends-at-one", "wrong", "broken"]


def test_exit_codes():
    for failed, refuted, untested, undecided, strict, code in (
        (0, 2, 1, 2, None, 0),
        (1, 1, 0, 0, None, 1),
        (1, 1, 1, 0, "refuted", 3),
        (0, 0, 1, 0, "refuted", 1),
        (1, 0, 0, 0, "refuted", 1),
        (0, 0, 0, 2, "refuted", 0),
        (0, 0, 0, 2, "inconclusive", 3),
        (0, 0, 1, 0, "inconclusive", 1),
    ):
        assert RunOutcome(1, 0, failed, (), refuted, untested, strict, undecided).exit_code == code, (failed, refuted)


@pytest.fixture
def comparing(study):
    """Return a function that writes a study that compares a corpus with a small one, in one model."""
    few = "  few: {generate: grammar, texts: 12, words: [5, 20], seed: 5}\n"
    claim = "differ: {metric: spectrum.effective_rank, a: %s, b: few, models: enc, is: different}"

    def write(corpus, more=""):
        claims = f"claims: {{more: {{says: It varies., {claim % corpus}}}}}\nrun:"
        changes = (INLINE, few + more), ("checkpoints: [0, 2],", ""), (DEC, ""), ("run:", claims)
        return study(*changes, metrics="[convergence, spectrum]", views="[text tokens]")

    return write


def test_a_comparison_of_corpora_that_differ_in_size_needs_size_of(comparing, run, store, out):
    def planned(file):
        return " ".join(CliRunner().invoke(app, ["plan", str(file.path), "--out", str(out)]).output.split())

    file = comparing("nested")
    hint = "claim more cannot be tested: spectrum.effective_rank depends on the size of the corpus"
    advice = "models are trained on corpus nested, so add a copy of it with the key `size_of: few`"
    plan = planned(file)
    assert hint in plan and advice in plan
    _, log = run(file)
    assert hint in log.split("cells computed")[0], "before the work, not after it"
    ((verdict, detail),) = select(store, "SELECT verdict, detail FROM claims")
    assert verdict == "inconclusive" and advice in json.loads(detail)["reason"]
    reasons = select(store, "SELECT reasons FROM cells WHERE corpus = 'nested | few'")[0]
    assert "add `size_of: few` to corpus nested" in reasons

    tiny = "  tiny: {texts: [a b c], size_of: few}\n"
    file = comparing("like", f"  like: {{generate: grammar, texts: 40, words: [5, 20], size_of: few}}\n{tiny}")
    plan = planned(file)
    assert "cannot be tested" not in plan and "corpus like: " in plan and "of few" in plan
    outcome, log = run(file)
    assert "corpus 'tiny': it has 3 words, but corpus 'few' of its `size_of` has" in log
    assert outcome.failed == len(select(store, "SELECT 1 FROM cells WHERE contains(corpus, 'tiny')")) > 0
    assert "cannot be tested" not in log
    (few, like) = store.records("FROM corpora WHERE corpus IN ('few', 'like') ORDER BY corpus")
    assert abs(like["words"] - few["words"]) <= 20 and like["location"].endswith("sampled to the size of few")
    assert like["texts"] + like["thinned"] == 40 and few["thinned"] == 0
    ((verdict, detail),) = select(store, "SELECT verdict, detail FROM claims")
    assert verdict in ("supported", "refuted", "inconclusive")
    assert any(note.startswith("compared at equal size") for note in json.loads(detail)["notes"])
    compared = "SELECT count(value) > 0 FROM differences WHERE statistic = 'similarity_rare' AND corpus_b = 'like'"
    assert select(store, compared) == [True]
