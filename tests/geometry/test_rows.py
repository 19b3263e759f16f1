"""Rows in both precisions against NumPy: what is chosen and added, measures, and how far float32 may be off."""

import numpy as np
import pytest
import torch

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
