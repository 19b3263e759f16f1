"""Correction for the number of claims of a study.

Each claim is two one-sided tests: that it holds, and that it fails. Holm's step-down procedure over the 2m tests of m
claims bounds the probability of even one wrong 'supported' or 'refuted' in the study by 5 %, however the claims depend
on each other. A single claim is decided by whether its 95 % interval excludes the bound.

Source: Holm 1979, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6.
"""

from __future__ import annotations

from collections.abc import Sequence

ALPHA = 0.05


def holm(p: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order given.

    Args:
        p: raw p-values. Sorted, the i-th (from 0) of k is multiplied by k − i, is at least its predecessor's, and at
            most 1.
    """
    order = sorted(range(len(p)), key=lambda i: p[i])
    adjusted = [1.0] * len(p)
    least = 0.0
    for rank, index in enumerate(order):
        least = max(least, min(1.0, (len(p) - rank) * p[index]))
        adjusted[index] = least
    return adjusted


def corrected(claims: Sequence[tuple[float, float]]) -> list[float]:
    """Return the adjusted p-value of each claim's better side.

    Args:
        claims: for each claim the one-sided p-values that it holds and that it fails.
    """
    adjusted = holm([p for pair in claims for p in pair])
    return [min(adjusted[2 * i], adjusted[2 * i + 1]) for i in range(len(claims))]
