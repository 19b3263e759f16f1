from __future__ import annotations

import numpy as np
import pytest
import torch
from oracles.outliers import cosine_parts

from reporter.forward.places import Layout
from reporter.observables.activations import Activations, _median


def test_parts_of_the_cosine_against_all_pairs(feed, make_batch):
    rng = np.random.default_rng(0)
    states = rng.standard_normal((2, 60, 5)) + np.array([3, 0, 1, 0, 0])
    kept = feed(Activations(Layout(1, 5)), make_batch(states, texts=np.arange(60) // 4))
    for layer in range(2):
        x = states[layer].astype(np.float32).astype(np.float64)
        units = (x / np.linalg.norm(x, axis=1, keepdims=True)).sum(axis=0)
        found = (units**2 - kept.unit_squares[layer].sum(dim=0).numpy()) / (60 * 59)
        np.testing.assert_allclose(found, cosine_parts(x), atol=1e-7)


@pytest.mark.parametrize("count", [1, 2, 5, 6, 1001, 1002])
def test_the_median_is_the_mean_of_the_middle_two(count):
    x = torch.from_numpy(np.random.default_rng(count).standard_normal(count).astype(np.float32))
    assert _median(x) == pytest.approx(float(np.median(x.numpy().astype(np.float64))), rel=1e-7)


def test_zero_states_have_no_direction_and_nothing_large(feed, make_batch):
    kept = feed(Activations(Layout(0, 3)), make_batch(np.zeros((1, 5, 3)), texts=range(5)))
    assert kept.unit_squares[0].sum() == kept.largest.sum() == kept.massive.sum() == 0
