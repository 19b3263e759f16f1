"""Components against scikit-learn's and closed forms; maps of neighbours keep clusters and are repeatable."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from reporter.geometry.components import principal_axes
from reporter.metrics._static_numbers import explained, of_neighbours, sampled_rows


def vectors(n, d, seed=0):
    generator = np.random.default_rng(seed)
    return (generator.normal(size=(n, d)) * np.geomspace(5, 0.1, d) + 3).astype(np.float32)


@pytest.mark.parametrize(("n", "d"), [(9000, 20), (20, 20), (12, 20), (2, 20), (50, 1)])
def test_components_are_scikit_learns(n, d):
    x = vectors(n, d)
    axes = principal_axes([torch.from_numpy(x)])
    oracle = PCA(svd_solver="full").fit(x.astype(float))
    count = min(d, n - 1)
    assert len(axes.eigenvalues) == count
    theirs = oracle.explained_variance_[:count] * (n - 1) / n
    np.testing.assert_allclose(axes.eigenvalues, theirs, rtol=1e-5, atol=1e-6 * theirs[0])
    top = min(3, count)
    cosines = np.abs((axes.directions * oracle.components_[:top]).sum(axis=1))
    np.testing.assert_allclose(cosines, 1, atol=1e-6)
    assert (axes.directions[np.arange(top), np.abs(axes.directions).argmax(1)] > 0).all()
    at = axes.coordinates(torch.from_numpy(x))
    assert at.shape == (n, 3)
    np.testing.assert_allclose(np.abs(at[:, :top]), np.abs(oracle.transform(x.astype(float))[:, :top]), atol=1e-4)
    assert (at[:, top:] == 0).all()
    curve = list(explained("token", axes))
    shares = [row.share for row in curve]
    np.testing.assert_allclose(shares[:top], np.cumsum(oracle.explained_variance_ratio_)[:top], rtol=1e-5)
    assert shares[-1] == pytest.approx(1)
    assert {(row.part, row.n) for row in curve} == {("token", n)}


def test_a_large_mean_is_no_variance():
    x = vectors(500, 8) + 1000
    axes = principal_axes([torch.from_numpy(x)])
    np.testing.assert_allclose(axes.eigenvalues, PCA().fit(x.astype(float)).explained_variance_ * 499 / 500, rtol=1e-4)


def test_what_does_not_vary_has_no_axes():
    assert principal_axes([torch.full((50, 8), 0.1)]) is None
    assert principal_axes([torch.ones(5, 8)]) is None
    assert principal_axes([torch.ones(1, 8)]) is None


def test_samples():
    assert sampled_rows(10, 20, 0).tolist() == list(range(10))
    drawn = sampled_rows(1000, 50, 3)
    assert len(set(drawn.tolist())) == 50
    assert (np.diff(drawn) > 0).all()
    assert drawn.tolist() == sampled_rows(1000, 50, 3).tolist() != sampled_rows(1000, 50, 4).tolist()


def test_maps_keep_clusters_together_and_are_repeatable():
    label = np.arange(60) % 3
    x = (np.random.default_rng(0).normal(size=(60, 70)) + 40 * np.eye(70)[label]).astype(np.float32)
    at = of_neighbours(x, 0)
    np.testing.assert_array_equal(at, of_neighbours(x, 0))
    distance = np.linalg.norm(at[:, None] - at[None], axis=2) + np.eye(60) * 1e9
    assert (label[distance.argmin(axis=1)] == label).all()
    assert at.shape == (60, 2)
