"""Effective rank, RankMe and power laws on spectra whose value is a formula.

Roy & Vetterli 2007, "The effective rank: a measure of effective dimensionality", EUSIPCO: exp of the entropy of the
singular values over their sum: ``effective_rank_singular`` about the mean, ``rankme`` of states as they are (Garrido et
al. 2023, who add 1e-7 to each share). Ours of the eigenvalues, ``effective_rank``, is theirs of the covariance.
"""

import numpy as np
import pytest

import reporter
from reporter import geometry

N, D = 600, 12


def with_singular_values(values, n=N, seed=0):
    """Centred states (n, d) with these singular values, in random directions."""
    rng = np.random.default_rng(seed)
    left = rng.standard_normal((n, len(values)))
    left = np.linalg.qr(left - left.mean(axis=0))[0]
    return (left * values) @ np.linalg.qr(rng.standard_normal((len(values), len(values))))[0].T


@pytest.mark.parametrize("q", [0.5, 0.7, 0.9])
def test_a_geometric_spectrum(q):
    """σ_i = q^i: with r of them H = −Σ p log p is log((1 − q^r)/(1 − q)) − log(q)·Σ i·p_i, in closed form."""
    r = D
    values = q ** np.arange(r)
    mean = q * (1 - r * q ** (r - 1) + (r - 1) * q**r) / ((1 - q) * (1 - q**r))  # Σ i·p_i
    expected = np.exp(np.log((1 - q**r) / (1 - q)) - mean * np.log(q))
    x = with_singular_values(values)
    assert geometry.effective_rank_singular(x) == pytest.approx(expected, rel=1e-6)
    assert geometry.rankme(x) == pytest.approx(expected, rel=1e-6)
    singular = np.linalg.svd(x + 100 * np.eye(D)[0], compute_uv=False)
    p = singular / singular.sum() + 1e-7  # as Garrido et al. 2023 have it, equation 1: a mean counts
    assert geometry.rankme(x + 100 * np.eye(D)[0]) == pytest.approx(np.exp(-(p * np.log(p)).sum()), rel=1e-4)
    # The eigenvalues are the squares: a geometric spectrum of q².
    s = q**2
    mean = s * (1 - r * s ** (r - 1) + (r - 1) * s**r) / ((1 - s) * (1 - s**r))
    expected = np.exp(np.log((1 - s**r) / (1 - s)) - mean * np.log(s))
    assert geometry.effective_rank(x) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.2])
def test_a_power_law_reads_its_exponent_through_the_whole_program(alpha):
    """αReQ (Agrawal et al. 2022): λ_i ∝ i^−α, fitted from rank 11 to 100."""
    d, texts = 128, np.repeat(np.arange(40), 20)
    x = with_singular_values(np.arange(1, d + 1) ** (-alpha / 2), len(texts))
    states = 30 * np.stack([x, x + 1])
    found = reporter.measure(states, ["spectrum"], texts=texts, view="all").layer_metrics
    for name in ("alpha_req", "decay"):
        read = found[found["statistic"] == name]["value"]
        assert len(read) == 2 and read.to_numpy(float) == pytest.approx(alpha, abs=2e-3)
