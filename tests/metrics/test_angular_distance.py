"""Angles between layers in closed cases, and the run of blocks that turns the states least."""

import numpy as np
import pytest
import torch
from oracles.fake_model import FakeModel, made_up_texts

from reporter.metrics.angular_distance import BlockRun
from reporter.metrics.base import PairValue, catalogue


@pytest.fixture
def rows(see):
    """Return a function that measures a model: {(statistic, l, m): row} and {(which, blocks): run}."""

    def run(model, texts):
        seen = see(model, texts, names=("moments", "layer_angles"), batch_tokens=100)
        metric = catalogue()["angular_distance"]
        found = list(metric.compute(seen, metric.options()))
        pairs = {(row.statistic, row.layer_a, row.layer_b): row for row in found if isinstance(row, PairValue)}
        runs = {(row.which, row.blocks): row for row in found if isinstance(row, BlockRun)}
        assert len(pairs) + len(runs) == len(found)
        return pairs, runs

    return run


def test_runs_are_those_that_turn_states_least(rows):
    pairs, runs = rows(FakeModel(role="decoder", layers=4), made_up_texts(60))
    assert len(pairs) == 2 * 10 and len(runs) == 2 * 4
    for (which, blocks), run in runs.items():
        start = min(range(5 - blocks), key=lambda at: pairs[which, at, at + blocks].value)
        assert (run.first, run.last) == (start + 1, start + blocks)
        assert run.value == pairs[which, start, start + blocks].value
        assert str(run.first) in run.as_good.split(", ")


def test_blocks_that_do_nothing_are_found(rows):
    """Blocks 3 and 4 pass on what they get: exactly no angle, and no other run of two is as good."""
    model = FakeModel(layers=5, sinks=False, change=lambda s: [s[0], s[1], s[2], s[2], s[2], s[5]])
    pairs, runs = rows(model, made_up_texts(60))
    assert pairs["tokens", 2, 4].value < 1e-7
    two = runs["tokens", 2]
    assert (two.first, two.last, two.as_good) == (3, 4, "3") and runs["tokens", 1].as_good == "3, 4"


def test_nearly_parallel_states_keep_their_angle(rows):
    """In float32 the cosine of an angle of a hundred-thousandth is 1, and of most smaller ones it is not."""
    tiny = 1e-5

    def turned(states):
        x, y = (torch.tensor([1.0, turn] + 14 * [0]).expand_as(states[0]) for turn in (0, tiny))
        return [x, y, x, x]

    pairs, _ = rows(FakeModel(change=turned), made_up_texts(20))
    assert pairs["tokens", 0, 1].value == pytest.approx(tiny / np.pi, rel=1e-3)
