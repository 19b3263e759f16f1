"""The range of activations and rounding to 8 bits, against casts of PyTorch and the roundings of NumPy."""

import numpy as np
import pytest
import torch

from reporter.forward.observable import RoundedStates
from reporter.metrics.ranges import _floors, rounding_losses


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


def test_gaussian_states_lose_their_chance_level():
    """A step s of a fine grid loses s²/12; a fraction of three bits up to 2^-8/3 of each number's square."""
    n, d = 1000, 200
    x = np.random.default_rng(1).normal(size=(n, d))
    floors = _floors(n, d, 0)
    peaks = np.abs(x).max(axis=0)
    for name, largest in {"token": np.abs(x).max(axis=1), "channel": peaks, "tensor": peaks.max()}.items():
        assert floors[f"int8_{name}"] == pytest.approx(float(np.mean((largest / 127) ** 2 / 12)), rel=0.15)
        assert 2.0**-8 / 12 < floors[f"fp8_{name}"] < 2.0**-8 / 3
    assert floors["over_median"] == pytest.approx(peaks.max() / np.median(np.abs(x)), rel=0.1)
