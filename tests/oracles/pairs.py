"""CKA and neighbour overlap of one pair, as ``reporter verify`` measures them."""

import numpy as np

from reporter.app.verify.by_token import _gram, _hsic, _neighbours


def cka(x, y):
    k, other = (_gram(np.asarray(side, dtype=np.float64)) for side in (x, y))
    return _hsic(k, other) / np.sqrt(_hsic(k, k) * _hsic(other, other))


def knn(x, y, k):
    near = [_neighbours(side, k).sets for side in (x, y)]
    return np.mean([len(a & b) / k for a, b in zip(*near, strict=True)])
