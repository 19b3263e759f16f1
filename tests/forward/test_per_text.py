from __future__ import annotations

import numpy as np
import pytest
import torch

from reporter.forward.means import PerText, poisson_weights
from reporter.forward.observed import Observed
from reporter.forward.token_categories import VIEWS
from reporter.models.places import Layout

TEXTS, WIDTH = 40, 3


class Largest(PerText):
    """The mean of the first coordinate and its square: two quantities, the second undefined at layer 0."""

    name = "largest"
    quantities = ("mean", "squared")

    def of_texts(self, layer):
        x = layer.states[:, :1].double()
        sums, counts = self.by_view(x), self.by_view(torch.ones_like(x))
        mean = sums / counts  # NaN where the view leaves no token
        return torch.cat([mean, mean.square() if layer.index else torch.full_like(mean, torch.nan)], dim=2)


@pytest.fixture
def corpus():
    rng = np.random.default_rng(0)
    texts = np.repeat(rng.permutation(TEXTS), rng.integers(1, 6, TEXTS))
    return texts, rng.choice(3, len(texts), p=[0.4, 0.3, 0.3]), rng.standard_normal((2, len(texts), WIDTH)) + 1


@pytest.fixture
def kept(corpus, make_batch, feed):
    texts, strata, states = corpus
    parts = [np.flatnonzero(texts % 3 == part) for part in range(3)]
    batches = [make_batch(states[:, rows], texts[rows], strata=strata[rows]) for rows in parts]
    return feed(Largest(Layout(1, WIDTH), seed=9), *batches)


def by_hand(corpus, layer, strata):
    """Return {text: its mean over the view's tokens}, one text at a time."""
    texts, stratum, states = corpus
    states = states.astype(np.float32).astype(np.float64)
    inside = {text: (texts == text) & np.isin(stratum, strata) for text in range(TEXTS)}
    return {text: states[layer, rows, 0].mean() for text, rows in inside.items() if rows.any()}


@pytest.mark.parametrize("view", VIEWS)
def test_means_are_over_the_texts_that_have_a_token_in_the_view(kept, corpus, view):
    seen = Observed({Largest.name: kept}, kept.layout, TEXTS, view, 9)
    for layer, place in enumerate(kept.layout.places):
        expected = by_hand(corpus, layer, VIEWS[view])
        found = seen.get(Largest).average("mean", place, seen.view)
        values = np.array(list(expected.values()))
        assert found.n == len(expected) and (view == "all") == (found.n == TEXTS)
        assert found.value == pytest.approx(values.mean(), rel=1e-12)
        assert found.square == pytest.approx((values**2).mean(), rel=1e-12)
        weights = poisson_weights(np.array(list(expected)), seed=9).astype(float)
        np.testing.assert_allclose(found.replicates, values @ weights / weights.sum(axis=0), rtol=1e-9)


def test_a_quantity_may_be_undefined_at_a_place(kept):
    seen = Observed({Largest.name: kept}, kept.layout, TEXTS, "words", 9)
    first, second = (seen.get(Largest).average("squared", place, seen.view) for place in kept.layout.places)
    assert first.n == 0 and np.isnan([first.value, first.square]).all() and np.isnan(first.replicates).all()
    assert second.n > 0
    assert second.value == seen.get(Largest).average("mean", kept.layout.places[1], "words").square


def test_merging_and_files(corpus, make_batch, feed, tmp_path, kept):
    texts, strata, states = corpus
    halves = []
    for rows in (np.flatnonzero(texts < 11), np.flatnonzero(texts >= 11)):
        one = Largest(Layout(1, WIDTH), seed=9)
        halves.append(feed(one, make_batch(states[:, rows], texts[rows], strata=strata[rows])))
    halves[1].save(tmp_path / "half")
    halves[0].merge(Largest.load(tmp_path / "half"))
    for name, tensor in kept.tensors().items():
        torch.testing.assert_close(halves[0].tensors()[name], tensor, rtol=1e-12, atol=1e-12)
