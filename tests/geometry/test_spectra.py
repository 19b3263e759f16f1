"""Ranks, exponent and curve of a spectrum: closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from reporter.app.verify.by_cloud import eigenvalues, isoscore
from reporter.geometry import spectra


@pytest.mark.parametrize("d", [1, 2, 7, 300])
def test_equal_eigenvalues_are_d_dimensions(d):
    found = np.full(d, 3.5)
    for rank in (spectra.effective_rank_of, spectra.participation_ratio_of, spectra.stable_rank_of):
        assert rank(found) == pytest.approx(d)
    if d > 1:
        assert spectra.isoscore_of(found, d) == pytest.approx(1)
    if d >= 6:
        assert spectra.decay_of(found, spectra.upper_half(found, d)) == pytest.approx(0)


def test_one_eigenvalue_is_one_dimension():
    for found in (np.array([2.0]), np.array([2.0, 0.0, 0.0])):
        for rank in (spectra.effective_rank_of, spectra.participation_ratio_of, spectra.stable_rank_of):
            assert rank(found) == pytest.approx(1)
        assert spectra.isoscore_of(found, 3) == pytest.approx(0)


def test_ranks_keep_their_order():
    rng = np.random.default_rng(0)
    for _ in range(50):
        found = np.sort(rng.exponential(size=20) ** rng.integers(1, 5))[::-1]
        ranks = [
            rank(found) for rank in (spectra.effective_rank_of, spectra.participation_ratio_of, spectra.stable_rank_of)
        ]
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


@pytest.mark.parametrize(("n", "d"), [(500, 2), (300, 10), (5, 10), (60, 40)])
def test_isoscore_is_what_the_papers_algorithm_returns(n, d):
    rng = np.random.default_rng(n)
    for power in (0, 1, 3):
        x = rng.standard_normal((n, d)) * np.arange(1, d + 1.0) ** -power @ rng.standard_normal((d, d)) + 5
        found = np.linalg.eigvalsh(np.cov(x.T, bias=True))[::-1].clip(0)
        assert spectra.isoscore_of(found, d) == pytest.approx(isoscore(eigenvalues(x), d), rel=1e-9, abs=1e-12)


def test_the_algorithm_itself_keeps_its_limits():
    cross = np.concatenate([np.eye(6), -np.eye(6)])
    assert isoscore(eigenvalues(cross), 6) == pytest.approx(1)
    assert isoscore(eigenvalues(np.outer(np.arange(9.0), np.ones(6))), 6) == pytest.approx(0, abs=1e-12)
    # The paper's property: k of d dimensions used alike read (k − 1)/(d − 1).
    assert isoscore(eigenvalues(cross * [1, 1, 1, 0, 0, 0]), 6) == pytest.approx(2 / 5)


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
