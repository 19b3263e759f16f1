"""Divergence from the base: states that hardly differ, and what cannot be compared."""

import numpy as np
import pytest
from oracles.fake_model import FakeHead, FakeModel, made_up_texts

from reporter.forward.observed import Observed
from reporter.forward.token_sample import Outputs
from reporter.metrics.base import catalogue
from reporter.metrics.divergence import DivergenceOptions

METRIC = catalogue()["divergence"]


@pytest.fixture
def side(observe, tmp_path):
    """Return a function that measures a made-up model and reads the sample back from its file."""

    def get(model, texts, head=True):
        observables, counts = observe(model, texts, names=("moments", "outputs"))
        observables["outputs"].save(tmp_path / "outputs.safetensors", finished=True)
        observables["outputs"] = Outputs.load(tmp_path / "outputs.safetensors")
        of = observables["moments"].layout, counts.distinct_texts, "words", 0
        return Observed(observables, *of, load_head=(lambda: FakeHead(model)) if head else None)

    return get


def compared(seen, base, **options):
    return {row.statistic: row for row in METRIC.between.compare(seen, [base], DivergenceOptions(**options))}


def test_states_are_kept_in_float32(side):
    model, texts = FakeModel(role="decoder", final_width=16), made_up_texts(40)
    numbers = compared(side(model, texts), side(FakeModel(role="decoder", final_width=16), texts))
    assert numbers["kl"].value == 0 and numbers["same_top"].value == 1
    nudged = FakeModel(role="decoder", final_width=16)
    nudged.weights[-1] = nudged.weights[-1] * np.float32(1 + 1e-5)
    tiny = compared(side(nudged, texts), side(model, texts))["kl"].value
    assert 0 < tiny < 1e-9


def test_what_cannot_be_compared_has_a_reason(side):
    texts = made_up_texts(40)
    base = side(FakeModel(role="decoder"), texts)
    for seen, says in (
        (side(FakeModel(role="decoder", special=False), texts), "the tokenizers differ"),
        (side(FakeModel(role="decoder"), texts, head=False), "the model is not here"),
    ):
        assert all(row.value is None and says in row.reason for row in compared(seen, base).values())
    nudged = FakeModel()  # an encoder has no next token
    nudged.weights[1] = nudged.weights[1] * np.float32(1.1)
    numbers = compared(side(nudged, texts), side(FakeModel(), texts), sample=64)
    assert numbers["kl"].value > 0 and numbers["kl"].n == 64
    assert numbers["next"].value is None and "hidden tokens" in numbers["next"].reason
