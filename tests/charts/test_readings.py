from __future__ import annotations

import math

import pytest

from reporter.charts.numbers import seconds, short, span, whole
from reporter.charts.readings import Point, course, read_courses, read_points, read_training


def test_a_line_is_read_from_its_numbers() -> None:
    line = course("bert", "encoder", [0, 0.5, 1], [0.12, 0.35, 0.31])
    assert line is not None
    assert read_courses([line]) == "bert 0.12 → 0.31, peak 0.35 at depth 0.5"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0.01, -0.106, 0.0], "0.01 → 0, lowest −0.11 at depth 0.5"),  # a signed difference
        ([0.0, 0.0, 0.0], "0 throughout"),
        ([0.3, 0.3, 0.3], "0.3 throughout"),
        ([2.2e-16, 0.1, 0.24], "≈ 0 → 0.24, highest at the end"),
        ([-0.0594, 0.02, 0.11], "−0.059 → 0.11, highest at the end"),
        ([10.23, 10.3, 10.36], "10.2 → 10.4, highest at the end"),
        ([0.998, 0.5, 0.2], "0.998 → 0.2, highest at the start"),
    ],
)
def test_captions_say_what_the_line_shows(values: list[float], said: str) -> None:
    line = course("bert", "encoder", [0, 0.5, 1], values)
    assert line is not None and read_courses([line]) == f"bert {said}"


def test_gaps_are_passed_over() -> None:
    line = course("bert", "encoder", [0, 0.5, 1], [math.nan, 0.35, 0.31])
    assert line is not None and (line.start, line.first) == (0.5, 0.35)
    assert course("bert", "encoder", [0.0], [math.nan]) is None


def test_a_role_of_several_models_is_read_as_a_range_and_encoders_come_first() -> None:
    lines = [
        course("gpt2", "decoder", [0, 0.5, 1], [0.1, 0.6, 0.2]),
        course("llama", "decoder", [0, 0.25, 1], [0.2, 0.7, 0.2]),
        course("opt", "decoder", [0, 0.5, 1], [0.1, 0.65, 0.2]),
        course("bert", "encoder", [0, 1], [0.1, 0.3]),
    ]
    assert read_courses([line for line in lines if line]) == (
        "bert 0.1 → 0.3, highest at the end · 3 decoders 0.1–0.2 → 0.2, peak 0.6–0.7 at depth 0.25–0.5"
    )
    three = {"a": [3, 2, 1], "b": [1, 2, 4], "c": [2, 2, 4]}
    ends = [course(name, "decoder", [0, 0.5, 1], values) for name, values in three.items()]
    assert read_courses([line for line in ends if line]) == "3 decoders 1–3 → 1–4, peak 3–4 at no common depth"


def test_two_models_are_named_and_layers_said() -> None:
    base = course("base", "decoder", [0, 0.25, 0.5, 1], [0.1, 0.6, 0.3, 0.2], [0, 3, 6, 12])
    tuned = course("tuned", "decoder", [0, 0.25, 0.5, 1], [0.1, 0.5, 0.7, 0.2], [0, 3, 6, 12])
    other = course("other", "decoder", [0, 0.5, 1], [0.1, 0.7, 0.2], [0, 2, 4])
    assert base and tuned and other
    assert read_courses([base, tuned]) == (
        "base 0.1 → 0.2, peak 0.6 at layer 3 (depth 0.25) · tuned 0.1 → 0.2, peak 0.7 at layer 6 (depth 0.5)"
    )
    assert read_courses([base, tuned, other]) == "3 decoders 0.1 → 0.2, peak 0.6–0.7 at layers 2–6 (depth 0.25–0.5)"


def test_numbers_of_steps_are_said_to_be_of_blocks() -> None:
    line = course("dreams", "decoder", [0, 0.25, 0.5, 0.75], [0.7, 0.4, 0.9, 0.8], [0, 1, 2, 3], step=True)
    assert line and "peak 0.9 at block 3 (" in read_courses([line])


def test_points_and_training() -> None:
    points = [Point("a", "encoder", 0.08), Point("b", "decoder", 0.1), Point("c", "decoder", -0.2)]
    assert read_points(points) == "a 0.08 · b 0.1 · c −0.2"
    assert read_points([*points, Point("d", "decoder", 0.0)]) == "a 0.08 · 3 decoders −0.2 to 0.1"
    line = course("gpt2", "decoder", [0, 600], [0.05, 0.41])
    assert line is not None and read_training([line]) == "gpt2 0.05 → 0.41 (steps 0 to 600)"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.041234, "0.0412"),
        (12.34, "12.3"),
        (4096, "4,096"),
        (-0.5, "−0.5"),
        (None, "–"),
        (math.nan, "–"),
        (1.23e-5, "1.23 × 10⁻⁵"),
        (-0.99987, "−0.9999"),
        (0.9999999, "1"),
    ],
)
def test_numbers_are_short(value: float | None, text: str) -> None:
    assert short(value) == text


def test_other_ways_of_writing() -> None:
    assert span([-0.5, -0.2]) == "−0.5 to −0.2"
    assert span([-0.059, 0.11]) == "−0.059 to 0.11", "no dash beside a minus"
    assert span([10.23, 10.36]) == "10.2–10.4" and span([-0.998]) == "−0.998" and span([1e-17, 2.0]) == "≈ 0 to 2"
    assert whole(1234567) == "1,234,567"
    assert [seconds(s) for s in (0.42, 12, 185, 7800, None)] == [
        "0.4 s",
        "12 s",
        "3 min 05 s",
        "2 h 10 min",
        "–",
    ]
