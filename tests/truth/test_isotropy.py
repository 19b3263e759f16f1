"""IsoScore by a theorem and the package of its authors; the anisotropy of Razzhigaev et al. by theirs.

Rudman, Gillman, Rayne & Eickhoff 2022, "IsoScore: Measuring the Uniformity of Embedding Space Utilization", Findings of
ACL. What is said of expectations is exact here, where the covariance of the points is what it is meant to be.
"""

import numpy as np
import pytest
import torch
from truth.authors import isoscore, llm_microscope

from reporter import geometry


def drawn(deviations, n=2000, seed=0):
    """Points whose covariance is exactly diagonal, with these standard deviations."""
    d = len(deviations)
    x = np.random.default_rng(seed).standard_normal((n, d))
    x -= x.mean(axis=0)
    return x @ np.linalg.inv(np.linalg.cholesky(x.T @ x / n).T) * deviations


def rotation(d, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


@pytest.mark.parametrize("d", [2, 9, 40])
def test_it_rises_linearly_with_the_dimensions_in_use(d):
    """Theorem 4.2 there: k of d dimensions used alike read (k − 1)/(d − 1)."""
    for k in range(1, d + 1):
        x = drawn(np.ones(k))
        assert geometry.isoscore(np.pad(x, [(0, 0), (0, d - k)])) == pytest.approx((k - 1) / (d - 1), abs=1e-9)


@pytest.mark.parametrize(("n", "d"), [(400, 3), (1000, 30), (50, 49)])
def test_the_authors_package_reads_the_same(n, d):
    """``IsoScore`` 2.0.1. Its covariance is over n − 1, which no share sees."""
    theirs = isoscore()
    for power in (0, 1, 2):
        x = drawn(np.arange(1.0, d + 1) ** -power, n) @ rotation(d) + 2
        assert geometry.isoscore(x) == pytest.approx(float(theirs.IsoScore(x)), rel=1e-5, abs=1e-7)
        assert float(theirs.IsoScore_cov(np.cov(x.T))) == pytest.approx(geometry.isoscore(x), rel=1e-5, abs=1e-7)


def test_the_code_of_razzhigaev_et_al_reads_the_same_anisotropy():
    """``llm-microscope`` 0.0.7: λ1 / Σλ of the centred states."""
    theirs = llm_microscope()
    for n in (20, 500):
        x = np.random.default_rng(n).standard_normal((n, 30)) * np.geomspace(9, 0.1, 30) + 4
        found = theirs.calculate_anisotropy_torch(torch.from_numpy(x))
        assert geometry.top_variance_share(x) == pytest.approx(found, rel=1e-9)
