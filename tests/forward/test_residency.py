"""What an observable sums stays where the states are until the end of a shard, and nothing waits for the device."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from reporter.forward.observable import Setting
from reporter.forward.observed import KINDS
from reporter.models.places import Layout

ON_THE_HOST = {"journey"}
"""Observables of a few tokens, which may wait for the device."""


@pytest.fixture
def on_stand_in(make_batch):
    """24 tokens in all strata, on PyTorch's device "meta": tensors without numbers.

    Whatever asks for a number (``item``, ``nonzero``, a boolean index, a copy to the host) and whatever mixes two
    devices fails at once.
    """
    rng, numbers, layout = np.random.default_rng(0), np.arange(24), Layout(2, 6, final_width=6, attention=True)
    states = [rng.standard_normal((24, width)) for width in layout.widths]
    for x in states:
        x[3, 2] = 5000  # a massive activation
    made = make_batch(states, numbers // 4, numbers % 4, numbers % 3, layout=layout)
    return replace(
        made,
        states=[x.to("meta") for x in made.states],
        norms=made.norms.to("meta"),
        losses=torch.zeros(24, dtype=torch.float64, device="meta"),
        vocabulary=replace(made.vocabulary, table=made.vocabulary.table.to("meta")),
        readout=SimpleNamespace(
            lens_problem="", predicts_next=True, log_probabilities=lambda x, closed: iter([x.log_softmax(dim=1)])
        ),
    )


@pytest.mark.parametrize("name", sorted(KINDS.keys() - ON_THE_HOST))
def test_nothing_leaves_the_device_while_a_batch_is_shown(name, on_stand_in, feed):
    counts = {token: 9 - token for token in range(4)}
    observable = KINDS[name].empty(Setting(on_stand_in.layout, 0, 6, 8, counts, {}, 24, np.arange(-2, 6)))
    observable.settle = lambda: None  # which is what may copy
    feed(observable, on_stand_in, on_stand_in)
