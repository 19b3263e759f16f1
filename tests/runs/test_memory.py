"""A pass whose observables run out of memory begins again with smaller batches, and says so once."""

from __future__ import annotations

import json
from functools import partialmethod

from reporter.forward.moments import Moments
from reporter.forward.paths import TextSums

NUMBERS = "SELECT model, corpus, view, statistic, layer, round(value, 5) AS value, n FROM layer_metrics ORDER BY ALL"
FEW = (
    ("metrics: [convergence, {anisotropy: {sample: 64, batches: 2}}, motion]", "metrics: [motion]"),
    ("views: [words, all]", "views: [words]"),
)


def test_the_numbers_are_those_of_a_machine_with_more_memory(study, run, store, out, monkeypatch):
    most = 100

    def short(self, layer, of):
        if layer.index == 1 and len(layer.batch) > most:  # when layer 0 has been seen
            raise MemoryError
        of(self, layer)

    with monkeypatch.context() as patch:
        patch.setattr(TextSums, "observe", partialmethod(short, of=TextSums.observe))
        outcome, said = run(study(*FEW))
        assert outcome.failed == 0
        assert said.count("memory is short") == 3  # of three checkpoints
        # What sufficed is remembered: the next pass over these texts need not run out of memory to find it.
        patch.setattr(Moments, "observe", partialmethod(short, of=Moments.observe))
        more, said = run(study(FEW[1], (FEW[0][0], "metrics: [motion, spectrum]")))
        assert (more.failed, "memory is short" in said) == (0, False) and more.computed > 0
    store.path.unlink()
    assert run(study(*FEW))[0].failed == 0
    facts = [json.loads(path.read_text())["facts"] for path in (out / "cache" / "observables").glob("*/facts.json")]
    assert {one["batch_tokens"] is not None and one["batch_tokens"] <= 2 * most for one in facts} == {True}
    numbers = store.frame(NUMBERS)
    store.path.unlink()
    for path in (out / "cache" / "observables").glob("*/*.json"):
        path.unlink()
    assert run(study(*FEW))[0].computed == outcome.computed
    assert len(numbers) and store.frame(NUMBERS).equals(numbers)


def test_where_no_batch_is_small_enough_the_cells_fail_and_the_others_do_not(study, run, monkeypatch):
    before = TextSums.observe

    def short(self, layer):
        if layer.index == 2:  # the last of them: the bodies of both models are as deep
            raise MemoryError
        before(self, layer)

    monkeypatch.setattr(TextSums, "observe", short)
    outcome, said = run(study((FEW[0][0], "metrics: [motion, anisotropy]")), only=["dec"])
    assert outcome.failed > 0 and "memory does not suffice" in said and "Traceback" not in said
