"""Two sides are compared at the depths that both have, or by their means."""

import numpy as np
import pytest

from reporter.judge.comparison import at_common_depths, effects
from reporter.judge.estimates import Estimates
from reporter.judge.facts import declared
from reporter.judge.profiles import Profile

COSINE = declared()["anisotropy.mean_cosine"][1]


def curve(*values, x=None):
    numbers, count = np.array(values, dtype=float), len(values)
    x = np.linspace(0, 1, count) if x is None else np.array(x, dtype=float)
    return Profile("m", "c", x, Estimates.of_texts(numbers, np.full(count, 0.01)), tuple(range(count)))


def test_a_longer_side_keeps_its_depths_and_the_other_is_brought_to_them():
    here, there = at_common_depths(curve(0.1, 0.2, 0.3, 0.4, 0.5), curve(0.0, 1.0, x=[0.25, 0.75]))
    assert here.x.tolist() == there.x.tolist() == [0.25, 0.5, 0.75]
    assert (here.values.tolist(), there.values.tolist()) == ([0.2, 0.3, 0.4], [0.0, 0.5, 1.0])


@pytest.mark.parametrize("turned", [False, True])
def test_a_side_of_one_number_is_compared_by_the_mean_of_the_other(turned):
    """As of the blocks of a model with one block."""
    sides = (curve(0.4), curve(0.1, 0.2, 0.6))
    here, there = at_common_depths(*(sides[::-1] if turned else sides))
    assert sorted([here.values.tolist(), there.values.tolist()]) == [pytest.approx([0.3]), [0.4]]
    assert effects(COSINE, here, there).shape == (1,)
