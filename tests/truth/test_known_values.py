"""Numbers whose value is a formula: paths by geometry, ranks of known spectra, IsoScore by a theorem.

Hosseini & Fedorenko 2023 (curvature of the path from token to token), Men et al. 2024 (block influence), Gromov et al.
2024 (angular distance of layers). Roy & Vetterli 2007, "The effective rank: a measure of effective dimensionality": exp
of the entropy of the singular values over their sum: ``effective_rank_singular`` about the mean, ``rankme`` of states
as they are (Garrido et al. 2023, who add 1e-7 to each share). Rudman et al. 2022, "IsoScore".
"""

import numpy as np
import pytest
from scipy.stats import entropy

import reporter
from reporter import geometry

TEXTS, LENGTH, WIDTH = 12, 30, 16
OF = np.repeat(np.arange(TEXTS), LENGTH)


def in_space(plane, seed=0):
    """Put points of a plane, (n, 2), into a random plane of the space, away from the origin."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((WIDTH, 2)))[0]
    return plane @ axes.T + rng.standard_normal(WIDTH)


def numbers(states, metric, statistic, texts=OF):
    found = reporter.measure(states, [metric], texts=texts, view="with special tokens").layer_metrics
    rows = found[found["statistic"] == statistic].sort_values("layer")
    return rows["value"].to_numpy(float)


def test_a_line_does_not_turn_a_polygon_turns_by_its_angle_and_there_and_back_is_half_a_turn():
    t = np.tile(np.arange(LENGTH), TEXTS)
    line = in_space(np.stack([t, 0.5 * t], axis=1))
    polygon = in_space(np.stack([np.cos(2 * np.pi * t / 9), np.sin(2 * np.pi * t / 9)], axis=1))
    back = in_space(np.stack([t % 2, np.zeros(len(t))], axis=1))
    turns = numbers(np.stack([line, polygon, back]), "token_path", "curvature")
    assert turns == pytest.approx([0, 2 * np.pi / 9, np.pi], abs=2e-3)
    straighter = numbers(np.stack([polygon, line]), "token_path", "straightening")
    assert straighter == pytest.approx([0, 2 * np.pi / 9], abs=2e-3)


@pytest.mark.parametrize("degrees", [0.5, 30, 90, 170])
def test_layers_that_turn_by_an_angle_have_that_influence_and_distance(degrees):
    """Every layer turns every state by the same angle, and stretches it: lengths do not count."""
    theta = np.radians(degrees)
    rng = np.random.default_rng(1)
    axes = np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))[0]
    block = np.array([[np.cos(theta), -np.sin(theta)], [np.sin(theta), np.cos(theta)]])
    turn = axes @ np.kron(np.eye(WIDTH // 2), block) @ axes.T
    layers = [rng.standard_normal((len(OF), WIDTH))]
    for _ in range(3):
        layers.append(1.7 * layers[-1] @ turn)
    states = np.stack(layers)
    # ShortGPT, equation 1: BI = 1 − E[cos(X_i, X_i+1)].
    assert numbers(states, "motion", "block_influence") == pytest.approx([1 - np.cos(theta)] * 3, abs=1e-6)
    # Gromov et al., equation 7: d(x_l, x_l+n) = arccos(cos)/π, of tokens and of last tokens.
    found = reporter.measure(states, ["angular_distance"], texts=OF, view="with special tokens").layer_pairs
    assert found["statistic"].value_counts().to_dict() == {"tokens": 6, "last_token": 6}
    for row in found.itertuples():
        whole = (row.layer_b - row.layer_a) * degrees % 360
        assert row.value == pytest.approx(min(whole, 360 - whole) / 180, abs=1e-6)


def with_singular_values(values, n=600):
    """Centred states (n, d) with these singular values, in random directions."""
    rng = np.random.default_rng(0)
    left = rng.standard_normal((n, len(values)))
    left = np.linalg.qr(left - left.mean(axis=0))[0]
    return (left * values) @ np.linalg.qr(rng.standard_normal((len(values), len(values))))[0].T


@pytest.mark.parametrize("q", [0.5, 0.7, 0.9])
def test_a_geometric_spectrum(q):
    singular = q ** np.arange(12)
    x, rank, of_squares = with_singular_values(singular), np.exp(entropy(singular)), np.exp(entropy(singular**2))
    assert (geometry.effective_rank_singular(x), geometry.rankme(x)) == pytest.approx((rank, rank), rel=1e-6)
    assert geometry.effective_rank(x) == pytest.approx(of_squares, rel=1e-6)
    moved = x + 100 * np.eye(12)[0]
    singular = np.linalg.svd(moved, compute_uv=False)
    p = singular / singular.sum() + 1e-7  # as Garrido et al. 2023 have it, equation 1: a mean counts
    assert geometry.rankme(moved) == pytest.approx(np.exp(-(p * np.log(p)).sum()), rel=1e-4)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.2])
def test_a_power_law_reads_its_exponent(alpha):
    """αReQ (Agrawal et al. 2022): λ_i ∝ i^−α, fitted from rank 11 to 100."""
    x = with_singular_values(np.arange(1, 129) ** (-alpha / 2), 800)
    for name in ("alpha_req", "decay"):
        read = numbers(30 * np.stack([x, x + 1]), "spectrum", name, np.repeat(np.arange(40), 20))
        assert len(read) == 2 and read == pytest.approx(alpha, abs=2e-3)
