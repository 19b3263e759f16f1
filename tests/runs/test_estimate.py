"""What a plan says that it will take, against counting by hand."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from reporter.effort import Effort, Scale
from reporter.runs import estimate as estimates
from reporter.runs import machine as timing
from reporter.runs.estimate import FORWARD, estimate
from reporter.runs.machine import Machine, operations, this_machine
from reporter.runs.planner import plan_study
from reporter.runs.sizes import ADDED, OF_RECIPES, of_config

METRICS = "metrics: [convergence, {anisotropy: {sample: 64, batches: 2}}, motion]"
ANALYSES = """
journeys: {j: {text: the cat sleeps}}
groups: {a: [one two, three], b: [four, five six]}
clouds: {c: {corpora: [nested, inline], sample: 10}}
vocabulary: {models: [dec]}
"""
MADE_UP = Machine(
    device="made up",
    float32=((10.0, 1e9), (1000.0, 1e11)),
    mixed=((10.0, 2e9), (1000.0, 2e11)),
    reading=1e10,
    eigen=((100.0, 1e3), (1000.0, 1.0)),
    search=0.5,
    step=1e-7,
    timed=0.0,
)


@pytest.fixture
def planned(study, out):
    return lambda *replace: plan_study(study(*replace), out)


@pytest.fixture
def estimated(planned, out):
    return lambda *replace, machine=MADE_UP: estimate(planned(*replace), out / "cache", machine)


def part(found, name):
    return next(one for one in found.parts if one.name == name)


def test_analyses_are_counted(planned, estimated):
    what = (METRICS, "metrics: none" + ANALYSES), ("views: [words, all]\n", "")
    found, texts = estimated(*what), planned(*what).texts
    models = 3  # two checkpoints of one, one of the other
    # The first ten texts of forty and all three of the others; each with what the tokenizer adds.
    clouds = (
        (texts["nested"].words * OF_RECIPES + 40 * ADDED) * 10 / 40 + texts["inline"].words * OF_RECIPES + 3 * ADDED
    )
    words = 3 + 3 * 6
    assert found.analyses == 3 * models + 1
    assert found.analysed == pytest.approx(models * (clouds + words * 1.35), rel=0.05)
    assert (found.tokens, found.passes) == (0, 0)
    assert found.seconds > 0 and found.memory > 0
    assert part(found, "analyses").said == f"{found.analysed:,} tokens in 10 cells"


def test_passes_are_counted_once_for_all_metrics(estimated):
    found = estimated()
    assert (found.passes, found.analyses, found.analysed) == (6, 0, 0)
    assert [one.name for one in found.parts] == ["passes", "metrics", "start, report"]  # the models are trained


def test_what_is_kept_needs_no_pass(study, run, estimated):
    run(study())
    assert estimated().parts == ()
    assert estimated().lines() == ["nothing to measure"]
    found = estimated((METRICS, METRICS.replace("64", "32")))
    assert found.passes == 0 and part(found, "metrics").seconds > 0


def test_training_grows_with_its_steps(estimated):
    few = part(estimated(("steps: 2, batch: 4", "steps: 3, batch: 4")), "training")
    many = part(estimated(("steps: 2, batch: 4", "steps: 300, batch: 4")), "training")
    assert few.said == "3 steps of 1 model"
    assert many.seconds == pytest.approx(100 * few.seconds)


def test_trainings_side_by_side_take_as_long_as_the_longest(estimated, monkeypatch):
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    long = ("steps: 2, batch: 4", "steps: 300, batch: 4")
    brief = ("steps: 2, checkpoints: [0, 2]", "steps: 3, checkpoints: [0, 3]")
    alone, both = (part(estimated(*what), "training") for what in ((long,), (long, brief)))
    assert both.said == "303 steps of 2 models"
    assert both.seconds == pytest.approx(alone.seconds)


def test_a_model_that_is_not_here_is_named(estimated, monkeypatch):
    known = estimates.size_of
    monkeypatch.setattr(estimates, "size_of", lambda of: None if of.model == "dec" else known(of))
    found = estimated()
    assert found.unknown == ("dec",) and found.passes == 4
    assert any(line.startswith("without dec: ") for line in found.lines())
    what = (METRICS, "metrics: none" + ANALYSES), ("views: [words, all]\n", "")
    found = estimated(*what)
    assert found.unknown == ("dec",) and found.analyses == 3 * 3 + 1
    assert part(found, "analyses").said == f"{found.analysed:,} tokens in 10 cells"  # of those that are known


def test_a_model_that_cannot_be_had_is_not_counted_and_the_others_are(estimated):
    nowhere = ("models:\n", "models:\n  gone: {path: nowhere}\n")
    assert estimated(nowhere, ("run:", "baselines: [random-init]\nrun:")).passes == 6 + 2 * 2
    assert estimated(nowhere).parts == estimated().parts


def test_saved_states_are_read_and_go_through_no_model(estimated, given):
    found = estimated(given)
    assert found.passes == 7 and found.unknown == ()


def test_a_wide_model_is_trained_with_all_cores_after_the_narrow_ones(estimated, monkeypatch):
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    long, brief = ("steps: 2, batch: 4", "steps: 300, batch: 4"), ("steps: 2, checkpoints: [0, 2]", "steps: 9")
    recipe = "{architecture: bert, layers: 1, width: 512, heads: 8, train_on: nested, steps: 30}"
    wide = ("models:\n", f"models:\n  wide: {{recipe: {recipe}}}\n")
    two, alone, all_three = (
        part(estimated(*what), "training").seconds for what in ((long, brief), (wide,), (long, brief, wide))
    )
    assert all_three == pytest.approx(two + alone)


@pytest.mark.parametrize(("times", "unit"), [(1, "s"), (0.03, "min"), (1e-3, "h")])
def test_a_slow_machine_takes_minutes_or_hours(estimated, times, unit):
    slow = replace(MADE_UP, reading=times * MADE_UP.reading, step=MADE_UP.step / times)
    found = estimated(machine=slow)
    said = found.lines()[-1].partition(",")[0].split()
    assert said[:3] == ["in", "all", "about"] and said[4] == unit
    assert float(said[3]) == pytest.approx(found.seconds / {"s": 1, "min": 60, "h": 3600}[unit], rel=0.1)


def test_a_faster_machine_is_faster(estimated):
    slow, fast = estimated(), estimated(machine=replace(MADE_UP, reading=1e11, step=1e-8))
    assert fast.seconds < slow.seconds


def test_static_embeddings_read_no_text(estimated):
    found = estimated((METRICS, "metrics: none\nvocabulary: {models: [dec]}"), ("views: [words, all]\n", ""))
    assert (found.analyses, found.analysed) == (1, 0)


def test_rates_between_and_beyond_what_was_timed():
    assert MADE_UP.rate("float32", 100) == pytest.approx(1e10)  # on a line of logarithms
    assert MADE_UP.rate("mixed", 10) == pytest.approx(2e9)
    assert MADE_UP.seconds(Effort(eigen=((2000.0, 4.0),)), 100) == pytest.approx(4 * 8)  # the cube goes on
    assert MADE_UP.seconds(Effort(searches=((8192.0, 512.0, 3.0),)), 100) == pytest.approx(0.5 * 4 * 2 * 3)
    assert MADE_UP.seconds(Effort(bytes=1e10, steps=1e7), 100) == pytest.approx(2.0)


def test_operations_of_a_known_block():
    """A BERT block of width d: q, k, v, o and two products with 4 d; attention over 128 tokens."""
    assert operations(768, 128) == pytest.approx(2 * 12 * 768**2 + 4 * 128 * 768)
    bert = {"hidden_size": 768, "num_hidden_layers": 12, "intermediate_size": 3072, "vocab_size": 30522}
    size = of_config(bert)
    assert size is not None and size.parameters == pytest.approx(109e6, rel=0.02)
    llama = {"hidden_size": 2048, "num_hidden_layers": 22, "intermediate_size": 5632, "vocab_size": 32000}
    gated = of_config(llama | {"rms_norm_eps": 1e-5})
    assert gated is not None and gated.gated and gated.parameters == pytest.approx(1.1e9, rel=0.15)


def test_a_scale_counts_bytes_of_states():
    scale = Scale(texts=10, tokens=1000, places=5, width=8)
    assert scale.length == 100
    assert scale.reading(2.0).bytes == 2 * 1000 * 5 * 8 * 4


def test_the_machine_is_timed_once_a_day(tmp_path, monkeypatch):
    timed = []

    def count(device, said):
        timed.append(device)
        return replace(MADE_UP, device=said, timed=time.time())

    monkeypatch.setattr(timing, "timed", count)
    first = this_machine(tmp_path, "cpu")
    assert this_machine(tmp_path, "cpu") == first and timed == ["cpu"]
    path = tmp_path / "machine.json"
    known = json.loads(path.read_text())
    for change in ({"timed": known["timed"] - 90_000}, {"device": "another"}, {"version": 0}):
        path.write_text(json.dumps(known | change))
        this_machine(tmp_path, "cpu")
    path.write_text("{")
    this_machine(tmp_path, "cpu")
    assert len(timed) == 5


def test_a_gpu_is_another_machine_than_the_processor(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(timing, "timed", lambda device, name: replace(MADE_UP, device=said.append(name) or name))
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: f"GPU {device.index}")
    for device in ("cpu", "cuda:0", "cuda:1"):
        this_machine(tmp_path, device)
    assert [name.partition(",")[0] for name in said] == ["cpu", "GPU 0", "GPU 1"]


def test_eigenproblems_of_an_apple_gpu_are_timed_on_the_processor():
    """Which has no float64, and where metrics leave them to the processor as well."""
    assert timing._eigen(32, "mps", timing._Stopwatch("cpu")) > 0


def test_a_machine_can_be_timed():
    found = timing.timed("cpu", "this one")
    curves = (found.float32, found.mixed, found.eigen)
    assert all(value > 0 for curve in curves for _, value in curve)
    assert found.reading > 0 and found.search > 0 and found.step > 0
    assert FORWARD >= 1
