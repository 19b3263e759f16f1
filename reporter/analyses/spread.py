"""How far texts of a group lie from each other and from those of other groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reporter.analyses.distances import distance_blocks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
