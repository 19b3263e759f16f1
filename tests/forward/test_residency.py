"""What an observable sums stays where the states are until the end of a shard, and nothing waits for the device."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from reporter.forward.observable import Setting
from reporter.forward.observed import KINDS
from reporter.models.places import Layout


@pytest.fixture
def on_stand_in(make_batch, rng):
    """24 tokens in all strata, on PyTorch's device "meta": tensors without numbers.

    Whatever asks for a number (``item``, ``nonzero``, a boolean index, a copy to the host) and whatever mixes two
    devices fails at once.
    """
    numbers, layout = np.arange(24), Layout(2, 6, final_width=6, attention=True)
    states = [rng.standard_normal((24, width)) for width in layout.widths]
    for x in states:
        x[3, 2] = 5000  # a massive activation
    made = make_batch(states, numbers // 4, numbers % 4, numbers % 3, layout=layout)
    read = {"lens_problem": "", "log_probabilities": lambda x, closed: iter([x.log_softmax(dim=1)])}
    return replace(
        made,
        states=[x.to("meta") for x in made.states],
        norms=made.norms.to("meta"),
        losses=torch.zeros(24, dtype=torch.float64, device="meta"),
        vocabulary=replace(made.vocabulary, table=made.vocabulary.table.to("meta")),
        readout=SimpleNamespace(predicts_next=True, **read),
    )


@pytest.mark.parametrize("name", sorted(KINDS.keys() - {"journey"}))  # which is of a few tokens, and may wait
def test_nothing_leaves_the_device_while_a_batch_is_shown(name, on_stand_in, feed):
    setting = Setting(on_stand_in.layout, 0, 6, 8, {0: 9, 1: 8, 2: 7, 3: 6}, {}, 24, np.arange(-2, 6))
    observable = KINDS[name].empty(setting)
    observable.settle = lambda: None  # which is what may copy
    feed(observable, on_stand_in, on_stand_in)
