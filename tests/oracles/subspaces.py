"""Leading subspaces from projectors and SciPy: nothing that ``reporter`` computes them with."""

from __future__ import annotations

import numpy as np
from scipy.linalg import subspace_angles


def leading(x, k):
    """The first k right singular vectors of centred states, (d, k)."""
    return np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[2][:k].T


def distance(a, b):
    return float(np.sqrt(np.sum(subspace_angles(a, b) ** 2)))


def curvature(a, b, c):
    """One over the radius of the circle around a triangle that is drawn in the plane from its sides."""
    first, second, both = distance(a, b), distance(b, c), distance(a, c)
    x = (first**2 - second**2 + both**2) / (2 * both)
    middle = np.array([x, np.sqrt(max(first**2 - x**2, 0))])
    # The centre is as far from (0, 0) as from (both, 0) and from the middle corner.
    centre = np.array([both / 2, (middle @ middle - both * middle[0]) / (2 * middle[1])])
    return 1 / np.linalg.norm(centre)


def subspaces(states, k):
    """Return {(statistic, layer): value}; ``states`` is [(n, d)] * (L + 1)."""
    axes = [leading(x, k) for x in states]
    found = {("displacement", layer): distance(axes[0], a) for layer, a in enumerate(axes)}
    found |= {("speed", layer): distance(axes[layer], axes[layer + 1]) for layer in range(len(axes) - 1)}
    return found | {("curvature", layer): curvature(*axes[layer : layer + 3]) for layer in range(len(axes) - 2)}
