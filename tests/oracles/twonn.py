"""TwoNN from scikit-learn's exact neighbours, and scikit-dimension's own TwoNN.

scikit-dimension 0.5.0 (``skdim/id/_TwoNN.py``) takes F_i = i/N for i = 1…int(0.9·N), with N the number of points
whose first neighbour is not at distance 0, and fits without intercept: the same convention as ours, so the two must
agree to rounding. Its ``method="mle"`` with ``discard_fraction=0`` is (N − 1)/Σ log μ, again ours.
"""

import numpy as np


def neighbour_distances(x, k=2):
    """Return the distances to the k nearest other rows, shape (n, k), by scikit-learn's k-d tree."""
    from sklearn.neighbors import KDTree

    return KDTree(np.asarray(x, dtype=np.float64)).query(x, k + 1)[0][:, 1:]


def twonn(x, tenths=9):
    """Slope through the origin of −log(1 − F) on log μ over some tenths of the ratios, by numpy.linalg.lstsq."""
    x = np.asarray(x, dtype=np.float64)
    distances = neighbour_distances(x - x.mean(axis=0))
    ratios = np.sort(distances[:, 1] / distances[:, 0])
    count = len(ratios)
    kept = (tenths * count) // 10
    survival = 1 - np.arange(1, kept + 1) / count
    return float(np.linalg.lstsq(np.log(ratios[:kept])[:, None], -np.log(survival), rcond=None)[0][0])


def twonn_ml(x):
    distances = neighbour_distances(x)
    return (len(x) - 1) / np.log(distances[:, 1] / distances[:, 0]).sum()


def scikit_dimension(x, method="linear", discard=0.1):
    from skdim.id import TwoNN

    estimator = TwoNN(discard_fraction=discard if method == "linear" else 0.0, method=method)
    with np.errstate(divide="ignore"):  # it takes log(1 − F) of the last point even where it fits no line
        return float(estimator.fit(np.asarray(x, dtype=np.float64)).dimension_)
