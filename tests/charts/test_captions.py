"""Captions under panels, and how far value axes reach."""

import math

import pandas as pd
import pytest

from reporter.charts import axes, captions
from reporter.charts.axes import CLOSE, FIXED, LOG, Axis, AxisLimits, axes_of, axis, hull, reaches_of
from reporter.charts.layout import Scene
from reporter.charts.styles import style_models

ROLES = {"bert": "encoder"} | dict.fromkeys(("gpt2", "llama", "opt", "dreams"), "decoder")
SCENE = Scene("s", style_models(ROLES), ["text tokens", "without sinks"], [], ["wiki"])
SHARE, SIGNED, SHARED = {"bounds": (0, 1)}, {"bounds": (-1, 1)}, {"shared": True}


AXES = [([2.0, 5.0, math.nan, 4.5], [], {}, (2, 5, ""))]
# one with two bounds starts at 0 unless it huddles far away, not at -1, and ends at 1 where that is near
AXES += [([0.1, 0.4], [], SHARE, (0, 0.4, "")), ([0.91, 0.95], [], SHARE, (0.91, 0.95, ""))]
AXES += [([0.2, 0.9], [], SIGNED, (0, 1, "")), ([-0.2, 0.3], [], SIGNED, (-0.2, 0.3, ""))]
# an interval may reach where no value can be, the axis does not: no dimension is below 0
AXES += [([0.5, 1.03], [], SHARE, (0, 1, "")), ([-3.0, 4.0, 9.0], [], {"bounds": (0, None)}, (0, 9, ""))]
# a near floor is drawn and a far one named
AXES += [([0.2, 0.4], [0.1], {}, (0.1, 0.4, ""))]
AXES += [([4.0, 6.0], [33.0, 33.0], {}, (4, 6, "chance level 33, above this axis"))]
AXES += [([0.9, 0.95], [0.01, 0.02], {}, (0.9, 0.95, "chance level 0.01 to 0.02, below this axis"))]
# nothing, and a single value
AXES += [([], [], {}, (0, 1, "")), ([0.0, 0.0], [], {}, (-0.5, 0.5, "")), ([-2.0], [], {}, (-2.2, -1.8, ""))]
# the axis of all views begins at 0, but not that of a count, and takes in a floor, which is the finding
AXES += [([0.98, 0.999], [], SHARE, (0.98, 1, "")), ([0.98, 0.999], [], SHARE | SHARED, (0, 1, ""))]
AXES += [([300, 310], [], {"bounds": (0, None)} | SHARED, (300, 310, "")), ([4.0, 6.0], [11.0], SHARED, (4, 11, ""))]
# rounding gets no decades on a logarithmic axis
AXES += [([8e-16, 5.0, 2e6], [40.0], {"least": 1e-9}, (5, 2e6, "logarithmic"))]
AXES += [([1.0, 10.0], [1e6], {"least": 0}, (1, 10, "logarithmic · chance level 1,000,000, above this axis"))]
AXES += [([-1.0, 0.0], [], {"least": 0}, (0.1, 1, "")), ([2.0], [], {"least": 0}, (1, 4, "logarithmic"))]


@pytest.mark.parametrize(("values", "chance", "more", "expected"), AXES)
def test_an_axis_holds_its_values_and_says_what_it_leaves_out(values, chance, more, expected):
    found = (axes.logarithmic if "least" in more else axis)(values, chance, **more)
    assert (found.low, found.high) == pytest.approx(expected[:2]) and found.note == expected[2]


def numbers(bert, gpt2, other=None):
    """Numbers of two models, and of the second one under the second view."""
    sets = {("bert", "text tokens"): bert, ("gpt2", "text tokens"): gpt2, ("gpt2", "without sinks"): other or gpt2}
    rows = [(*key, value, i / 2) for key, values in sets.items() for i, value in enumerate(values)]
    same = {"role": "", "checkpoint": "final", "corpus": "wiki", "statistic": "norm", "site": "block"}
    return pd.DataFrame(rows, columns=["model", "view", "value", "depth"]).assign(**same, ci_low=None, ci_high=None)


