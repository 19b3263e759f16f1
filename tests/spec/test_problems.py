"""Whatever happens to a study, a user gets lines, never a traceback."""

from copy import deepcopy
from functools import reduce
from operator import getitem

import pytest
import yaml
from faults.inputs import SHORT, wrong
from hypothesis import given, settings
from hypothesis import strategies as st

from reporter.core.errors import ReporterError, bounded, describe, first_line, library_error
from reporter.runs.studies import offer
from reporter.spec.problems import Problem, show, show_location

WORDS = st.sampled_from(["hub", "path", "recipe", "texts", "file", "generate", "all", "study", "models", "is", "[key]"])
NUMBERS = st.none() | st.booleans() | st.integers(-3, 10**20) | st.floats()
VALUES = st.recursive(
    NUMBERS | WORDS | st.text(max_size=5) | st.sampled_from(["{message}", "[red]x[/red]", "~nobody/x", "\n", "\x00"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def containers(value, path=()):
    """Yield the path of each mapping and list in a study."""
    if isinstance(value, dict | list):
        yield path
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from containers(inner, (*path, key))


STUDIES = [yaml.safe_load(text) for text in SHORT]
PLACES = [(study, path) for study in STUDIES for path in containers(study)]


@settings(max_examples=100, deadline=None)
@given(place=st.sampled_from(PLACES), data=st.data(), new=VALUES)
def test_any_value_and_any_key_in_any_place(tmp_path_factory, place, data, new):
    study, path = deepcopy(place[0]), place[1]
    here = reduce(getitem, path, study)
    keys = st.sampled_from([*here]) if isinstance(here, dict) else st.integers(0, len(here) - 1)
    here[data.draw(keys | WORDS if isinstance(here, dict) else keys)] = new
    text = yaml.safe_dump(study, sort_keys=False)
    assert wrong(text, tmp_path_factory.getbasetemp() / "study.yaml", offer()) == ""


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
