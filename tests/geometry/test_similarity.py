"""Debiased CKA, neighbour overlap and their intervals against the textbook."""

import numpy as np
import pytest
import torch
from oracles import pairs

from reporter.geometry.intervals import jackknife_interval
from reporter.geometry.similarity import (
    by_cosine,
    calibrated,
    cka_of,
    gram,
    hsic,
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


def test_independent_data_read_nothing():
    rng = RNG(0)
    x, y = rng.standard_normal((2, 30, 128, 768))
    found = [ours([a], [b])[0, 0, 0] for a, b in zip(x, y, strict=True)]
    assert np.mean(found) == pytest.approx(0, abs=4 * np.std(found) / np.sqrt(30))
    assert max(np.abs(found)) < 0.06


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


@pytest.mark.parametrize(("noise", "within"), [(0.3, 0.05), (6.0, 0.06)])
def test_the_interval_of_cka_covers_95_percent(noise, within):
    """What it covers is the CKA of the population, from the covariances."""
    rng = RNG(0)
    a, b = rng.standard_normal((4, 12)), rng.standard_normal((4, 15))
    own = [np.square(m.T @ m + noise**2 * np.eye(m.shape[1])).sum() for m in (a, b)]
    truth = np.square(a.T @ b).sum() / np.sqrt(own[0] * own[1])
    hits, rounds = 0, 100
    for _ in range(rounds):
        z = rng.standard_normal((100, 4))
        x, y = (z @ m + noise * rng.standard_normal((100, m.shape[1])) for m in (a, b))
        found = ours([x], [y])[:, 0, 0]
        low, high = jackknife_interval(float(found[0]), found[1:])
        assert -1 <= low <= found[0] <= high <= 1
        hits += low <= truth <= high
    assert hits / rounds == pytest.approx(0.965, abs=within)


def test_without_a_group_neighbours_are_those_outside_it():
    xs, groups = layers(90, (5, 60)), _groups(90)
    listed = [near(x, 30)[None] for x in xs]
    found = overlaps_without(*listed, 10, groups)[:, 0, 0]
    for group, share in zip(groups, found, strict=True):
        kept = np.delete(np.arange(90), group)
        assert share == pytest.approx(pairs.knn(xs[0][kept], xs[1][kept], 10), abs=1e-6)


def searched(xs, ys, seed, permutations=99):
    """Return calibrated CKA and p of the most similar of all pairs of layers."""
    sides = [torch.stack([gram(tensor(x)) for x in side]) for side in (xs, ys)]
    own = [own_hsic(side, _groups(len(xs[0])))[:1] for side in sides]
    draws = RNG(seed)
    orders = [np.arange(len(xs[0])), *(draws.permutation(len(xs[0])) for _ in range(permutations))]
    most = cka_of(permuted_products(*sides, orders), *own).max(axis=(1, 2))
    score, _, p = calibrated(most[0], most[1:])
    return float(score), float(p)


def test_two_models_are_alike_as_far_as_they_are_over_thirty_seeds():
    unrelated, shared, shuffled = [], [], []
    for seed in range(30):
        xs, ys, others = layers(60, (8, 30, 90), seed), layers(60, (20, 50), seed), layers(60, (20, 50), 1000 + seed)
        order = RNG(seed).permutation(60)
        unrelated.append(searched(xs, others, seed))  # of the same shape, and nothing in common
        shared.append(searched(xs, ys, seed))  # two recipes that read the same of a text
        shuffled.append(searched(xs, [x[order] for x in xs], seed))  # a model and itself on shuffled texts
    assert all(score > 0.5 and p == 0.01 for score, p in shared)
    for null in (unrelated, shuffled):
        # of 30 true nulls at the level 0.05 more than 5 are above it with probability 0.003
        assert sum(p <= 0.05 for _, p in null) <= 5 and sum(score > 0 for score, _ in null) <= 5
        assert 0.3 < np.mean([p for _, p in null]) < 0.7
    assert searched(xs, xs, 0) == (pytest.approx(1, abs=1e-5), 0.01)
