"""Distributions of norms, distances, products and cosines within clouds of points and between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from reporter.analyses.distances import ROWS, smallest

Floats = NDArray[np.float64]

BINS = 40


@dataclass(frozen=True)
class Counted:
    """How many values of a measure lie in each bin.

    Args:
        measure: ``norm``, ``distance``, ``dot`` or ``cosine``.
        part: a cloud, or two of them, ``a–b``.
        edges: of the bins, the same for all parts of the measure, (bins + 1,); the last bin has both its ends.
        counts: in each, (bins,).
    """

    measure: str
    part: str
    edges: Floats
    counts: NDArray[np.int64]


def counted(clouds: Mapping[str, Floats]) -> Iterator[Counted]:
    """Yield the histograms of every measure: exact, over all points or all pairs of different points.

    Zero vectors have no cosine. There are ``BINS`` bins from the smallest to the largest value of a measure over all
    parts, or a single one where these are equal.

    Args:
        clouds: vectors of each cloud, (n, d).
    """
    norms = {name: np.linalg.norm(x, axis=1) for name, x in clouds.items()}
    yield from _histograms("norm", {name: partial(iter, [of]) for name, of in norms.items()})
    mean = np.concatenate(list(clouds.values())).mean(axis=0)
    nothing = smallest(np.concatenate(list(clouds.values())))
    units = {name: x[norms[name] > 0] / norms[name][norms[name] > 0, None] for name, x in clouds.items()}
    centred = {name: x - mean for name, x in clouds.items()}  # so that squares do not cancel
    pairs = list(combinations_with_replacement(clouds, 2))

    def parts(of: Mapping[str, Floats], product: Callable[[Floats, Floats], Floats]) -> dict[str, _Values]:
        return {a if a == b else f"{a}–{b}": partial(_blocks, of[a], of[b], a == b, product) for a, b in pairs}

    yield from _histograms("distance", parts(centred, lambda x, y: _distances(x, y, nothing)))
    yield from _histograms("dot", parts(clouds, lambda x, y: x @ y.T))
    yield from _histograms("cosine", parts(units, lambda x, y: np.clip(x @ y.T, -1.0, 1.0)))


_Values = Callable[[], Iterator[Floats]]


def _distances(x: Floats, y: Floats, nothing: float) -> Floats:
    squares = np.square(x).sum(axis=1)[:, None] + np.square(y).sum(axis=1) - 2 * x @ y.T
    found = np.sqrt(np.maximum(squares, 0.0))
    return np.where(found > nothing, found, 0.0)


def _blocks(x: Floats, y: Floats, same: bool, product: Callable[[Floats, Floats], Floats]) -> Iterator[Floats]:
    """Yield the products of all rows of two clouds, or of every two rows of one, each pair once."""
    for start in range(0, len(x), ROWS):
        found = product(x[start : start + ROWS], y)
        if same:
            found = found[np.arange(len(y)) > start + np.arange(len(found))[:, None]]
        if found.size:
            yield found.ravel()


def _histograms(measure: str, parts: Mapping[str, _Values]) -> Iterator[Counted]:
    ends = [(float(values.min()), float(values.max())) for part in parts.values() for values in part()]
    if not ends:
        return
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    bins = BINS if high - low > 1e-12 * max(abs(low), abs(high)) else 1
    edges = np.linspace(low, high, bins + 1)
    for part, blocks in parts.items():
        counts = np.zeros(bins, dtype=np.int64)
        for values in blocks():
            counts += np.histogram(values, bins, (low, high))[0] if bins > 1 else len(values)
        if counts.any():
            yield Counted(measure, part, edges, counts)
