"""Claims in a run: when they are tested, what is printed and stored, the exit code; corpora of equal size."""

import json

import pytest
from runs.conftest import DEC, INLINE, select
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.runs.runner import Outcome
from reporter.texts import build_texts

CLAIMS = """claims:
  ends-at-one: {says: It ends., value: {metric: convergence.similarity, model: enc, corpus: nested, layer: 2},
                between: [0.99, 1.01]}
  wrong: {says: It is two., source: Nobody, value: {metric: convergence.rate, model: enc, corpus: nested},
          paper: 2, within: 0.1}
  broken: {says: "?", value: {sql: SELECT nothing}, above: 0}
  needs-inline: {says: It needs both.,
                 differ: {metric: convergence.rate, a: nested, b: inline, is: different, models: enc}}
run:"""


def verdicts(store):
    return dict(select(store, "SELECT claim, verdict FROM claims WHERE reading = 1 ORDER BY number"))


def test_claims_are_tested_printed_and_stored_with_every_run(study, run, store, copied):
    file = study(("run:", CLAIMS))
    outcome, log = run(file)
    assert (outcome.computed, outcome.refuted, outcome.untested, outcome.exit_code) == (0, 1, 1, 0)
    stored = verdicts(store)
    assert list(stored) == ["ends-at-one", "wrong", "broken", "needs-inline"]
    assert (stored["ends-at-one"], stored["wrong"], stored["broken"]) == ("supported", "refuted", "failed")
    (row,) = store.records("FROM claims WHERE claim = 'wrong' AND reading = 1")
    assert (row["says"], row["source"], row["kind"], row["paper"]) == ("It is two.", "Nobody", "value", 2.0)
    for line in (
        "  claim ends-at-one: supported  1",
        f"  claim wrong: refuted  {row['value']:.4g} [{row['ci_low']:.4g}, {row['ci_high']:.4g}], paper 2",
        "  claim broken: failed  the query failed: ",
        "tiny: 4 claims: ",
    ):
        assert line in log
    rate = (
        "SELECT value FROM layer_metrics "
        "WHERE (model, step, corpus, statistic, view) = ('enc', 2, 'nested', 'rate', 'words')"
    )
    assert [row["value"]] == select(store, rate)
    # Where nothing changed, they are tested and printed again, and the database stays as it is.
    written = store.path.stat().st_mtime_ns
    again, log = run(file)
    assert (again.computed, again.refuted) == (0, 1) and "  claim wrong: refuted  " in log
    assert store.path.stat().st_mtime_ns == written
    # A guard in continuous integration asks for its exit code.
    arguments = ["run", str(file.path), "--out", str(store.path.parent), "--offline"]
    codes = {"--strict": 3, "--strict=inconclusive": 3, "--strict=no-such-word": 2, "--offline": 0}
    assert {option: CliRunner().invoke(app, [*arguments, option]).exit_code for option in codes} == codes
    # Other claims on the same numbers need no measurement.
    changed, _ = run(study(("run:", CLAIMS.replace("paper: 2, within: 0.1", "paper: 0, within: 5"))))
    assert (changed.computed, changed.refuted) == (0, 0) and verdicts(store)["wrong"] == "supported"
    # A study without claims has no rows.
    without, log = run(study())
    assert without.refuted == 0 and verdicts(store) == {} and "claim " not in log


def test_a_run_of_a_part_tests_the_claims_that_it_can_and_leaves_the_others(study, run, store):
    def claiming(*changes):
        return study(("run:", CLAIMS), *changes, metrics="[convergence]", views="[words]")

    none = ("sql: SELECT nothing", "metric: convergence.rate, model: enc, corpus: nested")
    outcome, log = run(claiming(none), only=["dec", "inline"])
    assert (outcome.untested, log.count("not tested"), verdicts(store)) == (0, 4, {})
    assert "tiny: " not in log.partition("not tested")[2].partition("exploratory")[0], "of none nothing is counted"
    part = ["enc", "nested"]
    _, log = run(claiming(), only=part)
    assert list(verdicts(store)) == ["ends-at-one", "wrong"]
    assert "claim needs-inline: not tested, because this run measured only a part of the study" in log
    every = (
        "needs-inline: {says: It needs both.,",
        "turns: {says: Both turn., value: {metric: convergence.rate, model: all, corpus: inline}, above: 0}\n"
        "  needs-inline: {says: It needs both.,",
    )
    run(claiming(every))
    whole, by_model = verdicts(store), select(store, "FROM claims_by_model ORDER BY ALL")
    outcome, _ = run(claiming(every), only=part, force=True)
    assert verdicts(store) == whole and outcome.untested == 0
    assert by_model and by_model == select(store, "FROM claims_by_model ORDER BY ALL")


