"""Geometry of groups of points: distances, silhouettes, neighbours and histograms.

Distances are Euclidean, of all points to all, a block of rows at a time, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from math import ceil, log2
from typing import TYPE_CHECKING

import numpy as np

from reporter.geometry.arrays import Floats, Ints
from reporter.geometry.intervals import below
from reporter.geometry.statistics import holm

if TYPE_CHECKING:
    from torch import Tensor

    from reporter.geometry.pairs import Workspace

ROUNDING = 1e-5
"""What is shorter than this share of the vectors' norm is rounding, not meaning: states are in float32."""
ROWS = 512  # whose distances to all others are in memory at once
NEIGHBOURS = 10


def rounding(x: Floats) -> float:
    """Return the largest distance that is rounding: 1e-5 of the root mean square norm of the vectors, (n, d)."""
    return ROUNDING * float(np.sqrt(np.square(x).sum(axis=1).mean()))


def distance_blocks(x: Floats) -> Iterator[Floats]:
    """Yield the distances of ``ROWS`` vectors to all of them, (rows, n), block by block; those of rounding are 0."""
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


def spreads(x: Floats, group: Ints) -> list[Spread]:
    """Return distances within and between groups, and silhouettes as scikit-learn has them: of all, and of each group.

    The silhouette of text i is (b − a)/max(a, b), a its mean distance to the other texts of its group, b the smallest
    of its mean distances to the texts of another group; 0 where both are 0. All distances are Euclidean; one below
    1e-5 of the vectors' root mean square norm is rounding and counts as 0. Memory: n · 512 numbers.
    """
    sizes = np.bincount(group)
    member = np.eye(len(sizes))[group]
    sums = np.concatenate([block @ member for block in distance_blocks(x)])  # (n, groups)
    rows = np.arange(len(x))
    within_group = sums[rows, group]
    between_groups = sums.sum(axis=1) - within_group
    within, between = np.bincount(group, within_group), np.bincount(group, between_groups)
    pairs_within, pairs_between = sizes * (sizes - 1), sizes * (len(x) - sizes)
    one_group = len(sizes) < 2
    silhouettes = None if one_group or not sums.any() else _silhouettes(sums, group, sizes)

    def of(which: Ints) -> Spread:
        mean = None if silhouettes is None else float(silhouettes[np.isin(group, which)].mean())
        apart = None if one_group else float(between[which].sum() / pairs_between[which].sum())
        return Spread(mean, float(within[which].sum() / pairs_within[which].sum()), apart, int(sizes[which].sum()))

    every = np.arange(len(sizes))
    return [of(every), *(of(every[index : index + 1]) for index in every.tolist())]


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
    """
    n, nothing = len(x), rounding(x)
    k = min(NEIGHBOURS, n - 1)
    expected = (n - np.bincount(cloud)[cloud]) / (n - 1)
    shares = []
    for block, distances in enumerate(distance_blocks(x)):
        indices = np.arange(len(distances))
        distances[indices, indices + block * ROWS] = np.inf
        farthest = np.partition(distances, k - 1, axis=1)[:, k - 1 : k]
        closer, level = distances < farthest - nothing, np.abs(distances - farthest) <= nothing
        other = cloud != cloud[indices + block * ROWS, None]
        of_level = (level & other).sum(axis=1) / level.sum(axis=1)
        shares.append(((closer & other).sum(axis=1) + (k - closer.sum(axis=1)) * of_level) / k)
    return np.asarray(np.concatenate(shares) / expected)


# Is a concept a direction that its pairs share: a test of its consistency, layer by layer.
#
# The consistency T of a concept's m pairs is the mean over i of cos(δ_i, Σ_{j≠i} δ_j). Two tests must agree, each
# corrected for the layers (Holm):
#
# - Student's t of (T − chance level) over its jackknife error, m − 1 degrees of freedom, one-sided. Its p can be small
# enough for a correction over many concepts and findings. - Random turns of the pairs, at 0.05 over the number of
# concepts. This test is exact, but with m pairs its p is at least 2/2^m; a p that is as small as m pairs allow passes.
# It guards against differences in one or two dimensions, where a few pairs agree by luck and the jackknife error is
# far too small.
#
# With made-up differences without a common direction, in 8 or more dimensions, the first test alone has p ≤ 0.001 in
# at most 0.2 % of cases with 8 to 30 pairs.


LEVEL = 0.05


def error_of(influence: Floats) -> float:
    """Return the jackknife's standard error of a consistency."""
    return float(np.sqrt(influence.var(ddof=1) / len(influence)))


