from __future__ import annotations

import pytest
import torch
from oracles.fake_model import FakeModel, FakeTexts

from reporter.forward import measure as precision
from reporter.forward.measure import autocast, settle_precision


class Rough(FakeModel):
    """A model whose states are off by ``error`` times themselves under autocast."""

    def __init__(self, error, width=256, **more):
        super().__init__(width=width, **more)
        self.error, self.runs = error, []

    def states(self, input_ids, attention_mask):
        mixed = torch.is_autocast_enabled("cpu")
        self.runs.append(mixed)
        found = super().states(input_ids, attention_mask)
        return [x * (1 + self.error) if mixed and i else x for i, x in enumerate(found)]


def choose(asked, model):
    return settle_precision(asked, model, FakeTexts(["1 2 3", "4 5"]), 16)


@pytest.fixture(autouse=True)
def bf16(monkeypatch):
    monkeypatch.setattr(precision, "_has_bf16", lambda device: True)


@pytest.fixture(autouse=True)
def plain_products(monkeypatch):
    """Let autocast switch its flag only, so that the deviation is exactly the one asked for."""
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: (a[..., None] * b).sum(-2))


def test_float32_is_not_tried():
    model = Rough(0.5)
    chosen = choose("float32", model)
    assert (chosen.precision, chosen.deviation, model.runs) == ("float32", None, [])


@pytest.mark.parametrize(
    ("error", "expected"), [(0.004, "mixed"), (0.019, "mixed"), (0.021, "float32"), (9.0, "float32")]
)
def test_auto_accepts_a_small_deviation_and_stores_it(error, expected):
    chosen = choose("auto", Rough(error))
    assert chosen.precision == expected
    assert chosen.deviation == pytest.approx(error, rel=1e-3)


def test_mixed_is_mixed_whatever_it_costs_but_says_so():
    chosen = choose("mixed", Rough(0.5))
    assert (chosen.precision, chosen.deviation) == ("mixed", pytest.approx(0.5, rel=1e-3))


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("layer", [1, 3])
def test_auto_refuses_states_that_stop_being_finite(poison, layer):
    model = Rough(0.0)
    plain = model.states

    def states(ids, mask):
        found = plain(ids, mask)
        if torch.is_autocast_enabled("cpu"):
            found[layer] = found[layer] + poison
        return found

    model.states = states
    assert choose("auto", model).precision == "float32"


def test_zero_states_deviate_by_nothing():
    model = Rough(0.01, change=lambda states: [states[0] * 0, *states[1:]])
    assert choose("auto", model).deviation == pytest.approx(0.01, rel=1e-3)


def test_auto_leaves_narrow_models_and_plain_machines_alone(monkeypatch):
    narrow = Rough(0.0, width=64)
    assert choose("auto", narrow).precision == "float32" and not narrow.runs
    monkeypatch.setattr(precision, "_has_bf16", lambda device: False)
    wide = Rough(0.0)
    assert choose("auto", wide).precision == "float32" and not wide.runs


def test_autocast_keeps_weights_and_rounds_products():
    weight, x = torch.randn(64, 64), torch.randn(3, 64)
    with autocast(torch.device("cpu"), "mixed"):
        assert torch.nn.functional.linear(x, weight).dtype == torch.bfloat16
    with autocast(torch.device("cpu"), "float32"):
        assert torch.nn.functional.linear(x, weight).dtype == torch.float32