def test_the_smaller_model_is_no_flat_line():
    frame = numbers([1e-17, 1.0, 2.0], [10.0, 900.0, 800.0])
    assert axes.offered(frame, (0, None), SCENE)[0] == LOG
    assert axes.least_of(frame, SCENE) == pytest.approx(2e-6)
    assert axes.offered(frame, (0, 1), SCENE)[0] == FIXED, "a share or a p is read on its own scale"
    assert axes.offered(numbers([5.0, 6.0], [9.0, 8.0]), (0, None), SCENE) == (FIXED, CLOSE)
    spiked = numbers([0.4, 0.5, 0.4, 0.3], [15.0, 0.4, 0.4, 0.3])
    assert axes.offered(spiked, (0, None), SCENE)[0] == LOG, "all but one number of a model would lie at 0"
    below = numbers([-1.0, 1.0], [-900.0, 900.0], [-1.0, 2.0])
    assert axes.offered(below, (None, None), SCENE) == (CLOSE, FIXED), "one token set has what another has not"


def test_an_axis_holds_those_of_what_is_shown_and_keeps_its_zero_unless_it_is_fitted():
    frame, reach = numbers([0.2, 0.3], [0.1, 0.96], [0.1, 0.45]), AxisLimits((0, 1))
    every, parts = axes_of(frame, reach, SCENE)[""][FIXED], reaches_of(frame, reach, SCENE, [])
    assert (every.low, every.high) == (0, 1) and len(parts) == len(frame[["model", "view"]].drop_duplicates())
    close = hull(parts[parts["view"] == "without sinks"], every, close=True)
    assert (close.high, close.note) == (0.45, "of this token set")
    # the same cases as in tests/scripts/summaries.test.mjs
    ends = [(2.0, 4.0, "noise 50, above this axis", 2.0, 4.0), (3.0, 5.0, "", 1e-3, 5.0)]
    parts = pd.DataFrame(ends, columns=["low", "high", "note", "log_low", "log_high"])
    assert hull(parts, Axis(0, 900)) == Axis(0, 5, ends[0][2]) and hull(parts, Axis(1, 900)) == Axis(2, 5, ends[0][2])
    assert hull(parts, Axis(1, 900, "logarithmic"), log=True) == Axis(1e-3, 5, "logarithmic")
    assert hull(parts[:0], Axis(0, 1)) == Axis(0, 1)
    assert hull(parts.assign(note=["a", "b"]), Axis(0, 9), close=True).note.endswith(
        "some chance levels are off this axis"
    )


def test_each_statistic_of_a_chart_has_its_own_axis_with_the_chance_level_by_its_name():
    frame = pd.DataFrame(
        {"statistic": ["a", "a", "b"], "model": "bert", "view": "text tokens", "value": [1.0, 2.0, 500.0]}
    )
    axes = axes_of(frame, AxisLimits(zero=True, by="statistic"), SCENE)
    assert (axes["a"][FIXED].low, axes["a"][FIXED].high, axes["b"][FIXED].high) == (0, 2, 500)
    frame = frame.assign(statistic=["a", "a", "a_floor"], value=[1.0, 2.0, 99.0])
    noted = axes_of(frame, AxisLimits(noise="random vectors"), SCENE)[""][FIXED].note
    assert noted == "random vectors 99, above this axis"
    beside = frame.assign(site=["block", "block", "final"])  # after the final norm, beside the lines
    assert axes_of(beside, AxisLimits(), SCENE)[""][FIXED].note == ""


def rows(lines, depths, layers=None):
    columns = {"depth": depths, "step": depths} | ({} if layers is None else {"layer": layers})
    own = [pd.DataFrame(columns | {"model": m, "role": ROLES[m], "value": values}) for m, values in lines.items()]
    return pd.concat(own, ignore_index=True)


