"""Nearest rows, ranks and vectors: fast searches in float32 against scikit-learn and brute force on nasty data."""

import numpy as np
import pytest
import torch
from oracles.closeness import brute_force
from oracles.dimension import neighbour_distances

from reporter.geometry import neighbours
from reporter.geometry.arrays import exact_products
from reporter.geometry.neighbours import BOTH, against, compare, nearest, nearest_within
from reporter.geometry.pairs import UNIT32, TableRows, roundings, smallest

RNG = np.random.default_rng


NASTY = {
    "outliers": lambda rng: rng.standard_normal((600, 30)) * np.where(np.arange(600) % 60, 1, 1e3)[:, None],
    "far from the origin": lambda rng: rng.standard_normal((600, 30)) + 1e5,
    # Centring does not help: both groups stay 1e4 spreads from the mean.
    "two far groups": lambda rng: rng.standard_normal((600, 30)) + 1e4 * rng.choice([-1, 1], (600, 1)),
    "tight clusters": lambda rng: clusters(rng, 60, 10, 1, 1e-4),
    "tighter clusters": lambda rng: clusters(rng, 20, 30, 10, 1e-6),
    "exact duplicates": lambda rng: clusters(rng, 200, 3, 1, 0),
    "a line": lambda rng: np.outer(np.sort(rng.random(600)) * 1e3, rng.standard_normal(30)),
    "plain": lambda rng: rng.standard_normal((600, 20)),
    "wide": lambda rng: rng.standard_normal((300, 1500)) * np.geomspace(1e-3, 1e3, 1500),
    "a grid": lambda rng: np.stack(np.meshgrid(*[np.arange(9.0)] * 3), axis=-1).reshape(-1, 3),  # nothing but ties
}


def clusters(rng, count, members, apart, spread):
    centres = apart * rng.standard_normal((count, 30))
    return np.repeat(centres, members, axis=0) + spread * rng.standard_normal((600, 30))


def assert_distances(found, expected, size):
    """The two nearest exactly, further ranks but for a few swaps. Centring moves a coordinate by a rounding of its
    size: what that allows at 1e5 is the absolute part."""
    np.testing.assert_allclose(found[:, :2], expected[:, :2], rtol=1e-9, atol=1e-14 * size)
    np.testing.assert_allclose(found[:, 2:], expected[:, 2:], rtol=5e-4, atol=1e-14 * size)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("make", NASTY.values(), ids=NASTY)
def test_the_nearest_and_further_ranks_of_nasty_data(make, kind):
    x = make(RNG(0)).astype(kind)
    expected = neighbour_distances(x.astype(np.float64), 128)
    two, more = nearest(x, 2).distances.numpy(), nearest(x, 2, [4, 16, 128]).distances.numpy()
    assert two.shape == (len(x), 2) and two.dtype == np.float64
    assert_distances(two, expected[:, :2], np.abs(x).max())
    assert_distances(more, expected[:, [0, 1, 3, 15, 127]], np.abs(x).max())


def test_sizes_around_the_block_and_the_spare_candidates_one_dimension_and_equal_rows():
    sizes = [(count, 2) for count in (3, 4, 8, 9, 11, 1023, 1024, 1025, 2050)]
    for count, k in (*sizes, (10, 1), (10, 5), (10, 9)):
        x = RNG(count).standard_normal((count, 4))
        np.testing.assert_allclose(nearest(x, k).distances, neighbour_distances(x, k), rtol=1e-9)
    line = np.array([[0.0], [1.0], [3.0], [7.0]])
    np.testing.assert_allclose(nearest(line, 2).distances, [[1, 3], [1, 2], [2, 3], [4, 6]])
    assert (nearest(np.ones((20, 3)), 2).distances == 0).all()


