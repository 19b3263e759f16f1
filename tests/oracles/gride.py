"""GRIDE by brute force: every distance in float64, and scipy's minimiser on the likelihood as Denti et al. print it."""

import numpy as np


def ratios(x, n):
    """Return r_2n / r_n of each row, shape (N,)."""
    from scipy.spatial.distance import cdist

    distances = np.sort(cdist(x, x), axis=1)  # the first column is the row itself
    return distances[:, 2 * n] / distances[:, n]


def log_density(mu, d, n1, n2):
    """log f(μ) = log d + (n2 − n1 − 1)·log(μ^d − 1) − ((n2 − 1)·d + 1)·log μ − log B(n2 − n1, n1)."""
    from scipy.special import betaln

    found = np.log(d) - ((n2 - 1) * d + 1) * np.log(mu) - betaln(n2 - n1, n1)
    if n2 - n1 > 1:
        with np.errstate(divide="ignore"):
            # μ^d − 1 = μ^d·(1 − μ^−d), which is not infinite for distances that jump.
            found = found + (n2 - n1 - 1) * (d * np.log(mu) + np.log1p(-(mu**-d)))
    return found


def gride_of_ratios(mu, n):
    from scipy.optimize import minimize_scalar

    def badness(d):
        return -log_density(mu, d, n, 2 * n).sum()

    return float(minimize_scalar(badness, bounds=(1e-2, 500), method="bounded", options={"xatol": 1e-9}).x)


def gride(x, n):
    return gride_of_ratios(ratios(np.asarray(x, dtype=np.float64), n), n)
