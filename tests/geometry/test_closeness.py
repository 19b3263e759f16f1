"""Rows in both precisions, ranks and nearest vectors against brute force in float64, also beyond float32."""

import numpy as np
import pytest
import torch
from oracles.closeness import brute_force

from reporter.geometry import neighbours
from reporter.geometry.neighbours import BOTH, against, compare
from reporter.geometry.pairs import UNIT32, Rows, measured, roundings, smallest


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_rows_are_chosen_moved_and_measured(kind):
    table = torch.randn(50, 7, generator=torch.Generator().manual_seed(0)).to(kind)
    shift, x = torch.arange(7.0), table.double().numpy()
    order = np.array([4, 40, 4, 0])
    for rows, expected in (
        (Rows(table), x),
        (Rows(table, shift=shift), x + np.arange(7)),
        (Rows(table, order, np.linalg.norm(x, axis=1)[order]), x[order]),
        (Rows(table, order, shift=shift), x[order] + np.arange(7)),
        (Rows(table, np.arange(50)[::-1].copy()).pick(np.array([1, 5])), x[[48, 44]]),
    ):
        assert len(rows) == len(expected)
        every = torch.arange(len(rows))
        np.testing.assert_allclose(rows.wide(every), expected, rtol=1e-15)
        np.testing.assert_allclose(rows.wide(every[:, None])[:, 0], expected, rtol=1e-15)
        np.testing.assert_allclose(rows.norms, np.linalg.norm(expected, axis=1), rtol=1e-12)
        block, norms = rows.block(1, 3)
        assert block.dtype == norms.dtype == torch.float32
        np.testing.assert_allclose(block, expected[1:3], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(norms, np.linalg.norm(expected, axis=1)[1:3], rtol=1e-6)
    np.testing.assert_array_equal(Rows(table, order).ids(np.array([1, 3])), [40, 0])


def test_measures():
    x, y = torch.tensor([[3.0, 4.0], [0.0, 0.0]]).double(), torch.tensor([[4.0, 3.0], [1.0, 2.0]]).double()
    assert measured("dot", x, y).tolist() == [24, 0]
    assert measured("distance", x, y).tolist() == pytest.approx([2**0.5, 5**0.5])
    cosine, undefined = measured("cosine", x, y).tolist()
    assert cosine == pytest.approx(0.96) and np.isnan(undefined)


@pytest.mark.parametrize("d", [1, 3, 40, 768, 5000])
def test_a_product_in_float32_is_off_by_no_more_than_its_roundings(d):
    rng = np.random.default_rng(d)
    x, y = (torch.from_numpy(rng.standard_normal((200, d)) * np.geomspace(1, 1e3, d)).float() for _ in range(2))
    exact = x.double() @ y.double().T
    off = (x @ y.T - exact).abs() / (x.double().norm(dim=1)[:, None] * y.double().norm(dim=1))
    assert 0 < float(off.max()) <= roundings(d) * UNIT32
    assert roundings(10**6) < 10**6


@pytest.mark.parametrize("count", [17, 18, 19, 64, 65, 66, 67, 1026])
@pytest.mark.parametrize("columns", [1, 3, 8])
def test_the_smallest_of_a_row_by_groups(count, columns):
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


def assert_found(x, own, table, nearest=20, shift=None):
    found = compare(x, own, Rows(table, shift=shift), nearest=nearest)
    moved = table.double().numpy() + (0 if shift is None else shift.double().numpy())
    expected = brute_force(x.double().numpy(), moved, own, nearest)
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
    assert_found(*made_up(mean=mean, size=size))
    assert_found(*made_up(mean=mean, size=size), shift=torch.randn(24, generator=torch.Generator().manual_seed(1)))


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
    doubled = torch.cat([table, table, table])
    found, plain = compare(x, own, Rows(doubled), nearest=9), compare(x, own, Rows(table), nearest=3)
    for measure in BOTH:
        np.testing.assert_array_equal(found.ranks[measure], 3 * plain.ranks[measure])
        thrice = plain.nearest[measure][:, :, None] + np.arange(3) * len(table)
        np.testing.assert_array_equal(found.nearest[measure], thrice.reshape(len(x), 9))
    scaled = compare(x, own, Rows(torch.cat([table, 2 * table])))  # the same direction is no nearer by cosine
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
    found = compare(x, own, Rows(table), nearest=10)
    assert np.isnan(found.cosine[:2]).all() and (found.ranks["cosine"][:2] == -1).all()
    assert (found.nearest["cosine"][0] == -1).all()
    assert (found.ranks["cosine"][2:] >= -1).all()
    assert sorted(found.nearest["cosine"][1][:5]) == [0, 1, 2, 28, 29] and (found.nearest["cosine"][1][5:] == -1).all()
    assert found.ranks["distance"][0] == 0  # of equal zeros none is nearer
    assert (found.nearest["distance"][0] == np.arange(3, 13)).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_table_in_half_precision_is_taken_as_it_is(dtype):
    x, own, table = made_up()
    assert_found(x, own, table.to(dtype))


def test_fewer_vectors_than_neighbours_and_no_state():
    x, own, table = made_up(vocabulary=5)
    assert compare(x, own, Rows(table), nearest=100).nearest["cosine"].shape == (40, 5)
    none = compare(x[:0], own[:0], Rows(table), nearest=3)
    assert none.ranks["distance"].shape == (0,) and none.nearest["distance"].shape == (0, 3)


def test_one_measure_without_neighbours():
    x, own, table = made_up()
    found = compare(x, own, Rows(table), ("cosine",))
    assert set(found.ranks) == {"cosine"} and not found.nearest
    cosines, distances = against(x, own[:, None], Rows(table))
    np.testing.assert_array_equal(found.cosine, cosines[:, 0])
    np.testing.assert_allclose(distances[:, 0], (x - table[own]).norm(dim=1), rtol=1e-5)
