"""Rounding to 8 bits of states that are kept in 16; test_contract.py has the numbers."""

import numpy as np
import pytest
import torch

from reporter.forward.observable import RoundedStates
from reporter.metrics.ranges import rounding_losses


def test_states_in_16_bits_do_not_move_what_8_bits_lose():
    """A finished pass keeps sampled states in 16 bits, beside sinks a thousand times as large."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 64)).astype(np.float32) + 3 * rng.normal(size=64).astype(np.float32)
    x[::50, 7] = 3000.0
    states = torch.from_numpy(x)
    rounded = RoundedStates.of(states).rows(torch.arange(500))
    exact, kept = (rounding_losses(each, float(states.abs().max())) for each in (states, rounded))
    for name, lost in exact.items():
        assert float(kept[name].mean()) == pytest.approx(float(lost.mean()), rel=2e-3), name
