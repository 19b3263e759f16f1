"""Means, variances, directions and covariances of float32 states against NumPy, in memory and from a file."""

import numpy as np
import pytest
import torch

from reporter.forward.moments import Gram, Moments
from reporter.models.places import Layout

WIDTH = 12


def cloud(offset):
    """Uneven states about a common mean ``offset`` times their spread, rounded to float32."""
    rng = np.random.default_rng(0)
    spread = rng.standard_normal((3, 3000, WIDTH)) * np.geomspace(0.1, 1, WIDTH)
    states = (spread + offset * rng.standard_normal(WIDTH)).astype(np.float32)
    strata = rng.choice(3, 3000, p=[0.5, 0.3, 0.2])
    states[:, strata == 2] += 5  # sinks far away: what lies between the means of strata counts
    return states, strata


@pytest.fixture
def show(feed, make_batch):
    def run(observable, states, strata=None, batches=1):
        for rows in np.array_split(np.arange(states.shape[1]), batches):
            feed(observable, make_batch(states[:, rows], rows, strata=None if strata is None else strata[rows]))
        return observable

    return run


@pytest.mark.parametrize("batches", [1, 7])
@pytest.mark.parametrize("offset", [0.0, 10.0, 1e4])
def test_against_numpy(show, offset, batches):
    states, strata = cloud(offset)
    moments, gram = (show(kind(Layout(2, WIDTH)), states, strata, batches) for kind in (Moments, Gram))
    for layer in range(3):
        wide = states[layer].astype(np.float64)
        for stratum in range(3):
            x, at = wide[strata == stratum], (layer, stratum)
            assert moments.count[at] == moments.unit_count[at] == len(x)
            # The spread is 1: the mean must be right on that scale, not only relative to itself.
            np.testing.assert_allclose(moments.mean[layer][stratum], x.mean(axis=0), rtol=0, atol=1e-6)
            np.testing.assert_allclose(moments.squares[layer][stratum], len(x) * x.var(axis=0), rtol=5e-6)
            units = (x / np.linalg.norm(x, axis=1, keepdims=True)).sum(axis=0)
            np.testing.assert_allclose(moments.unit_sum[layer][stratum], units, rtol=0, atol=2e-7 * len(x))
        for kept in ((0,), (0, 2), (0, 1, 2)):
            x = wide[np.isin(strata, kept)]
            (count, covariance), expected = gram.covariance(layer, kept), np.cov(x.T, bias=True)
            assert count == len(x)
            np.testing.assert_allclose(covariance, expected, rtol=0, atol=5e-6 * np.abs(expected).max())


def test_zero_states_have_no_direction_and_an_empty_stratum_takes_no_memory(show):
    states = np.ones((1, 4, WIDTH))
    states[:, 1] = 0
    moments, gram = show(Moments(Layout(0, WIDTH)), states), show(Gram(Layout(0, WIDTH)), states)
    assert (moments.count[0, 0], moments.unit_count[0, 0]) == (4, 3)
    np.testing.assert_allclose(moments.unit_sum[0][0], 3 / np.sqrt(WIDTH), rtol=1e-6)
    assert list(gram.gram) == [(0, 0)]


def test_dimensions_that_are_all_but_switched_off(show):
    """Their squares underflow in float32, yet their variance is a number like any other."""
    states = np.random.default_rng(0).standard_normal((1, 700, WIDTH)).astype(np.float32)
    states[..., 3:7] *= np.array([1e-14, 1e-20, 1e-25, 1e-37], dtype=np.float32)
    kept = show(Moments(Layout(0, WIDTH)), states)
    np.testing.assert_allclose(kept.squares[0][0], 700 * states[0].astype(np.float64).var(axis=0), rtol=1e-5)


def test_states_that_repeat_at_the_embedding_leave_no_axes_of_rounding(make_batch, feed, rng):
    """Few types in many dimensions: beyond their number the spectrum is zero, in one batch and in several."""
    table, ids = rng.standard_normal((9, 40)) + 3, rng.integers(0, 9, 600)
    batches = [make_batch([table[part]] * 2, texts=part, positions=part) for part in (ids[:250], ids[250:])]
    gram = feed(Gram(Layout(1, 40)), *batches)
    values = np.linalg.eigvalsh(gram.covariance(0, (0,))[1].numpy())[::-1]
    assert (values[8:] < 1e-13 * values.sum()).all() and values[7] > 1e-3 * values.sum()


def test_a_finished_gram_is_exact_at_the_embedding_and_close_elsewhere(make_batch, feed, tmp_path, rng):
    """Coordinates of unequal size about a long mean, sinks of a thousand times the norm, and a dimension of zeros."""
    x = rng.standard_normal((200, WIDTH)) * np.logspace(-2, 1, WIDTH) + 30 * rng.standard_normal(WIDTH)
    x[::17, 3] += 40_000
    x[:, 5] = 0
    kept = feed(Gram(Layout(1, WIDTH)), make_batch([x, x], np.arange(200)))
    kept.save(tmp_path / "gram", finished=True)
    result = Gram.load(tmp_path / "gram")
    for place, within in ((0, 0), (1, 2**-22)):
        before, after = (one.covariance(place, (0,))[1] for one in (kept, result))
        roots = (before.diagonal() + torch.from_numpy(x.mean(axis=0)) ** 2).sqrt()
        assert ((before - after).abs() <= within * roots * roots[:, None]).all() and torch.equal(after, after.T)
    kept.save(tmp_path / "whole")
    assert (tmp_path / "gram").stat().st_size < 0.75 * (tmp_path / "whole").stat().st_size
