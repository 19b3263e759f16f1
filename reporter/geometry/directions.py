"""Is a concept a direction that its pairs share: a test of its consistency, layer by layer.

The consistency T of a concept's m pairs is the mean over i of cos(δ_i, Σ_{j≠i} δ_j). Two tests must agree, each
corrected for the layers (Holm):

- Student's t of (T − chance level) over its jackknife error, m − 1 degrees of freedom, one-sided. Its p can be small
  enough for a correction over many concepts and findings.
- Random turns of the pairs, at 0.05 over the number of concepts. This test is exact, but with m pairs its p is at least
  2/2^m; a p that is as small as m pairs allow passes. It guards against differences in one or two dimensions, where a
  few pairs agree by luck and the jackknife error is far too small.

With made-up differences without a common direction, in 8 or more dimensions, the first test alone has p ≤ 0.001 in at
most 0.2 % of cases with 8 to 30 pairs.
"""

from __future__ import annotations

from math import ceil, log2

import numpy as np

from reporter.geometry.arrays import Floats, Ints
from reporter.geometry.correction import holm
from reporter.geometry.intervals import below

LEVEL = 0.05


def error_of(influence: Floats) -> float:
    """Return the jackknife's standard error of a consistency.

    Args:
        influence: of each pair, (m,).
    """
    return float(np.sqrt(influence.var(ddof=1) / len(influence)))


def fewest_pairs(concepts: int) -> int:
    """Return the pairs that a concept needs, so that random turns can confirm a direction.

    Args:
        concepts: how many concepts the set has.
    """
    return ceil(log2(2 * concepts / LEVEL))


def shared_p(over: Floats, error: Floats, turned: Floats, pairs: Ints, concepts: int) -> Floats:
    """Return the p-value of a shared direction at each layer, corrected for the layers; 1 where the exact test fails.

    Args:
        over: the consistency minus what it is compared with, (layers,).
        error: its standard error, (layers,).
        turned: p of the exact test, (layers,).
        pairs: how many pairs the consistency rests on, (layers,).
        concepts: how many concepts the set has.
    """
    level = LEVEL / concepts
    smallest = 1.5 * 2.0 ** (1.0 - pairs) + 2e-4  # as random turns estimate it
    exact = np.where((turned <= smallest) & (turned <= level), np.minimum(turned, level / len(turned)), turned)
    t = over / np.maximum(error, np.finfo(float).tiny)
    p = [float(below(-one, n - 1)) for one, n in zip(t.tolist(), pairs.tolist(), strict=True)]
    return np.where(np.array(holm(exact.tolist())) <= level, holm(p), 1.0)
