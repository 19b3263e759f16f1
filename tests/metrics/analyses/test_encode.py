"""Poolings: all from one pass, and each is what it says of the states of the text's tokens."""

import numpy as np
import pytest

from reporter.core.places import POOLINGS
from reporter.metrics import _items as _encode


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_poolings_come_from_one_pass(of_family, family, monkeypatch):
    context, texts = of_family(family), ["the cat sleeps in town", "a mouse", "the cat sleeps in town", "red days"]
    passes, encode = [], _encode.encode

    def counted(*args):
        passes.append(args)
        return encode(*args)

    states = {text.index: text for text in encode(list(dict.fromkeys(texts)), context)}
    monkeypatch.setattr(_encode, "encode", counted)
    found = _encode.pooled_by(texts, context, POOLINGS)
    assert len(passes) == 1 and set(found) == {"mean", "last", "first"}
    for place in context.layout.places:
        for row, index in enumerate((0, 1, 0, 2)):
            text = states[index]
            own = np.flatnonzero(~text.special)
            x = text.states[place].double().numpy()
            assert found["mean"][place][row] == pytest.approx(x[own].mean(axis=0), abs=1e-12)
            assert np.array_equal(found["last"][place][row], x[own[-1]])
            assert np.array_equal(found["first"][place][row], x[0])
    assert np.array_equal(_encode.pooled(texts, context)[place], found[context.pooling][place])