@pytest.mark.parametrize(
    ("failed", "refuted", "untested", "undecided", "strict", "code"),
    [
        (0, 2, 1, 2, None, 0),
        (1, 1, 0, 0, None, 1),
        (0, 1, 1, 0, "refuted", 3),
        (1, 1, 0, 0, "refuted", 3),
        (0, 0, 1, 0, "refuted", 1),
        (1, 0, 0, 0, "refuted", 1),
        (0, 0, 0, 2, "refuted", 0),
        (0, 0, 0, 2, "inconclusive", 3),
        (0, 0, 1, 0, "inconclusive", 1),
        (0, 0, 0, 0, "inconclusive", 0),
    ],
)
def test_exit_codes(failed, refuted, untested, undecided, strict, code):
    assert Outcome(1, 0, failed, (), refuted, untested, strict, undecided).exit_code == code


CORPORA = "  few: {generate: grammar, texts: 12, words: [5, 20], seed: 5}\n"
DIFFERENT = """claims:
  more: {says: It varies., differ: {metric: spectrum.effective_rank, a: %s, b: few, models: enc, is: different}}
run:"""


@pytest.fixture
def comparing(study):
    """Return a function that writes a study that compares a corpus with a small one, in one model."""

    def write(corpus, more=""):
        changes = (INLINE, CORPORA + more), ("checkpoints: [0, 2],", ""), (DEC, ""), ("run:", DIFFERENT % corpus)
        return study(*changes, metrics="[convergence, spectrum]", views="[words]")

    return write


def test_a_comparison_of_corpora_that_differ_in_size_needs_size_of(comparing, run, store, out):
    def planned(file):
        result = CliRunner().invoke(app, ["plan", str(file.path), "--out", str(out)])
        assert result.exit_code == 0, result.output
        return " ".join(result.output.split())

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

    file = comparing("like-few", "  like-few: {generate: grammar, texts: 40, words: [5, 20], size_of: few}\n")
    plan = planned(file)
    assert "cannot be tested" not in plan and "corpus like-few: " in plan and "of few" in plan
    outcome, log = run(file)
    assert outcome.failed == 0 and "cannot be tested" not in log
    rows = {row["corpus"]: row for row in store.records("FROM corpora")}
    whole = build_texts("nested", file.study.corpora["nested"], file.folder, out / "cache")
    longest = max(len(text.split()) for text in whole)
    assert abs(rows["like-few"]["words"] - rows["few"]["words"]) <= longest
    assert rows["like-few"]["texts"] + rows["like-few"]["thinned"] == len(whole) == 40
    assert rows["like-few"]["location"].endswith("sampled to the size of few")
    assert rows["few"]["thinned"] == 0
    ((verdict, detail),) = select(store, "SELECT verdict, detail FROM claims")
    assert verdict in ("supported", "refuted", "inconclusive")
    assert any(note.startswith("compared at equal size") for note in json.loads(detail)["notes"])
    compared = (
        "SELECT count(value) > 0 FROM differences WHERE statistic = 'similarity_rare' "
        "AND (corpus_a, corpus_b) = ('few', 'like-few')"
    )
    assert select(store, compared) == [True]


def test_a_corpus_too_small_to_get_the_size_fails_only_its_cells(comparing, run):
    file = comparing("few", "  tiny: {texts: [a b c], size_of: few}\n")
    outcome, log = run(file, only=["convergence"])
    assert "corpus 'tiny': it has 3 words, but corpus 'few' of its `size_of` has" in log
    assert outcome.failed > 0 and outcome.computed > 0
