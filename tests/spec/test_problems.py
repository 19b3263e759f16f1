import pytest
from hypothesis import given
from hypothesis import strategies as st

from reporter.core.errors import ReporterError, bounded, describe, first_line, library_error
from reporter.spec.problems import Problem, show, show_location


@given(st.text(), st.text(), st.text())
def test_a_problem_is_one_line_whatever_is_in_it(file, key, value):
    problem = Problem(file, 1, 2, show_location((key, 0)), f"got {show(value)}")
    assert str(problem).isprintable()
    assert len(str(problem).splitlines()) == 1


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


def test_values_are_described_in_words():
    shown = {"nothing": None, "an empty mapping": {}, "a mapping": {"a": 1}, "an empty list": [], "a list": [1]}
    assert [show(value) for value in shown.values()] == list(shown)
