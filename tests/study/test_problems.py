"""YAML's own traps are closed, and whatever happens to a study, a user gets lines, never a traceback."""

import math
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
from reporter.study.part import Complaint
from reporter.study.problems import Problem, show, show_location
from reporter.study.yaml_reader import MOST_DEEP, read_yaml

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


PLACES = [(study, path) for study in map(yaml.safe_load, SHORT) for path in containers(study)]


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
    assert str(problem).isprintable() and len(str(problem).splitlines()) == 1


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


WRITTEN = {
    "1e-3": 0.001, "1e3": 1000.0, ".5": 0.5, "1.": 1.0, "-1.5E+2": -150.0, ".inf": math.inf, "-.Inf": -math.inf,
    "010": 10, "0o10": 8, "0x1F": 31, "-7": -7, "+7": 7, "true": True, "False": False, "~": None, "null": None,
    "": None, "'1'": "1", '"true"': "true", "!!str 12": "12", "!!float 3": 3.0,
}  # fmt: skip
AS_WRITTEN = (
    "no", "yes", "on", "Off", "y", "12:30", "1:2:3.5", "2024-01-31", "2001-12-14t21:59:43.10-05:00", "0b11", "1_000",
    "=", "1.2.3", "1e",
)  # fmt: skip


def test_plain_values_follow_yaml_1_2():
    for written, meant in {**WRITTEN, **dict(zip(AS_WRITTEN, AS_WRITTEN, strict=True))}.items():
        document = read_yaml(f"key: {written}\n")
        assert document.problems == [] and document.data == {"key": meant}
        assert type(document.data["key"]) is type(meant)


def test_not_a_number_is_a_number_and_keys_are_text_as_written():
    assert math.isnan(read_yaml("key: .nan\n").data["key"])
    assert read_yaml("no: 1\non: 2\n2024-01-31: 3\n'5': 4\n").data == {"no": 1, "on": 2, "2024-01-31": 3, "5": 4}


def test_the_first_of_two_equal_keys_is_kept_and_the_second_is_a_problem():
    document = read_yaml("a: 1\nb: {c: 1, c: 2}\n'a': 3\n")
    assert document.data == {"a": 1, "b": {"c": 1}}
    assert [problem[:2] for problem in document.problems] == [((2, 11), ("b", "c")), ((3, 1), ("a",))]


def test_places_of_keys_values_and_parents():
    document = read_yaml("a:\n  b: [x, y]\n  c:\n    d: 1\n  e:\n")
    place = {
        (location, anchor): document.place(Complaint("", location, anchor))
        for location in [("a", "b"), ("a", "b", 1), ("a", "c"), ("a", "c", "new"), ("a", "e")]
        for anchor in ("key", "value", "parent")
    }
    assert place[("a", "b"), "key"] == ((2, 3), "a.b")
    assert place[("a", "b"), "value"] == ((2, 6), "a.b")
    assert place[("a", "b", 1), "value"] == ((2, 10), "a.b[1]")
    assert place[("a", "c"), "value"] == ((3, 3), "a.c"), "a block below its key: the key is what one looks at"
    assert place[("a", "c", "new"), "parent"] == ((3, 3), "a.c.new"), "a missing key is missed where its parent is"
    assert place[("a", "c", "new"), "value"][1] == "a.c", "what the file does not have is not named"
    assert place[("a", "e"), "value"] == ((5, 3), "a.e"), "nothing has no place of its own"
    assert read_yaml('{"äöü": 1, b: x, b: y}').problems[0][0] == (1, 18), "characters, not bytes"


@given(st.text(max_size=80) | st.text(alphabet="ab:-[]{}'\"#&*!|>%@`, \n\t?~0.\\", max_size=60))
def test_any_text_and_any_punctuation_is_read_or_refused(text):
    document = read_yaml(text)
    assert document.data is not None or document.problems
    for (line, column), _, message in document.problems:
        assert line >= 1 and column >= 1 and message.isprintable()


def test_every_end_of_a_line_begins_a_new_one():
    for text, at in (("a: x\x01y", (2, 5)), ("a: x\u2028y", (2, 5)), ("a: !odd 1", (2, 4))):
        for end in ("\n", "\r", "\r\n"):
            assert [problem[0] for problem in read_yaml(f"s: t{end}{text}{end}").problems] == [at]


def test_deep_nesting_is_pointed_at():
    deep = "".join("  " * depth + f"k{depth}:\n" for depth in range(150))
    (problem,) = read_yaml(f"a: 1\n{deep}").problems
    assert problem[:2] == ((MOST_DEEP + 1, 2 * MOST_DEEP - 1), ()) and str(MOST_DEEP) in problem[2]
    assert not read_yaml("a: " + "[" * (MOST_DEEP - 2) + "]" * (MOST_DEEP - 2)).problems
