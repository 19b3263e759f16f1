from __future__ import annotations

import math

from reporter.charts.readings import axis


def test_values_and_intervals_are_inside() -> None:
    found = axis([2.0, 5.0, math.nan, 4.5])
    assert (found.low, found.high, found.note) == (2.0, 5.0, "")


def test_a_bounded_statistic_starts_at_zero_unless_it_huddles_far_away() -> None:
    assert axis([0.1, 0.4], bounds=(0, 1)).low == 0
    assert axis([0.91, 0.95], bounds=(0, 1)).low == 0.91
    assert axis([0.2, 0.9], bounds=(-1, 1)) == axis([0.0, 1.0]), "not at -1, where nothing is"
    assert axis([-0.2, 0.3], bounds=(-1, 1)).low == -0.2


def test_nothing_is_cut_off_by_a_bound() -> None:
    assert axis([0.5, 0.97], bounds=(0, 1)).high == 1
    assert axis([0.5, 1.03], bounds=(0, 1)).high == 1.03, "an interval may reach beyond what the value can be"
    assert axis([-0.01, 0.5], bounds=(0, 1)).low == -0.01


def test_a_near_floor_is_drawn_and_a_far_one_named() -> None:
    assert axis([0.2, 0.4], floors=[0.1]).low == 0.1
    far = axis([4.0, 6.0], floors=[33.0, 33.0])
    assert (far.high, far.note) == (6.0, "floor 33, above this axis")
    assert axis([0.9, 0.95], floors=[0.01, 0.02]).note == "floor 0.01 to 0.02, below this axis"


def test_nothing_and_a_single_value_have_an_axis() -> None:
    assert axis([]).low < axis([]).high
    for value in (0.0, 3.0, -2.0):
        found = axis([value, value])
        assert found.low < value < found.high
