"""What a plan says that its passes will take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reporter.forward.inputs import RATES, note_rate, rate_of, size_of
from reporter.runs import plan as estimates
from reporter.runs.plan import estimate
from reporter.runs.planner import plan_study

METRICS = "metrics: [convergence, {anisotropy: {sample: 64, batches: 2}}, motion]"
VOCABULARY = "metrics: none\nvocabulary: {models: [dec]}"


@pytest.fixture
def planned(study, out):
    return lambda *changes: plan_study(study(*changes), out)


@pytest.fixture
def estimated(planned, out):
    return lambda *changes: estimate(planned(*changes), out / "cache")


@pytest.fixture
def checkpoint(planned):
    return planned().checkpoints["dec"][-1]


def test_time_is_unknown_until_a_pass_and_follows_from_its_rate_afterwards(estimated, out, checkpoint):
    before = estimated()
    assert (before.passes, before.seconds) == (6, None)
    assert before.lines()[0].endswith("tokens: time unknown until a first pass of 1,000 tokens or more on this machine")
    note_rate(out / "cache", "cpu", checkpoint, 1000, 2.0)
    half = estimated().seconds
    note_rate(out / "cache", "cpu", checkpoint, 1000, 4.0)
    after = estimated()
    assert after.seconds == pytest.approx(2 * half)
    assert after.lines()[0].endswith("s after loading, from the rate of the last pass on this machine")
    assert after.disk > 0 and after.weights > 0


def test_a_run_leaves_its_rate_and_then_nothing_is_to_be_measured(study, run, estimated, out, monkeypatch):
    monkeypatch.setattr("reporter.forward.inputs.FEWEST_TOKENS", 100)
    run(study())
    assert rate_of(out / "cache", "cpu") > 0
    assert estimated().lines() == ["nothing to measure"]
    again = estimated((METRICS, METRICS.replace("64", "32")))
    assert again.passes == 0 and again.lines()[0] == "no pass: all that the metrics need is in the cache"


def test_a_short_pass_tells_no_rate(out, checkpoint):
    note_rate(out / "cache", "cpu", checkpoint, 999, 2.0)
    assert rate_of(out / "cache", "cpu") is None


def test_a_rate_that_cannot_be_read_is_none(out, checkpoint):
    note_rate(out / "cache", "cpu", checkpoint, 1000, 2.0)
    rate = rate_of(out / "cache", "cpu")
    assert rate == size_of(checkpoint).active * 500
    (out / "cache" / RATES).write_text("{")
    assert rate_of(out / "cache", "cpu") is None


def test_a_gpu_is_another_machine_than_the_processor(out, checkpoint, monkeypatch):
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: f"GPU {device.index}")
    note_rate(out / "cache", "cuda:0", checkpoint, 1000, 2.0)
    assert rate_of(out / "cache", "cuda:0") > 0
    assert rate_of(out / "cache", "cuda:1") is None and rate_of(out / "cache", "cpu") is None


def test_a_model_that_is_not_here_is_named(estimated, monkeypatch):
    known = estimates.size_of
    monkeypatch.setattr(estimates, "size_of", lambda of: None if of.model == "dec" else known(of))
    found = estimated()
    assert found.unknown == ("dec",) and found.passes == 4
    assert found.lines()[-1].startswith("without dec: ")


def test_a_model_that_cannot_be_had_is_not_counted_and_the_others_are(estimated):
    nowhere = ("models:\n", "models:\n  gone: {path: nowhere}\n")
    assert estimated(nowhere, ("run:", "baselines: [random-init]\nrun:")).passes == 6 + 2 * 2
    assert replace(estimated(nowhere), cells=0) == replace(estimated(), cells=0)


def test_saved_states_are_read_and_go_through_no_model(estimated, given):
    found = estimated(given)
    assert found.passes == 7 and found.unknown == ()


def test_analyses_have_no_time(estimated):
    found = estimated((METRICS, VOCABULARY), ("views: [words, all]\n", ""))
    assert (found.analyses, found.passes) == (1, 0)
    assert found.lines()[0] == "1 cell of analyses: time not estimated"


@pytest.mark.parametrize(("seconds", "said"), [(0.2, "1 s"), (40, "40 s"), (600, "10 min"), (7200, "2.0 h")])
def test_durations_are_round(seconds, said):
    assert estimates._duration(seconds) == said
