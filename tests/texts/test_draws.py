from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from reporter.texts.lexicon import Draws, Weighted


def test_draws_are_the_raw_numbers_of_pcg64():
    raw = np.random.Generator(np.random.PCG64(7)).integers(0, 2**32, size=4096, dtype=np.uint64)
    draws = Draws(7)
    assert [draws.below(2**32) for _ in range(4096)] == raw[::-1].tolist()
    draws.below(2)  # the next block follows
    assert [Draws(7).below(1000), Draws(8).below(1000)] == [int(raw[-1]) * 1000 >> 32, Draws(8).below(1000)]


def test_chances():
    draws, n = Draws(0), 20_000
    counts = Counter(draws.between(3, 6) for _ in range(n))
    assert set(counts) == {3, 4, 5, 6} and all(abs(c / n - 0.25) < 0.02 for c in counts.values())
    assert abs(sum(draws.percent(30) for _ in range(n)) / n - 0.3) < 0.02
    ranked = Counter(draws.by_rank("abcd") for _ in range(n))
    total = 1 + 1 / 2 + 1 / 3 + 1 / 4
    assert [ranked[c] / n for c in "abcd"] == pytest.approx([1 / total / r for r in (1, 2, 3, 4)], abs=0.02)
    weighted = Counter(Weighted({"a": 1, "b": 3}).draw(draws) for _ in range(n))
    assert weighted["b"] / n == pytest.approx(0.75, abs=0.02)
