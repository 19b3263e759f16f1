"""Spectra, axes and subspaces against closed forms and decompositions, and what each row does to them."""

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles

from reporter.geometry import components, spectra
from reporter.geometry.components import apart, first_axis, fixed_random_vector, leading, menger
from reporter.geometry.ratios import log_ratios
from reporter.geometry.spectra import RANKS, SCALES, gride_of

RNG = np.random.default_rng


MADE = {
    "steep": lambda rng: rng.standard_normal((500, 80)) * np.geomspace(10, 0.1, 80),
    # a few rows a thousand times as long as the others, along one coordinate
    "sinks": lambda rng: rng.standard_normal((500, 80)) + 1e3 * np.outer(np.arange(500) % 100 == 0, np.eye(80)[3]),
    "alike": lambda rng: np.diag(np.sqrt(np.linspace(1, 2, 800))),  # there is no gap that products could find in time
    "few": lambda rng: rng.standard_normal((6, 90)),
    "one direction": lambda rng: np.outer(rng.standard_normal(50), rng.standard_normal(20)),
    "twins": lambda rng: np.concatenate([np.eye(30) * 3, np.eye(30)[:2] * 4]),  # the largest eigenvalue is there twice
    "one column": lambda rng: rng.standard_normal((40, 1)),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_the_first_axis_is_that_of_all_also_about_a_centre_without_a_copy(make):
    x = torch.from_numpy(make(RNG(0)))
    n, d = x.shape
    weights = torch.from_numpy(RNG(1).integers(0, 2, n).astype(np.float64))
    centre = weights @ x / weights.sum()
    about = first_axis(x, centre, weights, fixed_random_vector(d))
    for (value, axis), rows in ((first_axis(x, 0 * centre), x), (about, (x - centre) * weights[:, None])):
        tiny = 1e-14 * float(x.square().sum())
        expected = float(torch.linalg.eigvalsh(rows.T @ rows)[-1])
        assert float(value) == pytest.approx(expected, rel=1e-12, abs=tiny)
        assert float((rows @ axis).square().sum()) == pytest.approx(expected, rel=1e-9, abs=tiny)
        assert float(axis.norm()) == pytest.approx(1, rel=1e-9)


def test_weights_and_a_vector_that_is_near_no_more():
    """The axis of before is an eigenvector still, but another one has become larger."""
    x = torch.zeros(200, 50, dtype=torch.float64)
    x[:, 0] = torch.linspace(1, 2, 200)
    x[7] = 1e3 * torch.eye(50)[20]
    every, axis = torch.ones(200, dtype=torch.float64), None
    for weights, place, size in ((every - torch.eye(200)[7], 0, float(x[:, 0].square().sum())), (every, 20, 1e6)):
        value, axis = first_axis(x, torch.zeros(50, dtype=torch.float64), weights, axis)
        assert float(axis[place].abs()) == pytest.approx(1) and float(value) == pytest.approx(size)


@pytest.mark.parametrize("rows", [30, 9])
def test_axes_and_coordinates_are_those_of_a_singular_value_decomposition(rows):
    x = RNG(0).standard_normal((rows, 12)) * np.geomspace(3, 0.3, 12) + 2
    centred = x - x.mean(axis=0)
    left, singular, right = np.linalg.svd(centred, full_matrices=False)
    told, tables = [], [torch.from_numpy(part) for part in (x[:4], x[4:])]
    axes = components.principal_axes(tables, progress=lambda *of: told.append(of))
    assert axes.n == rows and axes.mean == pytest.approx(x.mean(axis=0))
    assert axes.eigenvalues == pytest.approx((singular**2 / rows)[: rows - 1], rel=1e-5, abs=1e-7)
    assert np.abs(np.sum(axes.directions * right[:3], axis=1)) == pytest.approx(1, rel=1e-5)
    assert (axes.directions[np.arange(3), np.abs(axes.directions).argmax(axis=1)] > 0).all()
    assert axes.coordinates(tables[1]) == pytest.approx(centred[4:] @ axes.directions.T, abs=1e-5)
    assert told == ([("components", 4, rows), ("components", rows, rows)] if rows > 12 else [])
    result, expected = components.coordinates(x, 3), (left * singular)[:, :3]
    assert result == pytest.approx(expected * np.sign(np.sum(result * expected, axis=0)))
    assert (result[np.abs(result).argmax(axis=0), np.arange(3)] > 0).all()
    assert components.coordinates(x[:2], 3)[:, 1:] == pytest.approx(0)
    assert components.principal_axes([torch.ones(5, 3)]) is None


@pytest.mark.parametrize(("d", "k"), [(10, 3), (80, 2)])
def test_the_distance_of_leading_subspaces_and_what_a_token_does_to_it(d, k):
    scales = 0.03 * np.geomspace(4, 0.2, d)
    a, b = (np.cov((RNG(seed).standard_normal((200, d)) * scales).T) for seed in (0, 1))
    mine, theirs = leading(a, k), leading(b, k)
    result = apart(mine, theirs)
    angles = subspace_angles(np.linalg.eigh(a)[1][:, -k:], np.linalg.eigh(b)[1][:, -k:])
    assert result.distance == pytest.approx(np.linalg.norm(angles))
    assert apart(mine, mine).distance == pytest.approx(0, abs=1e-7)
    for axes, pull, move in ((mine, result.first, (1, 0)), (theirs, result.second, (0, 1))):
        x = 0.1 * RNG(2).standard_normal(d)
        moved = [leading(c + 1e-6 * by * (np.outer(x, x) - c), k) for c, by in zip((a, b), move, strict=True)]
        expected = (apart(*moved).distance - result.distance) / 1e-6
        assert (x @ axes.axes) @ (x @ pull) == pytest.approx(expected, rel=1e-3 if d == 10 else 0.1)
    assert leading(np.diag([1.0, 0, 0]), 2) is None


def test_the_circle_through_three_points():
    assert menger(3, 4, 5) == pytest.approx(0.4)  # a right angle: the hypotenuse is its diameter
    steps = [(menger(*(np.array([3, 4, 5.5]) + h)) - menger(3, 4, 5.5)) / 1e-7 for h in 1e-7 * np.eye(3)]
    assert components.menger_by(3, 4, 5.5) == pytest.approx(steps, rel=1e-4)


def decay(values):
    return spectra.decay_of(values, spectra.upper_half(values, len(values)))


def test_one_eigenvalue_is_one_dimension_and_ranks_keep_their_order():
    ranks_of = (spectra.effective_rank_of, spectra.participation_ratio_of, spectra.stable_rank_of)
    for one in (np.array([2.0]), np.array([2.0, 0.0, 0.0])):
        assert [rank(one) for rank in ranks_of] == pytest.approx([1] * 3)
    rng = RNG(0)
    for _ in range(50):
        result = np.sort(rng.exponential(size=20) ** rng.integers(1, 5))[::-1]
        ranks = [rank(result) for rank in ranks_of]
        assert sorted(ranks)[::-1] == ranks and 20 >= ranks[0] > ranks[2] > 1


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("d", [6, 50, 768])
def test_a_power_law_gives_its_exponent(alpha, d):
    result = 7 * np.arange(1, d + 1) ** -alpha
    assert decay(result) == pytest.approx(alpha, abs=1e-12)
    # The lower half is not read, nor what is not there, nor what rounding leaves.
    result[d // 2 :] = 1e-9 * result[-1]
    half = spectra.upper_half(result, d)
    assert decay(result) == pytest.approx(alpha, abs=1e-12)
    assert spectra.decay_of(result[:3], half) == pytest.approx(alpha, abs=1e-12)
    assert spectra.decay_of(result[:2], half) is None
    rounded = np.concatenate([np.arange(1, 7) ** -2.0, [3e-11, 1e-12, 1e-12, 1e-12]])
    assert spectra.decay_of(rounded, spectra.upper_half(rounded, 16)) == pytest.approx(2)


def test_the_curve_is_thinned_where_it_is_long():
    for count in (1, 511, 512, 513, 768, 4096, 16384):
        ranks = spectra.thinned(count)
        assert ranks[-1] == count and list(ranks[:64]) == list(range(1, min(count, 64) + 1))
        assert len(ranks) == count if count <= 512 else len(ranks) <= 257
        assert (np.diff(ranks) > 0).all() and (np.diff(np.log(ranks[63:])) < 0.05).all()


NUMBERS = {
    "top_variance_share": spectra.top_share_of,
    "participation_ratio": spectra.participation_ratio_of,
    "effective_rank": spectra.effective_rank_of,
    "effective_rank_without_first": lambda values: spectra.effective_rank_of(values[1:]),
    "decay": decay,
    "alpha_req": lambda values: spectra.decay_of(values, spectra.tail(values)),
}


def test_gradients_are_the_derivatives_by_each_eigenvalue():
    values = np.geomspace(5, 0.1, 40)
    steps = 1e-6 * np.diag(values)
    for name, number in NUMBERS.items():
        expected = [(number(values + step) - number(values - step)) / (2 * step.sum()) for step in steps]
        assert spectra.gradients(values, 40)[name] == pytest.approx(expected, abs=1e-6), name


@pytest.mark.parametrize("n", SCALES[1:])
def test_hard_ratios(n):
    """One ratio, ratios that are all but one, and ratios of every size: the likelihood has its top there."""
    for logs in (np.array([0.3]), np.array([0.0, 0.0, 1e-9]), np.geomspace(1e-12, 1e6, 50)):
        x = np.maximum(gride_of(logs, n) * np.multiply.outer([1 - 1e-6, 1 + 1e-6], logs), 1e-300)
        slope = len(logs) - (2 * n - 1) * x.sum(axis=1) + (n - 1) * (x / -np.expm1(-x)).sum(axis=1)
        assert slope[0] > 0 > slope[1]


def test_a_scale_needs_its_neighbours():
    for count, scales in ((3, 1), (4, 1), (5, 2), (8, 2), (9, 3), (128, 6), (129, 7), (500, 7)):
        logs = log_ratios(torch.from_numpy(np.random.default_rng(count).standard_normal((count, 3))))
        assert logs.shape == (count, scales) and (logs >= 0).all()
    assert RANKS == (1, 2, 4, 8, 16, 32, 64, 128)
