import pytest
from hypothesis import given
from hypothesis import strategies as st

from reporter.core.errors import ReporterError, bounded, describe, first_line, hint, library_error, one_line, suggest
from reporter.spec.problems import Problem, choices, show, show_location


@given(st.text(), st.text(), st.text())
def test_a_problem_is_one_line_whatever_is_in_it(file, key, value):
    problem = Problem(file, 1, 2, show_location((key, 0)), f"got {show(value)}")
    assert str(problem).isprintable()
    assert len(str(problem).splitlines()) == 1


def test_locations_and_invisible_characters_are_written_out():
    assert one_line("a\nb\x1b[31m\u202e") == "a\\nb\\x1b[31m\\u202e"
    assert show_location(("metrics", 1, "intrinsic_dimension", "sample")) == "metrics[1].intrinsic_dimension.sample"
    assert show_location(("models", "a.b", "c d")) == "models.'a.b'.'c d'"
    assert show_location(()) == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "nothing"), (True, "true"), (5, "the number 5"), (0.5, "the number 0.5"), ("ten", "text 'ten'"),
        ("it's", 'text "it\'s"'), ([], "an empty list"), ([1], "a list"), ({}, "an empty mapping"),
        ({"a": 1}, "a mapping"),
    ],
)  # fmt: skip
def test_values_are_described_in_words(value, shown):
    assert show(value) == shown


def test_suggestions():
    assert suggest("DTYP", ["hub", "dtype"]) == "dtype"
    assert suggest("pairs", ["study", "models"]) is None
    assert hint("dtyp", ["dtype"], "known here") == "; did you mean 'dtype'?"
    assert hint("pairs", ["a", "b"], "known here") == "; known here: a, b"
    assert hint("pairs", [], "known here") == ""
    assert choices(["a"]) == "'a'"
    assert choices(["a", "b", "c"]) == "'a', 'b' or 'c'"


def test_a_name_of_a_hundred_thousand_characters_is_not_echoed():
    long, wide = "n" * 100_000, "n y " * 25_000
    for text in (f"no model '{long}'; did you mean 'mine'?", f"no model '{wide}'; did you mean 'mine'?"):
        line = str(Problem("study.yaml", 1, 2, show_location(("models", long)), text))
        assert len(line) < 2300 and line.startswith("study.yaml:1:2: models.nnn") and line.endswith("mean 'mine'?")
        assert len(describe(ReporterError(text))) < 2100
    assert bounded("x" * 299) == "x" * 299 and bounded("a " * 999) == "a " * 999


@pytest.mark.parametrize("error", [AssertionError(), TimeoutError(""), KeyError(), ValueError(" \n")])
def test_an_exception_without_a_text_is_known_by_its_type(error):
    name = type(error).__name__
    assert [shown(error) for shown in (describe, library_error, first_line)] == [name] * 3
