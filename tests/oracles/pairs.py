"""CKA and neighbour overlap for one pair, written out; scikit-learn finds the neighbours."""

import numpy as np


def hsic_1(x, y):
    """Song et al. 2012, equation 5, with full matrices."""
    n = len(x)
    k, l = x @ x.T, y @ y.T  # noqa: E741
    np.fill_diagonal(k, 0)
    np.fill_diagonal(l, 0)
    one = np.ones(n)
    terms = (
        np.trace(k @ l) + (one @ k @ one) * (one @ l @ one) / ((n - 1) * (n - 2)) - 2 * (one @ k @ l @ one) / (n - 2)
    )
    return terms / (n * (n - 3))


def hsic_by_quadruples(x, y):
    """The same as a mean over all ordered quadruples of different rows, from the definition of HSIC."""
    from itertools import permutations

    k, l = x @ x.T, y @ y.T  # noqa: E741
    total = [
        k[i, j] * l[i, j] + k[i, j] * l[q, r] - 2 * k[i, j] * l[i, q] for i, j, q, r in permutations(range(len(x)), 4)
    ]
    return np.mean(total)


def cka(x, y):
    return hsic_1(x, y) / np.sqrt(hsic_1(x, x) * hsic_1(y, y))


def biased_cka(x, y):
    """Kornblith et al. 2019, equation 4 in the form for linear kernels."""
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    return np.linalg.norm(y.T @ x) ** 2 / (np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y))


def knn(x, y, k):
    from sklearn.neighbors import NearestNeighbors

    found = [NearestNeighbors(n_neighbors=k, metric="cosine").fit(z).kneighbors(return_distance=False) for z in (x, y)]
    return np.mean([len(set(a) & set(b)) / k for a, b in zip(*found, strict=True)])
