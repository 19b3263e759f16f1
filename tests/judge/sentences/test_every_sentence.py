"""Every sentence that the program makes of numbers: where it is true, and the nearest case where it must not appear."""

import ast
import re
from functools import cache
from importlib import import_module

import pytest
from judge.sentences.patterns import PACKAGE, Case, patterns_in, patterns_of

GROUPS = ("answers", "blocks", "changed", "findings", "layer", "overview", "papers", "texts")
"""Modules beside this one. Each has ``FILES``, ``CASES`` by the name of a builder, and the builders."""
MADE = ("judge/questions/*.py", "report/sentences.py", "report/findings.py", "report/overview.py")
MADE += ("report/paper_comparison.py",)
"""Where the program makes sentences of numbers."""


def group_of(name):
    return import_module(f"judge.sentences.{name}")


def cases():
    """Yield every case with the names of its group and its builder."""
    for name in GROUPS:
        for builder, own in group_of(name).CASES.items():
            yield from ((name, builder, Case(*case)) for case in own)


ALL = list(cases())


def fragments(texts):
    return (texts,) if isinstance(texts, str) else texts


@cache
def _text(name, builder, position):
    name, builder, case = ALL[position]
    make = getattr(group_of(name), builder)
    return make(**case.given), make(**{**case.given, **case.change})


def texts_of(position):
    """Return what the program says of the records of a case, and of those after its change."""
    return _text(*ALL[position][:2], position)


@pytest.mark.parametrize(
    "position", range(len(ALL)), ids=lambda at: f"{ALL[at][1]}: {fragments(ALL[at][2].says)[0][:60]}"
)
def test_a_sentence_appears_where_it_is_true_and_not_in_the_nearest_other_case(position):
    _, _, case = ALL[position]
    before, after = texts_of(position)
    for here, other, expected in ((before, after, case.says), (after, before, case.otherwise)):
        for text in filter(None, fragments(expected)):
            assert text in here, f"{text!r} is missing in:\n{here}"
            assert text not in other, f"{text!r} must not appear in:\n{other}"


def covered(pattern, position):
    """Return whether a case asserts that a sentence appears on one side of it and is absent on the other."""
    case, (before, after) = ALL[position][2], texts_of(position)
    for here, other, expected in ((before, after, case.says), (after, before, case.otherwise)):
        if not pattern.regex.search(other):
            asserted = [span for text in filter(None, fragments(expected)) for span in spans(re.escape(text), here)]
            for start, stop in spans(pattern.regex, here):
                if any(first < stop and start < last for first, last in asserted):
                    return True
    return False


def spans(regex, text):
    return [match.span() for match in re.finditer(regex, text)]


def files():
    return sorted(str(path.relative_to(PACKAGE)) for made in MADE for path in PACKAGE.glob(made))


@pytest.mark.parametrize("file", files())
def test_every_sentence_in_the_source_has_a_case_where_it_is_true_and_one_where_it_is_not(file):
    own = [position for position, (name, _, _) in enumerate(ALL) if file in group_of(name).FILES]
    missing = [
        f"reporter/{file}:{pattern.line}: {pattern.text!r}"
        for pattern in patterns_of(file)
        if not any(covered(pattern, position) for position in own)
    ]
    hint = "add a case to tests/judge/sentences where each is said, with the nearest change after which it is not"
    assert not missing, "\n".join([f"{hint}:", *missing])


SOURCE = """
def says(x):
    "No docstring is a sentence."
    rows = read("SELECT no FROM query")
    return f"The loss {'rises' if x else 'falls'} by {x} nats." + " With one" * (x == "no key") + column("first_key")
"""


def test_a_new_sentence_and_each_word_chosen_in_it_are_found():
    found = list(patterns_in(ast.parse(SOURCE), "made_up.py"))
    words = ["{}", "rises", "falls"]
    assert [pattern.text for pattern in found] == [*(f"The loss {word} by {{}} nats." for word in words), " With one"]
    assert {pattern.line for pattern in found} == {5} and found[2].regex.search("So the loss falls by 3.2 nats. So")
    assert not found[0].regex.search("The loss rises. By 3 nats.")
