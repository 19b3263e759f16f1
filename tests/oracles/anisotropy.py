"""Anisotropy by brute force: eigenvalues of numpy.cov, and a sum over all pairs of tokens."""

from __future__ import annotations

import numpy as np


def top_variance_share(x):
    eigenvalues = np.linalg.eigvalsh(np.atleast_2d(np.cov(x.T, bias=True)))
    return eigenvalues[-1] / eigenvalues.sum()


def mean_cosine(x):
    """Mean over all ordered pairs of different rows, (n, n) cosines and all."""
    units = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosines = units @ units.T
    np.fill_diagonal(cosines, 0)
    return cosines.sum() / (len(x) * (len(x) - 1))


def isoscore(x):
    """Algorithm 1 of Rudman et al. 2022, step by step, for points x in rows, shape (n, d)."""
    d = x.shape[1]
    centred = x - x.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=True)[2]
    reoriented = centred @ axes.T  # principal components
    variances = np.diag(np.atleast_2d(np.cov(reoriented.T)))
    normalised = np.sqrt(d) * variances / np.linalg.norm(variances)
    defect = np.linalg.norm(normalised - np.ones(d)) / np.sqrt(2 * (d - np.sqrt(d)))
    share_of_dimensions = (d - defect**2 * (d - np.sqrt(d))) ** 2 / d**2
    return (d * share_of_dimensions - 1) / (d - 1)


def anisotropy(x):
    """Return {statistic: value} of one layer's states, shape (n, d); the sample is taken to be everything."""
    return {
        "top_variance_share": top_variance_share(x),
        "top_variance_share_batch": top_variance_share(x),
        "mean_cosine": mean_cosine(x),
        "mean_cosine_centred": mean_cosine(x - x.mean(axis=0)),
        "mean_cosine_standardised": mean_cosine((x - x.mean(axis=0)) / x.std(axis=0)),
        "isoscore": isoscore(x),
    }
