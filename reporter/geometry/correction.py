"""Corrections of p-values for how many there are."""

from __future__ import annotations

from collections.abc import Sequence


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
