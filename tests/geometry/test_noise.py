"""Floors that are drawn from a known distribution must have the mean of those drawn number by number."""

import numpy as np
import pytest
from numpy.linalg import norm
from oracles.dimension import gride, twonn
from scipy.linalg import subspace_angles

from reporter.app.verify.by_map import explained
from reporter.app.verify.by_token import cosines, mean_cosine
from reporter.geometry import noise
from reporter.metrics import intrinsic_dimension


def assert_same_mean(fast, direct):
    fast, direct = np.array(fast), np.array(direct)
    error = np.hypot(fast.std(ddof=1) / np.sqrt(len(fast)), direct.std(ddof=1) / np.sqrt(len(direct)))
    assert abs(fast.mean() - direct.mean()) < 4 * error
    assert fast.std() == pytest.approx(direct.std(), rel=0.6)


@pytest.mark.parametrize(("n", "d"), [(200, 10), (12, 10), (11, 10), (10, 10), (4, 10), (3, 2), (2, 5), (30, 1)])
def test_the_whole_spectrum(n, d):
    rng = np.random.default_rng(9)
    result = [noise.eigenvalues(n, d, seed) for seed in range(100)]
    assert all(len(spectrum) == min(d, n - 1) and (np.diff(spectrum) <= 0).all() for spectrum in result)
    assert noise.top_variance_share(n, d, 7) == pytest.approx(result[7][0] / result[7].sum())
    with pytest.raises(ValueError, match="read-only"):
        result[0][0] = 1.0
    direct = [np.linalg.eigvalsh(np.atleast_2d(np.cov(rng.standard_normal((n, d)).T)))[::-1] for _ in range(100)]
    for rank in range(min(d, n - 1)):
        shares = [[x[rank] / x.sum() for x in spectra] for spectra in (result, direct)]
        if min(d, n - 1) == 1:
            assert shares[0] == pytest.approx([1.0] * 100)
        else:
            assert_same_mean(*shares)


def test_mean_cosine():
    for n, d in ((300, 10), (3, 10), (5000, 6), (2, 1)):
        rng = np.random.default_rng(9)
        direct = [mean_cosine(rng.standard_normal((n, d))) for _ in range(12 if n > 1000 else 200)]
        assert_same_mean([noise.mean_cosine(n, d, seed) for seed in range(200)], direct)
    # Either side of 4096 vectors, where the limit for many gives way to the exact draw.
    assert_same_mean(*([noise.mean_cosine(n, 5, seed) for seed in range(300)] for n in (4096, 4097)))


@pytest.mark.parametrize("d", [1, 2, 10, 300])
def test_pair_cosine_and_step_angle(d):
    rng, n = np.random.default_rng(9), 100
    direct = [cosines(rng.standard_normal((n, d)), rng.standard_normal((n, d))).mean() for _ in range(100)]
    assert_same_mean([noise.pair_cosine(n, d, seed) for seed in range(100)], direct)
    steps = [rng.standard_normal((3, n, d)) for _ in range(60)]
    direct = [np.arccos(np.clip(cosines(b - a, c - b), -1, 1)).mean() for a, b, c in steps]
    # Seeds three apart: a floor draws its three states with the seeds s, s + 1, s + 2.
    assert_same_mean([noise.step_angle(n, d, 3 * seed) for seed in range(60)], direct)
    assert d < 300 or noise.step_angle(10_000, d, 0) == pytest.approx(2 * np.pi / 3, abs=0.01)


def paths(x):
    """Return the length of a path over its sum of directions, and the share that leads from end to end; means of 20."""
    h = x.reshape(20, 3, 12)
    steps, lengths = np.diff(h, axis=1), norm(np.diff(h, axis=1), axis=2)
    turned = norm((steps / lengths[..., None]).sum(axis=1), axis=1)
    return (2 / turned).mean(), (norm(h[:, -1] - h[:, 0], axis=1) / lengths.sum(axis=1)).mean()


def between(x, types):
    inside = sum(np.square(x[types == one] - x[types == one].mean(axis=0)).sum() for one in np.unique(types))
    return 1 - inside / np.square(x - x.mean(axis=0)).sum()


FLOORS = {  # what is drawn from a distribution, and the same of one draw of states
    "linear fit": (lambda seed: noise.linear_fit(30, 7, 4, seed), lambda x: explained(*[x[:30, :7], x[:30, 7:11]] * 2)),
    "between": (lambda seed: noise.between_share(40, 6, 3, seed), lambda x: between(x[:40, :3], np.arange(40) % 6)),
    "types": (
        lambda seed: noise.self_similarity((5, 9, 3), 12, seed),
        lambda x: np.mean([mean_cosine(part) for part in np.split(x[:17], [5, 14])]),
    ),
    "path": (lambda seed: noise.path_shape(2, 12, seed), paths),
    "subspaces": (lambda seed: noise.subspaces(12, 3, seed), lambda x: norm(subspace_angles(x[:3].T, x[3:6].T))),
}


@pytest.mark.parametrize("name", FLOORS)
def test_what_is_drawn_from_a_distribution_has_the_mean_of_states(name):
    fast, direct = FLOORS[name]
    drawn = np.array([direct(x) for x in np.random.default_rng(9).standard_normal((300, 60, 12))])
    result = np.array([fast(seed) for seed in range(300)])
    assert (abs(result.mean(0) - drawn.mean(0)) < 4 * np.hypot(result.std(0), drawn.std(0)) / 300**0.5).all()
    if name not in ("path", "subspaces"):  # these are means over many draws
        assert result.std() == pytest.approx(drawn.std(), rel=0.2)


def test_probabilities_and_expectations_are_those_of_many_draws():
    x = np.random.default_rng(0).standard_normal((20_000, 4, 6))
    cosine = cosines(x[:, 0], x[:, 1])
    for threshold in (0.1, 0.5, 0.9):
        assert noise.cosine_above(threshold, 6) == pytest.approx((np.abs(cosine) > threshold).mean(), abs=0.012)
    assert (noise.cosine_above(1.0, 6), noise.cosine_above(0.3, 1)) == (0, 1)
    several = [cosines(x[:, 0], x[:, :n].sum(axis=1)).mean() for n in (1, 2, 4)]
    assert noise.isotropic_cosine(np.array([1, 2, 4]), 6) == pytest.approx(several, abs=0.012)
    assert (noise.between_share(9, 1, 4, 0), noise.between_share(9, 9, 4, 0), noise.linear_fit(5, 4, 2, 0)) == (0, 1, 1)


def test_dimension():
    rng = np.random.default_rng(9)
    direct = [rng.standard_normal((150, 12)) for _ in range(20)]
    result = [intrinsic_dimension._floors_at(150, 12, seed, 0.3) for seed in range(20)]
    numbers = {"twonn": lambda x: twonn(x, 0.3)}
    numbers |= {f"gride_{scale}": lambda x, scale=scale: gride(x, scale) for scale in (1, 8, 64)}
    for name, number in numbers.items():
        assert_same_mean([of[name] for of in result], [number(x) for x in direct])
    assert "gride_64" not in intrinsic_dimension._floors_at(128, 12, 0, 0.1)
