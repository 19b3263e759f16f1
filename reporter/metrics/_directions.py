"""Do the differences of pairs of vectors point the same way? Numbers of one concept, and of two."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reporter.geometry.arrays import Floats
from reporter.geometry.clouds import ROUNDING

REPLICATES = 1000  # of the bootstrap
TURNS = 9999  # random signs: with what was seen, ten thousand, so that p can pass a correction for many concepts
RANDOM_SETS = 100  # of randomly paired texts


@dataclass(frozen=True)
class Differences:
    """The differences of a concept's pairs at one place.

    Args:
        vectors: second minus first, (n, d); zero where both texts have the same vector but for rounding.
        scale: mean norm of the 2n vectors of the texts.
    """

    vectors: Floats
    scale: float

    @cached_property
    def different(self) -> Floats:
        """Those that are not zero, (m, d)."""
        return self.vectors[np.any(self.vectors != 0, axis=1)]

    @cached_property
    def mean(self) -> Floats:
        """Their mean, (d,)."""
        return np.asarray(self.vectors.mean(axis=0))

    @cached_property
    def direction(self) -> Floats | None:
        """Their mean made one long, (d,); None where the mean is zero but for rounding."""
        norm = float(np.linalg.norm(self.mean))
        return self.mean / norm if norm > ROUNDING * self.scale else None


def differences(first: Floats, second: Floats) -> Differences:
    """Return second minus first, row by row."""
    difference = second - first
    scale = float(np.linalg.norm(np.concatenate([first, second]), axis=1).mean())
    return Differences(
        np.where(np.linalg.norm(difference, axis=1, keepdims=True) > ROUNDING * scale, difference, 0.0), scale
    )


def consistency(x: Floats) -> float:
    """Return the mean over i of cos(x_i, Σ_{j≠i} x_j); NaN for fewer than two rows."""
    if len(x) < 2:
        return float("nan")
    return float(np.clip(_to_rest(x).mean(), -1.0, 1.0))  # rounding may carry it past 1


def _to_rest(x: Floats) -> Floats:
    """Return the cosine of each row with the sum of the others, (m,); 0 where either has no length."""
    rest = x.sum(axis=0) - x
    norms = np.linalg.norm(x, axis=1) * np.linalg.norm(rest, axis=1)
    return np.asarray(np.divide((x * rest).sum(axis=1), norms, out=np.zeros(len(x)), where=norms > 0))


def cosines_and_influences(x: Floats) -> tuple[Floats, Floats]:
    """Return what each row has to do with the consistency: its cosine with the sum of the others, and its influence.

    The influence is (m − 1)·(T − T without the row), m the number of rows and T the consistency: to first order T is
    the mean of T + influence, also where rows decide what others are compared with (the jackknife; Efron 1982, 'The
    Jackknife, the Bootstrap and Other Resampling Plans', chapter 6).
    """
    without = weighted_consistency(x, 1.0 - np.eye(len(x)))
    return _to_rest(x), (len(x) - 1) * (consistency(x) - without)


def weighted_consistency(x: Floats, weights: Floats) -> Floats:
    """Return the consistency under each set of weights, (r,): how often a row is there, or with which sign.

    All copies of row i are left out of the sum that it is compared with: a copy would agree with itself.
    """
    gram = x @ x.T
    squared_norms = np.diag(gram)
    to_all = weights @ gram
    squares = (to_all * weights).sum(axis=1, keepdims=True) - 2 * weights * to_all + weights**2 * squared_norms
    rest_norms = np.sqrt(np.maximum(squares, 0.0))
    enough = rest_norms > 1e-7 * np.sqrt(squared_norms.sum())
    cosines = np.divide(
        to_all - weights * squared_norms, rest_norms * np.sqrt(squared_norms), out=np.zeros_like(to_all), where=enough
    )
    total_weight = np.where(enough, np.abs(weights), 0.0).sum(axis=1)
    none = np.full(len(weights), np.nan)
    return np.asarray(np.divide((weights * cosines).sum(axis=1), total_weight, out=none, where=total_weight > 0))


def resampled(x: Floats, rng: np.random.Generator) -> Floats:
    """Return ``REPLICATES`` bootstrap replicates of the consistency, moved so that their mean is what was seen.

    A replicate holds fewer distinct pairs than the sample, and the mean of fewer differences is a worse guess at the
    direction: as they come, replicates read lower.
    """
    consistencies = weighted_consistency(
        x, rng.multinomial(len(x), [1 / len(x)] * len(x), REPLICATES).astype(np.float64)
    )
    return np.asarray(np.clip(consistencies + consistency(x) - np.nanmean(consistencies), -1.0, 1.0))


def turned(n: int, rng: np.random.Generator) -> Floats:
    """Return random signs of n pairs, (``TURNS``, n)."""
    return rng.choice([-1.0, 1.0], (TURNS, n))


def at_least(value: float, draws: Floats) -> float:
    """Return (k + 1) / (B + 1), k the number of the B others that are as large as what was seen, or larger."""
    return (int((draws >= value - 1e-12).sum()) + 1) / (len(draws) + 1)


def consistency_p(x: Floats, rng: np.random.Generator) -> float:
    """Return how probable such a consistency is if each pair were turned round at random (one-sided)."""
    return at_least(consistency(x), weighted_consistency(x, turned(len(x), rng)))


def cosine_p(a: Floats, b: Floats, signs_a: Floats, signs_b: Floats) -> float:
    """Return how probable a cosine of two means so far from 0 is if the pairs of one were turned round at random.

    What is compared is |mean of x_i · u|, u the direction of the other concept: the cosine times the norm of the mean.
    The cosine itself cannot be: differences that all point the same way keep its size however they are turned. Once
    the pairs of the first are turned, once those of the second; the larger probability counts, so that the order of
    the two does not matter.
    """
    return max(_one_side(a, b.mean(axis=0), signs_a), _one_side(b, a.mean(axis=0), signs_b))


def _one_side(x: Floats, towards: Floats, signs: Floats) -> float:
    along = x @ (towards / np.linalg.norm(towards))
    along = along / max(float(np.abs(along).sum()), np.finfo(float).tiny)
    return at_least(abs(float(along.sum())), np.abs(signs @ along))


@dataclass(frozen=True)
class ByChance:
    """The numbers of a set of concepts on texts paired at random.

    Args:
        consistency: mean over concepts and random sets; None where all vectors are the same.
        consistencies: the same of each concept, mean over random sets.
        aligned: mean |cosine| of two mean differences; None for one concept, too.
        relative_norm: mean norm of the mean difference over the mean norm of the texts.
    """

    consistency: float | None
    consistencies: list[float | None]
    aligned: float | None
    relative_norm: float | None


def by_chance(texts: Floats, sizes: list[int], rng: np.random.Generator) -> ByChance:
    """Return the mean numbers of ``RANDOM_SETS`` sets of concepts whose pairs are texts drawn at random."""
    draws: dict[str, list[float]] = {"consistency": [], "aligned": [], "relative_norm": []}
    of_each: list[list[float]] = [[] for _ in sizes]
    for _ in range(RANDOM_SETS):
        directions = []
        for size, of_concept in zip(sizes, of_each, strict=True):
            drawn = rng.permutation(len(texts))[: 2 * size]
            made = differences(texts[drawn[:size]], texts[drawn[size:]])
            if len(made.different) > 1:
                of_concept.append(consistency(made.different))
                draws["consistency"].append(of_concept[-1])
            if made.scale > 0:
                draws["relative_norm"].append(float(np.linalg.norm(made.mean)) / made.scale)
            if made.direction is not None:
                directions.append(made.direction)
        draws["aligned"] += aligned(directions)
    means = {name: float(np.mean(values)) if values else None for name, values in draws.items()}
    each = [float(np.mean(values)) if values else None for values in of_each]
    return ByChance(means["consistency"], each, means["aligned"], means["relative_norm"])


def aligned(directions: list[Floats]) -> list[float]:
    """Return |cosine| of every two directions, each one long."""
    if len(directions) < 2:
        return []
    x = np.stack(directions)
    cosines: list[float] = np.minimum(np.abs(x @ x.T), 1.0)[np.triu_indices(len(x), 1)].tolist()
    return cosines