LINES = {"0.12 (embedding) to 0.31 (last block), maximum 0.35 at layer 3 of 6": [0.12, 0.35, 0.31]}
LINES |= {"0.01 (embedding) to 0 (last block), minimum −0.11 at layer 3 of 6": [0.01, -0.106, 0.0]}
LINES |= {"0.30 throughout": [0.3, 0.3, 0.3], "≈ 0 (embedding) to 0.24 (last block, maximum)": [2.2e-16, 0.1, 0.24]}
LINES |= {"0.998 (embedding, maximum) to 0.200 (last block)": [0.998, 0.5, 0.2], "": [math.nan] * 3}
LINES |= {"0.29 (embedding) to 1 (last block, maximum)": [0.29, 0.5, 1.0]}
LINES |= {"0.35 (layer 3 of 6, maximum) to 0.31 (last block)": [math.nan, 0.35, 0.31]}
LINES |= {"0.10 (embedding) to 0.35 (layer 3 of 6, maximum)": [0.1, 0.35, math.nan]}


@pytest.mark.parametrize("caption", LINES)
def test_captions_say_what_the_line_shows(caption):
    line, said = rows({"bert": LINES[caption]}, [0, 0.5, 1], [0, 3, 6]), f"bert: {caption}" if caption else ""
    assert captions.of_statistic(line, SCENE) == said
    both = pd.concat([line.assign(site="block"), line.assign(site="final", value=99.0)])
    assert captions.of_statistic(both, SCENE) == said, "the state after the final norm is no part of a course"


def test_a_role_of_several_models_is_read_as_a_range_and_encoders_come_first():
    lines = {"gpt2": [0.1, 0.6, 0.2], "llama": [0.2, 0.7, 0.2], "opt": [0.1, 0.65, 0.2], "bert": [0.1, 0.2, 0.3]}
    assert captions.of_statistic(rows(lines, [0, 0.5, 1], [0, 2, 4]), SCENE) == (
        "bert: 0.10 (embedding) to 0.30 (last block, maximum) · "
        "3 decoders: 0.10–0.20 (embedding) to 0.20 (last block), maxima 0.60–0.70 at depth 0.50"
    )
    three = {"gpt2": [3.0, 2, 1], "llama": [1.0, 2, 4], "opt": [2.0, 2, 4]}
    said = captions.of_statistic(rows(three, [0, 0.5, 1]), SCENE)
    assert said == "3 decoders: 1–3 (depth 0) to 1–4 (depth 1), maxima 3–4 at different depths"
    two = {"gpt2": [0.1, 0.6, 0.3, 0.2], "llama": [0.1, 0.5, 0.7, 0.2]}
    said = captions.of_statistic(rows(two, [0, 0.25, 0.5, 1], [0, 3, 6, 12]), SCENE)
    assert [part.rpartition(" at ")[2] for part in said.split(" · ")] == ["layer 3 of 12", "layer 6 of 12"]
    points = rows({"bert": [0.08], "gpt2": [0.1], "opt": [-0.2], "llama": [0.0]}, [0]).drop(columns="depth")
    assert captions.of_statistic(points, SCENE) == "bert: 0.08 · 3 decoders: −0.20 to 0.10"
    said = captions.of_training(rows({"gpt2": [0.05, 0.41]}, [0, 600]), SCENE)
    assert said == "gpt2: 0.05 (step\xa00) to 0.41 (step\xa0600)"


def test_steps_are_spoken_of_as_blocks_and_what_is_not_determined_is_counted_and_no_maximum():
    steps = rows({"dreams": [0.7, 0.4, 0.9, 0.8]}, [0, 0.25, 0.5, 0.75], [0, 1, 2, 3])
    said = "dreams: 0.70 (first block) to 0.80 (last block), maximum 0.90 at block 3 of 4"
    assert captions.of_statistic(steps, SCENE, step=True) == said
    steps["undetermined"] = [False, False, True, False]
    said = "dreams: 0.70 (first block) to 0.80 (last block, maximum), not determined at 1 block (open marks)"
    assert captions.of_statistic(steps, SCENE, step=True) == said
