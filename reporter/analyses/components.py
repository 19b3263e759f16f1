"""Principal components of a few hundred vectors: their coordinates, and the variance that the first ones hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Components:
    """The first principal components of n vectors.

    Args:
        coordinates: of each vector on each component, (n, k), the one with the largest variance first. Of both
            directions of an axis the one is chosen in which the vector farthest out is positive.
        shares: share of the total variance that each holds, (k,); NaN where there is none.
    """

    coordinates: Floats
    shares: Floats


def coordinates(x: Floats, dimensions: int, centred: bool = True) -> Floats:
    """Return vectors on their first components, (n, dimensions); 0 where there are fewer components than that.

    Args:
        x: vectors, (n, d) in float64.
        dimensions: of the picture.
        centred: see :func:`components`.
    """
    at = components(x, dimensions, centred).coordinates
    return np.pad(at, ((0, 0), (0, dimensions - at.shape[1])))


def components(x: Floats, most: int, centred: bool = True) -> Components:
    """Return the first components, at most ``most`` and no more than vectors or dimensions, exactly.

    Args:
        x: vectors, (n, d) in float64.
        most: components that are wanted.
        centred: whether the mean is taken off first, as in PCA; if not, the origin stays where it is.
    """
    from scipy.linalg import eigh

    x = x - x.mean(axis=0) if centred else x
    total = float(np.square(x).sum())
    wide = x.shape[1] > x.shape[0]
    square = x @ x.T if wide else x.T @ x
    wanted = min(most, *x.shape)
    values, vectors = eigh(square, subset_by_index=[len(square) - wanted, len(square) - 1])
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    at = vectors * np.sqrt(values) if wide else x @ vectors
    farthest = np.abs(at).argmax(axis=0)
    at = at * np.where(at[farthest, np.arange(at.shape[1])] < 0, -1.0, 1.0)
    return Components(at, values / total if total > 0 else np.full(len(values), np.nan))
