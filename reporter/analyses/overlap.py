"""How much clouds of points mix: whose are a point's nearest neighbours?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reporter.analyses.distances import ROWS, distance_blocks, smallest

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NEIGHBOURS = 10


def overlap(x: Floats, cloud: Ints) -> Floats:
    """Return for each point how many of its nearest neighbours are of other clouds, over what mixing would give, (n,).

    The share of other clouds among the 10 nearest points (all others, where there are fewer), over their share among
    all other points. Of points that are as far as the tenth one, each counts in part.

    Args:
        x: vectors, (n, d).
        cloud: of each, 0 … clouds − 1; there are two or more, (n,).
    """
    n, nothing = len(x), smallest(x)
    k = min(NEIGHBOURS, n - 1)
    expected = (n - np.bincount(cloud)[cloud]) / (n - 1)
    found = []
    for block, distances in enumerate(distance_blocks(x)):
        own = np.arange(len(distances))
        distances[own, own + block * ROWS] = np.inf
        farthest = np.partition(distances, k - 1, axis=1)[:, k - 1 : k]
        closer, level = distances < farthest - nothing, np.abs(distances - farthest) <= nothing
        other = cloud != cloud[own + block * ROWS, None]
        of_level = (level & other).sum(axis=1) / level.sum(axis=1)
        found.append(((closer & other).sum(axis=1) + (k - closer.sum(axis=1)) * of_level) / k)
    return np.asarray(np.concatenate(found) / expected)
