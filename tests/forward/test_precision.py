"""Which precision a model is run in."""

import pytest
import torch
from oracles.fake_model import FakeModel, FakeTexts

from reporter.forward import measure as precision
from reporter.forward.measure import autocast, settle_precision


class Rough(FakeModel):
    """A model whose states are off by ``error`` times themselves under autocast, or by ``poison`` at a layer."""

    def __init__(self, error, width=256, poison=None, layer=0, **more):
        super().__init__(width=width, **more)
        self.error, self.poison, self.layer, self.runs = error, poison, layer, []

    def states(self, input_ids, attention_mask):
        states, mixed = super().states(input_ids, attention_mask), torch.is_autocast_enabled("cpu")
        self.runs.append(mixed)
        if mixed:
            states = [x * (1 + self.error) if i else x for i, x in enumerate(states)]
        if mixed and self.poison:
            states[self.layer] = states[self.layer] + self.poison
        return states


def choose(precision, model):
    return settle_precision(precision, model, FakeTexts(["1 2 3", "4 5"]), 16)


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """Have bf16, and let autocast switch its flag only, so that the deviation is exactly the one asked for."""
    monkeypatch.setattr(precision, "_has_bf16", lambda device: True)
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: (a[..., None] * b).sum(-2))


@pytest.mark.parametrize(
    ("setting", "error", "expected"),
    [
        ("auto", 0.004, "mixed"),
        ("auto", 0.019, "mixed"),
        ("auto", 0.021, "float32"),
        ("auto", 9.0, "float32"),
        ("mixed", 0.5, "mixed"),  # whatever it costs
    ],
)
def test_a_small_deviation_is_accepted_and_every_one_is_stored(setting, error, expected):
    for change in (None, lambda states: [states[0] * 0, *states[1:]]):  # zero states deviate by nothing
        chosen = choose(setting, Rough(error, change=change))
        assert chosen.precision == expected
        assert chosen.deviation == pytest.approx(error, rel=1e-3)


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("layer", [1, 3])
def test_auto_refuses_states_that_stop_being_finite(poison, layer):
    assert choose("auto", Rough(0.0, poison=poison, layer=layer)).precision == "float32"


def test_nothing_is_tried_in_float32_nor_with_narrow_models_or_plain_machines(monkeypatch):
    exact, narrow, wide = Rough(0.5), Rough(0.0, width=64), Rough(0.0)
    assert choose("float32", exact).deviation is None
    assert choose("auto", narrow).precision == "float32"
    monkeypatch.setattr(precision, "_has_bf16", lambda device: False)
    assert choose("auto", wide).precision == "float32"
    assert not exact.runs and not narrow.runs and not wide.runs


def test_autocast_keeps_weights_and_rounds_products():
    weight, x = torch.randn(64, 64), torch.randn(3, 64)
    for setting, dtype in (("mixed", torch.bfloat16), ("float32", torch.float32)):
        with autocast(torch.device("cpu"), setting):
            assert torch.nn.functional.linear(x, weight).dtype == dtype