@pytest.mark.parametrize("make", NASTY.values(), ids=NASTY)
def test_a_group_has_the_neighbours_that_it_has_alone(make):
    """One search serves groups that differ in a few rows, in most of them, and one that is alone in its corner."""
    x, rng = make(RNG(0)).astype(np.float32), RNG(1)
    n, corner = len(x), np.argsort(x[:, 0], kind="stable")[:150]  # lists of these rows hold hardly any other row
    groups = [np.arange(n), rng.permutation(n)[: n - 9], rng.permutation(n)[: n // 3], corner, np.arange(n - 20, n)]
    groups = [np.sort(group) for group in groups]
    found = nearest_within(x, [torch.from_numpy(group) for group in groups], 2, [4, 16, 128], 140)
    for group, within in zip(groups, found, strict=True):
        ranks = np.array([rank for rank in (1, 2, 4, 16, 128) if rank < len(group)])
        expected = neighbour_distances(x[group].astype(np.float64), ranks[-1])[:, ranks - 1]
        assert within.distances.shape == expected.shape and (within.rows.numpy() == group).all()
        assert_distances(within.distances.numpy(), expected, np.abs(x).max())
        places = within.places.numpy()
        assert places.shape == within.listed.shape == (len(group), min(140, len(group) - 1))
        assert np.isin(places, group).all() and (places != group[:, None]).all()
        assert (np.diff(np.sort(places, axis=1), axis=1) > 0).all(), "a neighbour is listed twice"


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_rows_are_chosen_moved_and_measured(kind):
    table = torch.randn(50, 7, generator=torch.Generator().manual_seed(0)).to(kind)
    shift, x, order = torch.arange(7.0), table.double().numpy(), np.array([4, 40, 4, 0])
    for rows, expected in (
        (TableRows(table), x),
        (TableRows(table, order, np.linalg.norm(x, axis=1)[order]), x[order]),
        (TableRows(table, order, shift=shift), x[order] + np.arange(7)),
        (TableRows(table, np.arange(50)[::-1].copy()).pick(np.array([1, 5])), x[[48, 44]]),
    ):
        assert len(rows) == len(expected)
        np.testing.assert_allclose(rows.wide(torch.arange(len(rows))[:, None])[:, 0], expected, rtol=1e-15)
        np.testing.assert_allclose(rows.norms, np.linalg.norm(expected, axis=1), rtol=1e-12)
        block, norms = rows.block(1, 3)
        assert block.dtype == norms.dtype == torch.float32
        np.testing.assert_allclose(block, expected[1:3], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(norms, np.linalg.norm(expected, axis=1)[1:3], rtol=1e-6)
    np.testing.assert_array_equal(TableRows(table, order).ids(np.array([1, 3])), [40, 0])


@pytest.mark.parametrize("d", [1, 3, 40, 768, 5000])
def test_a_product_in_float32_is_off_by_no_more_than_its_roundings(d):
    rng = np.random.default_rng(d)
    x, y = (torch.from_numpy(rng.standard_normal((200, d)) * np.geomspace(1, 1e3, d)).float() for _ in range(2))
    exact = x.double() @ y.double().T
    off = (x @ y.T - exact).abs() / (x.double().norm(dim=1)[:, None] * y.double().norm(dim=1))
    assert 0 < float(off.max()) <= roundings(d) * UNIT32
    assert roundings(10**6) < 10**6


@pytest.mark.parametrize("count", [17, 66, 1026])
@pytest.mark.parametrize("columns", [1, 3, 8])
def test_the_smallest_of_a_row(count, columns):
    x = torch.from_numpy(np.random.default_rng(count).integers(0, 50, (30, count))).float()
    values, at = smallest(x, columns)
    assert torch.equal(values, x.sort(dim=1).values[:, :columns]) and torch.equal(x.gather(1, at), values)
    assert all(len(set(row)) == columns for row in at.tolist())


def made_up(states=40, vocabulary=700, width=24, mean=0.0, size=1.0, seed=0):
    rng = np.random.default_rng(seed)
    table = (rng.standard_normal((vocabulary, width)) + mean).astype(np.float32)
    own = rng.integers(vocabulary, size=states)
    x = (size * (table[own] * rng.uniform(0, 1.5, (states, 1)) + rng.standard_normal((states, width)))).astype("f4")
    return torch.from_numpy(x), own, torch.from_numpy(table)


def assert_found(x, own, table, nearest=20, shift=0):
    found = compare(x, own, TableRows(table, shift=shift if torch.is_tensor(shift) else None), nearest=nearest)
    expected = brute_force(x.double().numpy(), (table.double() + shift).numpy(), own, nearest)
    np.testing.assert_allclose(found.cosine, expected["cosine"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.distance, expected["distance"], rtol=1e-9)
    for measure in BOTH:
        np.testing.assert_array_equal(found.ranks[measure], expected[f"rank_{measure}"])
        np.testing.assert_array_equal(found.nearest[measure], expected[f"nearest_{measure}"])


@pytest.mark.parametrize("mean", [0.0, 3.0, 300.0])
@pytest.mark.parametrize("size", [1.0, 1e-3, 1e4])
def test_against_brute_force_in_blocks(mean, size, monkeypatch):
    monkeypatch.setattr(neighbours, "VECTORS", 64)
    monkeypatch.setattr(neighbours, "STATES", 16)
    x, own, table = made_up(mean=mean, size=size)
    assert_found(x, own, table)
    assert_found(x, own, table, shift=torch.randn(24, generator=torch.Generator().manual_seed(1)))
    for half in (torch.bfloat16, torch.float16):  # taken as it is
        assert_found(x, own, table.to(half))


def test_vectors_that_float32_cannot_tell_apart():
    """A thousand vectors around each state's own, some nearer by less than a rounding in float32, some farther."""
    rng = np.random.default_rng(0)
    x, own, table = made_up(states=4, vocabulary=8, width=48)
    near = np.concatenate([np.float32(1 + 3e-7 * rng.standard_normal((300, 48))) * table[i].numpy() for i in own])
    table = torch.cat([table, torch.from_numpy(near.astype(np.float32))])
    rough = np.argsort(-(x @ table.T / table.norm(dim=1)).numpy(), axis=1)
    exact = brute_force(x.double().numpy(), table.double().numpy(), own, 50)
    assert (rough[:, :50] != exact["nearest_cosine"]).any()  # or the test would not be about this
    assert_found(x, own, table, nearest=50)


def test_equal_vectors_are_not_nearer_and_come_in_the_order_of_their_ids():
    x, own, table = made_up()
    found, plain = (
        compare(x, own, TableRows(table.repeat(3, 1)), nearest=9),
        compare(x, own, TableRows(table), nearest=3),
    )
    for measure in BOTH:
        np.testing.assert_array_equal(found.ranks[measure], 3 * plain.ranks[measure])
        thrice = plain.nearest[measure][:, :, None] + np.arange(3) * len(table)
        np.testing.assert_array_equal(found.nearest[measure], thrice.reshape(len(x), 9))
    scaled = compare(x, own, TableRows(torch.cat([table, 2 * table])))  # the same direction is no nearer by cosine
    np.testing.assert_array_equal(scaled.ranks["cosine"], 2 * plain.ranks["cosine"])


@pytest.mark.parametrize("same", [50, 650])
def test_rows_never_trained_are_all_equal(same):
    x, own, table = made_up()
    table[-same:] = table[-1]
    assert_found(x, own, table)
    x[:] = table[-1] * 1.01  # so that they are the nearest
    assert_found(x, own, table)


def test_zeros_have_no_cosine():
    x, own, table = made_up(vocabulary=30)
    x[0] = 0
    own[0], own[1] = 5, 3
    table[3:28] = 0
    found = compare(x, own, TableRows(table), nearest=10)
    assert np.isnan(found.cosine[:2]).all() and (found.ranks["cosine"][:2] == -1).all()
    none, near = found.nearest["cosine"][:2]
    assert (none == -1).all() and sorted(near[:5]) == [0, 1, 2, 28, 29] and (near[5:] == -1).all()
    assert found.ranks["distance"][0] == 0  # of equal zeros none is nearer
    assert (found.nearest["distance"][0] == np.arange(3, 13)).all()


def test_fewer_vectors_than_neighbours_no_state_and_one_measure_without_neighbours():
    x, own, table = made_up(vocabulary=5)
    assert compare(x, own, TableRows(table), nearest=100).nearest["cosine"].shape == (40, 5)
    none = compare(x[:0], own[:0], TableRows(table), nearest=3)
    assert none.ranks["distance"].shape == (0,) and none.nearest["distance"].shape == (0, 3)
    found = compare(x, own, TableRows(table), ("cosine",))
    assert set(found.ranks) == {"cosine"} and not found.nearest
    cosines, distances = against(x, own[:, None], TableRows(table))
    np.testing.assert_array_equal(found.cosine, cosines[:, 0])
    np.testing.assert_allclose(distances[:, 0], (x - table[own]).norm(dim=1), rtol=1e-5)


def test_products_are_exact_whatever_precision_a_program_allows_its_model():
    products = torch.backends.cuda.matmul
    torch.set_float32_matmul_precision("high")
    try:
        with exact_products():
            assert products.fp32_precision == "ieee"
        assert products.fp32_precision == "tf32" and torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
