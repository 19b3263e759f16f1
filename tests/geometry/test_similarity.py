"""Debiased CKA, neighbour overlap and their intervals against the textbook."""

import numpy as np
import pytest
import torch
from oracles import pairs

from reporter.geometry.similarity import (
    by_cosine,
    calibrated,
    cka_of,
    gram,
    hsic,
    influence_on_mean_cosine,
    overlaps,
    overlaps_without,
    own_hsic,
    permuted_products,
)
from reporter.metrics.layer_pairs import GROUPS, _groups

RNG = np.random.default_rng


def tensor(x):
    return torch.from_numpy(np.ascontiguousarray(x))


def near(x, k):
    return by_cosine(tensor(x), k)


def ours(xs, ys=None):
    """Return CKA of each pair, for all rows and without each group, shape (1 + G, A, B)."""
    a = torch.stack([gram(tensor(x)) for x in xs])
    b = a if ys is None else torch.stack([gram(tensor(y)) for y in ys])
    groups = _groups(a.shape[1])
    return cka_of(hsic(a, b, groups), own_hsic(a, groups), own_hsic(b, groups))


def layers(n, widths, seed=0):
    """Layers of different widths that share something, far from the origin."""
    rng = RNG(seed)
    z = rng.standard_normal((n, 6))
    return [z @ rng.standard_normal((6, d)) + rng.standard_normal((n, d)) + 5 * rng.standard_normal(d) for d in widths]


@pytest.mark.parametrize("n", [20, 57, 128])
def test_every_pair_with_and_without_every_group(n):
    xs, ys = layers(n, (3, 20, 200)), layers(n, (8, 50), seed=1)
    found = ours(xs, ys)
    assert found.shape == (1 + GROUPS, 3, 2)
    groups = _groups(n)
    assert (
        groups[0].start == 0 and groups[-1].stop == n and {g.stop - g.start for g in groups} <= {n // 10, n // 10 + 1}
    )
    for at, left in enumerate([None, *groups]):
        keep = np.ones(n, dtype=bool)
        if left is not None:
            keep[left] = False
        for i, j in np.ndindex(3, 2):
            assert found[at, i, j] == pytest.approx(pairs.cka(xs[i][keep], ys[j][keep]), abs=2e-5), (at, i, j)


def test_rotation_scale_and_offset_do_not_matter():
    x, y = layers(100, (30, 40))
    rotation = np.linalg.qr(RNG(2).standard_normal((30, 30)))[0]
    same = [x, x @ rotation, 1e12 * x, 1e-12 * x, x + 1e3, x[:, ::-1], np.pad(x, ((0, 0), (0, 100)))]
    assert ours(same, [y])[0, :, 0] == pytest.approx([pairs.cka(x, y)] * len(same), abs=2e-5)
    assert ours([x], same)[0, 0] == pytest.approx([1] * len(same), abs=2e-5)


@pytest.mark.parametrize("size", [1e2, 1e4])
def test_one_giant_row_hides_nothing(size):
    """It takes part in four of n terms only; float32 sums of its square would drown the rest."""
    x, y = layers(60, (10, 12))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    x[7], y[7] = size, size
    assert ours([x], [y])[0, 0, 0] == pytest.approx(pairs.cka(x, y), abs=1e-5)


def test_equal_rows_have_none():
    x = layers(30, (4,))[0]
    found = ours([x, np.ones((30, 7)), np.zeros((30, 2))])
    assert np.isfinite(found[:, 0, 0]).all() and np.isnan(found[:, 1:]).all() and np.isnan(found[:, :, 1:]).all()


@pytest.mark.parametrize("k", [1, 10])
def test_neighbours_are_those_of_the_other_path(k):
    xs, ys = layers(90, (5, 60)), layers(90, (9,), seed=1)
    groups = _groups(90)
    found = overlaps(torch.stack([near(x, k) for x in xs]), torch.stack([near(y, k) for y in ys]), groups)
    assert found.shape == (GROUPS, 2, 1)
    for i in range(2):
        assert found[:, i, 0].mean() == pytest.approx(pairs.knn(xs[i], ys[0], k), abs=1e-6)


def test_overlap_has_its_limits():
    x = layers(40, (6,))[0]
    own = near(x, 10)
    assert all(i not in row for i, row in enumerate(own))
    same = torch.stack([own, near(3 * x, 10), near(-x, 10), own.flip(1)])
    assert (overlaps(own[None], same, _groups(40)) == 1).all()
    rng = RNG(1)
    chance = [
        overlaps(*(near(rng.standard_normal((60, 30)), 10)[None] for _ in range(2)), _groups(60)).mean()
        for _ in range(40)
    ]
    assert np.mean(chance) == pytest.approx(10 / 59, abs=4 * np.std(chance) / np.sqrt(40))


def test_without_a_group_neighbours_are_those_outside_it():
    xs, groups = layers(90, (5, 60)), _groups(90)
    listed = [near(x, 30)[None] for x in xs]
    found = overlaps_without(*listed, 10, groups)[:, 0, 0]
    for group, share in zip(groups, found, strict=True):
        kept = np.delete(np.arange(90), group)
        assert share == pytest.approx(pairs.knn(xs[0][kept], xs[1][kept], 10), abs=1e-6)


def test_products_of_permuted_rows_are_those_of_permuted_matrices():
    a, b = RNG(0).standard_normal((2, 9, 7, 7))
    orders = [np.arange(7), RNG(1).permutation(7)]
    found = permuted_products(torch.from_numpy(a[:2]), torch.from_numpy(b), orders)
    for products, order in zip(found, orders, strict=True):
        assert products == pytest.approx(np.einsum("aij,bij->ab", a[:2], b[:, order][:, :, order]))


@pytest.mark.parametrize(
    ("value", "threshold", "p"), [(0.9, 0.094, 0.01), (0.0945, 0.094, 0.05), (0.05, 0.093, 0.5), (-1.0, 0.093, 1.0)]
)
def test_a_similarity_is_calibrated_by_the_95th_of_a_hundred(value, threshold, p):
    chance = RNG(0).permutation(99) / 1000
    found = calibrated(np.array([value]), chance[:, None])
    assert [of.item() for of in found] == pytest.approx([max(0, (value - threshold) / (1 - threshold)), threshold, p])


def test_the_influence_of_a_state_on_the_mean_cosine_is_the_derivative_in_its_weight():
    x = RNG(0).standard_normal((40, 5)) + 1
    units = x / np.linalg.norm(x, axis=1, keepdims=True)
    found = influence_on_mean_cosine(tensor(np.vstack([x, 0 * x[:1]])), units.sum(axis=0), 40)
    weights = 1 + 1e-6 * np.eye(40)
    moved = np.square(weights @ units / weights.sum(axis=1, keepdims=True)).sum(axis=1)
    assert found[:40] == pytest.approx((moved - np.square(units.mean(axis=0)).sum()) * 40 / 1e-6, abs=1e-4)
    assert found[40] == pytest.approx(-2 * np.square(units.mean(axis=0)).sum())  # a zero state has no direction
