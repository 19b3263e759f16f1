"""Numbers of a spectrum from singular values, written out term by term."""

from __future__ import annotations

import math

import numpy as np


def eigenvalues(x):
    """Eigenvalues of the covariance of x, shape (n, d), that are not zero."""
    found = np.linalg.svd(x - x.mean(axis=0), compute_uv=False) ** 2 / len(x)
    found = found[: min(x.shape[1], len(x) - 1)]
    return found[found > 1e-12 * found.sum()]


def decay(found, most):
    ranks = range(1, min(len(found), most // 2) + 1)
    line = np.polyfit(
        [math.log(i) for i in ranks], [math.log(found[i - 1]) for i in ranks], 1, w=[i**-0.5 for i in ranks]
    )
    return -line[0]  # polyfit weighs residuals before they are squared


def exponential_of_entropy(numbers):
    shares = [value / math.fsum(numbers) for value in numbers if value > 0]
    return math.exp(-math.fsum(p * math.log(p) for p in shares))


def entropy(numbers, most):
    return math.log(exponential_of_entropy(numbers)) / math.log(most)


def projected_out(x):
    """Eigenvalues of the covariance of x once its first right singular vector is taken off every row."""
    x = x - x.mean(axis=0)
    axis = np.linalg.svd(x)[2][0]
    return eigenvalues(x - np.outer(x @ axis, axis))


def stringer(found, indices):
    """The published fit: b of y = −b log(i) + c, solved from the weighted normal equations, i = index + 1."""
    if len(indices) < 3:
        return None
    ranks = indices + 1
    x = np.stack([-np.log(ranks), np.ones(len(ranks))], axis=1)
    weights = 1 / ranks[:, None]
    return float(np.linalg.solve(x.T @ (x * weights), (weights * x).T @ np.log(found[indices]))[0])


def rankme(x):
    """RankMe as Garrido et al. print it, but for ε: singular values of the matrix as it is."""
    return exponential_of_entropy(np.linalg.svd(x, compute_uv=False))


def spectrum(x):
    """Return {statistic: value} of one layer's states, shape (n, d)."""
    found = eigenvalues(x)
    shares = [value / math.fsum(found) for value in found]
    return {
        "effective_rank": exponential_of_entropy(found),
        "effective_rank_singular": exponential_of_entropy(found**0.5),
        "rankme": rankme(x),
        "participation_ratio": 1 / math.fsum(p * p for p in shares),
        "stable_rank": 1 / shares[0],
        "effective_rank_without_first": exponential_of_entropy(found[1:]),
        "entropy": entropy(found, min(x.shape[1], len(x) - 1)),
        "entropy_without_first": entropy(projected_out(x), min(x.shape[1], len(x) - 1) - 1),
        "alpha_req": stringer(found, np.arange(11, min(100, np.sum(found > 1e-8 * found.sum())))),
        "decay": decay(found, min(x.shape[1], len(x) - 1)),
    }
