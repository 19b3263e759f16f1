"""Histograms: of all pairs of a table, filled tile by tile, with bins that models share; of clouds of points, exact."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import numpy as np

from reporter.geometry.arrays import Floats, Ints
from reporter.geometry.clouds import ROWS, rounding

if TYPE_CHECKING:
    from torch import Tensor

    from reporter.geometry.pairs import Workspace

MOST_BINS = 128
_FINE = 2**16  # bins in which values are counted first


@dataclass(frozen=True)
class Bin:
    """How many values lie in [low, high)."""

    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Summary:
    """What a histogram says of its n values.

    Args:
        n: how many there are.
        mean: their mean.
        sd: their standard deviation (1/n).
        minimum: the smallest.
        maximum: the largest.
        bins: of equal width, a power of two, the smallest one with which at most 128 bins cover the values;
            their edges are multiples of it.
    """

    n: int
    mean: float
    sd: float
    minimum: float
    maximum: float
    bins: tuple[Bin, ...]


class Histogram:
    """Counts values in fine bins, and sums them up in float64.

    Args:
        low: no value is below it, but for rounding.
        high: no value is above it, but for rounding.
    """

    def __init__(self, low: float, high: float) -> None:
        span = max(high - low, 1e-30 + 1e-12 * max(abs(low), abs(high)))
        self._width = 2.0 ** math.ceil(math.log2(span / (_FINE - 2)))
        self._first = math.floor(low / self._width)  # the number of the first fine bin
        self._counts: Tensor | None = None
        self._shift: float | None = None
        self._n, self._sum, self._squares = 0, 0.0, 0.0
        self._low, self._high = math.inf, -math.inf

    def take(self, values: Tensor, workspace: Workspace) -> None:
        """Count values, float32, in any shape."""
        import torch

        if values.numel() == 0:
            return
        flat = values.reshape(-1)
        low, high = (float(v) for v in torch.aminmax(flat))
        self._low, self._high = min(self._low, low), max(self._high, high)
        scratch = workspace.get("scratch", flat.shape)
        self._moments(flat, scratch)
        # A power of two scales without rounding, so that edges of bins are exact.
        torch.mul(flat, 1 / self._width, out=scratch).floor_().sub_(self._first).clamp_(0, _FINE - 1)
        places = workspace.get("places", flat.shape, torch.int32)
        places.copy_(scratch)
        counts = torch.bincount(places, minlength=_FINE)
        self._counts = counts if self._counts is None else self._counts.add_(counts)

    def _moments(self, flat: Tensor, scratch: Tensor) -> None:
        import torch

        if self._shift is None:
            self._shift = float(flat[: 2**16].mean())
        torch.sub(flat, self._shift, out=scratch)
        # Sums of 1,024 numbers in float32, and of these sums in float64.
        whole = len(scratch) // 1024 * 1024
        for part in (scratch[:whole].view(-1, 1024), scratch[whole:].view(1, -1)):
            self._sum += float(part.sum(dim=1).cpu().double().sum())
            self._squares += float(torch.linalg.vecdot(part, part).cpu().double().sum())
        self._n += len(flat)

    def summary(self) -> Summary:
        """Return what was counted; at least one value was."""
        assert self._counts is not None
        assert self._shift is not None
        counts = self._counts.cpu().numpy()
        mean = self._sum / self._n
        variance = max(0.0, self._squares / self._n - mean**2)
        return Summary(
            self._n,
            float(np.clip(self._shift + mean, self._low, self._high)),
            math.sqrt(variance),
            self._low,
            self._high,
            self._bins(counts),
        )

    def _bins(self, counts: Ints) -> tuple[Bin, ...]:
        used = np.flatnonzero(counts)
        first, last = self._first + int(used[0]), self._first + int(used[-1])
        step = 1  # fine bins in a bin
        while last // step - first // step + 1 > MOST_BINS:
            step *= 2
        place = (self._first + used) // step - first // step
        merged = np.bincount(place, weights=counts[used])
        width = step * self._width
        return tuple(
            Bin((first // step + i) * width, (first // step + i + 1) * width, int(count))
            for i, count in enumerate(merged)
        )


# --- Histograms of clouds of points: exact, with 40 bins from the smallest value to the largest ---

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
    counts: Ints


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
    nothing = rounding(np.concatenate(list(clouds.values())))
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
