"""How far value axes reach, and which of them a chart has at first."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from reporter.charts.axes import CLOSE, FIXED, LOG, axis, fixed, least_of, logarithmic, offered, shared
from reporter.charts.readings import over_moments
from reporter.charts.scene import Moment, Scene
from reporter.charts.styles import style_models

SCENE = Scene("s", style_models({"bert": "encoder", "gpt2": "decoder"}), ["words", "no-sinks"], [], ["wiki"])


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


def test_the_axis_of_all_views_begins_at_0_where_the_statistic_has_two_bounds() -> None:
    assert (axis([0.98, 0.999], bounds=(0, 1)).low, fixed([0.98, 0.999], bounds=(0, 1)).low) == (0.98, 0)
    assert fixed([-0.2, 0.9], bounds=(-1, 1)).low == -0.2
    assert fixed([300, 310], bounds=(0, None)).low == 300, "a count has no upper end to be near to"
    assert (axis([4.0, 6.0], [11.0]).high, fixed([4.0, 6.0], [11.0]).high) == (6, 11), "the floor is the finding"


def test_rounding_gets_no_decades_on_a_logarithmic_axis() -> None:
    found = logarithmic([8e-16, 5.0, 2e6], [40.0], least=1e-9)
    assert (found.low, found.high, found.note) == (5.0, 2e6, "logarithmic")
    assert logarithmic([1.0, 10.0], [1e6]).note == "logarithmic · floor 1,000,000, above this axis"
    assert logarithmic([-1.0, 0.0]).low > 0 and logarithmic([2.0]).low < 2 < logarithmic([2.0]).high


def numbers(bert: list[float], gpt2: list[float], other: list[float] | None = None) -> pd.DataFrame:
    """Numbers of two models, and of the second one under the second view."""
    own = {("bert", "words"): bert, ("gpt2", "words"): gpt2, ("gpt2", "no-sinks"): other or gpt2}
    return pd.DataFrame(
        [
            {"model": model, "role": "", "checkpoint": "final", "corpus": "wiki", "view": view, "statistic": "norm",
             "site": "block", "depth": place / 2, "value": value, "ci_low": math.nan, "ci_high": math.nan}
            for (model, view), values in own.items()
            for place, value in enumerate(values)
        ]
    )  # fmt: skip


def test_the_smaller_model_is_no_flat_line() -> None:
    frame = numbers([1e-17, 1.0, 2.0], [10.0, 900.0, 800.0])
    assert offered(frame, "norm", (0, None), SCENE)[0] == LOG
    assert least_of(frame, "norm", SCENE) == pytest.approx(2e-6)
    assert offered(frame, "norm", (0, 1), SCENE)[0] == FIXED, "a share or a p is read on its own scale"
    assert offered(numbers([5.0, 6.0], [9.0, 8.0]), "norm", (0, None), SCENE) == (FIXED, CLOSE)
    below = numbers([-1.0, 1.0], [-900.0, 900.0], [-1.0, 2.0])
    assert offered(below, "norm", (None, None), SCENE) == (CLOSE, FIXED), "one view has what another has not"


def test_an_axis_stays_when_the_view_changes_unless_it_says_so() -> None:
    scene = Scene("s", SCENE.styles, SCENE.views, [Moment("last", {"bert": "final", "gpt2": "final"})], ["wiki"])
    states = over_moments(numbers([0.2, 0.3], [0.1, 0.96], [0.1, 0.45]), scene, "norm", (0, 1))
    words, without = states["path|words|0|with"], states["path|no-sinks|0|with"]
    assert words.axis == without.axis and words.axis is not None and (words.axis.low, words.axis.high) == (0, 1)
    assert (without.axes[CLOSE].high, without.axes[CLOSE].note) == (0.45, "of this view")


def test_a_view_that_would_be_a_flat_line_has_its_own_axis_and_says_so() -> None:
    assert shared(axis([1.0, 2.0]), axis([1.0, 20.0])) == axis([1.0, 20.0])
    assert shared(axis([1.0, 2.0]), axis([1.0, 200.0])).note == "of this view"
