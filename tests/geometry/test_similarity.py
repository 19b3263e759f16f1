"""Debiased CKA, neighbour overlap and linear maps between spaces against the textbook and least squares on the rows."""

import numpy as np
import pytest
import torch
from oracles import pairs
from scipy.linalg import orthogonal_procrustes, subspace_angles
from scipy.spatial.distance import cdist

from reporter.app.verify.by_map import explained as by_rows
from reporter.geometry import linear, similarity
from reporter.geometry.linear import Joint, directions, explained, fit, joint_of
from reporter.metrics.layer_pairs import GROUPS, _groups

RNG = np.random.default_rng


def near(x, k):
    return similarity.by_cosine(torch.from_numpy(x), k)


def ours(*sides):
    """Return CKA of each pair of spaces of two sides, for all rows and without each group, shape (1 + G, A, B)."""
    a, b = (torch.stack([similarity.gram(torch.from_numpy(np.ascontiguousarray(x))) for x in xs]) for xs in sides)
    groups = _groups(a.shape[1])
    return similarity.cka_of(similarity.hsic(a, b, groups), *(similarity.own_hsic(side, groups) for side in (a, b)))


def layers(n, widths, seed=0):
    """Layers of different widths that share something, far from the origin."""
    rng = RNG(seed)
    z = rng.standard_normal((n, 6))
    return [z @ rng.standard_normal((6, d)) + rng.standard_normal((n, d)) + 5 * rng.standard_normal(d) for d in widths]


