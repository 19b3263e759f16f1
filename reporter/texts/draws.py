"""Random choices that stay the same from one version of NumPy to the next.

Only ``Generator.integers`` over the whole range of 32 bits is used: raw output of PCG64, which NumPy keeps
stable. Everything else is arithmetic on Python integers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")

_BITS = 32
_AT_ONCE = 4096


class Draws:
    """A stream of random choices, given by its seed.

    Args:
        seed: any non-negative integer.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))
        self._numbers: list[int] = []

    def below(self, stop: int) -> int:
        """Return an integer from 0 to ``stop`` - 1, each as likely (within 2^-32 times ``stop``)."""
        if not self._numbers:
            self._numbers = self._generator.integers(0, 1 << _BITS, size=_AT_ONCE, dtype=np.uint64).tolist()
        return (self._numbers.pop() * stop) >> _BITS

    def between(self, low: int, high: int) -> int:
        """Return an integer from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def percent(self, chance: int) -> bool:
        """Return True in ``chance`` of 100 cases."""
        return self.below(100) < chance

    def pick(self, items: Sequence[T]) -> T:
        """Return one item, each as likely."""
        return items[self.below(len(items))]

    def by_rank(self, items: Sequence[T]) -> T:
        """Return one item, with a chance in proportion to 1/rank (Zipf's law): the first is most frequent."""
        upto = _zipf(len(items))
        return items[bisect_right(upto, self.below(upto[-1]))]


class Weighted(Generic[T]):
    """Items with integer weights, one of which can be drawn.

    Args:
        weights: each item and its weight.
    """

    def __init__(self, weights: Mapping[T, int]) -> None:
        self.items = tuple(weights)
        self.weights = tuple(weights.values())
        self._upto = list(accumulate(self.weights))

    def draw(self, draws: Draws) -> T:
        """Return one item, with a chance in proportion to its weight."""
        return self.items[bisect_right(self._upto, draws.below(self._upto[-1]))]


@cache
def _zipf(items: int) -> tuple[int, ...]:
    """Return cumulative weights in proportion to 1/rank, shape (items,)."""
    return tuple(accumulate(1_000_000 // rank for rank in range(1, items + 1)))
