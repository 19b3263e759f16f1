from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reporter.spec.problems import Problem, choices, hint, one_line, show, show_location, suggest


@given(st.text(), st.text(), st.text())
def test_a_problem_is_one_line_whatever_is_in_it(file: str, key: str, value: str) -> None:
    problem = Problem(file, 1, 2, show_location((key, 0)), f"got {show(value)}")
    assert str(problem).isprintable()
    assert len(str(problem).splitlines()) == 1


def test_invisible_characters_are_written_as_escapes() -> None:
    assert one_line("a\nb\x1b[31m\u202e") == "a\\nb\\x1b[31m\\u202e"


def test_locations() -> None:
    assert show_location(("metrics", 1, "intrinsic_dimension", "sample")) == "metrics[1].intrinsic_dimension.sample"
    assert show_location(("models", "a.b", "c d")) == "models.'a.b'.'c d'"
    assert show_location(()) == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "nothing"),
        (True, "true"),
        (5, "the number 5"),
        (0.5, "the number 0.5"),
        ("ten", "text 'ten'"),
        ("it's", 'text "it\'s"'),
        ([], "an empty list"),
        ([1], "a list"),
        ({}, "an empty mapping"),
        ({"a": 1}, "a mapping"),
    ],
)
def test_values_are_described_in_words(value: object, shown: str) -> None:
    assert show(value) == shown


def test_suggestions() -> None:
    assert suggest("DTYP", ["hub", "dtype"]) == "dtype"
    assert suggest("pairs", ["study", "models"]) is None
    assert hint("dtyp", ["dtype"], "known here") == "; did you mean 'dtype'?"
    assert hint("pairs", ["a", "b"], "known here") == "; known here: a, b"
    assert hint("pairs", [], "known here") == ""
    assert choices(["a"]) == "'a'"
    assert choices(["a", "b", "c"]) == "'a', 'b' or 'c'"
