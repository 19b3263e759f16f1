"""Dimensions as ``reporter verify`` estimates them, and distances by scikit-learn's k-d tree."""

import numpy as np
from sklearn.neighbors import KDTree

from reporter.app.verify.by_map import SCALES, _most_likely, _ratios, _slope


def neighbour_distances(x, k=2):
    """Return the distances to the k nearest other rows, shape (n, k)."""
    return KDTree(np.asarray(x, dtype=np.float64)).query(x, k + 1)[0][:, 1:]


def twonn(x, discard=0.1):
    return _slope(_ratios(x)[:, 0], discard)


def twonn_ml(x):
    logs = _ratios(x)[:, 0]
    return (len(logs) - 1) / logs.sum()


def gride(x, n):
    return _most_likely(_ratios(x)[:, SCALES.index(n)], n)
