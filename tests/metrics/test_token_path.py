"""The turn from token to token where there is none; test_contract.py has the numbers."""

import pytest
import torch
from oracles.fake_model import FakeModel, FakeTexts, made_up_texts


def test_nothing_is_straighter_than_itself(observe, values):
    observables, _ = observe(FakeModel(), made_up_texts(40))
    first = values(FakeModel(), observables, 40, "words", ["token_path"])["token_path.straightening", 0]
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
