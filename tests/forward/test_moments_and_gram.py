from __future__ import annotations

import numpy as np
import pytest

from reporter.forward.moments import Gram, Moments
from reporter.models.places import Layout

WIDTH = 12


def cloud(offset, count=3000, layers=2, seed=0):
    """Uneven states about a common mean ``offset`` times their spread, rounded to float32."""
    rng = np.random.default_rng(seed)
    spread = rng.standard_normal((layers + 1, count, WIDTH)) * np.geomspace(0.1, 1, WIDTH)
    states = (spread + offset * rng.standard_normal(WIDTH)).astype(np.float32)
    strata = rng.choice(3, count, p=[0.5, 0.3, 0.2])
    return states, strata


def show(observable, feed, make_batch, states, strata, batches):
    for rows in np.array_split(np.arange(len(strata)), batches):
        feed(observable, make_batch(states[:, rows], texts=rows, strata=strata[rows]))
    return observable


@pytest.mark.parametrize("batches", [1, 7])
@pytest.mark.parametrize("offset", [0.0, 10.0, 1e3, 1e4])
def test_moments_against_numpy(feed, make_batch, offset, batches):
    states, strata = cloud(offset)
    kept = show(Moments(Layout(2, WIDTH)), feed, make_batch, states, strata, batches)
    for layer in range(3):
        for stratum in range(3):
            x = states[layer, strata == stratum].astype(np.float64)
            at = layer, stratum
            assert kept.count[at] == kept.unit_count[at] == len(x)
            # The spread is 1: the mean must be right on that scale, not only relative to itself.
            np.testing.assert_allclose(kept.mean[layer][stratum], x.mean(axis=0), rtol=0, atol=1e-6)
            np.testing.assert_allclose(kept.squares[layer][stratum], len(x) * x.var(axis=0), rtol=5e-6)
            units = (x / np.linalg.norm(x, axis=1, keepdims=True)).sum(axis=0)
            np.testing.assert_allclose(kept.unit_sum[layer][stratum], units, rtol=0, atol=2e-7 * len(x))


@pytest.mark.parametrize("batches", [1, 7])
@pytest.mark.parametrize("offset", [0.0, 10.0, 1e3, 1e4])
@pytest.mark.parametrize("strata_kept", [(0,), (0, 2), (0, 1, 2)])
def test_covariance_against_numpy(feed, make_batch, offset, batches, strata_kept):
    states, strata = cloud(offset)
    kept = show(Gram(Layout(2, WIDTH)), feed, make_batch, states, strata, batches)
    for layer in range(3):
        x = states[layer, np.isin(strata, strata_kept)].astype(np.float64)
        count, covariance = kept.covariance(layer, strata_kept)
        expected = np.cov(x.T, bias=True)
        assert count == len(x)
        np.testing.assert_allclose(covariance, expected, rtol=0, atol=5e-6 * np.abs(expected).max())


def test_float32_sums_would_have_failed():
    """The offset above is a test only if the way that is forbidden fails it: E‖x‖² − ‖μ‖² in float32."""
    x = cloud(1e4)[0][0]
    naive = np.square(x).mean(axis=0) - np.square(x.mean(axis=0))
    assert np.abs(naive / x.astype(np.float64).var(axis=0) - 1).max() > 1


def test_strata_that_differ_in_their_means(feed, make_batch):
    """Sinks far away: the merge of strata must count the squares between the means."""
    rng = np.random.default_rng(0)
    strata = rng.choice([0, 2], 500, p=[0.95, 0.05])
    states = (rng.standard_normal((1, 500, WIDTH)) + 1000 * (strata == 2)[None, :, None]).astype(np.float32)
    kept = show(Gram(Layout(0, WIDTH)), feed, make_batch, states, strata, 3)
    expected = np.cov(states[0].astype(np.float64).T, bias=True)
    np.testing.assert_allclose(kept.covariance(0, (0, 2))[1], expected, rtol=1e-6)


def test_zero_states_have_no_direction(feed, make_batch):
    states = np.ones((1, 4, WIDTH))
    states[:, 1] = 0
    kept = feed(Moments(Layout(0, WIDTH)), make_batch(states, texts=range(4)))
    assert (kept.count[0, 0], kept.unit_count[0, 0]) == (4, 3)
    np.testing.assert_allclose(kept.unit_sum[0][0], 3 / np.sqrt(WIDTH), rtol=1e-6)


def test_an_empty_stratum_takes_no_memory(feed, make_batch):
    kept = feed(Gram(Layout(0, WIDTH)), make_batch(np.ones((1, 4, WIDTH)), texts=range(4)))
    assert list(kept.gram) == [(0, 0)]
    with pytest.raises(KeyError):
        kept.covariance(0, (1, 2))


@pytest.mark.parametrize("scale", [1e-14, 1e-20, 1e-25, 1e-37])
def test_dimensions_that_are_all_but_switched_off(feed, make_batch, scale):
    """Their squares underflow in float32, yet their variance is a number like any other."""
    states = np.random.default_rng(0).standard_normal((1, 700, WIDTH)).astype(np.float32)
    states[..., 3] *= np.float32(scale)
    kept = feed(Moments(Layout(0, WIDTH)), make_batch(states, texts=range(700)))
    np.testing.assert_allclose(kept.squares[0][0], 700 * states[0].astype(np.float64).var(axis=0), rtol=1e-5)


def test_states_that_repeat_at_the_embedding_leave_no_axes_of_rounding(make_batch, feed):
    """Few types in many dimensions: beyond their number the spectrum is zero, in one batch and in several."""
    rng = np.random.default_rng(4)
    table = rng.standard_normal((9, 40)) + 3
    ids = rng.integers(0, 9, 600)
    states = [table[ids], table[ids] + 0.01 * rng.standard_normal((600, 40))]
    parts = [slice(0, 250), slice(250, 600)]
    batches = [make_batch([x[part] for x in states], texts=ids[part], positions=ids[part]) for part in parts]
    gram = feed(Gram(Layout(1, 40)), *batches)
    values = np.linalg.eigvalsh(gram.covariance(0, (0,))[1].numpy())[::-1]
    assert (values[8:] < 1e-13 * values.sum()).all() and values[7] > 1e-3 * values.sum()
