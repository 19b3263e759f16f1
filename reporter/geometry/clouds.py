"""How points of several groups lie to each other: distances within and between, silhouettes, and who neighbours whom.

Distances are Euclidean, of all points to all, a block of rows at a time, in float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from reporter.geometry.arrays import Floats, Ints

ROUNDING = 1e-5
"""What is shorter than this share of the vectors' norm is rounding, not meaning: states are in float32."""
ROWS = 512  # whose distances to all others are in memory at once
NEIGHBOURS = 10


def rounding(x: Floats) -> float:
    """Return the largest distance that is rounding: 1e-5 of the root mean square norm of the vectors, (n, d)."""
    return ROUNDING * float(np.sqrt(np.square(x).sum(axis=1).mean()))


def distance_blocks(x: Floats) -> Iterator[Floats]:
    """Yield the distances of ``ROWS`` vectors to all of them, (rows, n), block by block; those of rounding are 0.

    Args:
        x: vectors, (n, d).
    """
    nothing = rounding(x)
    x = x - x.mean(axis=0)  # so that squares do not cancel
    squares = np.square(x).sum(axis=1)
    for start in range(0, len(x), ROWS):
        block = slice(start, start + ROWS)
        distances = np.sqrt(np.maximum(squares[block, None] + squares - 2 * x[block] @ x.T, 0.0))
        distances[distances <= nothing] = 0.0
        yield distances


@dataclass(frozen=True)
class Spread:
    """The distances of some texts.

    Args:
        silhouette: their mean silhouette; None where there is one group alone, or no two texts differ.
        within: mean distance of two texts of the same group.
        between: mean distance of two texts of different groups; None where there is one group alone.
        n: texts.
    """

    silhouette: float | None
    within: float
    between: float | None
    n: int

    @property
    def ratio(self) -> float | None:
        """Within over between; None where there is no between, or it is 0."""
        return self.within / self.between if self.between else None


@dataclass(frozen=True)
class Spreads:
    """The distances of all texts together and of each group."""

    whole: Spread
    groups: tuple[Spread, ...]


def spreads(x: Floats, group: Ints) -> Spreads:
    """Return the distances within and between groups, and silhouettes as scikit-learn defines them.

    The silhouette of text i is (b − a)/max(a, b), a its mean distance to the other texts of its group, b the smallest
    of its mean distances to the texts of another group; 0 where both are 0. All distances are Euclidean; one below
    1e-5 of the vectors' root mean square norm is rounding and counts as 0. Memory: n · 512 numbers.

    Args:
        x: vectors, (n, d).
        group: of each, 0 … groups − 1, each with at least two texts, (n,).
    """
    sizes = np.bincount(group)
    member = np.eye(len(sizes))[group]
    sums = np.concatenate([block @ member for block in distance_blocks(x)])  # (n, groups)
    rows = np.arange(len(x))
    own = sums[rows, group]
    others = sums.sum(axis=1) - own
    within, between = np.bincount(group, own), np.bincount(group, others)
    pairs_within, pairs_between = sizes * (sizes - 1), sizes * (len(x) - sizes)
    one_group = len(sizes) < 2
    silhouettes = None if one_group or not sums.any() else _silhouettes(sums, group, sizes)

    def of(which: Ints) -> Spread:
        mean = None if silhouettes is None else float(silhouettes[np.isin(group, which)].mean())
        apart = None if one_group else float(between[which].sum() / pairs_between[which].sum())
        return Spread(mean, float(within[which].sum() / pairs_within[which].sum()), apart, int(sizes[which].sum()))

    every = np.arange(len(sizes))
    return Spreads(of(every), tuple(of(every[one : one + 1]) for one in every.tolist()))


def _silhouettes(sums: Floats, group: Ints, sizes: Ints) -> Floats:
    rows = np.arange(len(sums))
    a = sums[rows, group] / (sizes[group] - 1)
    means = sums / sizes
    means[rows, group] = np.inf
    b = means.min(axis=1)
    larger = np.maximum(a, b)
    return np.asarray(np.divide(b - a, larger, out=np.zeros(len(sums)), where=larger > 0))


def overlap(x: Floats, cloud: Ints) -> Floats:
    """Return for each point how many of its nearest neighbours are of other clouds, over what mixing would give, (n,).

    The share of other clouds among the 10 nearest points (all others, where there are fewer), over their share among
    all other points. Of points that are as far as the tenth one, each counts in part.

    Args:
        x: vectors, (n, d).
        cloud: of each, 0 … clouds − 1; there are two or more, (n,).
    """
    n, nothing = len(x), rounding(x)
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