@pytest.mark.parametrize("n", [20, 57, 128])
def test_every_pair_with_and_without_every_group(n):
    xs, ys = layers(n, (3, 20, 200)), layers(n, (8, 50), seed=1)
    result = ours(xs, ys)
    assert result.shape == (1 + GROUPS, 3, 2)
    groups = _groups(n)
    assert [i for group in groups for i in range(n)[group]] == [*range(n)]
    assert {g.stop - g.start for g in groups} <= {n // 10, n // 10 + 1}
    for at, left in enumerate([slice(0), *groups]):
        without_x, without_y = ([np.delete(x, left, axis=0) for x in side] for side in (xs, ys))
        expected = [[pairs.cka(x, y) for y in without_y] for x in without_x]
        np.testing.assert_allclose(result[at], expected, atol=2e-5, err_msg=str(left))


def test_rotation_scale_and_offset_do_not_matter_and_equal_rows_have_none():
    x, y = layers(100, (30, 40))
    rotation = np.linalg.qr(RNG(2).standard_normal((30, 30)))[0]
    same = [x, x @ rotation, 1e12 * x, 1e-12 * x, x + 1e3, x[:, ::-1], np.pad(x, ((0, 0), (0, 100)))]
    assert ours(same, [y])[0, :, 0] == pytest.approx([pairs.cka(x, y)] * len(same), abs=2e-5)
    assert ours([x], same)[0, 0] == pytest.approx([1] * len(same), abs=2e-5)
    equal = ours([x, np.ones((100, 7)), np.zeros((100, 2))], [x])
    assert np.isfinite(equal[:, 0]).all() and np.isnan(equal[:, 1:]).all()


@pytest.mark.parametrize("size", [1e2, 1e4])
def test_one_giant_row_hides_nothing(size):
    """It takes part in four of n terms only; float32 sums of its square would drown the rest."""
    x, y = layers(60, (10, 12))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    x[7], y[7] = size, size
    assert ours([x], [y])[0, 0, 0] == pytest.approx(pairs.cka(x, y), abs=1e-5)


def test_neighbours_of_rows_that_are_much_alike():
    """Their cosines differ by 1e-9 and less, which float32 does not see."""
    x = 1 + 1e-4 * RNG(0).standard_normal((200, 40))
    far = cdist(*[x / np.linalg.norm(x, axis=1, keepdims=True)] * 2) + np.diag(np.full(200, np.inf))
    np.testing.assert_array_equal(near(x, 10), far.argsort(axis=1)[:, :10])


@pytest.mark.parametrize("k", [1, 10])
def test_neighbours_are_those_of_the_other_path_also_without_a_group(k):
    xs, ys, groups = layers(90, (5, 60)), layers(90, (9,), seed=1), _groups(90)
    result = similarity.overlaps(torch.stack([near(x, k) for x in xs]), torch.stack([near(y, k) for y in ys]), groups)
    assert result.shape == (GROUPS, 2, 1)
    assert result.mean(axis=0)[:, 0] == pytest.approx([pairs.knn(x, ys[0], k) for x in xs], abs=1e-6)
    without = similarity.overlaps_without(*(near(x, 30)[None] for x in xs), k, groups)[:, 0, 0]
    for group, share in zip(groups, without, strict=True):
        assert share == pytest.approx(pairs.knn(*(np.delete(x, group, axis=0) for x in xs), k), abs=1e-6)


def test_products_of_permuted_rows_are_those_of_permuted_matrices():
    a, b = RNG(0).standard_normal((2, 9, 7, 7))
    orders = [np.arange(7), RNG(1).permutation(7)]
    result = similarity.permuted_products(torch.from_numpy(a[:2]), torch.from_numpy(b), orders)
    for products, order in zip(result, orders, strict=True):
        assert products == pytest.approx(np.einsum("aij,bij->ab", a[:2], b[:, order][:, :, order]))


def test_a_similarity_is_calibrated_by_the_95th_of_a_hundred():
    chance = RNG(0).permutation(99)[:, None] / 1000
    for value, threshold, p in ((0.9, 0.094, 0.01), (0.0945, 0.094, 0.05), (0.05, 0.093, 0.5), (-1.0, 0.093, 1.0)):
        result = [of.item() for of in similarity.calibrated(np.array([value]), chance)]
        assert result == pytest.approx([max(0, (value - threshold) / (1 - threshold)), threshold, p])


def test_the_influence_of_a_state_on_the_mean_cosine_is_the_derivative_in_its_weight():
    x = RNG(0).standard_normal((40, 5)) + 1
    units = x / np.linalg.norm(x, axis=1, keepdims=True)
    result = similarity.influence_on_mean_cosine(torch.from_numpy(np.vstack([x, 0 * x[:1]])), units.sum(axis=0), 40)
    weights = 1 + 1e-6 * np.eye(40)
    moved = np.square(weights @ units / weights.sum(axis=1, keepdims=True)).sum(axis=1)
    assert result[:40] == pytest.approx((moved - np.square(units.mean(axis=0)).sum()) * 40 / 1e-6, abs=1e-4)
    assert result[40] == pytest.approx(-2 * np.square(units.mean(axis=0)).sum())  # a zero state has no direction


def joint(x, y, weights=None):
    """Moments of rows, each as often as its weight says."""
    w = np.ones(len(x)) if weights is None else weights
    centre, mean = w @ x / w.sum(), w @ y / w.sum()
    a, b = x - centre, y - mean
    made = (centre, mean, (a.T * w) @ a, (a.T * w) @ b, (b.T * w) @ b)
    return Joint(w.sum(), *map(torch.from_numpy, made))


@pytest.fixture
def pair():
    """300 rows, 6 → 4 dimensions: half linear, half noise, scales from 1e-3 to 1e3, means far from zero."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 6)) * np.logspace(-3, 3, 6)
    y = (x / np.logspace(-3, 3, 6)) @ rng.standard_normal((6, 4)) + 2 * rng.standard_normal((300, 4))
    return x + 50, y - 7


def test_what_a_map_explains_is_that_of_least_squares_also_of_the_other_half_and_whole_with_few_rows(pair):
    x, y = pair
    half, every = np.arange(300) % 3 == 0, np.ones(300, dtype=bool)
    for fitted, tried in ((every, every), (half, ~half), (~half, half)):
        expected = by_rows(x[fitted], y[fitted], x[tried], y[tried])
        of = fit(joint(x[fitted], y[fitted]))
        assert explained(of, joint(x[tried], y[tried])) == pytest.approx(expected, rel=1e-9)
        assert 0.3 < expected < 0.9  # a case that can fail
    few = joint(x[:5], y[:5])
    assert fit(few).rank == 4 and explained(fit(few), few) == pytest.approx(1)


def test_likeness_is_that_of_scipy_and_of_all_products_of_two_rows(pair):
    """The best of all rotations (Williams et al. 2021), principal angles (Björck & Golub 1973), Gram matrices."""
    x, y = pair[0] / np.logspace(-3, 3, 6), pair[1]
    a, b = x - x.mean(axis=0), y - y.mean(axis=0)
    of, wide = joint(x, y), np.pad(b / np.linalg.norm(b), ((0, 0), (0, 2)))
    assert linear.procrustes(of).value == pytest.approx(orthogonal_procrustes(a / np.linalg.norm(a), wide)[1], rel=1e-9)
    grams = [(side @ side.T).ravel() for side in (a, b)]
    expected = grams[0] @ grams[1] / (np.linalg.norm(grams[0]) * np.linalg.norm(grams[1]))
    assert linear.token_cka(of).value == pytest.approx(expected, rel=1e-9)
    assert linear.canonical(of) == pytest.approx(np.square(np.cos(subspace_angles(a, b))).mean(), rel=1e-6)


@pytest.mark.parametrize("measure", [linear.procrustes, linear.token_cka])
def test_influences_are_the_derivative_in_the_weight_of_a_row(measure, pair):
    x, y = pair[0] / np.logspace(-3, 3, 6), pair[1]
    of = measure(joint(x, y))
    influence = of.influence(torch.from_numpy(x - x.mean(axis=0)), torch.from_numpy(y - y.mean(axis=0)))
    assert float(influence.mean()) == pytest.approx(0, abs=1e-12)
    for row in (0, 17, 200):
        weights = np.ones(300)
        weights[row] += 1e-3
        more = measure(joint(x, y, weights))
        assert (more.value - of.value) * 300 / 1e-3 == pytest.approx(float(influence[row]), rel=1e-2)


def test_what_a_row_does_to_a_map_is_what_leaving_it_out_does(pair):
    """Also to its own map where that has few rows to a dimension, and has drawn its residuals near zero."""
    x, y = (torch.from_numpy(side) for side in pair)
    for few, tried in ((24, None), (100, joint_of(x[100:], y[100:]))):
        a, b, of = x[:few], y[:few], joint_of(x[:few], y[:few])
        axes = directions(of.xx, of.n)
        fitted, whole = fit(of, axes), explained(fit(of), tried or of)
        if tried is None:
            result = linear.push(fitted, axes, of, whole, a, b) / few
        else:
            result = linear.pull(fitted, axes, of, tried, whole, a, b)
        parts = [joint_of(*(torch.cat([side[:i], side[i + 1 :]]) for side in (a, b))) for i in range(few)]
        left_out = np.array([whole - explained(fit(part), tried or part) for part in parts])
        assert np.corrcoef(result.numpy(), left_out)[0, 1] > 0.98
        assert result.numpy().std() == pytest.approx(left_out.std(), rel=0.1 if tried is None else 0.05)
