"""Local dimension against scikit-dimension's pointwise TwoNN, with and without each group, and where there is none."""

import numpy as np
import pytest
import torch

from reporter.geometry.ratios import local_dimensions


def pointwise(x, k):
    from skdim.id import TwoNN

    return TwoNN().fit_pw(x, n_neighbors=k).dimension_pw_


@pytest.mark.parametrize(("d", "k"), [(10, 60), (3, 16)])
def test_against_scikit_dimension(d, k):
    rng = np.random.default_rng(d)
    x = rng.standard_normal((150, d)) + 100
    x[:75, d // 2 :] *= 0.01  # half of the points are flatter
    groups = rng.integers(0, 3, 150)
    found = local_dimensions(torch.from_numpy(x), 150, k, groups)
    np.testing.assert_allclose(found[0], pointwise(x, k), rtol=1e-9)
    np.testing.assert_allclose(found[0], local_dimensions(torch.from_numpy(x), 150, k), rtol=1e-9)
    for left_out in range(3):
        keep = groups != left_out
        assert np.isnan(found[left_out + 1][~keep]).all()
        np.testing.assert_allclose(found[left_out + 1][keep], pointwise(x[keep], k), rtol=1e-9)


def test_equal_states_have_none():
    x = np.repeat(np.random.default_rng(0).standard_normal((10, 4)), 20, axis=0)
    assert np.isnan(local_dimensions(torch.from_numpy(x), 50, 16)).all()
