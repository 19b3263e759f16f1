"""How alike two layers are, by SciPy and by the published definitions.

Williams, Kunz, Kornblith & Linderman 2021, "Generalized Shape Metrics on Neural Representations", NeurIPS: our
``linearity.procrustes`` is arccos of a cosine and so their angular distance as it is.
"""

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes, subspace_angles
from scipy.spatial import procrustes as disparity

from reporter.geometry.linear import canonical, joint_of, procrustes, token_cka

N = 60


def similarity(measure, x, y):
    of = joint_of(torch.from_numpy(x), torch.from_numpy(y))
    found = measure(of)
    return found if isinstance(found, float) else found.value


def rotation(rng, d):
    return np.linalg.qr(rng.standard_normal((d, d)))[0]


def alike(rng, d=5):
    """Three arrangements that share something: neither equal nor unrelated."""
    common = rng.standard_normal((N, d))
    scales = rng.exponential(size=(3, d)) + 0.1
    return [
        (w * common + rng.standard_normal((N, d))) * s @ rotation(rng, d)
        for w, s in zip((0.3, 1, 3), scales, strict=True)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_procrustes_is_the_best_of_all_rotations(seed):
    """SciPy's own two."""
    rng = np.random.default_rng(seed)
    x, y, _ = alike(rng, 2)
    cosine = similarity(procrustes, x, y)
    a, b = (side - side.mean(axis=0) for side in (x, y))
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    assert orthogonal_procrustes(a, b)[1] == pytest.approx(cosine, rel=1e-9)
    assert disparity(x, y)[2] == pytest.approx(1 - cosine**2, rel=1e-9)  # scaled as well as turned


@pytest.mark.parametrize(("d", "e"), [(4, 4), (3, 6)])
def test_cca_is_the_mean_squared_cosine_of_the_principal_angles(d, e):
    """Björck & Golub 1973: canonical correlations are cosines of the angles of the two column spaces."""
    rng = np.random.default_rng(d)
    x, y = rng.standard_normal((N, d)), rng.standard_normal((N, e))
    y[:, :2] += x[:, :2]
    angles = subspace_angles(x - x.mean(axis=0), y - y.mean(axis=0))
    assert similarity(canonical, x, y) == pytest.approx(np.square(np.cos(angles)).mean(), rel=1e-6)


def test_cka_is_the_correlation_of_all_products_of_two_rows():
    """Kornblith et al. 2019: vectorised Gram matrices of centred rows, their cosine."""
    rng = np.random.default_rng(5)
    x, y, _ = alike(rng)
    grams = [(side - side.mean(axis=0)) @ (side - side.mean(axis=0)).T for side in (x, y)]
    a, b = (gram.ravel() for gram in grams)
    assert similarity(token_cka, x, y) == pytest.approx(a @ b / np.sqrt((a @ a) * (b @ b)), rel=1e-9)
