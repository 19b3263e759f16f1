"""Entropy of a bounded number of texts: its interval, its floor, and on an accelerator."""

from unittest.mock import Mock

import numpy as np
import pytest
import torch
from oracles.bootstrap import expanded
from oracles.fake_model import FakeModel, made_up_texts
from oracles.tokens import all_tokens

from reporter.app.verify.by_token import _entropies
from reporter.forward.observable import Setting
from reporter.forward.parts import poisson_weights
from reporter.forward.text_entropy import TextEntropy, measured
from reporter.metrics import entropy
from reporter.texts.texts import originals


def test_a_bounded_number_of_texts(observe):
    kept = measured(np.arange(400), 0, 100, 400)
    assert 70 < kept.sum() < 130
    assert set(np.flatnonzero(kept)) <= set(np.flatnonzero(measured(np.arange(400), 0, 200, 400)))
    observables, _ = observe(FakeModel(), made_up_texts(400), sample=100, names=("text_entropy",))
    assert sorted(observables["text_entropy"].texts) == np.flatnonzero(kept).tolist()


def test_intervals_are_the_bootstrap_of_the_texts(observe, values):
    model, texts = FakeModel(), made_up_texts(60)
    observables, _ = observe(model, texts, names=("moments", "text_entropy"))
    tokens = all_tokens(model.reference, texts, model.tokenizer, decoder=False, positions=True).view("text tokens")
    found = values(model, observables, 60, "text tokens", ["entropy"])
    long = np.flatnonzero(np.bincount(tokens.texts, minlength=60) > 2)
    distinct = originals(map(str.encode, texts))[long]
    weights = poisson_weights(distinct, 0).astype(float).T
    for layer in range(4):
        each = np.array([_entropies(tokens.states[layer][tokens.texts == text])[0] for text in long])
        expected = expanded(weights @ each / weights.sum(axis=1), len(np.unique(distinct)))
        value = found["entropy.prompt", layer]
        assert (value.ci_low, value.ci_high) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("n", "d"), [(3, 1), (3, 50), (12, 5), (40, 64)])
def test_the_floor_is_the_entropy_of_gaussian_states(n, d):
    rng = np.random.default_rng(4)
    direct = np.array([_entropies(rng.standard_normal((n, d))) for _ in range(200)])
    drawn = np.mean([entropy.gaussian_entropies(n, d, seed) for seed in range(30)], axis=0)
    assert (np.abs(drawn - direct.mean(axis=0)) < 4.5 * direct.std(axis=0) / np.sqrt(200) + 1e-9).all()
    lengths = tuple(range(3, 120))  # many, which are read off a line
    direct = np.mean([entropy.gaussian_entropies(m, d, 0) for m in lengths], axis=0)
    floor = entropy._floor(lengths, d, 0)
    assert (floor["prompt"], floor["prompt_raw"]) == pytest.approx(direct[:2], rel=0.005)


def test_only_the_views_that_are_read_are_measured(observe):
    texts = made_up_texts(50)
    every = observe(FakeModel(), texts, names=("text_entropy",))[0]["text_entropy"]
    few = TextEntropy.empty(Setting(every.layout, 0, 50, 100_000, views=("text tokens", "without sinks")))
    observe(FakeModel(), texts, observables={"text_entropy": few})
    np.testing.assert_array_equal(few.lengths, every.lengths[:, [0, 2]])
    np.testing.assert_allclose(few.entropies, every.entropies[:, :, [0, 2]], rtol=1e-12)


def test_on_an_accelerator_many_places_are_one_call(observe, monkeypatch):
    """The same numbers, without threads, in fewer calls than there are places."""
    calls = Mock(side_effect=torch.linalg.eigvalsh)
    expected, _ = observe(FakeModel(), made_up_texts(60), names=("text_entropy",))
    monkeypatch.setattr(torch.linalg, "eigvalsh", calls)
    monkeypatch.setattr("reporter.forward.text_entropy._on_cores", lambda states: False)
    monkeypatch.setattr("reporter.forward.text_entropy.spread", None)
    found, _ = observe(FakeModel(), made_up_texts(60), names=("text_entropy",), batch_tokens=10_000)
    assert 0 < calls.call_count < 22  # bunches of about one length each, all five places at once
    a, b = (kept["text_entropy"].tensors() for kept in (expected, found))
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
