"""The range of activations and rounding to 8 bits, against casts of PyTorch and the roundings of NumPy."""

import numpy as np
import pytest
import torch
from oracles.fake_model import FakeModel, made_up_texts
from oracles.tokens import all_tokens

from reporter.forward.observable import RoundedStates
from reporter.metrics.base import catalogue
from reporter.metrics.ranges import _floors, rounding_losses

READ = ("moments", *catalogue()["ranges"].needs)


def _lost(x, step, rounded):
    return np.square(x - step * rounded(x / step)).sum(axis=1) / np.square(x).sum(axis=1)


def _e4m3(y):
    return torch.from_numpy(y).to(torch.float8_e4m3fn).double().numpy()


@pytest.mark.parametrize("view", ["words", "no-sinks"])
def test_energy_lost_by_rounding(see, values, view):
    """Sinks set the scale of all tokens; channels differ in size by a factor of 900."""

    def change(states):
        return [x * torch.linspace(0.1, 3, x.shape[-1]) ** 2 for x in states]

    model, texts = FakeModel(role="decoder", change=change), made_up_texts(60)
    seen = see(model, texts, names=READ, batch_tokens=100, shard_characters=500)
    found = values(model, seen.observables, 60, view, ["ranges"])
    tokens = all_tokens(model.reference, texts, model.tokenizer, decoder=True, positions=True).view(view)
    assert len(tokens.states[0]) < 1024
    for layer, x in enumerate(np.asarray(states, dtype=np.float64) for states in tokens.states):
        size = np.abs(x)
        assert found["ranges.over_median", layer].value == pytest.approx(size.max() / np.median(size), rel=1e-3)
        scales = {"token": size.max(axis=1, keepdims=True), "channel": size.max(axis=0), "tensor": size.max()}
        for name, peak in scales.items():
            int8, fp8 = (found[f"ranges.{form}_{name}", layer] for form in ("int8", "fp8"))
            assert int8.value == pytest.approx(_lost(x, peak / 127, np.rint).mean(), rel=0.01)
            assert fp8.value == pytest.approx(_lost(x, peak / 448, _e4m3).mean(), rel=0.01)
            assert (int8.ci_low is None) == (name != "token") and int8.n == len(x)


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
