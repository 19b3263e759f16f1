"""The turn from token to token against its definition, and where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracles.fake_model import FakeModel, FakeTexts, made_up_texts
from oracles.token_path import curvature
from oracles.tokens import all_tokens


@pytest.mark.parametrize("view", ["words", "all", "no-sinks"])
@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_against_the_definition_text_by_text(observe, values, view, role):
    """Sinks stand in the middle of texts, so that a view that leaves them out cuts paths."""
    model, texts = FakeModel(role=role), made_up_texts(40)
    observables, _ = observe(model, texts, batch_tokens=100)
    whole = all_tokens(model.reference, texts, model.tokenizer, decoder=role == "decoder", positions=True)
    found = values(model, observables, 40, view, ["token_path"])
    expected = [curvature(whole.view(view), layer) for layer in range(model.layers + 1)]
    for layer, of_texts in enumerate(expected):
        value = found["token_path.curvature", layer]
        assert value.value == pytest.approx(np.mean(list(of_texts.values())), abs=1e-4)
        assert value.n == len(of_texts) and value.ci_low < value.value < value.ci_high
        straighter = found["token_path.straightening", layer]
        fall = np.mean(list(expected[0].values())) - value.value
        assert straighter.value == pytest.approx(fall, abs=1e-4)
        assert straighter.ci_low <= straighter.value <= straighter.ci_high
    cut = [len(curvature(whole.view(name), 1)) for name in ("all", "no-sinks")]
    assert cut[0] > cut[1] > 0
    first = found["token_path.straightening", 0]
    assert (first.value, first.ci_low, first.ci_high) == (0, 0, 0)


@pytest.mark.parametrize("text", ["1", "1 2", "4 4 4 4 4"])
def test_texts_without_a_turn_say_so(observe, values, text):
    def still(states):
        return [torch.ones_like(x) for x in states]

    model = FakeModel(special=False, sinks=False, change=still if " 4" in text else lambda x: x)
    observables, _ = observe(model, FakeTexts([text] * 3))
    found = values(model, observables, 1, "words", ["token_path"])
    assert {value.value for value in found.values()} == {None}
    assert all("three neighbouring tokens" in value.reason for value in found.values())
