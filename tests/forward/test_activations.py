from __future__ import annotations

import numpy as np
import pytest
import torch
from oracles.outliers import cosine_parts

from reporter.forward.outliers import Activations, _above_median
from reporter.models.places import Layout


def test_parts_of_the_cosine_against_all_pairs(feed, make_batch):
    rng = np.random.default_rng(0)
    states = rng.standard_normal((2, 60, 5)) + np.array([3, 0, 1, 0, 0])
    kept = feed(Activations(Layout(1, 5), {}), make_batch(states, texts=np.arange(60) // 4))
    for layer in range(2):
        x = states[layer].astype(np.float32).astype(np.float64)
        units = (x / np.linalg.norm(x, axis=1, keepdims=True)).sum(axis=0)
        found = (units**2 - kept.unit_squares[layer].sum(dim=0).numpy()) / (60 * 59)
        np.testing.assert_allclose(found, cosine_parts(x), atol=1e-7)


@pytest.mark.parametrize("width", [1, 2, 5])
def test_limits_against_the_median_of_each_text(width):
    rng = np.random.default_rng(width)
    tokens = np.array([1, 2, 3, 4, 7, 50])
    text = rng.permutation(np.repeat(np.arange(len(tokens)), tokens))
    for spread in (0, 1, 20):  # all alike, over one binade, over many
        x = (rng.choice([-1, 1], (len(text), width)) * np.exp(spread * rng.random((len(text), width)))).astype(
            np.float32
        )
        x[text == 3] = x[text == 3].round(1)  # some of them equal
        x[text == 2] = 0
        medians = np.array([np.median(np.abs(x[text == i].astype(np.float64))) for i in range(len(tokens))])
        for factor in (0, 0.5, 1 - 1e-14, 1, 1 + 1e-14, 2):
            limits = np.array([medians * factor, np.full(len(tokens), 1.0)]).reshape(-1)
            which = torch.arange(len(tokens)).repeat(2)
            found = _above_median(*map(torch.from_numpy, (x, text)), tokens, which, torch.from_numpy(limits))
            assert found.tolist() == (limits > np.tile(medians, 2)).tolist(), (spread, factor)


def test_massive_activations_by_hand(feed, make_batch):
    states = np.full((1, 8, 3), 0.2)
    states[0, 1, 0], states[0, 2, 1] = -199, 201  # 1000 times the median is 200
    states[0, 4:] = 0.01
    states[0, 5, 2], states[0, 6, 0] = 99, 101  # 10 would do, if it were not for the 100
    kept = feed(Activations(Layout(0, 3), {}), make_batch(states, texts=[0] * 4 + [1] * 4, strata=[0, 0, 2, 0] * 2))
    assert kept.massive.tolist() == [[0, 0, 2]]
    assert kept.largest.tolist() == [[pytest.approx(199), 0, pytest.approx(201)]]


def test_zero_states_have_no_direction_and_nothing_large(feed, make_batch):
    kept = feed(Activations(Layout(0, 3), {}), make_batch(np.zeros((1, 5, 3)), texts=range(5)))
    assert kept.unit_squares[0].sum() == kept.largest.sum() == kept.massive.sum() == 0
