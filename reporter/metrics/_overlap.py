"""How many of a text's nearest neighbours are the same in two layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def neighbours(x: Floats, k: int) -> NDArray[np.int64]:
    """Return the k nearest other rows of each row by cosine distance, in no order, shape (n, k).

    Args:
        x: shape (n, d), n > k; no row is zero.
        k: neighbours.
    """
    units = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    distance = -(units @ units.T)
    np.fill_diagonal(distance, np.inf)
    return np.argpartition(distance, k - 1, axis=1)[:, :k]


def overlaps(a: NDArray[np.int64], b: NDArray[np.int64], groups: Sequence[slice]) -> Floats:
    """Return the mean of |A ∩ B| / k over the texts of each group, for each pair of layers, shape (G, A, B).

    Args:
        a: neighbours in the layers of one side, shape (A, n, k).
        b: in those of the other, shape (B, n, k).
        groups: consecutive slices that cover the texts.
    """
    n, k = a.shape[1:]

    def marked(found: NDArray[np.int64]) -> NDArray[np.float32]:
        marks = np.zeros((*found.shape[:2], n), dtype=np.float32)
        np.put_along_axis(marks, found, 1, axis=2)
        return marks.reshape(len(found), -1)

    counts = [marked(a[:, g]) @ marked(b[:, g]).T / (k * (g.stop - g.start)) for g in groups]
    return np.stack(counts).astype(np.float64)
