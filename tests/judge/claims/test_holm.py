"""Holm's correction against its definition by closed testing, and what it promises on simulated studies."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from reporter.geometry.statistics import holm
from reporter.judge.judging import corrected


def by_closed_testing(p: list[float]) -> list[float]:
    """Holm's procedure is the closure of Bonferroni's: the largest p-value of any set with the hypothesis."""
    indices = range(len(p))
    return [
        max(
            min(1.0, len(group) * min(p[j] for j in group))
            for size in range(1, len(p) + 1)
            for group in combinations(indices, size)
            if i in group
        )
        for i in indices
    ]


@pytest.mark.parametrize("seed", range(20))
def test_holm_is_the_closure_of_bonferroni(seed):
    rng = np.random.default_rng(seed)
    p = list(rng.uniform(size=rng.integers(1, 8)) ** rng.integers(1, 5))
    assert holm(p) == pytest.approx(by_closed_testing(p))


def test_textbook_example():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


def test_a_single_claim_is_its_95_percent_interval():
    assert corrected([(0.02, 0.98)]) == [0.04]
    assert corrected([(0.98, 0.02)]) == [0.04]
    assert corrected([(0.3, 0.7)]) == [0.6]


def test_ten_true_claims_at_the_edge_are_wrongly_decided_in_at_most_five_percent_of_studies():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((2000, 10))
    from scipy.special import ndtr

    wrong = sum(min(corrected(list(zip(ndtr(-row), ndtr(row), strict=True)))) <= 0.05 for row in z)
    assert wrong / 2000 < 0.06
