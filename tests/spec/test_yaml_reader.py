"""YAML's own traps, closed."""

import math

from hypothesis import given
from hypothesis import strategies as st

from reporter.spec.part import Complaint
from reporter.spec.yaml_reader import MOST_DEEP, read_yaml

VALUES = {
    "1e-3": 0.001, "1e3": 1000.0, ".5": 0.5, "1.": 1.0, "-1.5E+2": -150.0, ".inf": math.inf, "-.Inf": -math.inf,
    "010": 10, "0o10": 8, "0x1F": 31, "-7": -7, "+7": 7, "true": True, "False": False, "~": None, "null": None,
    "": None, "'1'": "1", '"true"': "true", "!!str 12": "12", "!!float 3": 3.0,
}  # fmt: skip
AS_WRITTEN = (
    "no", "yes", "on", "Off", "y", "12:30", "1:2:3.5", "2024-01-31", "2001-12-14t21:59:43.10-05:00", "0b11", "1_000",
    "=", "1.2.3", "1e",
)  # fmt: skip


def test_plain_values_follow_yaml_1_2():
    for written, meant in {**VALUES, **dict(zip(AS_WRITTEN, AS_WRITTEN, strict=True))}.items():
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
