"""Spectra: ranks, exponent and curve against closed forms; gride's maximum where its slope changes sign."""

import numpy as np
import pytest
import torch

from reporter.geometry import spectra
from reporter.geometry.ratios import log_ratios
from reporter.geometry.spectra import RANKS, SCALES, gride_of

RANKS_OF = (spectra.effective_rank_of, spectra.participation_ratio_of, spectra.stable_rank_of)


@pytest.mark.parametrize("d", [1, 2, 7, 300])
def test_equal_eigenvalues_are_d_dimensions(d):
    found = np.full(d, 3.5)
    for rank in RANKS_OF:
        assert rank(found) == pytest.approx(d)
    if d > 1:
        assert spectra.isoscore_of(found, d) == pytest.approx(1)
    if d >= 6:
        assert spectra.decay_of(found, spectra.upper_half(found, d)) == pytest.approx(0)


def test_one_eigenvalue_is_one_dimension():
    for found in (np.array([2.0]), np.array([2.0, 0.0, 0.0])):
        for rank in RANKS_OF:
            assert rank(found) == pytest.approx(1)
        assert spectra.isoscore_of(found, 3) == pytest.approx(0)
    rng = np.random.default_rng(0)
    for _ in range(50):  # and the ranks keep their order
        found = np.sort(rng.exponential(size=20) ** rng.integers(1, 5))[::-1]
        ranks = [rank(found) for rank in RANKS_OF]
        assert 20 >= ranks[0] >= ranks[1] >= ranks[2] >= 1


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("d", [6, 50, 768])
def test_a_power_law_gives_its_exponent(alpha, d):
    found = 7 * np.arange(1, d + 1) ** -alpha
    assert spectra.decay_of(found, spectra.upper_half(found, d)) == pytest.approx(alpha, abs=1e-12)
    # The lower half is not read, nor what is not there.
    found[d // 2 :] = 1e-9 * found[-1]
    assert spectra.decay_of(found, spectra.upper_half(found, d)) == pytest.approx(alpha, abs=1e-12)
    assert spectra.decay_of(found[:3], spectra.upper_half(found, d)) == pytest.approx(alpha, abs=1e-12)
    assert spectra.decay_of(found[:2], spectra.upper_half(found, d)) is None


@pytest.mark.parametrize("count", [1, 511, 512, 513, 768, 4096, 16384])
def test_the_curve_is_thinned_where_it_is_long(count):
    ranks = spectra.thinned(count)
    assert ranks[0] == 1 and ranks[-1] == count and (np.diff(ranks) > 0).all()
    if count <= 512:
        assert len(ranks) == count
    else:
        assert len(ranks) <= 257 and list(ranks[:64]) == list(range(1, 65))
        beyond = ranks[63:]
        assert (np.diff(np.log(beyond)) < 0.05).all()


def test_eigenvalues_that_rounding_leaves_have_no_part_in_the_decay():
    true = np.arange(1, 7) ** -2.0
    rounded = np.concatenate([true, [3e-11, 1e-12, 1e-12, 1e-12]])
    assert spectra.decay_of(rounded, spectra.upper_half(rounded, 16)) == pytest.approx(2)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("top_variance_share", spectra.top_share_of),
        ("participation_ratio", spectra.participation_ratio_of),
        ("effective_rank", spectra.effective_rank_of),
        ("effective_rank_without_first", lambda values: spectra.effective_rank_of(values[1:])),
        ("decay", lambda values: spectra.decay_of(values, spectra.upper_half(values, 40))),
        ("alpha_req", lambda values: spectra.decay_of(values, spectra.tail(values))),
    ],
)
def test_gradients_are_the_derivatives_by_each_eigenvalue(name, number):
    values = np.geomspace(5, 0.1, 40)
    steps = 1e-6 * np.diag(values)
    expected = [(number(values + step) - number(values - step)) / (2 * step.sum()) for step in steps]
    assert spectra.gradients(values, 40)[name] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("n", SCALES)
def test_hard_ratios(n):
    """One ratio, ratios that are all but one, and ratios of every size."""
    for logs in (np.array([0.3]), np.array([0.0, 0.0, 1e-9]), np.geomspace(1e-12, 1e6, 50)):
        found = gride_of(logs, n)
        assert 0 < found < np.inf
        if n > 1:  # the slope of the likelihood changes its sign there

            def slope(d, logs=logs):
                x = np.maximum(d * logs, 1e-300)
                return len(x) - (2 * n - 1) * x.sum() + (n - 1) * (x / -np.expm1(-x)).sum()

            assert slope(found * (1 - 1e-6)) > 0 > slope(found * (1 + 1e-6))


@pytest.mark.parametrize(("count", "scales"), [(3, 1), (4, 1), (5, 2), (8, 2), (9, 3), (128, 6), (129, 7), (500, 7)])
def test_a_scale_needs_its_neighbours(count, scales):
    logs = log_ratios(torch.from_numpy(np.random.default_rng(count).standard_normal((count, 3))))
    assert logs.shape == (count, scales) and (logs >= 0).all()
    assert (2 * SCALES[scales - 1] <= count - 1) and (scales == 7 or 2 * SCALES[scales] > count - 1)
    assert RANKS == (1, 2, 4, 8, 16, 32, 64, 128)