def fewest_pairs(concepts: int) -> int:
    """Return the pairs that a concept needs, so that random turns can confirm a direction."""
    return ceil(log2(2 * concepts / LEVEL))


def shared_p(over: Floats, error: Floats, turned: Floats, pairs: Ints, concepts: int) -> Floats:
    """Return the p-value of a shared direction by layer, corrected for the layers; 1 where the exact test fails."""
    level = LEVEL / concepts
    smallest = 1.5 * 2.0 ** (1.0 - pairs) + 2e-4  # as random turns estimate it
    exact = np.where((turned <= smallest) & (turned <= level), np.minimum(turned, level / len(turned)), turned)
    t = over / np.maximum(error, np.finfo(float).tiny)
    p = [float(below(-value, n - 1)) for value, n in zip(t.tolist(), pairs.tolist(), strict=True)]
    return np.where(np.array(holm(exact.tolist())) <= level, holm(p), 1.0)


# Histograms: of all pairs of a table, filled tile by tile, with bins that models share; of clouds of points, exact.


MOST_BINS = 128
_FINE = 2**16  # bins in which values are counted first


@dataclass(frozen=True)
class Summary:
    """A histogram of n values.

    Args:
        n: how many there are.
        mean: their mean.
        sd: their standard deviation (1/n).
        edges: of bins of equal width, a power of two, the smallest one with which at most 128 bins cover the values;
            they are multiples of it, (bins + 1,).
        counts: values in each bin, its lower edge included, (bins,).
    """

    n: int
    mean: float
    sd: float
    edges: Floats
    counts: Ints


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
        mean = self._sum / self._n
        sd = math.sqrt(max(0.0, self._squares / self._n - mean**2))
        middle = float(np.clip(self._shift + mean, self._low, self._high))
        return Summary(self._n, middle, sd, *self._bins(self._counts.cpu().numpy()))

    def _bins(self, counts: Ints) -> tuple[Floats, Ints]:
        used = np.flatnonzero(counts)
        first, last = self._first + int(used[0]), self._first + int(used[-1])
        step = 1  # fine bins in a bin
        while last // step - first // step + 1 > MOST_BINS:
            step *= 2
        merged = np.zeros(last // step - first // step + 1, dtype=np.int64)
        np.add.at(merged, (self._first + used) // step - first // step, counts[used])
        return np.asarray((first // step + np.arange(len(merged) + 1)) * (step * self._width)), merged


# --- Histograms of clouds of points: exact, with 40 bins from the smallest value to the largest ---

BINS = 40


@dataclass(frozen=True)
class Counted:
    """The number of values of a measure in each bin.

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
    """
    norms = {name: np.linalg.norm(x, axis=1) for name, x in clouds.items()}
    yield from _histograms("norm", {name: partial(iter, [values]) for name, values in norms.items()})
    mean = np.concatenate(list(clouds.values())).mean(axis=0)
    nothing = rounding(np.concatenate(list(clouds.values())))
    units = {name: x[norms[name] > 0] / norms[name][norms[name] > 0, None] for name, x in clouds.items()}
    centred = {name: x - mean for name, x in clouds.items()}  # so that squares do not cancel
    pairs = list(combinations_with_replacement(clouds, 2))

    def parts(clouds: Mapping[str, Floats], product: Callable[[Floats, Floats], Floats]) -> dict[str, _Values]:
        return {a if a == b else f"{a}–{b}": partial(_blocks, clouds[a], clouds[b], a == b, product) for a, b in pairs}

    yield from _histograms("distance", parts(centred, lambda x, y: _distances(x, y, nothing)))
    yield from _histograms("dot", parts(clouds, lambda x, y: x @ y.T))
    yield from _histograms("cosine", parts(units, lambda x, y: np.clip(x @ y.T, -1.0, 1.0)))


_Values = Callable[[], Iterator[Floats]]


def _distances(x: Floats, y: Floats, nothing: float) -> Floats:
    squares = np.square(x).sum(axis=1)[:, None] + np.square(y).sum(axis=1) - 2 * x @ y.T
    distances = np.sqrt(np.maximum(squares, 0.0))
    return np.where(distances > nothing, distances, 0.0)


def _blocks(x: Floats, y: Floats, same: bool, product: Callable[[Floats, Floats], Floats]) -> Iterator[Floats]:
    for start in range(0, len(x), ROWS):
        values = product(x[start : start + ROWS], y)
        if same:
            values = values[np.arange(len(y)) > start + np.arange(len(values))[:, None]]
        if values.size:
            yield values.ravel()


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
