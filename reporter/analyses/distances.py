"""Euclidean distances of all vectors to all, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDING = 1e-5
"""What is shorter than this share of the vectors' norm is rounding, not meaning: states are in float32."""
ROWS = 512  # whose distances to all others are in memory at once


def smallest(x: Floats) -> float:
    """Return the largest distance that is rounding: 1e-5 of the root mean square norm of the vectors, (n, d)."""
    return ROUNDING * float(np.sqrt(np.square(x).sum(axis=1).mean()))


def distance_blocks(x: Floats) -> Iterator[Floats]:
    """Yield the distances of ``ROWS`` vectors to all of them, (rows, n), block by block; those of rounding are 0.

    Args:
        x: vectors, (n, d).
    """
    nothing = smallest(x)
    x = x - x.mean(axis=0)  # so that squares do not cancel
    squares = np.square(x).sum(axis=1)
    for start in range(0, len(x), ROWS):
        block = slice(start, start + ROWS)
        distances = np.sqrt(np.maximum(squares[block, None] + squares - 2 * x[block] @ x.T, 0.0))
        distances[distances <= nothing] = 0.0
        yield distances
