"""Parts: how much each group of texts moves a number, so that any two numbers on the same texts can be subtracted.

To first order a number of a corpus is T ≈ E T + Σ φ_g, φ_g the *part* of the texts of group g. Parts of different
numbers (of two layers, two models, two checkpoints, two runs) belong to the same groups, so the part of a difference is
the difference of the parts: what a text does to both falls out. Σ φ_g² is the variance of the number, and Σ φ_g³ tells
how skewed it is.

A group is a text in a corpus of at most ``PARTS`` units (texts, or clusters of texts); a larger corpus has groups of
like size. The place of a text in the corpus decides, not its tokens, so that models with different tokenizers have the
same groups.

Source: Efron & Tibshirani 1993, "An Introduction to the Bootstrap", section 11.5 (influence, jackknife, bootstrap).
"""

from __future__ import annotations

from functools import cache, lru_cache
from math import exp, factorial

import numpy as np
from numpy.typing import NDArray

from reporter.forward.batch import FEW_HALVES, HALVES, key_of, mix
from reporter.geometry.arrays import Floats, Ints
from reporter.geometry.intervals import PARTS, Error, Spread

REPLICATES = 1000


def part_of(units: Ints) -> Ints:
    """Return the group of each unit, 0…``PARTS`` − 1, by its place in the corpus, shape (units,).

    Of ``PARTS`` neighbours each is in a group of its own. Behind the first ones they are shifted by a hash, so that no
    order of the corpus, such as languages in turn, puts all texts of a kind together.
    """
    blocks = np.asarray(units, dtype=np.int64) // PARTS
    shifts = np.where(blocks > 0, (mix(blocks.astype(np.uint64)) >> np.uint64(40)).astype(np.int64), 0)
    return np.asarray((units + shifts) % PARTS, dtype=np.int64)


@cache
def _quantiles() -> NDArray[np.uint8]:
    """Return Poisson(1) by its inverse distribution function on a grid of 2**16, shape (65536,)."""
    cumulative = np.cumsum([exp(-1) / factorial(k) for k in range(20)])
    return np.searchsorted(cumulative, (np.arange(2**16) + 0.5) / 2**16).astype(np.uint8)


def poisson_weights(units: Ints, seed: int, replicates: int = REPLICATES) -> NDArray[np.uint8]:
    """Return the weight of each unit's group in each replicate, shape (units, replicates).

    Poisson(1), the same in every call.
    """
    draws = key_of(seed, part_of(units))[:, None] ^ mix(np.arange(replicates // 4, dtype=np.uint64))[None, :]
    return _quantiles()[mix(draws).view(np.uint16).reshape(len(units), replicates)]


@lru_cache(maxsize=8)
def _designs(seed: int, numbers: int) -> Floats:
    """Return by how much each replicate, or half-sample, weights each group more than once, (numbers, groups)."""
    if numbers == len(HALVES):
        return np.asarray(2.0 * HALVES - 1.0)
    if numbers == len(FEW_HALVES):  # pairs of groups stay together
        return np.asarray(2.0 * FEW_HALVES[:, ::2] - 1.0)
    return np.asarray(poisson_weights(np.arange(PARTS), seed, numbers).T - 1.0)


@lru_cache(maxsize=8)
def _solver(seed: int, numbers: int) -> Floats:
    return np.asarray(np.linalg.pinv(_designs(seed, numbers)))


def influences_of(spread: Spread, sizes: Floats, seed: int) -> tuple[Ints, Floats] | None:
    """Return the texts that a number rests on, and how far the number falls without each of them.

    It is the first order of the change, times n/(n − m) for a text with m of the n tokens, which is exact for means.

    Args:
        spread: how the number varies, as for :func:`parts_of`.
        sizes: of the texts of the corpus, in any unit, shape (texts,).
        seed: the study's seed.

    Returns:
        places of texts (of clusters: of their first texts), shape (t,), and influences, (t,); None where the texts of
        a group cannot be separated: replicates of a corpus of more than ``PARTS`` texts, and half-samples.
    """
    if isinstance(spread, Error):
        if spread.of is None or not len(spread.of.each):
            return None
        texts, which = np.unique(spread.of.texts, return_inverse=True)
        rest = len(which) - np.bincount(which)
        return texts, np.bincount(which, spread.of.each) / np.maximum(rest, 1)
    count = len(sizes)
    if len(spread) != REPLICATES or not 1 < count <= PARTS:
        return None
    parts = parts_of(spread, count, seed)
    if parts is None:
        return None
    first_order = parts[:count] * ((count - 1) / count) ** 0.5  # an error has the factor of a sample, a change has not
    return np.arange(count), first_order / (1 - np.minimum(sizes / sizes.sum(), 0.5))


def parts_of(spread: Spread, units: int, seed: int) -> Floats | None:
    """Return the parts of the groups in a number, scaled so that Σ φ² is the square of its standard error.

    Args:
        spread: how it varies: its error with the influences that it was taken from, or the number in each bootstrap
            replicate or half-sample.
        units: distinct texts, or clusters, that it rests on.
        seed: the study's seed, which replicates hang on.

    Returns:
        shape (``PARTS``,), of half-samples (64,) or (32,); None where nothing is known.
    """
    if isinstance(spread, Error):
        if spread.of is None:
            return None
        parts = np.bincount(part_of(spread.of.texts), spread.of.each, PARTS)
        error = spread.sd
    else:
        finite = np.isfinite(spread)
        if finite.sum() < len(spread) / 2 or units < 2:
            return None
        moved = spread[finite] - spread[finite].mean()
        whole = finite.all()
        solver = _solver(seed, len(spread)) if whole else np.linalg.pinv(_designs(seed, len(spread))[finite])
        parts, error = solver @ moved, float(spread[finite].std()) * (units / (units - 1)) ** 0.5
    size = float(np.linalg.norm(parts))
    return np.asarray(parts * (error / size)) if size > 0 else np.zeros(len(parts))
